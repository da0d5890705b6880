/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transmit: carries out a decision, fresh or cached. Each step returns a drop reason, or 0 with
 * the verdict in p.
 *
 * in:    p, the decision
 * out:   the packet, or its copies, on an interface; p->verdict
 * maps:  vports, segments, traffic
 * stops: STORM_CONTROL, TOO_BIG, TTL_EXCEEDED, NO_UNDERLAY_ROUTE, NO_HEADROOM, GSO_NESTED, NO_CSUM, NO_NEIGHBOUR
 */
#pragma once

#include "tx/proxy_reply.h"
#include "tx/gro.h"
#include "l2/flood.h"
#include "l2/storm_control.h"
#include "l2/neighbour_request.h"
#include "tx/fragment.h"
#include "tx/tcp_reset.h"
#include "nat/rewrite.h"

/* A peer gets IP packets directly. Others need a device that reads their ethertype. */
static __always_inline int deliver(struct vport *to, bool ip)
{
	if (to->flags & VPORT_PEER && ip)
		return bpf_redirect_peer(to->ifindex, 0);
	return bpf_redirect(to->ifindex, 0);
}

static __always_inline int send_to_port(CTX *ctx, struct pkt *p, struct vport *to, __u32 id)
{
	__u32 packets = packets_of(ctx, p);
	int why = 0;

	p->path = to->mtu;
	if (!fits(ctx, p, to->mtu))
		return REASON_TOO_BIG;
	if (p->inner)
		why = decap(ctx, p);
	if (why)
		return why;
	count_tx(id, packets, p->frame_len);
	if (p->polled && to->flags & VPORT_GSO && !tag_len(p))
		return gro_send(ctx, p, id, to->segment);
	why = tag_for_port(ctx, p, to);
	p->verdict = deliver(to, leaves_as_ip(p));
	return why;
}

static __always_inline int send_to_tep(CTX *ctx, struct pkt *p, struct vport *to, __u32 id,
				       __u32 segment, __be16 entropy)
{
	__u32 packets = packets_of(ctx, p);
	struct segment *seg = segment_get(segment);
	int why;

	why = encap(ctx, p, id, segment, entropy);
	if (why || !seg)
		return why;
	count_tx(id, packets, p->frame_len);
	if (seg->flags & SEGMENT_UDP_CSUM) {
		p->verdict = bpf_redirect(seg->csum_ifindex, 0);
	} else if (to->flags & VPORT_RESOLVED) {
		p->verdict = bpf_redirect(to->ifindex, 0);
	} else {
		count(EVENT_NEIGH_FALLBACK);
		p->verdict = bpf_redirect_neigh(to->ifindex, NULL, 0, 0);
	}
	return 0;
}

/* Sends a local reply to where its cause came from. */
static __always_inline int send_to_ingress(CTX *ctx, struct pkt *p)
{
	struct vport *to = vport_get(p->in);
	struct segment *seg;
	__u32 id;

	if (!to)
		return REASON_NO_UNDERLAY_ROUTE;
	p->polled = false;
	if (to->kind == VPORT_PORT)
		return send_to_port(ctx, p, to, p->in);
	seg = segment_get(p->segment);
	id = seg ? select_path(p, seg, p->in) : p->in;
	to = vport_get(id);
	return to ? send_to_tep(ctx, p, to, id, p->segment, entropy_of(&p->key)) :
		    REASON_NO_UNDERLAY_ROUTE;
}

/* Writes and sends a local reply, after decapsulation. */
SUBPROGRAM int send_local_reply(CTX *ctx, struct pkt *p)
{
	struct segment *to;
	struct decision *d;
	int why = 0;

	if (!p)
		return REASON_NO_HEADROOM;
	d = &p->decision;
	if (d->action == ACTION_RESOLVE && !may_ask(p))
		return REASON_NO_NEIGHBOUR;
	if (p->inner)
		why = decap(ctx, p);
	if (why)
		return why;
	if (d->action == ACTION_PROXY_REPLY) {
		why = proxy_reply(ctx, p, d);
		return why ? why : send_to_ingress(ctx, p);
	}
	to = segment_get(d->to_segment);
	return to ? resolve_neighbour(ctx, p, to) : REASON_NO_NEIGHBOUR;
}

/* The local reply to a dropped packet: a TCP reset, or the ICMP error e. */
struct icmp_reply {
	struct icmp_error e;
	bool reset;
};

static __always_inline bool icmp_reply_for(CTX *ctx, struct pkt *p, __u32 why, struct icmp_reply *n)
{
	n->e.mtu = why == REASON_TOO_BIG ? p->path : 0;
	n->reset = why == REASON_REJECTED && p->l4_info.proto == IPPROTO_TCP;
	if (!p->in || !may_get_error(ctx, p))
		return false;
	if (n->reset) /* no reset for a reset or a fragment */
		return !(p->l4_info.flags & TCP_RST) && !p->key.fragment &&
		       may_send(p, RATE_RESETS);
	return icmp_error_for(why, is_v6(p), &n->e) && may_send(p, RATE_ICMP_ERRORS);
}

/* Drops a packet, and tells its sender where that is due. */
SUBPROGRAM int drop_with_icmp(CTX *ctx, struct pkt *p, __u32 why)
{
	struct icmp_reply n = {};
	struct segment *seg;

	if (!p)
		return TCX_DROP;
	drop(ctx, p, why);
	if (!icmp_reply_for(ctx, p, why, &n))
		return TCX_DROP;
	seg = segment_get(p->segment);
	step(p, STAGE_ICMP, n.e.type << 8 | n.e.code, n.e.mtu);
	if (!seg || untag(ctx, p, p->decision.flags) || (p->inner && decap(ctx, p)))
		return TCX_DROP;
	if (n.reset ? make_reset(ctx, p, &p->l4_info) : make_error(ctx, p, seg, &n.e))
		return TCX_DROP;
	if (send_to_ingress(ctx, p))
		return TCX_DROP;
	count(n.reset ? EVENT_RESET_SENT : EVENT_ICMP_SENT);
	return p->verdict;
}

/*
 * Whether the packet is too big for its egress. Asked before NAT, so that the error embeds the
 * packet as it was sent.
 */
static __always_inline bool is_too_big(CTX *ctx, struct pkt *p, const struct decision *d,
				       const struct vport *out)
{
	struct segment *to = segment_get(d->to_segment);

	if (!out || !to || d->action == ACTION_FLOOD)
		return false;
	p->path = d->action == ACTION_PORT ? out->mtu : tunnel_mtu(p, out, to);
	return !fits(ctx, p, p->path);
}

/* Replicates a frame of a host, unless there are too many. */
static __always_inline int forward_to_all(CTX *ctx, struct pkt *p, const struct decision *d)
{
	__u32 how = d->entropy;
	int why = storm_control(ctx, p, d->to_segment);

	if (p->inner && d->to_segment == d->segment)
		how |= FLOOD_FROM_TUNNEL;
	return why ? why : flood(ctx, p, d->to_segment, how);
}

/* Modifies the frame as decided, and sends it. */
static __always_inline int forward(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct vport *out = vport_get(d->out);
	bool translated = with_nat && d->flags & FLOW_NAT;
	int why = 0;

	if (d->flags & FLOW_NAT && !with_nat) /* left over from the previous configuration */
		return REASON_NO_TRANSLATION;
	if (translated && is_too_big(ctx, p, d, out) && !may_fragment(ctx, p, d))
		return REASON_TOO_BIG;
	if (p->tcp_flags & TCP_SYN)
		why = clamp_mss(ctx, p, clamp_limit(p, d));
	if (!why && d->flags & FLOW_ROUTED)
		why = rewrite_routed(ctx, p, d);
	if (!why && translated)
		why = rewrite_nat(ctx, p);
	if (!why && d->flags & FLOW_ROUTED && !p->inner)
		why = write_macs(ctx, p);
	if (why)
		return why;
	if (d->action == ACTION_FLOOD)
		return forward_to_all(ctx, p, d);
	if (!out)
		return REASON_NO_UNDERLAY_ROUTE;
	if (d->action == ACTION_PORT)
		why = send_to_port(ctx, p, out, d->out);
	else
		why = send_to_tep(ctx, p, out, d->out, d->to_segment, d->entropy);
	return why == REASON_TOO_BIG && may_fragment(ctx, p, d) ? fragment(ctx, p) : why;
}

/* Carries out a decision. Returns a drop reason, or 0 with the verdict in p. */
static __always_inline int replay(CTX *ctx, struct pkt *p)
{
	const struct decision *d = &p->decision;
	int why = 0;

	step(p, STAGE_DECISION, d->action, d->out);
	p->verdict = TCX_NEXT;
	if (d->action == ACTION_HOST)
		return 0;
	count_rx(p->in, packets_of(ctx, p), p->frame_len);
	if (p->key.tags[0] && !p->inner)
		why = untag(ctx, p, d->flags);
	if (p->inner && !why)
		why = merge_ecn(ctx, p);
	if (why)
		return why;
	switch (d->action) {
	case ACTION_PROXY_REPLY:
		return send_local_reply(ctx, p);
	case ACTION_RESOLVE:
		why = send_local_reply(ctx, p);
		if (!why)
			why = flood(ctx, p, d->to_segment, d->entropy | FLOOD_TO_ALL);
		return why ? why : REASON_NO_NEIGHBOUR;
	case ACTION_LOCAL:
		count(EVENT_LOCAL_DELIVERED);
		p->verdict = TCX_DROP;
		return 0;
	default:
		return forward(ctx, p, d);
	}
}

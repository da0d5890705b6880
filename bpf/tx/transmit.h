/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transmit: carries out a decision. Fresh and cached ones run this same code.
 * Each step returns a reason to stop, or 0 with the verdict in p.
 *
 * in:    p, struct decision
 * out:   the packet, or its copies, on an interface; p->verdict
 * maps:  ends, segments, traffic
 * stops: TOO_BIG, TTL_EXCEEDED, NO_ROUTE, NO_ROOM, GSO_NESTED, GSO_UDP, NO_CSUM, NO_NEIGHBOUR
 */
#pragma once

#include "tx/proxy_reply.h"
#include "tx/gro.h"
#include "l2/flood.h"
#include "tx/tcp_reset.h"
#include "nat/rewrite.h"

/* A peer takes the packet as it is; what is not IP needs a device to read its ethertype. */
static __always_inline int deliver(struct end *to, bool ip)
{
	if (to->flags & END_PEER && ip)
		return bpf_redirect_peer(to->ifindex, 0);
	return bpf_redirect(to->ifindex, 0);
}

static __always_inline int to_port(CTX *ctx, struct pkt *p, struct end *to, __u32 id)
{
	__u32 packets = packets_of(ctx, p);
	int why = 0;

	/* The tunnel's marks stay on a segment, and the kernel would cut by them. TCP is not cut. */
	if (p->inner && is_gso(ctx) && p->key.proto == IPPROTO_UDP)
		return REASON_GSO_UDP;
	p->path = to->mtu;
	if (!fits(ctx, p, to->mtu))
		return REASON_TOO_BIG;
	if (p->inner)
		why = decap(ctx, p);
	if (why)
		return why;
	count_tx(id, packets, p->frame_len);
	if (p->polled && to->flags & END_SEGMENTS && !tag_len(p))
		return coalesce(ctx, p, id, to->segment);
	if (to->vlan || tag_len(p))
		why = retag(ctx, p, to->vlan);
	p->verdict = deliver(to, is_ip(p));
	return why;
}

static __always_inline int to_tep(CTX *ctx, struct pkt *p, struct end *to, __u32 id, __u32 segment,
				  __be16 entropy)
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
	} else if (to->flags & END_RESOLVED) {
		p->verdict = bpf_redirect(to->ifindex, 0);
	} else {
		count(EVENT_NEIGH_FALLBACK);
		p->verdict = bpf_redirect_neigh(to->ifindex, NULL, 0, 0);
	}
	return 0;
}

/* A reply, or a message about a packet: back to where that came from. */
static __always_inline int send_back(CTX *ctx, struct pkt *p)
{
	struct end *to = end_get(p->in);
	struct segment *seg;
	__u32 id;

	if (!to)
		return REASON_NO_ROUTE;
	p->polled = false;
	if (to->kind == END_PORT)
		return to_port(ctx, p, to, p->in);
	seg = segment_get(p->segment);
	id = seg ? spread_to(p, seg, p->in) : p->in;
	to = end_get(id);
	return to ? to_tep(ctx, p, to, id, p->segment, entropy_of(&p->key)) : REASON_NO_ROUTE;
}

/* What the edge makes of the packet itself; it is out of its tunnel first. */
SUBPROGRAM int speak(CTX *ctx, struct pkt *p)
{
	struct segment *to;
	struct decision *d;
	int why = 0;

	if (!p)
		return REASON_NO_ROOM;
	d = &p->decision;
	if (d->action == ACTION_ASK && !may_speak())
		return REASON_NO_NEIGHBOUR;
	if (p->inner)
		why = decap(ctx, p);
	if (why)
		return why;
	if (d->action == ACTION_ANSWER) {
		why = answer(ctx, p, d);
		return why ? why : send_back(ctx, p);
	}
	to = segment_get(d->to_segment);
	return to ? ask(ctx, p, to) : REASON_NO_NEIGHBOUR;
}

/* What its sender is told of a packet's end: by a reset or an ICMP message, which e is then. */
struct notice {
	struct icmp_error e;
	bool reset;
};

static __always_inline bool notice_for(struct pkt *p, const struct hearing *h, __u32 why,
				       struct notice *n)
{
	n->e.mtu = why == REASON_TOO_BIG ? p->path : 0;
	n->reset = why == REASON_REJECTED && h->transport.proto == IPPROTO_TCP;
	if (!p->in || !may_be_told(p))
		return false;
	if (n->reset) /* nobody resets a reset, or a part of a segment */
		return !(h->transport.flags & TCP_RST) && !p->key.fragment && may_speak();
	return error_for(why, is_v6(p), &n->e) && may_speak();
}

/* The end of a packet that cannot go on: its sender is told, where that is due. */
SUBPROGRAM int refuse(CTX *ctx, struct pkt *p, __u32 why)
{
	struct hearing *h = hearing();
	struct notice n = {};
	struct segment *seg;

	if (!p || !h)
		return TCX_DROP;
	drop(ctx, p, why);
	if (!notice_for(p, h, why, &n))
		return TCX_DROP;
	seg = segment_get(p->segment);
	step(p, STAGE_ICMP, n.e.type << 8 | n.e.code, n.e.mtu);
	if (!seg || untag(ctx, p, p->decision.flags) || (p->inner && decap(ctx, p)))
		return TCX_DROP;
	if (n.reset ? make_reset(ctx, p, &h->transport) : make_error(ctx, p, seg, &n.e))
		return TCX_DROP;
	if (send_back(ctx, p))
		return TCX_DROP;
	count(n.reset ? EVENT_RESET_SENT : EVENT_ICMP_SENT);
	return p->verdict;
}

/*
 * Whether the way out takes the packet, which is asked before it is translated: its sender
 * is told about the packet that he sent.
 */
static __always_inline bool is_too_big(CTX *ctx, struct pkt *p, const struct decision *d,
				       const struct end *out)
{
	struct segment *to = segment_get(d->to_segment);

	if (!out || !to || d->action == ACTION_FLOOD)
		return false;
	p->path = d->action == ACTION_PORT ? out->mtu : tunnel_mtu(p, out, to);
	return !fits(ctx, p, p->path);
}

/* Changes the frame as decided, and sends it on. */
static __always_inline int carry(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct end *out = end_get(d->out);
	bool translated = with_nat && d->flags & FLOW_NAT;
	int why = 0;

	if (d->flags & FLOW_NAT && !with_nat) /* a former configuration's */
		return REASON_UNTRANSLATED;
	if (translated && is_too_big(ctx, p, d, out))
		return REASON_TOO_BIG;
	if (p->tcp_flags & TCP_SYN)
		why = clamp_mss(ctx, p, clamp_limit(p, d, p->inner));
	if (!why && d->flags & FLOW_ROUTED)
		why = rewrite(ctx, p, d);
	if (!why && translated)
		why = translate(ctx, p);
	if (!why && p->routed && !p->inner)
		why = write_macs(ctx, p);
	if (why)
		return why;
	if (d->action == ACTION_FLOOD)
		return flood(
			ctx, p, d->to_segment,
			d->entropy |
				(p->inner && d->to_segment == d->segment ? FLOOD_FROM_TUNNEL : 0));
	if (!out)
		return REASON_NO_ROUTE;
	if (d->action == ACTION_PORT)
		return to_port(ctx, p, out, d->out);
	return to_tep(ctx, p, out, d->out, d->to_segment, d->entropy);
}

/* Carries out a decision. Returns a reason to stop, or 0 with the verdict in p. */
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
	case ACTION_ANSWER:
		return speak(ctx, p);
	case ACTION_ASK:
		why = speak(ctx, p);
		if (!why)
			why = flood(ctx, p, d->to_segment, d->entropy | FLOOD_TO_ALL);
		return why ? why : REASON_NO_NEIGHBOUR;
	case ACTION_CONSUME:
		count(EVENT_CONSUMED);
		p->verdict = TCX_DROP;
		return 0;
	default:
		return carry(ctx, p, d);
	}
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The edge's data plane. Each stage is a header of its own; this is their order. */
#include "parse.h"
#include "guard.h"
#include "switch.h"
#include "route.h"
#include "flow.h"
#include "path.h"
#include "transmit.h"

/* What an uplink leaves to the host: all but frames for the gateway, and others' ARP and ND. */
static __always_inline bool is_hosts(struct pkt *p, struct segment *seg, struct end *in)
{
	if (!(in->flags & END_UPLINK))
		return false;
	if (is_neighbour_talk(p))
		return mac_equal(p->key.smac, seg->gateway_mac);
	return !mac_equal(p->key.dmac, seg->gateway_mac);
}

static __always_inline int decide(CTX *ctx, struct pkt *p, struct segment *seg, struct end *in,
				  struct decision *d)
{
	int why;

	if (is_hosts(p, seg, in)) {
		d->action = ACTION_HOST;
		return 0;
	}
	why = learn(p, seg);
	if (why)
		return why;
	/* What has tags inside is of other networks, which the segment only carries. */
	if (kept_tags(p, d->flags))
		return bridge(p, d);
	if (is_neighbour_talk(p))
		return neighbour(ctx, p, seg, in, d);
	if (seg->router && mac_equal(p->key.dmac, seg->gateway_mac))
		return route(p, seg, d);
	return seg->flags & SEGMENT_L3 ? REASON_NOT_ROUTED : bridge(p, d);
}

/* The slow path: it only decides. */
SUBPROGRAM int resolve(CTX *ctx, struct pkt *p)
{
	struct segment *seg;
	struct decision *d;
	struct end *in;
	int why;

	if (!p)
		return REASON_NO_ROOM;
	d = &p->decision;
	__builtin_memset(d, 0, sizeof(*d));
	why = guard(p, d);
	if (why == NOT_OURS) {
		d->action = ACTION_HOST;
		d->slow = SLOW_HOST;
		return 0;
	}
	if (why)
		return why;
	seg = segment_get(p->segment);
	in = end_get(p->in);
	if (!seg || !in)
		return REASON_UNKNOWN_VNI;
	d->segment = d->to_segment = p->segment;
	d->generation = seg->generation; /* before the look-ups: a change meanwhile outdates it */
	d->in = p->in;
	why = decide(ctx, p, seg, in, d);
	if (why)
		return why;
	if (!flow_cache && !d->slow)
		d->slow = SLOW_CACHE_OFF;
	d->entropy = entropy_of(&p->key);
	flow_keep(ctx, p, d);
	return 0;
}

/* A packet that found its decision. */
static __always_inline void hit(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct decision *d = &p->decision;

	count(EVENT_HIT);
	*d = f->decision;
	p->polled = p->inner && d->action == ACTION_PORT && in_burst(ctx, p, f);
	p->in = d->in;
	p->segment = d->segment;
	f->packets += packets_of(ctx, p);
	f->bytes += p->frame_len;
	f->seen_ns = p->now_ns;
}

static __always_inline int edge(CTX *ctx, struct pkt *p)
{
	struct flow *f;
	__u32 end;
	int why;

	why = parse(ctx, p);
	step(p, STAGE_PARSE, p->key.proto, why);
	if (!why && p->inner && is_unbearable(p))
		why = REASON_ECN_MARKED;
	if (why)
		return drop(ctx, p, why);
	f = flow_find(p);
	if (f && p->inner && overtook(p, f))
		return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
	end = seq_end(p);
	if (f)
		hit(ctx, p, f);
	else
		why = resolve(ctx, p);
	if (!why)
		why = replay(ctx, p);
	if (f)
		went(p, f, end);
	return why ? refuse(ctx, p, why) : p->verdict;
}

SEC("tcx/ingress")
int from_port(CTX *ctx)
{
	struct pkt *p = packet();

	if (!p)
		return TCX_DROP;
	p->now_ns = bpf_ktime_get_coarse_ns();
	p->key.origin.w[3] = ctx->ifindex;
	return edge(ctx, p);
}

SEC("tcx/ingress")
int from_underlay(CTX *ctx)
{
	struct pkt *p;
	int why;

	if (ctx->pkt_type != PACKET_HOST || ctx->vlan_present)
		return TCX_NEXT;
	p = packet();
	if (!p)
		return TCX_DROP;
	ctx_pull_headers(ctx, CTX_OUTER);
	p->now_ns = bpf_ktime_get_coarse_ns();
	why = parse_outer(ctx, p);
	if (why == NOT_OURS) {
		hear_too_big(ctx, p);
		count(EVENT_NOT_TUNNEL);
		return TCX_NEXT;
	}
	return why ? drop(ctx, p, why) : edge(ctx, p);
}

/* What came back from the coalescer: decided already, its port is in the mark. */
SEC("tcx/ingress")
int from_coalescer(CTX *ctx)
{
	struct end *to = end_get(ctx->mark);
	struct pkt *p = packet();

	if (!p)
		return TCX_DROP;
	if (!ctx->vlan_present || !to || to->kind != END_PORT)
		return drop(ctx, p, REASON_UNKNOWN_PORT);
	ctx->mark = 0;
	if (bpf_skb_vlan_pop(ctx))
		return drop(ctx, p, REASON_NO_ROOM);
	if (to->vlan && bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), to->vlan))
		return drop(ctx, p, REASON_NO_ROOM);
	return deliver(to, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The edge's data plane. Each stage is a header of its own; this is their order. */
#include "l3/slow_path.h"
#include "tunnel/path_mtu.h"
#include "nat/nat.h"
#include "tx/transmit.h"

/* The slow path: it only decides. */
SUBPROGRAM int resolve(CTX *ctx, struct pkt *p)
{
	int why = p ? decide(ctx, p) : REASON_NO_ROOM;

	stamp(POINT_SWITCHED);
	return why;
}

/* Leaves what was decided in the cache. */
SUBPROGRAM int keep(CTX *ctx, struct pkt *p)
{
	if (p && p->segment)
		flow_keep(ctx, p, &p->decision);
	stamp(POINT_DECIDED);
	return 0;
}

/* The stages that know connections: the firewalls of both ports, and NAT between them. */
SUBPROGRAM int know(CTX *ctx, struct pkt *p, bool fresh)
{
	int why = p ? police_from(ctx, p) : REASON_NO_POLICY;
	bool translated;

	if (why)
		return why;
	translated = with_nat && p->decision.flags & FLOW_NAT && p->decision.action != ACTION_ASK;
	if (translated)
		why = nat(ctx, p, fresh);
	if (!why)
		why = police_to(ctx, p);
	if (why && translated)
		unbind();
	if (p->decision.flags & FLOW_TRACKED)
		stamp(POINT_POLICED);
	return why;
}

static __always_inline int take_slow_path(CTX *ctx, struct pkt *p)
{
	int why = resolve(ctx, p);

	if (!why)
		why = know(ctx, p, true);
	if (!why)
		why = keep(ctx, p);
	return why;
}

/* A packet that found its decision. */
static __always_inline void hit(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct decision *d = &p->decision;

	count(EVENT_HIT);
	*d = f->decision;
	if (with_nat && d->flags & FLOW_NAT)
		recall(f);
	p->polled = p->inner && d->action == ACTION_PORT && in_burst(ctx, p, f);
	p->in = d->in;
	p->segment = d->segment;
	f->packets += packets_of(ctx, p);
	f->bytes += p->frame_len;
	f->seen_ns = p->now_ns;
}

/* Firewall and NAT look at a packet whose way is known; the flow learns what they say. */
static __always_inline int watch(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct hearing *h = hearing();
	int why;

	if (!p || !f || !h)
		return REASON_NO_POLICY;
	carry_over(p, f);
	h->carried.packets -= packets_of(ctx, p); /* it is counted already, as a hit */
	h->carried.bytes -= p->frame_len;
	p->decision.slow = SLOW_FAST;
	why = know(ctx, p, false);
	f->decision.slow = why ? SLOW_CONNECTION : p->decision.slow;
	if (why == REASON_NO_BINDING) /* the next one gets a decision, and a binding, of its own */
		f->decision.generation--;
	f->next_seq = h->next_seq;
	return why;
}

static __always_inline int edge(CTX *ctx, struct pkt *p)
{
	bool watched = false;
	struct flow *f;
	__u32 end;
	int why;

	why = parse(ctx, p);
	step(p, STAGE_PARSE, p->key.proto, why);
	if (!why && p->inner && is_unbearable(p))
		why = REASON_ECN_MARKED;
	if (why)
		return drop(ctx, p, why);
	stamp(POINT_PARSED);
	f = flow_find(p);
	if (f && p->inner && overtook(p, f))
		return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
	end = seq_end(p);
	if (f) {
		hit(ctx, p, f);
		stamp(POINT_CACHED);
		watched = (with_firewall || with_nat) && is_watched(p, &p->decision);
		if (watched)
			why = watch(ctx, p, f);
	} else {
		why = take_slow_path(ctx, p);
	}
	if (!why)
		why = replay(ctx, p);
	if (f && !watched)
		went(p, f, end);
	if (!why)
		stamp(POINT_SENT);
	return why ? refuse(ctx, p, why) : p->verdict;
}

SEC("tcx/ingress")
int from_port(CTX *ctx)
{
	struct pkt *p;

	stamp(POINT_PORT);
	p = packet(ctx);
	if (!p)
		return TCX_DROP;
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
	stamp(POINT_UNDERLAY);
	p = packet(ctx);
	if (!p)
		return TCX_DROP;
	ctx_pull_headers(ctx, CTX_OUTER);
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
	struct pkt *p = packet(ctx);

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

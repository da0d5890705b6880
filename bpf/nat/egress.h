/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * egress: which packets leave the overlay by a gateway, and by which. A policy's sources
 * are divided into buckets, each with its gateway; a flow in the cache stays with the one
 * that it had while that keeps its flows. What comes by a policy's own segment is for
 * this edge to translate.
 *
 * in:    p, the segment that it would leave by
 * out:   the hearing's egress and hop, d->flags (FLOW_SNAT, FLOW_EGRESS)
 * maps:  egresses, hops, bindings, locals, routers, policy
 * stops: NO_GATEWAY, NO_POLICY
 */
#pragma once

#include "core/hash.h"
#include "l2/neighbour.h"

/* Whether the next hop is on the plain network. */
static __always_inline bool leads_out(const struct hop *hop)
{
	struct segment *to = segment_get(hop->segment);

	return to && to->flags & SEGMENT_UPLINK;
}

#ifdef XDP

#define NAT_ELSEWHERE NOT_OURS

/* What may be translated is left to tc. */
static __always_inline struct hop *leave_by(struct pkt *p __attribute__((unused)),
					    struct decision *d __attribute__((unused)),
					    __u32 to __attribute__((unused)), int *why)
{
	*why = NOT_OURS;
	return NULL;
}

#else

#include "firewall/classify.h"

#define NAT_ELSEWHERE 0 /* nat/nat.h goes on with it */

static __always_inline struct egress *egress_get(__u32 id)
{
	return id ? bpf_map_lookup_elem(&egresses, &id) : NULL;
}

/* The policy whose rules match the packet, 0: none. Returns a reason, or 0. */
static __always_inline int match_policy(const struct pkt *p, struct hearing *h,
					const struct segment *seg, __u32 to, __u32 *policy)
{
	struct opening *o = &h->opening;
	struct end *in = end_get(p->in);
	int why;

	__builtin_memset(o, 0, sizeof(*o));
	o->src = p->key.saddr;
	o->dst = p->key.daddr;
	copy16(o->dmac, p->key.dmac, ETH_ALEN);
	copy16(o->smac, p->key.smac, ETH_ALEN);
	o->src_end = in && in->kind == END_PORT ? p->in : 0;
	o->src_segment = p->segment;
	o->dst_segment = to;
	o->end = EGRESS_PLACE + seg->router;
	o->proto = p->key.proto;
	o->direction = DIRECTION_OUT;
	h->judgement.rule = 0;
	why = classify(POLICY_EGRESS, o, &h->judgement);
	*policy = h->judgement.verdict == VERDICT_ALLOW ? h->judgement.rule : 0;
	return why;
}

/* Whether this edge translates the packet's connection already, to an address of its own. */
static __always_inline bool is_bound_here(const struct pkt *p, struct hearing *h, __u32 router)
{
	struct conn_key *k = &h->key;
	struct local_key local = { .router = router };
	struct binding *b;

	if (p->key.fragment || (p->key.proto != IPPROTO_TCP && p->key.proto != IPPROTO_UDP))
		return false;
	__builtin_memset(k, 0, sizeof(*k));
	k->end = router;
	k->proto = p->key.proto;
	k->inside = p->key.saddr;
	k->outside = p->key.daddr;
	k->inside_port = p->key.sport;
	k->outside_port = p->key.dport;
	b = bpf_map_lookup_elem(&bindings, k);
	if (!b)
		return false;
	local.addr = b->addr;
	return bpf_map_lookup_elem(&locals, &local);
}

/* Whether flows that have the next hop stay with it. */
static __always_inline bool is_kept(const struct egress *e, __u16 hop)
{
	for (int i = 0; i < MAX_GATEWAYS; i++)
		if (hop && e->kept[i] == hop)
			return true;
	return false;
}

/* The next hop to the gateway of a source; 0: this edge. Returns a reason, or 0. */
static __always_inline int find_gateway(const struct pkt *p, struct hearing *h,
					const struct egress *e)
{
	__u16 way = e->family[is_v6(p)].hops[bucket_of(&p->key.saddr)];

	if (is_kept(e, h->former))
		way = h->former;
	if (way == WAY_NONE)
		return REASON_NO_GATEWAY;
	if (way && is_bound_here(p, h, e->router))
		way = 0;
	h->hop = way;
	return 0;
}

/* Who translates a packet that leaves the overlay; to: the uplink's segment, 0: no route. */
SUBPROGRAM int leave(struct pkt *p, __u32 to_id)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL, *to = segment_get(to_id);
	struct hearing *h = hearing();
	struct router *router;
	__u32 id, policy = 0;
	struct egress *e;
	int why = 0;

	if (!p || !seg || !h)
		return REASON_NO_POLICY;
	h->egress = to_id && to ? to->egress : 0;
	h->hop = 0;
	if (seg->flags & SEGMENT_UPLINK)
		return 0;
	if (seg->egress) {
		h->egress = seg->egress;
		return 0;
	}
	id = seg->router;
	router = bpf_map_lookup_elem(&routers, &id);
	if (router && router->flags & ROUTER_EGRESS)
		why = match_policy(p, h, seg, to_id, &policy);
	e = egress_get(policy);
	if (why || !e)
		return why;
	h->egress = policy;
	why = find_gateway(p, h, e);
	step(p, STAGE_EGRESS, policy, h->hop);
	return why;
}

/* The next hop to a gateway; NULL with a reason, or without: it is translated here. */
static __always_inline struct hop *leave_by(struct pkt *p, struct decision *d, __u32 to, int *why)
{
	struct hearing *h = hearing();
	int stop = leave(p, to);
	__u32 hop;

	if (stop || !h) {
		*why = stop ? stop : REASON_NO_GATEWAY;
		return NULL;
	}
	hop = h->hop;
	if (!hop) {
		d->flags |= FLOW_SNAT;
		return NULL;
	}
	d->flags |= FLOW_EGRESS;
	*why = REASON_NO_GATEWAY;
	return bpf_map_lookup_elem(&hops, &hop);
}

#endif

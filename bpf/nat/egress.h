/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * egress: which packets leave the overlay by a gateway, and by which one. The sources of a policy
 * are distributed over buckets, each with a gateway. A cached flow keeps its gateway while
 * that keeps its flows. This edge translates what arrives in a policy's own segment.
 *
 * in:    p, the segment of the route
 * out:   p->egress, p->gateway, d->flags (FLOW_SNAT, FLOW_EGRESS)
 * maps:  egress_policies, nexthops, nat_sessions, nat_inbound, local_addrs, routers, policy
 * stops: NO_GATEWAY, NO_POLICY
 */
#pragma once

#include "core/hash.h"
#include "l2/neighbour.h"

/* Whether the next hop is in the network of an uplink. */
static __always_inline bool is_external(const struct nexthop *nexthop)
{
	struct segment *to = segment_get(nexthop->segment);

	return to && to->flags & SEGMENT_UPLINK;
}

#ifdef XDP

/* tc handles what may need translation. */
static __always_inline struct nexthop *egress_nexthop(struct pkt *p __attribute__((unused)),
						      struct decision *d __attribute__((unused)),
						      __u32 to __attribute__((unused)), int *why)
{
	*why = NOT_OURS;
	return NULL;
}

#else

#include "firewall/classify.h"
#include "nat/work.h"

static __always_inline struct egress_policy *egress_get(__u32 id)
{
	return id ? bpf_map_lookup_elem(&egress_policies, &id) : NULL;
}

/* The policy whose rules match the packet, 0: none. Returns a drop reason, or 0. */
static __always_inline int match_policy(const struct pkt *p, struct nat_work *w,
					const struct segment *seg, __u32 to, __u32 *policy)
{
	struct rule_query *o = &w->query;
	struct vport *in = vport_get(p->in);
	int why;

	__builtin_memset(o, 0, sizeof(*o));
	o->src = p->key.saddr;
	o->dst = p->key.daddr;
	copy16(o->dmac, p->key.dmac, ETH_ALEN);
	copy16(o->smac, p->key.smac, ETH_ALEN);
	o->src_vport = in && in->kind == VPORT_PORT ? EGRESS_QUERY_VPORTS + p->in : 0;
	o->src_segment = p->segment;
	o->dst_segment = to;
	o->vport = seg->router;
	o->proto = p->key.proto;
	o->direction = DIRECTION_OUT;
	w->match.rule = 0;
	why = classify(POLICY_EGRESS, o, &w->match);
	*policy = w->match.verdict == VERDICT_ALLOW ? w->match.rule : 0;
	return why;
}

/*
 * Whether this edge has a session of the packet's connection, with an address of its own, or the
 * connection came in by an uplink of this edge.
 */
static __always_inline bool has_local_session(const struct pkt *p, struct nat_work *w, __u32 router)
{
	struct ct_key *k = &w->key;
	struct local_key local = { .router = router };
	struct nat_session *s;

	if (p->key.fragment || (p->key.proto != IPPROTO_TCP && p->key.proto != IPPROTO_UDP))
		return false;
	__builtin_memset(k, 0, sizeof(*k));
	k->zone = router;
	k->proto = p->key.proto;
	k->inside = p->key.saddr;
	k->outside = p->key.daddr;
	k->inside_port = p->key.sport;
	k->outside_port = p->key.dport;
	s = bpf_map_lookup_elem(&nat_sessions, k);
	if (!s)
		return bpf_map_lookup_elem(&nat_inbound, k);
	if (s->flags & NAT_SESSION_UNTRANSLATED)
		return true;
	local.addr = s->addr;
	return bpf_map_lookup_elem(&local_addrs, &local);
}

/* Whether flows with the next hop keep it. */
static __always_inline bool keeps_flows(const struct egress_policy *e, __u16 hop)
{
	for (int i = 0; i < MAX_GATEWAYS; i++)
		if (hop && e->kept[i] == hop)
			return true;
	return false;
}

/* The next hop to the gateway of a source; 0: this edge. Returns a drop reason, or 0. */
static __always_inline int find_gateway(struct pkt *p, struct nat_work *w,
					const struct egress_policy *e)
{
	__u16 nexthop = e->family[is_v6(p)].nexthops[bucket_of(&p->key.saddr)];

	if (keeps_flows(e, p->previous_gateway))
		nexthop = p->previous_gateway;
	if (nexthop == NO_GATEWAY)
		return REASON_NO_GATEWAY;
	if (nexthop && has_local_session(p, w, e->router))
		nexthop = 0;
	p->gateway = nexthop;
	return 0;
}

/* Finds who translates a packet that leaves the overlay. to_id: the uplink's segment, 0: no route. */
SUBPROGRAM int egress_lookup(struct pkt *p, __u32 to_id)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL, *to = segment_get(to_id);
	struct nat_work *w = nat_work();
	struct router *router;
	__u32 id, policy = 0;
	struct egress_policy *e;
	int why = 0;

	if (!p || !seg || !w)
		return REASON_NO_POLICY;
	p->egress = to_id && to ? to->egress : 0;
	p->gateway = 0;
	if (seg->flags & SEGMENT_UPLINK)
		return 0;
	if (seg->egress) {
		p->egress = seg->egress;
		return 0;
	}
	id = seg->router;
	router = bpf_map_lookup_elem(&routers, &id);
	if (router && router->flags & ROUTER_EGRESS)
		why = match_policy(p, w, seg, to_id, &policy);
	e = egress_get(policy);
	if (why || !e)
		return why;
	p->egress = policy;
	why = find_gateway(p, w, e);
	step(p, STAGE_EGRESS, policy, p->gateway);
	return why;
}

/* The next hop to the gateway. NULL: this edge translates, or *why has a drop reason. */
static __always_inline struct nexthop *egress_nexthop(struct pkt *p, struct decision *d, __u32 to,
						      int *why)
{
	__u32 hop;

	*why = egress_lookup(p, to);
	if (*why)
		return NULL;
	hop = p->gateway;
	if (!hop) {
		d->flags |= FLOW_SNAT;
		return NULL;
	}
	d->flags |= FLOW_EGRESS;
	*why = REASON_NO_GATEWAY;
	return bpf_map_lookup_elem(&nexthops, &hop);
}

#endif

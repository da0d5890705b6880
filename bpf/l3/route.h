/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * route: what a router does with a frame for its MAC address: the longest prefix,
 * a next hop by the flow's hash, and the next hop's MAC (RFC 1812, RFC 8200).
 *
 * in:    p, the segment it came in by
 * out:   the decision: the segment to go to, new MACs, the end
 * maps:  routers, locals, routes, groups, hops, neighbours, fdb, segments
 * stops: NOT_ROUTED, NOT_SERVED, NO_PREFIX, BLACKHOLE, UNREACHABLE, PROHIBITED, TTL_EXCEEDED
 */
#pragma once

#include "nat/egress.h"

/* An address of the edge itself: it answers ping, and says so of anything else. */
static __always_inline int serve(struct pkt *p, struct decision *d)
{
	return answers_echo(p, d) ? 0 : REASON_NOT_SERVED;
}

/* What came of something that the edge has sent: an answer or an error. */
static __always_inline bool is_answer(const struct pkt *p)
{
	if (is_v6(p))
		return p->key.proto == IPPROTO_ICMPV6 &&
		       (p->icmp_type < 128 || p->icmp_type == ICMPV6_ECHO_REPLY);
	return p->key.proto == IPPROTO_ICMP &&
	       (is_error4(p->icmp_type) || p->icmp_type == ICMP_ECHO_REPLY);
}

/* To a multicast or the broadcast address. */
static __always_inline bool is_to_group(const struct pkt *p)
{
	const struct addr *d = &p->key.daddr;

	if (!is_v6(p))
		return (d->w[3] & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000) || d->w[3] == ~0U;
	return (d->w[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

static __always_inline int kind_reason(enum route_kind kind)
{
	switch (kind) {
	case ROUTE_BLACKHOLE:
		return REASON_BLACKHOLE;
	case ROUTE_UNREACHABLE:
		return REASON_UNREACHABLE;
	case ROUTE_PROHIBIT:
		return REASON_PROHIBITED;
	default:
		return REASON_NO_PREFIX;
	}
}

/* The next hop of the flow, or NULL with the reason. */
static __always_inline struct hop *find_hop(struct pkt *p, __u32 router, const struct addr *to,
					    int *why)
{
	struct route_key key = { .prefixlen = 160, .router = router, .addr = *to };
	struct route *route = bpf_map_lookup_elem(&routes, &key);
	struct group *group;
	__u32 index;

	step(p, STAGE_ROUTE, router, route ? route->kind : 0);
	*why = kind_reason(route ? route->kind : ROUTE_NONE);
	if (!route || route->kind != ROUTE_GROUP)
		return NULL;
	index = route->group;
	group = bpf_map_lookup_elem(&groups, &index);
	if (!group)
		return NULL;
	/* Other bits than the entropy's, so that the edges of a path choose apart from each other. */
	index = group->buckets[hash_of(&p->key) >> 32 & (GROUP_BUCKETS - 1)];
	return bpf_map_lookup_elem(&hops, &index);
}

/*
 * Whether the neighbour has still the MAC address that the decision has. Which generation
 * tells of a change of it is only known with the address, and read later.
 */
static __always_inline bool is_still(const struct neighbour_key *key, const struct decision *d)
{
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, key);

	return n && mac_equal(n->mac, d->dmac);
}

/* The MAC address of the next hop, and where that is in the segment. */
static __always_inline int resolve_hop(struct pkt *p, struct decision *d, const struct hop *hop,
				       const struct segment *to, const struct addr *addr)
{
	struct neighbour_key key = { .segment = hop->segment, .addr = hop->addr };
	struct neighbour *n;

	if (hop->end) {
		copy16(d->dmac, hop->mac, ETH_ALEN);
		depend_on(d, to, d->dmac);
		d->out = hop->end;
		d->action = ACTION_TUNNEL;
		return 0;
	}
	if (addr_is_zero(&key.addr))
		key.addr = *addr;
	n = bpf_map_lookup_elem(&neighbours, &key);
	step(p, STAGE_NEIGHBOUR, n ? 3 : 2, hop->segment);
	if (!n || mac_is_zero(n->mac)) {
		d->action = ACTION_ASK;
		d->slow = SLOW_NEIGHBOUR;
		p->key.daddr = key.addr; /* whom to ask for */
		return 0;
	}
	copy16(d->dmac, n->mac, ETH_ALEN);
	depend_on(d, to, d->dmac);
	if (!is_still(&key, d))
		d->generation--; /* never current */
	return find_end(p, d, d->dmac);
}

/* The way by a next hop, for a packet to the address. */
static __always_inline int route_by(struct pkt *p, struct decision *d, const struct hop *hop,
				    const struct addr *addr)
{
	struct segment *to = segment_get(hop->segment);

	d->to_segment = hop->segment;
	if (!to)
		return REASON_NO_PREFIX;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	if (p->ttl <= 1)
		return REASON_TTL_EXCEEDED;
	return resolve_hop(p, d, hop, to, addr);
}

/* For an address of the edge itself, or for who is behind one. */
static __always_inline int route_local(struct pkt *p, struct segment *seg, struct decision *d,
				       __u32 local)
{
	struct hop *hop;
	int why = 0;

	if (!(local & LOCAL_NAT) && is_answer(p))
		return consume(d);
	if (!(local & LOCAL_NAT))
		return serve(p, d);
	if (!with_nat) /* a former configuration's, for a moment */
		return REASON_NO_GATEWAY;
	d->action = ACTION_TRANSLATE;
	d->flags |= FLOW_DNAT;
	if (seg->flags & SEGMENT_UPLINK)
		return NAT_ELSEWHERE;
	/* Hairpin: the answer has to come back here, or to the gateway of the source. */
	hop = leave_by(p, d, local & ~(LOCAL_NAT | LOCAL_LEASED), &why);
	if (!hop)
		return why;
	d->action = ACTION_PORT;
	d->flags &= ~(FLOW_DNAT | FLOW_SNAT);
	return route_by(p, d, hop, &p->key.daddr);
}

static __always_inline int route(struct pkt *p, struct segment *seg, struct decision *d)
{
	__u32 id = seg->router, local;
	struct router *router = bpf_map_lookup_elem(&routers, &id);
	struct hop *hop;
	int why = 0;

	if (!is_ip(p) || !router)
		return REASON_NOT_ROUTED;
	d->generation += generation_to(router, d, &p->key.daddr);
	local = find_local(p, seg, &p->key.daddr);
	if (local)
		return route_local(p, seg, d, local);
	if (is_to_group(p) || addr_is_link_local(&p->key.daddr))
		return REASON_NOT_ROUTED;
	hop = find_hop(p, id, &p->key.daddr, &why);
	if (router->flags && (hop ? leads_out(hop) : why == REASON_NO_PREFIX)) {
		struct hop *gateway;

		if (!with_nat)
			return REASON_NO_GATEWAY;
		gateway = leave_by(p, d, hop ? hop->segment : 0, &why);
		if (gateway)
			hop = gateway;
		else if (why && why != REASON_NO_PREFIX)
			return why;
	}
	return hop ? route_by(p, d, hop, &p->key.daddr) : why;
}

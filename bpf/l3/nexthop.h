/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nexthop: longest prefix match, next hop by the flow's hash (ECMP), MAC address of the next hop
 * (RFC 1812, RFC 8200).
 *
 * in:    p, a router, a destination
 * out:   the decision: egress segment, new MAC addresses, vport
 * maps:  routes, nexthop_groups, nexthops, neighbours, fdb, segments, teps
 * stops: NO_ROUTE, BLACKHOLE, UNREACHABLE, PROHIBITED, TUNNEL_FROM_INSIDE, TTL_EXCEEDED
 */
#pragma once

#include "core/hash.h"
#include "l2/neighbour.h"
#include "l3/source_check.h"

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
		return REASON_NO_ROUTE;
	}
}

/* The next hop of the flow; NULL: a drop reason is in why. */
static __always_inline struct nexthop *find_nexthop(struct pkt *p, __u32 router,
						    const struct addr *to, int *why)
{
	struct route_key key = { .prefixlen = 160, .router = router, .addr = *to };
	struct route *route = bpf_map_lookup_elem(&routes, &key);
	struct nexthop_group *group;
	__u32 index;

	step(p, STAGE_ROUTE, router, route ? route->kind : 0);
	*why = kind_reason(route ? route->kind : ROUTE_NONE);
	if (!route || route->kind != ROUTE_GROUP)
		return NULL;
	index = route->group;
	group = bpf_map_lookup_elem(&nexthop_groups, &index);
	if (!group)
		return NULL;
	/* Other bits than those of the entropy, so that successive edges choose independently. */
	index = group->buckets[hash_of(&p->key) >> 32 & (NEXTHOP_BUCKETS - 1)];
	return bpf_map_lookup_elem(&nexthops, &index);
}

/*
 * Whether the neighbour still has the MAC address of the decision. Which generation covers it is
 * known only with the address, and read after it.
 */
static __always_inline bool is_still(const struct neighbour_key *key, const struct decision *d)
{
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, key);

	return n && mac_equal(n->mac, d->dmac);
}

/* Resolves the MAC address of the next hop, and its vport in the segment. */
static __always_inline int resolve_nexthop(struct pkt *p, struct decision *d,
					   const struct nexthop *nexthop, const struct segment *to,
					   const struct addr *addr)
{
	struct neighbour_key key = { .segment = nexthop->segment, .addr = nexthop->addr };
	struct neighbour *n;

	if (nexthop->vport) {
		copy16(d->dmac, nexthop->mac, ETH_ALEN);
		depends_on(d, to, d->dmac);
		d->out = nexthop->vport;
		d->action = ACTION_TUNNEL;
		return 0;
	}
	if (addr_is_zero(&key.addr))
		key.addr = *addr;
	n = bpf_map_lookup_elem(&neighbours, &key);
	step(p, STAGE_NEIGHBOUR, n ? 3 : 2, nexthop->segment);
	if (!n || mac_is_zero(n->mac)) {
		d->action = ACTION_RESOLVE;
		d->slow = SLOW_NEIGHBOUR;
		p->nexthop = key.addr;
		return 0;
	}
	copy16(d->dmac, n->mac, ETH_ALEN);
	depends_on(d, to, d->dmac);
	if (!is_still(&key, d))
		d->flags |= FLOW_NEVER_CURRENT;
	return fdb_find(p, d, d->dmac);
}

/* Routes to addr by a next hop. */
static __always_inline int route_via(struct pkt *p, struct decision *d,
				     const struct nexthop *nexthop, const struct addr *addr)
{
	struct segment *to = segment_get(nexthop->segment);

	d->to_segment = nexthop->segment;
	if (!to)
		return REASON_NO_ROUTE;
	if (to->flags & SEGMENT_UPLINK && is_tunnel_from_inside(p, addr))
		return REASON_TUNNEL_FROM_INSIDE;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	if (p->ttl <= 1)
		return REASON_TTL_EXCEEDED;
	return resolve_nexthop(p, d, nexthop, to, addr);
}

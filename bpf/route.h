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

#include "neighbour.h"

/* 64-bit mixing (multiply, fold), good enough to spread flows over ports and next hops. */
static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

/* Once more, so that all bits depend on all. */
static __always_inline __u64 mix_last(__u64 h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ (h >> 32);
}

/* Two products that do not wait for each other, and one over both. */
static __always_inline __u64 hash4(__u8 proto, __be32 saddr, __be32 daddr, __u32 ports)
{
	__u64 h = ((__u64)saddr << 32 | daddr) * 0x9e3779b97f4a7c15ULL;

	h ^= ((__u64)ports << 8 | proto) * 0xc2b2ae3d27d4eb4fULL;
	return mix_last(h);
}

static __always_inline __u64 hash6(__u8 proto, const __be32 *saddr, const __be32 *daddr,
				   __u32 ports)
{
	__u64 h = mix(proto, (__u64)saddr[0] << 32 | saddr[1]);

	h = mix(h, (__u64)saddr[2] << 32 | saddr[3]);
	h = mix(h, (__u64)daddr[0] << 32 | daddr[1]);
	h = mix(h, (__u64)daddr[2] << 32 | daddr[3]);
	return mix_last(mix(h, ports));
}

/* The same for all packets of a flow. What is not IP is told apart by MACs. */
static __always_inline __u64 hash_of(const struct flow_key *k)
{
	__u32 ports = (__u32)k->dport << 16 | k->sport;
	const __u32 *macs = key_macs(k);

	if (k->ethertype == bpf_htons(ETH_P_IP))
		return hash4(k->proto, k->saddr.w[3], k->daddr.w[3], ports);
	if (k->ethertype == bpf_htons(ETH_P_IPV6))
		return hash6(k->proto, k->saddr.w, k->daddr.w, ports);
	return mix_last(
		mix(mix(0, (__u64)macs[0] << 32 | macs[1]), (__u64)macs[2] << 32 | k->ethertype));
}

/* An address of the edge itself: it answers ping, and says so of anything else. */
static __always_inline int serve(struct pkt *p, struct decision *d)
{
	bool echo = is_v6(p) ? p->key.proto == IPPROTO_ICMPV6 && p->icmp_type == ICMPV6_ECHO :
			       p->key.proto == IPPROTO_ICMP && p->icmp_type == ICMP_ECHO;

	if (!echo || p->key.fragment)
		return REASON_NOT_SERVED;
	d->action = ACTION_ANSWER;
	d->slow = SLOW_ANSWERED;
	copy16(d->smac, p->key.dmac, ETH_ALEN);
	return 0;
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
static __always_inline struct hop *find_hop(struct pkt *p, __u32 router, int *why)
{
	struct route_key key = { .prefixlen = 160, .router = router, .addr = p->key.daddr };
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

/* The MAC address of the next hop, and where that is. */
static __always_inline int resolve_hop(struct pkt *p, struct decision *d, const struct hop *hop)
{
	struct neighbour_key key = { .segment = hop->segment, .addr = hop->addr };
	struct neighbour *n;

	if (hop->end) {
		copy16(d->dmac, hop->mac, ETH_ALEN);
		d->out = hop->end;
		d->action = ACTION_TUNNEL;
		return 0;
	}
	if (addr_is_zero(&key.addr))
		key.addr = p->key.daddr;
	n = bpf_map_lookup_elem(&neighbours, &key);
	step(p, STAGE_NEIGHBOUR, n ? 3 : 2, hop->segment);
	if (!n || mac_is_zero(n->mac)) {
		d->action = ACTION_ASK;
		d->slow = SLOW_NEIGHBOUR;
		p->key.daddr = key.addr; /* whom to ask for */
		return 0;
	}
	copy16(d->dmac, n->mac, ETH_ALEN);
	return find_end(p, d, d->dmac);
}

static __always_inline int route(struct pkt *p, struct segment *seg, struct decision *d)
{
	__u32 id = seg->router;
	struct router *router = bpf_map_lookup_elem(&routers, &id);
	struct segment *to;
	struct hop *hop;
	int why = 0;

	if (!is_ip(p) || !router)
		return REASON_NOT_ROUTED;
	if (local_segment(p, seg, &p->key.daddr))
		return serve(p, d);
	if (is_to_group(p) || addr_is_link_local(&p->key.daddr))
		return REASON_NOT_ROUTED;
	d->generation += router->generation;
	hop = find_hop(p, id, &why);
	if (!hop)
		return why;
	d->to_segment = hop->segment;
	to = segment_get(d->to_segment);
	if (!to)
		return REASON_NO_PREFIX;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	if (p->ttl <= 1)
		return REASON_TTL_EXCEEDED;
	return resolve_hop(p, d, hop);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * source_check: packets that a router does not forward because of who sends them: martians
 * (RFC 1812 5.3.7), sources that do not belong behind an uplink (RFC 3704), and tunnel packets
 * of inside hosts.
 *
 * in:    p, the ingress segment
 * out:   nothing
 * maps:  routes, nexthop_groups, nexthops, segments, teps
 * stops: MARTIAN, REVERSE_PATH, TUNNEL_FROM_INSIDE
 */
#pragma once

#include "tunnel/decap.h"

/* A link-local address (RFC 3927 7, RFC 4291 2.5.6): it does not leave its link. */
static __always_inline bool addr_is_on_link(const struct addr *a)
{
	return addr_is_v4(a) ? bpf_ntohl(a->w[3]) >> 16 == 0xa9fe : addr_is_link_local(a);
}

/* The same, "this" network, loopback and unspecified addresses (RFC 1122 3.2.1.3, RFC 4291 2.5). */
static __always_inline bool addr_is_unroutable(const struct addr *a)
{
	__u32 v4 = bpf_ntohl(a->w[3]);

	if (addr_is_on_link(a))
		return true;
	return addr_is_v4(a) ? !(v4 >> 24) || v4 >> 24 == 127 :
			       !(a->w[0] | a->w[1] | a->w[2]) && v4 <= 1;
}

struct reverse_path {
	__u32 group;
	__u32 segment; /* of the uplink, 0: any uplink will do */
	bool found;
};

static long find_reverse_path(__u64 index, struct reverse_path *r)
{
	struct nexthop_group *group = bpf_map_lookup_elem(&nexthop_groups, &r->group);
	struct nexthop *nexthop;
	struct segment *seg;
	__u32 id;

	if (!group)
		return 1;
	id = group->buckets[index & (NEXTHOP_BUCKETS - 1)];
	nexthop = bpf_map_lookup_elem(&nexthops, &id);
	seg = nexthop ? segment_get(nexthop->segment) : NULL;
	if (!seg)
		return 1;
	r->found = r->segment ? nexthop->segment == r->segment : seg->flags & SEGMENT_UPLINK;
	return r->found;
}

/*
 * Checks the source of a packet from an uplink. strict: the best route back leaves by this
 * uplink, or by several of which one is. Otherwise no route but a default one leads inside.
 */
SUBPROGRAM int reverse_path_check(struct pkt *p)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL;
	struct reverse_path r = {};
	struct route_key key = { .prefixlen = 160 };
	struct route *route;
	bool strict;

	if (!p || !seg)
		return REASON_REVERSE_PATH;
	strict = seg->flags & SEGMENT_RPF_STRICT;
	key.router = seg->router;
	key.addr = p->key.saddr;
	route = bpf_map_lookup_elem(&routes, &key);
	if (!route || (route->is_default && !strict))
		return strict ? REASON_REVERSE_PATH : 0;
	if (route->kind != ROUTE_GROUP)
		return REASON_REVERSE_PATH;
	r.group = route->group;
	r.segment = strict ? p->segment : 0;
	bpf_loop(NEXTHOP_BUCKETS, find_reverse_path, &r, 0);
	return r.found ? 0 : REASON_REVERSE_PATH;
}

/*
 * Whether a router accepts the source. for_edge: the packet is for an address of the edge, to
 * which a neighbour on the link may talk.
 */
static __always_inline int source_check(struct pkt *p, const struct segment *seg, bool for_edge)
{
	const struct addr *a = &p->key.saddr;

	if (for_edge && addr_is_on_link(a))
		return 0;
	if (addr_is_unroutable(a) || addr_is_no_host(a))
		return REASON_MARTIAN;
	if ((seg->flags & (SEGMENT_UPLINK | SEGMENT_RPF_OFF)) != SEGMENT_UPLINK)
		return 0;
	return reverse_path_check(p);
}

/* Whether the address is a TEP of this edge or of one of its remotes. */
static __always_inline bool is_fabric_tep(const struct addr *addr)
{
	struct path_key key = { .remote = *addr };

	if (is_tep(addr))
		return true;
	for (int i = 0; i < MAX_TEPS; i++) {
		for (int w = 0; w < 4; w++)
			key.local.w[w] = tep_addrs[i].w[w];
		if (key.local.w[3] && bpf_map_lookup_elem(&teps, &key))
			return true;
	}
	return false;
}

/*
 * Whether an inside host sends a tunnel packet to the fabric by an uplink. With NAT it could
 * have a TEP's address as source, and so enter any segment. A fragment may be of one, and so may
 * what is behind several extension headers.
 */
static __always_inline bool is_tunnel_from_inside(const struct pkt *p, const struct addr *to)
{
	struct segment *from = segment_get(p->segment);
	bool may_be = p->hidden || p->key.proto == IPPROTO_FRAGMENT;

	if (p->key.proto == IPPROTO_GRE)
		may_be = nvgre;
	if (p->key.proto == IPPROTO_UDP)
		may_be = p->key.fragment || udp_port_index(p->key.dport) >= 0;
	return may_be && from && !(from->flags & SEGMENT_UPLINK) && is_fabric_tep(to);
}

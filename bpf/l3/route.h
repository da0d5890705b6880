/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * route: routes a frame for a router's MAC address: to the edge itself, after DNAT, to an egress
 * gateway, or by the routes of the router.
 *
 * in:    p, the ingress segment
 * out:   the decision: egress segment, new MAC addresses, vport
 * maps:  routers, local_addrs, routes, nexthop_groups, nexthops, neighbours, fdb, segments
 * stops: NOT_ROUTED, MARTIAN, REVERSE_PATH, TUNNEL_FROM_INSIDE, NO_LOCAL_SERVICE, NO_ROUTE, BLACKHOLE, UNREACHABLE, PROHIBITED, TTL_EXCEEDED
 */
#pragma once

#include "l3/nexthop.h"
#include "nat/egress.h"
#ifndef XDP
#include "nat/destination.h"
#endif

/* An address of the edge itself. Only ping is answered. */
static __always_inline int serve(struct pkt *p, struct decision *d)
{
	return reply_to_echo(p, d) ? 0 : REASON_NO_LOCAL_SERVICE;
}

/* A reply to the edge itself: echo reply or ICMP error. */
static __always_inline bool is_answer(const struct pkt *p)
{
	if (is_v6(p))
		return p->key.proto == IPPROTO_ICMPV6 &&
		       (p->icmp_type < 128 || p->icmp_type == ICMPV6_ECHO_REPLY);
	return p->key.proto == IPPROTO_ICMP &&
	       (is_error4(p->icmp_type) || p->icmp_type == ICMP_ECHO_REPLY);
}

/* A multicast or broadcast address. */
static __always_inline bool is_to_group(const struct pkt *p)
{
	const struct addr *d = &p->key.daddr;

	return addr_is_multicast(d) || (!is_v6(p) && d->w[3] == ~0U);
}

#ifdef XDP

static __always_inline int route_translated(CTX *ctx __attribute__((unused)),
					    struct pkt *p __attribute__((unused)),
					    struct segment *seg __attribute__((unused)),
					    struct router *router __attribute__((unused)),
					    struct decision *d __attribute__((unused)),
					    __u32 ingress __attribute__((unused)))
{
	return NOT_OURS; /* to tc */
}

/* tc remembers what comes in by an uplink, so that the replies are not translated. */
static __always_inline bool is_left_to_tc(const struct pkt *p, const struct segment *seg)
{
	return seg->inbound & (is_v6(p) ? INBOUND_IPV6 : INBOUND_IPV4);
}

#else

static __always_inline bool is_left_to_tc(const struct pkt *p __attribute__((unused)),
					  const struct segment *seg __attribute__((unused)))
{
	return false;
}

/* To the remote that a session came from, in the segment of its policy. */
static __always_inline int route_to_remote(struct pkt *p, struct decision *d, __u32 segment,
					   const struct addr *remote)
{
	struct remote_key key = { .segment = segment, .addr = *remote };
	struct segment *to = segment_get(segment);
	__u32 *vport = bpf_map_lookup_elem(&remotes, &key);

	d->to_segment = segment;
	if (!to || !vport)
		return REASON_NO_UNDERLAY_ROUTE;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	d->action = ACTION_TUNNEL;
	d->out = *vport & ~REMOTE_NO_LEARNING;
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	copy16(d->dmac, to->gateway_mac, ETH_ALEN);
	depends_on(d, to, d->dmac);
	return p->ttl <= 1 ? REASON_TTL_EXCEEDED : 0;
}

/*
 * DNAT, then the route to the translated destination. Without one, the packet is for the edge's
 * own address. ingress: generation of the ingress segment.
 */
static __always_inline int route_translated(CTX *ctx, struct pkt *p, struct segment *seg,
					    struct router *router, struct decision *d,
					    __u32 ingress)
{
	__u32 untranslated = d->generation;
	struct nat_work *w = nat_work();
	struct egress_policy *e;
	struct nexthop *nexthop;
	int why;

	d->flags |= FLOW_DNAT;
	d->generation = ingress + generation_to(router, d, &p->key.daddr);
	/* Here, not in nat_destination(): the stacks of nested subprograms add up. */
	why = p->l4_parsed ? 0 : parse_l4_full(ctx, p);
	if (!why)
		why = nat_destination(p);
	if (why == REASON_NO_NAT_SESSION) {
		d->flags &= ~FLOW_NAT;
		d->generation = untranslated;
		return serve(p, d) ? why : 0;
	}
	if (why || !w)
		return why ? why : REASON_NOT_ROUTED;
	e = addr_is_zero(&w->via) ? NULL : egress_get(w->via_policy);
	if (e && e->segment)
		return route_to_remote(p, d, e->segment, &w->via);
	nexthop = find_nexthop(p, seg->router, &p->translation.dst, &why);
	return nexthop ? route_via(p, d, nexthop, &p->translation.dst) : why;
}

#endif

/* Routes to an address of the edge itself, which may need DNAT. */
static __always_inline int route_local(CTX *ctx, struct pkt *p, struct segment *seg,
				       struct router *router, struct decision *d, __u32 local,
				       __u32 ingress)
{
	struct nexthop *nexthop;
	int why = 0;

	if (!(local & LOCAL_NAT) && is_answer(p))
		return local_deliver(d);
	if (!(local & LOCAL_NAT))
		return serve(p, d);
	if (!with_nat) /* left over from the previous configuration */
		return REASON_NO_GATEWAY;
	if (!(seg->flags & SEGMENT_UPLINK)) {
		/* Hairpin: the reply has to come back here, or to the source's gateway. */
		nexthop = egress_nexthop(p, d, local & ~(LOCAL_NAT | LOCAL_LEASED), &why);
		if (nexthop)
			return route_via(p, d, nexthop, &p->key.daddr);
		if (why)
			return why;
	}
	return route_translated(ctx, p, seg, router, d, ingress);
}

static __always_inline int route(CTX *ctx, struct pkt *p, struct segment *seg, struct decision *d)
{
	__u32 id = seg->router, local, ingress = d->generation;
	struct router *router = bpf_map_lookup_elem(&routers, &id);
	struct nexthop *nexthop;
	int why = 0;

	if (!is_ip(p) || !router)
		return REASON_NOT_ROUTED;
	d->generation = ingress + generation_to(router, d, &p->key.daddr) +
			generation_from(router, seg, d, &p->key.saddr);
	local = find_local_addr(p, seg, &p->key.daddr);
	why = source_check(p, seg, local && !(local & LOCAL_NAT));
	if (why)
		return why;
	if (local)
		return route_local(ctx, p, seg, router, d, local, ingress);
	if (is_to_group(p) || addr_is_link_local(&p->key.daddr))
		return REASON_NOT_ROUTED;
	if (addr_is_unroutable(&p->key.daddr))
		return REASON_MARTIAN;
	nexthop = find_nexthop(p, id, &p->key.daddr, &why);
	if (is_left_to_tc(p, seg))
		return NOT_OURS;
	if (router->flags && (nexthop ? is_external(nexthop) : why == REASON_NO_ROUTE)) {
		struct nexthop *gateway;

		if (!with_nat)
			return REASON_NO_GATEWAY;
		gateway = egress_nexthop(p, d, nexthop ? nexthop->segment : 0, &why);
		if (gateway)
			nexthop = gateway;
		else if (why)
			return why;
		else if (!nexthop)
			return REASON_NO_ROUTE; /* no policy, or this edge translates and has no way */
	}
	return nexthop ? route_via(p, d, nexthop, &p->key.daddr) : why;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat: translates packets that leave or enter the overlay. The first packet of a connection
 * from inside creates a session, by the policy or uplink that nat/egress.h found. The first
 * packet from outside needs a port forward or an open mapping. Where translation is required,
 * nothing leaves without a session.
 *
 * in:    p->decision (FLOW_SNAT, FLOW_DNAT), the scratch's egress, the packet
 * out:   the scratch's translation; the route to a translated destination
 * maps:  nat_sessions, nat_reverse, port_forwards, nat_fragments, remotes, those of port_alloc.h
 * stops: NO_NAT_SESSION, NO_TRANSLATION, NAT_FRAGMENT, NAT_UNSUPPORTED, OUT_OF_STATE, TCP_FLAGS,
 *        UNRELATED, and those of port_alloc.h and l4.h
 */
#pragma once

#include "nat/dnat.h"
#include "nat/nat_fragments.h"
#include "nat/snat.h"
#include "l3/route.h"
#include "tunnel/multipath.h"

/* The route to a translated destination: where its session came from, or the router's. */
SUBPROGRAM int reroute(struct pkt *p)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL, *to;
	__u32 id = seg ? seg->router : 0, *vport;
	struct router *router = bpf_map_lookup_elem(&routers, &id);
	struct fw_scratch *h = fw_scratch();
	struct remote_key remote;
	struct decision *d;
	struct egress_policy *e;
	struct nexthop *nexthop;
	int why = 0;

	if (!p || !seg || !router || !h)
		return REASON_NOT_ROUTED;
	d = &p->decision;
	d->generation = generation_of(seg, p->key.smac) + generation_to(router, d, &p->key.daddr);
	e = addr_is_zero(&h->via_remote) ? NULL : egress_get(h->via_policy);
	if (!e || !e->segment) {
		nexthop = find_nexthop(p, id, &h->translation.dst, &why);
		if (!nexthop)
			return why;
		if (is_external(nexthop) &&
		    !(d->flags & FLOW_SNAT)) /* it would leave with a foreign source address */
			return REASON_NO_TRANSLATION;
		why = route_via(p, d, nexthop, &h->translation.dst);
		to = segment_get(d->to_segment);
		if (!why && to && d->action == ACTION_TUNNEL)
			d->out = select_path(p, to, d->out);
		return why;
	}
	remote.addr = h->via_remote;
	remote.segment = d->to_segment = e->segment;
	to = segment_get(d->to_segment);
	vport = bpf_map_lookup_elem(&remotes, &remote);
	if (!to || !vport)
		return REASON_NO_UNDERLAY_ROUTE;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	d->action = ACTION_TUNNEL;
	d->out = select_path(p, to, *vport & ~REMOTE_NO_LEARNING);
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	copy16(d->dmac, to->gateway_mac, ETH_ALEN);
	depends_on(d, to, d->dmac);
	return p->ttl <= 1 ? REASON_TTL_EXCEEDED : 0;
}

/* Translates the scratch's l4: the egress firewall sees translated addresses. */
static __always_inline void translate_l4(struct pkt *p, struct fw_scratch *h)
{
	struct l4_info *t = &h->l4;

	if (p->decision.flags & FLOW_SNAT) {
		t->src = h->translation.src;
		t->sport = h->translation.sport;
	}
	if (p->decision.flags & FLOW_DNAT) {
		t->dst = h->translation.dst;
		t->dport = h->translation.dport;
	}
}

/* Without a session, the packet is for the edge's own address. */
static __always_inline int serve_instead(struct pkt *p, int why)
{
	struct decision *d = &p->decision;

	if (why != REASON_NO_NAT_SESSION || d->action != ACTION_TRANSLATE)
		return why;
	d->flags &= ~(FLOW_NAT | FLOW_TRACKED);
	return serve(p, d) ? why : 0;
}

/* SNAT before DNAT: replies go to the translated source. */
static __always_inline int nat_both(CTX *ctx, struct pkt *p, struct fw_scratch *h, bool fresh)
{
	enum flow_flags flags = p->decision.flags;
	__u16 egress = h->egress;
	int why = 0;

	if (fresh && (flags & FLOW_NAT) == FLOW_NAT && !is_for_inside(p))
		return REASON_NO_NAT_SESSION;
	h->egress = egress;
	if (flags & FLOW_SNAT) {
		why = snat(ctx, p, fresh);
		if (why)
			return why;
		h->l4.src = p->decision.flags & FLOW_SNAT ? h->translation.src : h->l4.src;
		if (p->decision.flags & FLOW_SNAT)
			h->l4.sport = h->translation.sport;
	}
	return flags & FLOW_DNAT ? dnat(ctx, p, fresh) : 0;
}

/*
 * Finds the translation of a packet and, if its destination changes, its route. fresh: it has
 * no cached decision; otherwise its session is only updated.
 */
SUBPROGRAM int nat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct fw_scratch *h = fw_scratch();
	int why;

	if (!p || !h)
		return REASON_NAT_UNSUPPORTED;
	why = p->l4_parsed ? 0 : parse_l4_full(ctx, p);
	if (why)
		return why;
	p->decision.flags |= FLOW_TRACKED;
	if (h->l4.uncached)
		set_slow(p, p->key.fragment ? SLOW_FRAGMENT : SLOW_DEEP_PARSE);
	__builtin_memset(&h->translation, 0, sizeof(h->translation));
	h->via_remote = (struct addr){};
	h->created_inbound = false;
	if (h->l4.kind == L4_LATER_FRAGMENT)
		why = load_fragment(p, h);
	else
		why = serve_instead(p, nat_both(ctx, p, h, fresh));
	if (why)
		return why;
	if (h->l4.kind == L4_FIRST_FRAGMENT)
		store_fragment(p);
	translate_l4(p, h);
	return p->decision.action == ACTION_TRANSLATE ? reroute(p) : 0;
}

/* Deletes the session that the packet created from outside, when the egress firewall denies it. */
SUBPROGRAM int nat_undo(void)
{
	struct fw_scratch *h = fw_scratch();
	struct nat_orig *o;

	if (!h || !h->created_inbound)
		return 0;
	o = bpf_map_lookup_elem(&nat_reverse, &h->reverse_key);
	if (!o)
		return 0;
	h->stolen_key = h->reverse_key;
	h->stolen_key.inside = o->addr;
	h->stolen_key.inside_port = o->port;
	nat_session_delete(&h->stolen_key, &h->session, &h->reverse_key);
	return 0;
}

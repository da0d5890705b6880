/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * destination: DNAT before routing: whom a packet to an external address of the edge is for. A
 * part of the decision: it reads maps and changes nothing. The session comes later, see dnat.h.
 *
 * in:    p->l4_info, p->decision.flags (FLOW_SNAT: from inside, to come back to it)
 * out:   p->translation's destination, the work's via and via_policy
 * maps:  port_forwards, nat_reverse, nat_sessions, nat_fragments, egress_policies
 * stops: NO_NAT_SESSION, NAT_FRAGMENT
 */
#pragma once

#include "nat/nat_fragments.h"
#include "firewall/l4.h"

/* What a destination is translated to. */
struct nat_target {
	struct nat_orig host;
	struct addr via; /* remote that the host is behind, or zero */
	__u16 egress;	 /* policy or uplink of the session */
	__u16 pad;
};

/* Finds the port forward or open mapping of the reverse key in w->key. */
static __always_inline bool find_target(const struct l4_info *t, struct nat_work *w,
					struct nat_target *to)
{
	struct ct_key *key = &w->mapping_key;
	struct port_forward_key port = { .router = w->key.zone,
					 .proto = w->key.proto,
					 .port = w->key.inside_port,
					 .addr = w->key.inside };
	struct port_forward *f = bpf_map_lookup_elem(&port_forwards, &port);
	struct nat_orig *o;
	struct egress_policy *e;
	struct nat_session *m;

	if (f) {
		to->host.addr = f->addr;
		to->host.port = f->port;
		to->egress = f->egress;
		return t->proto != IPPROTO_TCP || (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	}
	set_mapping_key(w);
	o = bpf_map_lookup_elem(&nat_reverse, key);
	if (!o)
		return false;
	to->host = *o;
	undo_reverse_key(key, o);
	m = bpf_map_lookup_elem(&nat_sessions, key);
	e = m ? egress_get(m->egress) : NULL;
	if (!e || !(e->flags & EGRESS_OPEN))
		return false;
	to->egress = m->egress;
	to->via = m->via;
	return true;
}

/* The source of the packet after SNAT, if it has a session already. */
static __always_inline void translated_source(const struct pkt *p, struct nat_work *w,
					      struct tuple *u)
{
	struct nat_session *s;

	*u = p->l4_info.tuple;
	if (!(p->decision.flags & FLOW_SNAT))
		return;
	make_ct_key(&w->key, &p->l4_info, u, router_of(p), true);
	s = bpf_map_lookup_elem(&nat_sessions, &w->key);
	if (s) {
		u->src = s->addr;
		u->sport = s->port;
	}
}

/* The target of the packet: that of its session, else of a forward or mapping. */
static __always_inline bool find_destination(const struct pkt *p, struct nat_work *w,
					     struct nat_target *to)
{
	struct nat_session *s = NULL;
	struct nat_orig *o;
	struct tuple u;

	translated_source(p, w, &u);
	make_ct_key(&w->key, &p->l4_info, &u, router_of(p), false);
	w->reverse_key = w->key;
	o = bpf_map_lookup_elem(&nat_reverse, &w->key);
	if (o) {
		to->host = *o;
		undo_reverse_key(&w->key, o);
		s = bpf_map_lookup_elem(&nat_sessions, &w->key);
	}
	if (!s) { /* there is none, or another core is creating it */
		w->key = w->reverse_key;
		return find_target(&p->l4_info, w, to);
	}
	to->via = s->via;
	to->egress = s->egress;
	return true;
}

/* Finds the destination. NO_NAT_SESSION: there is none, and the packet is for the edge itself. */
SUBPROGRAM int nat_destination(struct pkt *p)
{
	struct nat_work *w = nat_work();
	struct nat_target to = {};

	if (!p || !w)
		return REASON_NO_NAT_SESSION;
	w->via = (struct addr){};
	if (p->l4_info.kind == L4_LATER_FRAGMENT)
		return load_fragment(p, w);
	if (!find_destination(p, w, &to))
		return REASON_NO_NAT_SESSION;
	p->translation.dst = to.host.addr;
	p->translation.dport = to.host.port;
	w->via = to.via;
	w->via_policy = to.egress;
	step(p, STAGE_NAT, FLOW_DNAT | (__u32)to.egress << 16, bpf_ntohs(to.host.port));
	return 0;
}

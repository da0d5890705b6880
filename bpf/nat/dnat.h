/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * dnat: the session of a packet whose destination is translated, found or created. Where the
 * packet goes was decided before, see destination.h.
 *
 * in:    p->l4_info, the source after SNAT, p->translation's destination
 * out:   a session
 * maps:  port_forwards, nat_reverse, nat_sessions
 * stops: NO_NAT_SESSION, NAT_LIMIT, NAT_FULL, UNRELATED
 */
#pragma once

#include "nat/destination.h"

/* Creates a session for a connection from outside. */
static __always_inline int create_dnat_session(CTX *ctx, struct pkt *p, struct nat_work *w,
					       const struct nat_target *to)
{
	struct egress_policy *e = egress_get(to->egress);
	int why = 0;

	if (p->l4_info.kind == L4_ICMP_ERROR)
		return REASON_UNRELATED;
	w->reverse_key = w->key;
	nat_session_init(ctx, p, w, to->egress, false);
	w->session.addr = w->key.inside;
	w->session.port = w->key.inside_port;
	w->session.via = to->via;
	w->key.inside = to->host.addr;
	w->key.inside_port = to->host.port;
	if (tracing)
		return 0;
	if (!nat_host_admit(&w->key, NAT_SESSION_FORWARDED, e ? e->limit : 0))
		return REASON_NAT_LIMIT;
	why = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &to->host, BPF_NOEXIST) ?
		      REASON_NAT_FULL :
		      nat_session_insert(w, &w->key);
	if (why) {
		nat_host_release(&w->key, NAT_SESSION_FORWARDED);
		return why;
	}
	p->opened_session = true;
	count(EVENT_NAT_CREATED);
	nat_event_emit(&w->key, &w->session, NAT_EVENT_CREATED);
	return 0;
}

/* Whether the packet was routed to the target. It was not if its source had another session then. */
static __always_inline bool is_routed_to(const struct pkt *p, const struct nat_orig *host)
{
	return addr_equal(&p->translation.dst, &host->addr) && p->translation.dport == host->port;
}

/* DNAT: the session of the destination, or a new one. The source is translated already. */
SUBPROGRAM int dnat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct nat_work *w = nat_work();
	struct nat_target to = {};
	struct nat_session *s;
	struct nat_orig *o;
	struct tuple u;
	int why;

	if (!p || !w)
		return REASON_NO_NAT_SESSION;
	u = p->l4_info.tuple;
	u.src = p->translation.src;
	u.sport = p->translation.sport;
	make_ct_key(&w->key, &p->l4_info, &u, router_of(p), false);
	o = bpf_map_lookup_elem(&nat_reverse, &w->key);
	if (o) {
		to.host = *o;
		w->reverse_key = w->key;
		undo_reverse_key(&w->key, &to.host);
		s = nat_session_find(p, w);
		if (!s || !is_routed_to(p, &to.host))
			return REASON_NO_NAT_SESSION;
		why = track_session(ctx, p, s, false);
		refresh_mapping(p, w, s);
		return why;
	}
	if (!fresh || !find_target(&p->l4_info, w, &to) || !is_routed_to(p, &to.host))
		return REASON_NO_NAT_SESSION;
	return create_dnat_session(ctx, p, w, &to);
}

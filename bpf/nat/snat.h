/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * snat: translates the source, in the session of the connection or in a new one.
 *
 * in:    p->l4_info, p->egress
 * out:   p->translation's source, or FLOW_SNAT is cleared
 * maps:  those of nat_session.h and inbound.h
 * stops: NO_NAT_SESSION, NAT_LIMIT, and those of inbound.h and port_alloc.h
 */
#pragma once

#include "nat/inbound.h"

/* Creates a session for a connection from inside. */
static __always_inline int create_snat_session(CTX *ctx, struct pkt *p, struct nat_work *w)
{
	struct egress_policy *e = egress_get(p->egress);
	int why = may_create_session(&p->l4_info);

	if (why || !e)
		return why ? why : REASON_NO_GATEWAY;
	nat_session_init(ctx, p, w, p->egress, true);
	w->session.via = via_of(p);
	why = tracing ? 0 : nat_admit(&w->key, &w->session);
	if (why)
		return why;
	why = allocate_port(p, w, e);
	if (!why && !tracing)
		why = nat_session_insert(w, &w->key);
	if (why && !tracing)
		nat_release(&w->key, &w->session);
	if (why)
		return why;
	p->opened_snat = !tracing;
	count(EVENT_NAT_CREATED);
	nat_event_emit(&w->key, &w->session, NAT_EVENT_CREATED);
	return 0;
}

/* A packet that has a session already. */
static __always_inline int follow_snat(CTX *ctx, struct pkt *p, struct nat_work *w,
				       struct nat_session *s)
{
	int why = track_session(ctx, p, s, true);

	refresh_mapping(p, w, s);
	if (p->l4_info.kind != L4_ICMP_ERROR && !tracing)
		note_via(p, s);
	if (!why && s->flags & NAT_SESSION_UNTRANSLATED)
		why = pass_untranslated(p);
	return why;
}

/* A packet without a session. Sets *s to it, if it has one then that it is not the first of. */
static __always_inline int open_snat(CTX *ctx, struct pkt *p, struct nat_work *w,
				     struct nat_session **s)
{
	struct nat_session *first = find_inbound(p, &w->key);
	int why;

	if (has_no_pool(&w->key, egress_get(p->egress)))
		return pass_untranslated(p);
	why = first ? accept_inbound(p, w, first) : create_snat_session(ctx, p, w);
	if ((why || first) && !tracing) /* another core may have been faster */
		*s = bpf_map_lookup_elem(&nat_sessions, &w->key);
	return why;
}

/* SNAT: the session of the source, or a new one. */
SUBPROGRAM int snat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct nat_work *w = nat_work();
	struct nat_session *s;
	int why = REASON_NO_NAT_SESSION;

	if (!p || !w)
		return REASON_NO_NAT_SESSION;
	make_ct_key(&w->key, &p->l4_info, &p->l4_info.tuple, router_of(p), true);
	s = nat_session_find(p, w);
	if (!s && fresh)
		why = open_snat(ctx, p, w, &s);
	if (s)
		why = follow_snat(ctx, p, w, s);
	else
		s = &w->session;
	p->translation.src = s->addr;
	p->translation.sport = s->port;
	step(p, STAGE_NAT, FLOW_SNAT | (__u32)s->egress << 16, bpf_ntohs(s->port));
	return why;
}

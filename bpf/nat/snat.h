/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * snat: translates the source, in the session of the connection or in a new one.
 *
 * in:    p->l4_info, p->egress
 * out:   p->translation's source, or FLOW_SNAT is cleared
 * maps:  those of nat_session.h
 * stops: NO_NAT_SESSION, NAT_LIMIT, and those of nat_track.h and port_alloc.h
 */
#pragma once

#include "nat/nat_track.h"

/* Creates a session for a connection from inside. */
static __always_inline int create_snat_session(CTX *ctx, struct pkt *p, struct nat_work *w)
{
	struct egress_policy *e = egress_get(p->egress);
	int why;

	if (has_no_pool(&w->key, e))
		return pass_untranslated(p);
	why = may_create_session(&p->l4_info);
	if (why)
		return why;
	if (!tracing && !nat_host_admit(&w->key, 0, e->limit))
		return REASON_NAT_LIMIT;
	nat_session_init(ctx, p, w, p->egress, true);
	w->session.via = via_of(p);
	why = allocate_port(p, w, e);
	if (!why && !tracing)
		why = nat_session_insert(w, &w->key);
	if (why && !tracing)
		nat_host_release(&w->key, 0);
	if (why)
		return why;
	count(EVENT_NAT_CREATED);
	nat_event_emit(&w->key, &w->session, NAT_EVENT_CREATED);
	return 0;
}

/* SNAT: the session of the source, or a new one. */
SUBPROGRAM int snat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct nat_work *w = nat_work();
	struct nat_session *s;
	int why;

	if (!p || !w)
		return REASON_NO_NAT_SESSION;
	make_ct_key(&w->key, &p->l4_info, &p->l4_info.tuple, router_of(p), true);
	s = nat_session_find(p, w);
	if (s) {
		why = track_session(ctx, p, s, true);
		refresh_mapping(p, w, s);
		if (p->l4_info.kind != L4_ICMP_ERROR && !tracing)
			note_via(p, s);
	} else {
		why = fresh ? create_snat_session(ctx, p, w) : REASON_NO_NAT_SESSION;
		s = &w->session;
	}
	p->translation.src = s->addr;
	p->translation.sport = s->port;
	step(p, STAGE_NAT, FLOW_SNAT | (__u32)s->egress << 16, bpf_ntohs(s->port));
	return why;
}

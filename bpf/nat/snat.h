/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * snat: translates the source, in the session of the connection or in a new one.
 *
 * in:    the scratch's l4 and egress
 * out:   the scratch's translation
 * maps:  those of nat_session.h
 * stops: NO_NAT_SESSION, NAT_LIMIT, and those of nat_track.h and port_alloc.h
 */
#pragma once

#include "nat/nat_track.h"

/* Creates a session for a connection from inside. */
static __always_inline int create_snat_session(CTX *ctx, struct pkt *p, struct fw_scratch *h)
{
	struct egress_policy *e = egress_get(h->egress);
	int why;

	if (has_no_pool(h, e))
		return pass_untranslated(p);
	why = may_create_session(&h->l4);
	if (why)
		return why;
	if (!tracing && !nat_host_admit(&h->key, 0, e->limit))
		return REASON_NAT_LIMIT;
	nat_session_init(ctx, p, h, true);
	h->session.via = via_of(p);
	why = allocate_port(p, h, e);
	if (!why && !tracing)
		why = nat_session_insert(h, &h->key);
	if (why && !tracing)
		nat_host_release(&h->key, 0);
	if (why)
		return why;
	count(EVENT_NAT_CREATED);
	nat_event_emit(&h->key, &h->session, NAT_EVENT_CREATED);
	return 0;
}

/* SNAT: the session of the source, or a new one. */
SUBPROGRAM int snat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct fw_scratch *h = fw_scratch();
	struct nat_session *s;
	int why;

	if (!p || !h)
		return REASON_NO_NAT_SESSION;
	make_ct_key(h, router_of(p), true);
	s = nat_session_find(p, h);
	if (s) {
		why = track_session(ctx, p, s, true);
		refresh_mapping(p, h, s);
		if (h->l4.kind != L4_ICMP_ERROR && !tracing)
			note_via(p, s);
	} else {
		why = fresh ? create_snat_session(ctx, p, h) : REASON_NO_NAT_SESSION;
		s = &h->session;
	}
	h->translation.src = s->addr;
	h->translation.sport = s->port;
	step(p, STAGE_NAT, FLOW_SNAT | (__u32)s->egress << 16, bpf_ntohs(s->port));
	return why;
}

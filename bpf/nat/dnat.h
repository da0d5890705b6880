/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * dnat: the session of a packet whose destination is translated, found or created. Where the
 * packet goes was decided before, see destination.h.
 *
 * in:    p->l4_info, the source after SNAT, p->translation's destination
 * out:   a session
 * maps:  port_forwards, nat_reverse, nat_sessions
 * stops: NO_NAT_SESSION, NAT_LIMIT, NAT_FULL, NAT_CONFLICT, UNRELATED
 */
#pragma once

#include "nat/destination.h"

/*
 * Whether the client has a connection to the host by another way, from the same port: the host
 * cannot tell them apart. One that is over is deleted.
 */
static __always_inline bool has_conflict(const struct pkt *p, struct nat_work *w)
{
	struct nat_session *s = bpf_map_lookup_elem(&nat_sessions, &w->key);

	if (!s || (addr_equal(&s->addr, &w->session.addr) && s->port == w->session.port))
		return false;
	if (!ct_is_closed(&s->ct, w->key.proto) || !outlived_cache(s, p->now_ns))
		return true;
	nat_session_delete(&w->key, s, &w->stolen_reverse);
	return false;
}

/* Inserts the session with its reverse key. -EEXIST: another core is doing so. */
static __always_inline int insert_dnat_session(struct nat_work *w)
{
	long err = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &w->orig, BPF_NOEXIST);

	if (err == -EEXIST && steal_port(w)) { /* left over, or of a closed session */
		make_reverse_key(&w->reverse_key, &w->key, &w->session.addr, w->session.port);
		err = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &w->orig, BPF_NOEXIST);
	}
	if (err)
		return err == -EEXIST ? -EEXIST : REASON_NAT_FULL;
	return nat_session_insert(w, &w->key);
}

/* Creates a session for a connection from outside. */
static __always_inline int create_dnat_session(CTX *ctx, struct pkt *p, struct nat_work *w,
					       const struct nat_target *to)
{
	int why;

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
	if (has_conflict(p, w))
		return REASON_NAT_CONFLICT;
	why = nat_admit(&w->key, &w->session);
	if (why)
		return why;
	set_origin(w, &w->key);
	why = insert_dnat_session(w);
	if (why) {
		nat_release(&w->key, &w->session);
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

static __always_inline int follow_dnat(CTX *ctx, struct pkt *p, struct nat_work *w,
				       struct nat_session *s)
{
	int why = track_session(ctx, p, s, false);

	refresh_mapping(p, w, s);
	return why;
}

/* A packet without a session. */
static __always_inline int open_dnat(CTX *ctx, struct pkt *p, struct nat_work *w)
{
	struct nat_target to = {};
	struct nat_session *s;
	int why;

	if (!find_target(&p->l4_info, w, &to) || !is_routed_to(p, &to.host))
		return REASON_NO_NAT_SESSION;
	why = create_dnat_session(ctx, p, w, &to);
	if (!why || why == REASON_NAT_CONFLICT || why == REASON_UNRELATED)
		return why;
	s = bpf_map_lookup_elem(&nat_sessions, &w->key); /* another core may have been faster */
	if (s)
		return follow_dnat(ctx, p, w, s);
	if (why != -EEXIST)
		return why;
	p->decision.flags |= FLOW_NEVER_CURRENT; /* the next packet finds the session */
	return 0;
}

/* DNAT: the session of the destination, or a new one. The source is translated already. */
SUBPROGRAM int dnat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct nat_work *w = nat_work();
	struct nat_session *s = NULL;
	struct nat_orig *o, host;
	struct tuple u;

	if (!p || !w)
		return REASON_NO_NAT_SESSION;
	u = p->l4_info.tuple;
	u.src = p->translation.src;
	u.sport = p->translation.sport;
	make_ct_key(&w->key, &p->l4_info, &u, router_of(p), false);
	w->reverse_key = w->key;
	o = bpf_map_lookup_elem(&nat_reverse, &w->key);
	if (o) {
		host = *o;
		undo_reverse_key(&w->key, &host);
		s = nat_session_find(p, w);
	}
	if (s)
		return is_routed_to(p, &host) ? follow_dnat(ctx, p, w, s) : REASON_NO_NAT_SESSION;
	w->key = w->reverse_key; /* that one has expired, or another core is creating it */
	return fresh ? open_dnat(ctx, p, w) : REASON_NO_NAT_SESSION;
}

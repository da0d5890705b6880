/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat: the sessions of packets that leave or enter the overlay. DNAT comes before routing
 * (destination.h), SNAT after it. The first packet of a connection from inside creates a session,
 * by the policy or uplink that nat/egress.h found. The first packet from outside needs a port
 * forward or an open mapping. Where translation is required, nothing leaves without a session.
 *
 * in:    p->decision (FLOW_SNAT, FLOW_DNAT), p->egress, p->translation's destination, the packet
 * out:   p->translation, sessions
 * maps:  nat_sessions, nat_reverse, port_forwards, nat_fragments, nat_inbound, those of
 *        port_alloc.h
 * stops: NO_NAT_SESSION, NO_TRANSLATION, NAT_FRAGMENT, NAT_UNSUPPORTED, NAT_CONFLICT,
 *        OUT_OF_STATE, TCP_FLAGS, UNRELATED, and those of port_alloc.h and l4.h
 */
#pragma once

#include "nat/dnat.h"
#include "nat/snat.h"

/* Whether the packet would leave the overlay with an inside source address. */
static __always_inline bool leaks_source(const struct pkt *p)
{
	struct segment *to = segment_get(p->decision.to_segment);

	return !(p->decision.flags & FLOW_SNAT) && to && to->flags & SEGMENT_UPLINK;
}

/* SNAT before the session of DNAT: replies go to the translated source. */
static __always_inline int translate(CTX *ctx, struct pkt *p, bool fresh)
{
	enum flow_flags flags = p->decision.flags;
	int why = 0;

	if (flags & FLOW_SNAT)
		why = snat(ctx, p, fresh);
	if (why)
		return why;
	if (!(p->decision.flags & FLOW_SNAT)) {
		p->translation.src = p->l4_info.tuple.src;
		p->translation.sport = p->l4_info.tuple.sport;
	}
	if (flags & FLOW_DNAT)
		return leaks_source(p) ? REASON_NO_TRANSLATION : dnat(ctx, p, fresh);
	p->translation.dst = p->l4_info.tuple.dst;
	p->translation.dport = p->l4_info.tuple.dport;
	return 0;
}

/*
 * Finds or creates the sessions of a packet. fresh: it has no cached decision; otherwise its
 * sessions are only updated.
 */
SUBPROGRAM int nat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct nat_work *w = nat_work();
	int why;

	if (!p || !w)
		return REASON_NAT_UNSUPPORTED;
	why = nat_begin(ctx, p);
	if (why)
		return why;
	if (p->l4_info.kind == L4_LATER_FRAGMENT)
		return load_fragment(p, w);
	why = translate(ctx, p, fresh);
	if (!why && p->l4_info.kind == L4_FIRST_FRAGMENT)
		store_fragment(p);
	return why;
}

/* The same for a packet that nothing translates. */
static __always_inline int nat_beside(CTX *ctx, struct pkt *p)
{
	bool in;

	return is_untranslated(p, &in) ? nat_untranslated(ctx, p, in) : 0;
}

/* Deletes the session that the packet created from outside. w->key is still its: only NAT writes it. */
static __always_inline void undo_from_outside(struct nat_work *w)
{
	if (w->session.flags & NAT_SESSION_UNTRANSLATED)
		bpf_map_delete_elem(&nat_inbound, &w->key);
	else
		nat_session_delete(&w->key, &w->session, &w->reverse_key);
}

/* Deletes what the packet created, of SNAT and DNAT: a later stage refuses it. */
static __always_inline void nat_undo(const struct pkt *p)
{
	struct nat_work *w = nat_work();
	struct nat_session *s;

	if (!w)
		return;
	if (p->opened_session)
		undo_from_outside(w);
	if (!p->opened_snat)
		return;
	make_ct_key(&w->key, &p->l4_info, &p->l4_info.tuple, router_of(p), true);
	s = bpf_map_lookup_elem(&nat_sessions, &w->key);
	if (s)
		nat_session_delete(&w->key, s, &w->reverse_key);
}

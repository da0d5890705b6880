/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * inbound: connections that come in by an uplink to an address of the overlay itself. Their packets
 * keep their addresses, in both directions: what is translated is decided by the first packet of a
 * connection. That is only noted. The host's reply makes a session of it, so that whoever asks from
 * outside and gets no answer takes no place in the table.
 *
 * in:    p->l4_info, p->decision
 * out:   a session whose external address is the inside one; FLOW_SNAT is cleared
 * maps:  nat_inbound, those of nat_session.h
 * stops: NAT_LIMIT, NAT_FULL, NO_TRANSLATION, and those of nat_track.h
 */
#pragma once

#include "firewall/share.h"
#include "nat/nat_track.h"

/* Whether replies to what comes in by the segment's uplink may be translated. */
static __always_inline bool has_inbound(const struct pkt *p, __u32 id)
{
	struct segment *seg = segment_get(id);

	return seg && seg->inbound & (is_v6(p) ? INBOUND_IPV6 : INBOUND_IPV4);
}

/* Whether the packet may belong to a connection that came in untranslated. *in: it comes in. */
static __always_inline bool is_untranslated(const struct pkt *p, bool *in)
{
	if ((p->decision.flags & (FLOW_ROUTED | FLOW_NAT)) != FLOW_ROUTED)
		return false;
	*in = has_inbound(p, p->segment);
	return *in != has_inbound(p, p->decision.to_segment);
}

/*
 * Gives the note with w->key a slot of the vport that the packet goes to, see firewall/share.h: who sends to
 * one host takes no notes of others. A note that goes before its reply came is counted.
 */
static __always_inline void inbound_slot(const struct pkt *p, struct nat_work *w)
{
	struct ct_key *slot = &w->inbound_slot, *noted = (struct ct_key *)&w->slot;
	struct nat_session *before, *note;

	__builtin_memset(slot, 0, sizeof(*slot));
	slot->zone = SHARE_SLOT | p->decision.out;
	slot->inside.w[0] = next_slot(p->decision.out) & nat_inbound_mask;
	before = bpf_map_lookup_elem(&nat_inbound, slot);
	if (before) {
		*noted = *(struct ct_key *)before;
		note = bpf_map_lookup_elem(&nat_inbound, noted);
		if (note && !nat_session_expired(note, noted, p->now_ns))
			count(EVENT_NAT_INBOUND_EVICTED);
		if (note)
			bpf_map_delete_elem(&nat_inbound, noted);
	}
	*noted = w->key;
	bpf_map_update_elem(&nat_inbound, slot, &w->slot, BPF_ANY);
}

/*
 * Notes the first packet of a connection from outside. w->key is its key. A note that another packet
 * left stays, should a later stage refuse this one; only another SYN, or datagram, renews it.
 */
static __always_inline void note_inbound(CTX *ctx, struct pkt *p, struct nat_work *w)
{
	const struct l4_info *t = &p->l4_info;

	if (t->kind == L4_ICMP_ERROR || tracing ||
	    (t->proto == IPPROTO_TCP && !tcp_flags_fit(t->flags)))
		return;
	if (t->proto == IPPROTO_ICMP || t->proto == IPPROTO_ICMPV6 ? t->echo_dir != 1 :
								     may_create_session(t))
		return;
	nat_session_init(ctx, p, w, 0, false);
	w->session.flags |= NAT_SESSION_UNTRANSLATED;
	w->session.addr = w->key.inside;
	w->session.port = w->key.inside_port;
	p->opened_session =
		bpf_map_update_elem(&nat_inbound, &w->key, &w->session, BPF_NOEXIST) == 0;
	if (p->opened_session)
		inbound_slot(p, w);
	if (p->opened_session || (t->proto == IPPROTO_TCP && !(t->flags & TCP_SYN)))
		return;
	bpf_map_update_elem(&nat_inbound, &w->key, &w->session, BPF_EXIST);
}

/* A packet that nothing translates, from an uplink or to one. */
SUBPROGRAM int nat_untranslated(CTX *ctx, struct pkt *p, bool in)
{
	struct nat_work *w = nat_work();
	struct nat_session *s;
	int why;

	if (!p || !w)
		return REASON_NAT_UNSUPPORTED;
	why = nat_begin(ctx, p);
	if (why)
		return why;
	if (p->l4_info.kind == L4_LATER_FRAGMENT)
		return 0;
	make_ct_key(&w->key, &p->l4_info, &p->l4_info.tuple, router_of(p), !in);
	s = nat_session_find(p, w);
	if (s && s->flags & NAT_SESSION_UNTRANSLATED)
		return track_session(ctx, p, s, !in);
	if (in && !s)
		note_inbound(ctx, p, w);
	return 0;
}

/* The connection from outside that a packet from inside replies to, or NULL. */
static __always_inline struct nat_session *find_inbound(const struct pkt *p,
							const struct ct_key *key)
{
	const struct l4_info *t = &p->l4_info;
	struct nat_session *s = bpf_map_lookup_elem(&nat_inbound, key);

	if (!s || nat_session_expired(s, key, p->now_ns))
		return NULL;
	/* Both ends open a connection: the host's own one is translated. */
	if (t->kind != L4_ICMP_ERROR && t->proto == IPPROTO_TCP &&
	    (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return NULL;
	return s;
}

/* Makes a session of the connection from outside, which the host answers. */
static __always_inline int accept_inbound(struct pkt *p, struct nat_work *w,
					  const struct nat_session *first)
{
	const struct l4_info *t = &p->l4_info;
	int why = pass_untranslated(p);
	long err;

	if (why || t->kind == L4_ICMP_ERROR || (t->proto == IPPROTO_TCP && t->flags & TCP_RST) ||
	    tracing)
		return why;
	w->session = *first;
	w->session.egress = p->egress;
	w->session.via = via_of(p);
	why = nat_admit(&w->key, &w->session);
	if (why)
		return why;
	set_origin(w, &w->key);
	make_reverse_key(&w->reverse_key, &w->key, &w->session.addr, w->session.port);
	err = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &w->orig, BPF_NOEXIST);
	why = err ? REASON_NAT_FULL : nat_session_insert(w, &w->key);
	if (why)
		nat_release(&w->key, &w->session);
	if (err == -EEXIST) { /* another core is doing so: the next packet finds the session */
		p->decision.flags |= FLOW_NEVER_CURRENT;
		return 0;
	}
	if (why)
		return why;
	bpf_map_delete_elem(&nat_inbound, &w->key);
	count(EVENT_NAT_CREATED);
	nat_event_emit(&w->key, &w->session, NAT_EVENT_CREATED);
	return 0;
}

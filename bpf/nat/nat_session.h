/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat_session: creates sessions.
 *
 * in:    p, the key, the policy or uplink
 * out:   a session, in the table with its reverse key
 * maps:  nat_sessions, nat_reverse, nat_host_counts, nat_unanswered, owner_limits, owner_usages
 * stops: NAT_EXHAUSTED, NAT_FULL, NAT_LIMIT, and those of port_alloc.h
 */
#pragma once

#include "nat/early_drop.h"
#include "nat/port_alloc.h"

/* Counts a session of the source, unless it has as many as allowed. */
static __always_inline bool nat_host_admit(const struct ct_key *k, __u32 flags, __u32 limit)
{
	struct nat_host_key key = nat_host_of(k, flags);
	struct nat_host_count *n, one = { .count = 1 };

	n = bpf_map_lookup_elem(&nat_host_counts, &key);
	if (!n && bpf_map_update_elem(&nat_host_counts, &key, &one, BPF_NOEXIST) == 0)
		return true;
	if (!n) /* another core was faster, or the table is full */
		n = bpf_map_lookup_elem(&nat_host_counts, &key);
	if (!n)
		return !limit;
	/* Garbage collection, which corrects the count, may run before this: it may be negative. */
	if (limit && (__s32)n->count >= (__s32)limit)
		return false;
	__sync_fetch_and_add(&n->count, 1);
	return true;
}

/*
 * Counts the session, unless its source, or the port or segment that opened it, has as many as
 * allowed. Those that are over are not counted: they can go when there is no room.
 */
static __always_inline int nat_admit(const struct ct_key *key, const struct nat_session *s)
{
	struct egress_policy *e = egress_get(s->egress);
	bool inbound = s->flags & NAT_SESSION_FORWARDED;
	__u32 limit = 0;

	if (e)
		limit = inbound ? e->inbound_limit : e->limit;
	if (count_exceeded(s->vport, COUNT_NAT_SESSIONS) ||
	    count_exceeded(SEGMENT_OWNER + s->segment, COUNT_NAT_SESSIONS) ||
	    !nat_host_admit(key, s->flags, limit))
		return REASON_NAT_LIMIT;
	count_entry(s->vport, COUNT_NAT_SESSIONS, 1);
	count_entry(SEGMENT_OWNER + s->segment, COUNT_NAT_SESSIONS, 1);
	return 0;
}

/*
 * Inserts w->session, whose reverse key is inserted already. That is deleted if the table is full,
 * or if another core has inserted the session meanwhile: then callers find it.
 */
static __always_inline int nat_session_insert(struct nat_work *w, const struct ct_key *key)
{
	long err = bpf_map_update_elem(&nat_sessions, key, &w->session, BPF_NOEXIST);

	for (int i = 0; i < ROOM_TRIES && err == -E2BIG && make_room(w); i++)
		err = bpf_map_update_elem(&nat_sessions, key, &w->session, BPF_NOEXIST);
	if (!err) {
		if (!ct_is_answered(&w->session.ct, key->proto))
			note_dispensable(&nat_unanswered, w, key);
		return 0;
	}
	make_reverse_key(&w->reverse_key, key, &w->session.addr, w->session.port);
	bpf_map_delete_elem(&nat_reverse, &w->reverse_key);
	return REASON_NAT_FULL;
}

/* Sets the key of the mapping of w->key's source. */
static __always_inline void set_mapping_key(struct nat_work *w)
{
	w->mapping_key = w->key;
	w->mapping_key.outside = (struct addr){};
	w->mapping_key.outside_port = 0;
}

/*
 * A port of the source's mapping, which all its connections share. A mapping is a session
 * without outside, which holds the port for all destinations.
 */
static __always_inline int independent_port(struct pkt *p, struct nat_work *w)
{
	struct ct_key *key = &w->mapping_key;
	struct nat_session *m;
	long err;
	int why;

	set_mapping_key(w);
	m = bpf_map_lookup_elem(&nat_sessions, key);
	if (m) {
		m->ct.seen_ns = p->now_ns;
		w->session.addr = m->addr;
		w->session.port = m->port;
	} else {
		why = find_port(key, p->egress);
		if (why)
			return why;
		w->session.flags = NAT_SESSION_MAPPING;
		why = nat_session_insert(w, key);
		m = why ? bpf_map_lookup_elem(&nat_sessions, key) : NULL;
		if (why && !m)
			return why;
		if (m) { /* another core was faster */
			w->session.addr = m->addr;
			w->session.port = m->port;
		}
	}
	w->session.flags = NAT_SESSION_INDEPENDENT; /* the mapping has other flags */
	set_origin(w, &w->key);
	make_reverse_key(&w->reverse_key, &w->key, &w->session.addr, w->session.port);
	err = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &w->orig, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? REASON_NAT_EXHAUSTED : REASON_NAT_FULL;
	return 0;
}

/* The address and port of a new connection. */
static __always_inline int allocate_port(struct pkt *p, struct nat_work *w,
					 const struct egress_policy *e)
{
	if (tracing)
		return dry_run(w, e);
	if (e->flags & EGRESS_INDEPENDENT && has_port(&w->key) && w->key.proto != IPPROTO_SCTP)
		return independent_port(p, w);
	return find_port(&w->key, p->egress);
}

/* Initialises w->session. out: opened from inside. */
static __always_inline void nat_session_init(CTX *ctx, struct pkt *p, struct nat_work *w,
					     __u16 egress, bool out)
{
	struct nat_session *b = &w->session;
	struct ct_entry *c = &b->ct;

	__builtin_memset(b, 0, sizeof(*b));
	c->seen_ns = p->now_ns;
	c->born = p->now_ns >> BORN_SHIFT;
	c->counters[0].packets = packets_of(ctx, p);
	c->counters[0].bytes = p->frame_len;
	c->bits = out ? CT_OUT : 0;
	ct_init(p, c);
	b->egress = egress;
	b->flags = out ? 0 : NAT_SESSION_FORWARDED;
	b->vport = p->in;
	b->segment = p->segment;
}

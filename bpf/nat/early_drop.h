/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * early_drop: makes room in a full table of sessions. Those that are over go first, then those that
 * nobody has answered: as in Linux, a flood of them keeps nobody out, and what is established or
 * answered stays. No cached decision can belong to what goes.
 *
 * in:    keys, when sessions are created and when they close
 * out:   room for a session
 * maps:  nat_over, nat_unanswered, those of nat_table.h
 * stops: nothing
 */
#pragma once

#include "nat/nat_table.h"
#include "nat/work.h"

#define EARLY_DROP_TRIES 16 /* of each queue, for one packet */

/* A search for a session that can go. */
struct early_drop {
	struct nat_work *work;
	__u64 now_ns;
	bool dropped;
};

/* Whether the session can go when there is no room, once no cached decision belongs to it. */
static __always_inline bool is_dispensable(const struct nat_session *s, __u8 proto)
{
	return ct_is_closed(&s->ct, proto) || !ct_is_answered(&s->ct, proto);
}

/* Drops the session at the head of the queue, if it can go. */
static __always_inline long try_drop(void *queue, struct early_drop *d)
{
	struct ct_key *key = &d->work->stolen_key;
	struct nat_session *s;

	if (bpf_map_pop_elem(queue, key))
		return 1;
	s = bpf_map_lookup_elem(&nat_sessions, key);
	if (!s || !is_dispensable(s, key->proto)) /* it has been answered */
		return 0;
	if (!outlived_cache(s, d->now_ns)) {
		bpf_map_push_elem(queue, key, 0);
		return 0;
	}
	nat_session_delete(key, s, &d->work->stolen_reverse);
	count(EVENT_NAT_EARLY_DROPPED);
	d->dropped = true;
	return 1;
}

static long drop_over(__u64 index __attribute__((unused)), struct early_drop *d)
{
	return try_drop(&nat_over, d);
}

static long drop_unanswered(__u64 index __attribute__((unused)), struct early_drop *d)
{
	return try_drop(&nat_unanswered, d);
}

/* Drops one session, if one can go. */
static __always_inline bool make_room(struct nat_work *w)
{
	struct early_drop d = { .work = w, .now_ns = bpf_ktime_get_coarse_ns() };

	bpf_loop(EARLY_DROP_TRIES, drop_over, &d, 0);
	if (!d.dropped)
		bpf_loop(EARLY_DROP_TRIES, drop_unanswered, &d, 0);
	return d.dropped;
}

/*
 * Adds a session that can go. If the queue is full, it takes the place of the oldest, unless that
 * can go, too: then the oldest stays a candidate.
 */
static __always_inline void note_dispensable(void *queue, struct nat_work *w,
					     const struct ct_key *key)
{
	struct ct_key *oldest = &w->stolen_key;
	struct nat_session *s;

	if (bpf_map_push_elem(queue, key, 0) == 0 || bpf_map_pop_elem(queue, oldest))
		return;
	s = bpf_map_lookup_elem(&nat_sessions, oldest);
	bpf_map_push_elem(queue, s && is_dispensable(s, oldest->proto) ? oldest : key, 0);
}

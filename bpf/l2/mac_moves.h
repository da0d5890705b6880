/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * mac_moves: adds learned MAC addresses to the FDB and moves them. One that moves too often is
 * frozen where it was first, with back-off (RFC 7432 15.1): two hosts have it, or the segment
 * has a loop. Of those that BGP advertises, user space detects duplicates.
 *
 * in:    p->in, p->segment, p->key.smac
 * out:   an FDB entry, a host event
 * maps:  fdb, segments (generations), vports, remotes, those of limits
 * stops: MAC_FROZEN
 */
#pragma once

#include "l2/host_events.h"

static __always_inline void fdb_key_of(struct fdb_key *key, __u32 segment, const __u8 *mac)
{
	key->segment = segment;
	copy16(key->mac, mac, ETH_ALEN);
	key->pad = 0;
}

/* Counts a learned entry, and notes it as the newest of its vport. */
static __always_inline void fdb_count(const struct fdb_key *key, __u32 owner)
{
	struct limit_entry *noted = limit_work();

	if (!noted)
		return;
	__builtin_memset(noted, 0, sizeof(*noted));
	*(struct fdb_key *)noted = *key;
	entry_added(noted, owner, COUNT_MACS);
}

/* Learns p's source, of which nothing was known. Returns 0. */
SUBPROGRAM int fdb_add(struct pkt *p)
{
	struct fdb_entry fresh = {};
	struct fdb_key key;
	int err = -E2BIG;

	if (!p || tracing || p->no_learning)
		return 0;
	fdb_key_of(&key, p->segment, p->key.smac);
	fresh.vport = fresh.home = p->in;
	fresh.seen_ns = p->now_ns;
	fresh.since_s = seconds(p->now_ns);
	if (make_room_for(p, COUNT_MACS, true)) {
		err = bpf_map_update_elem(&fdb, &key, &fresh, BPF_NOEXIST);
		if (err == -E2BIG && make_room_in_full(p, COUNT_MACS))
			err = bpf_map_update_elem(&fdb, &key, &fresh, BPF_NOEXIST);
	}
	if (err) {
		if (err == -E2BIG) /* or another core has learned it */
			count(EVENT_FDB_FULL);
		return 0;
	}
	count_entry(SEGMENT_OWNER + p->segment, COUNT_MACS, 1);
	fdb_count(&key, p->in);
	count(EVENT_LEARNED);
	if (!p->key.vni)
		host_event_emit(p, NULL, 0, NULL);
	return 0;
}

/*
 * Whether a packet of a host overrides where BGP says that it is: always at a port; from a
 * tunnel only learned entries, and only if BGP does not advertise the remote's hosts.
 */
static __always_inline bool may_override(const struct pkt *p, enum host_origin origin)
{
	return !p->key.vni || (origin == ORIGIN_LEARNED && !p->no_learning);
}

static __always_inline bool mac_is_frozen(const struct fdb_entry *e, __u64 now_ns)
{
	return e->origin == ORIGIN_LEARNED && e->frozen_s > seconds(now_ns);
}

#define MOST_FREEZES 5 /* doublings of the time */
#define MOST_FREEZE_S 300

/* Whether the vport is of the segment still: its number may have another owner. */
static __always_inline bool is_member(__u32 segment, __u32 id)
{
	struct remote_key key = { .segment = segment };
	struct vport *v = vport_get(id);
	__u32 *remote;

	if (!v || v->kind != VPORT_TEP)
		return v && v->kind == VPORT_PORT && v->segment == segment;
	key.addr = v->addr;
	remote = bpf_map_lookup_elem(&remotes, &key);
	return remote && (*remote & ~REMOTE_NO_LEARNING) == id;
}

/* Counts a move from where e is. Returns true if it is one too many, and freezes e. */
static __always_inline bool freeze(struct fdb_entry *e, __u32 now_s, __u32 to)
{
	__u32 time;

	if (now_s - e->window_s >= mac_moves_within_s) {
		if (now_s - e->frozen_s >= mac_moves_within_s)
			e->freezes = 0;
		e->recent = 0;
		e->window_s = now_s;
		e->home = e->vport;
	}
	if (!mac_moves || ++e->recent < mac_moves)
		return false;
	time = mac_freeze_s << (e->freezes & 7);
	if (time > MOST_FREEZE_S)
		time = MOST_FREEZE_S;
	if (e->freezes < MOST_FREEZES)
		e->freezes++;
	e->recent = 0;
	e->window_s = now_s;
	e->frozen_s = now_s + time;
	e->other = to == e->home ? e->vport : to;
	return true;
}

/*
 * Moves the learned entry of p's source to p->in, or freezes it. An entry is replaced, not
 * written to: another core may have evicted it, and its memory be another's.
 */
SUBPROGRAM int fdb_move(struct pkt *p)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL;
	struct host_work *w = host_work();
	struct fdb_entry *old, *e;
	bool frozen = false, learned;
	struct vport *from;
	__u32 was;

	if (!p || !seg || !w)
		return 0;
	fdb_key_of(&w->mac, p->segment, p->key.smac);
	old = bpf_map_lookup_elem(&fdb, &w->mac);
	if (!old)
		return 0;
	e = &w->entry;
	*e = *old;
	was = e->vport;
	learned = e->origin == ORIGIN_LEARNED;
	if (learned)
		frozen = freeze(e, seconds(p->now_ns), p->in);
	else
		e->recent = e->freezes = e->frozen_s = e->window_s = 0;
	if (frozen && !is_member(p->segment, e->home))
		e->home = was;
	e->vport = frozen ? e->home : p->in;
	if (e->vport == p->in && !make_room_for(p, COUNT_MACS, !learned))
		return 0;
	e->origin = ORIGIN_LEARNED;
	e->sticky = 0;
	e->moves++;
	e->seen_ns = p->now_ns;
	e->since_s = seconds(p->now_ns);
	if (bpf_map_update_elem(&fdb, &w->mac, e, BPF_EXIST))
		return 0;
	count_entry(SEGMENT_OWNER + p->segment, COUNT_MACS, learned ? 0 : 1);
	if (learned)
		count_entry(was, COUNT_MACS, -1);
	fdb_count(&w->mac, e->vport);
	invalidate(&seg->shards[mac_shard(p->key.smac)]);
	count(EVENT_MOVED);
	from = vport_get(was);
	if (frozen)
		host_event_emit(p, NULL, 0, e);
	else if (!p->key.vni && from && from->kind == VPORT_TEP)
		host_event_emit(p, NULL, was, NULL);
	if (frozen)
		count(EVENT_MAC_FROZEN);
	return frozen && e->vport != p->in ? REASON_MAC_FROZEN : 0;
}

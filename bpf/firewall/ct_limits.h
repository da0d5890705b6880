/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ct_limits: the share of a port in the tables of connections. Each port has a ring of its
 * half-open connections that were opened from outside, one of those opened from inside, and one
 * of its answered connections. At its limit it loses the oldest of that ring. When a table is
 * full, closed connections go first, then the oldest of the port that has the most.
 *
 * in:    a port, a kind of connection (enum limited_count)
 * out:   slots of connections, room
 * maps:  ct_established, ct_half_open, ct_closed, vports, and those of core/limits.h
 * stops: nothing
 */
#pragma once

#include "firewall/ct_state.h"

#define CT_EVICT_TRIES 8   /* connections that are looked at to find one that goes */
#define EVICT_IDLE_TRIES 6 /* of these, those where established TCP stays */
#define RING_SLACK 64	   /* empty slots that a ring may have besides as many as it has keys */

/* The kind of a half-open connection. */
static __always_inline enum limited_count half_open_kind(__u32 bits)
{
	return bits & CT_OUT ? COUNT_HALF_OPEN_OUT : COUNT_HALF_OPEN_IN;
}

/* The port's segment, if it has a limit of that kind, or 0. */
static __always_inline __u32 limited_segment(__u32 vport_id, enum limited_count kind)
{
	struct vport *vport = vport_get(vport_id);
	__u32 owner = vport ? SEGMENT_OWNER + vport->segment : 0;
	struct limits *l = owner ? limits_of(owner) : NULL;

	return l && l->counts[kind] ? owner : 0;
}

/* Counts a connection. Returns its slot. */
static __always_inline __u32 ct_count(const struct ct_key *key, enum limited_count kind)
{
	__u32 segment = limited_segment(key->zone, kind);

	if (segment)
		count_entry(segment, kind, 1);
	/* The ring keeps the key with what lies behind it, which nobody reads. */
	return entry_added((const struct limit_entry *)key, key->zone, kind);
}

static __always_inline void ct_uncount(__u32 zone, enum limited_count kind, __u32 slot)
{
	__u32 segment = slot ? limited_segment(zone, kind) : 0;

	if (slot)
		entry_removed(zone, kind, slot);
	if (segment)
		count_entry(segment, kind, -1);
}

/* Lets a connection be the newest of its port. */
static __always_inline void renew(const struct limit_entry *key, struct ct_entry *c, __u32 zone,
				  enum limited_count kind)
{
	c->slot = note_key(key, zone, kind);
}

/* Whether it stays for now: it had a packet lately. TCP stays longer than other protocols. */
static __always_inline bool is_busy(const struct ct_entry *c, __u8 proto, __u64 now, int tries)
{
	enum ct_state state = ct_state(c, proto);

	if (state == CT_STATE_UDP_REPLIED)
		return false;
	if (proto == IPPROTO_TCP && tries < EVICT_IDLE_TRIES)
		return true;
	return ns_since(c->seen_ns, now) < 2 * (__s64)revalidate_ns;
}

/* Deletes an answered connection, or lets it be the newest of its port. */
static __always_inline bool evict_answered(struct ct_work *w, struct ct_key *key, __u64 now,
					   int tries)
{
	struct ct_entry *c = bpf_map_lookup_elem(&ct_established, key);
	__u32 slot;

	if (!c)
		return false;
	slot = c->slot;
	if (tries < CT_EVICT_TRIES - 1 && is_busy(c, key->proto, now, tries)) {
		renew(&w->oldest, c, key->zone, COUNT_CONNECTIONS);
		return false;
	}
	if (bpf_map_delete_elem(&ct_established, key))
		return false;
	ct_uncount(key->zone, COUNT_CONNECTIONS, slot);
	return true;
}

static __always_inline bool evict_half_open(struct ct_key *key)
{
	struct ct_entry *c = bpf_map_lookup_elem(&ct_half_open, key);
	__u32 slot, kind;

	if (!c)
		return false;
	slot = c->slot;
	kind = half_open_kind(c->bits);
	if (!slot || bpf_map_delete_elem(&ct_half_open, key))
		return false;
	ct_uncount(key->zone, kind, slot);
	return true;
}

/* Deletes the oldest connection of the port that can go. Returns whether there was one. */
SUBPROGRAM int ct_evict(struct ct_work *w, __u32 zone, __u32 kind, __u64 now)
{
	struct ct_key *key;
	bool gone;

	if (!w)
		return 0;
	key = (struct ct_key *)&w->oldest;
	for (int i = 0; i < CT_EVICT_TRIES; i++) {
		if (!take_oldest(&w->oldest, zone, kind))
			continue;
		gone = kind == COUNT_CONNECTIONS ? evict_answered(w, key, now, i) :
						   evict_half_open(key);
		if (gone) {
			count(EVENT_CONNTRACK_EVICTED);
			return 1;
		}
	}
	return 0;
}

/* Whether there is room in the share of the port and of its segment, or was made. */
static __always_inline bool ct_fits(struct ct_work *w, __u32 zone, enum limited_count kind,
				    __u64 now)
{
	__u32 segment = limited_segment(zone, kind);

	if (!count_exceeded(zone, kind) && !(segment && count_exceeded(segment, kind)))
		return true;
	return ct_evict(w, zone, kind, now);
}

/* Deletes a closed connection. Returns whether there was one. */
SUBPROGRAM int ct_evict_closed(struct ct_work *w)
{
	struct ct_entry *c;
	struct ct_key *key;

	if (!w)
		return 0;
	key = (struct ct_key *)&w->oldest;
	for (int i = 0; i < CT_EVICT_TRIES; i++) {
		if (bpf_map_pop_elem(&ct_closed, key))
			return 0;
		c = bpf_map_lookup_elem(&ct_half_open, key);
		if (c && ct_is_closed(c, key->proto) && !bpf_map_delete_elem(&ct_half_open, key))
			return 1;
	}
	return 0;
}

/* Whether room was made in the full table of half-open connections. */
static __always_inline bool ct_make_room(struct ct_work *w, __u64 now)
{
	__u32 in = largest_owner(COUNT_HALF_OPEN_IN), out = largest_owner(COUNT_HALF_OPEN_OUT);
	struct limit_usage *a = usage_of(in), *b = usage_of(out);
	bool from_inside = a && b && b->used[COUNT_HALF_OPEN_OUT] > a->used[COUNT_HALF_OPEN_IN];

	return ct_evict_closed(w) || (from_inside ? ct_evict(w, out, COUNT_HALF_OPEN_OUT, now) :
						    ct_evict(w, in, COUNT_HALF_OPEN_IN, now));
}

/*
 * Keeps the ring short, where many younger connections are gone: passes their slots, and lets
 * an old one that is still there be the newest.
 */
SUBPROGRAM int ct_pass_gone(struct ct_work *w, __u32 zone, __u32 kind)
{
	struct limit_usage *u = usage_of(zone);
	struct ct_entry *c;

	if (!w || !u || kind >= COUNT_MAX ||
	    u->rings[kind].newest - u->rings[kind].oldest <= 2 * (__u32)u->used[kind] + RING_SLACK)
		return 0;
	if (!take_oldest(&w->oldest, zone, kind))
		return 0;
	if (kind == COUNT_CONNECTIONS)
		c = bpf_map_lookup_elem(&ct_established, &w->oldest);
	else
		c = bpf_map_lookup_elem(&ct_half_open, &w->oldest);
	if (c && c->slot)
		renew(&w->oldest, c, zone, kind);
	return 0;
}

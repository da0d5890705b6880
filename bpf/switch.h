/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * switch: learns where the source is and decides where the destination is.
 *
 * in:    p->in, p->segment, p->key
 * out:   the decision in struct decision
 * maps:  fdb, segments (generation), ends
 * stops: SPOOFED_MAC, STATIC_ELSEWHERE, SAME_PORT, SPLIT_HORIZON
 */
#pragma once

#include "pkt.h"

static __always_inline void fdb_key_of(struct fdb_key *key, __u32 segment, const __u8 *mac)
{
	key->segment = segment;
	copy16(key->mac, mac, ETH_ALEN);
	key->pad = 0;
}

/* Decisions about the segment that were taken before are taken again. */
static __always_inline void outdate(struct segment *seg)
{
	__u32 index = PULSE_CHANGES, *changes;

	if (tracing)
		return;
	__sync_fetch_and_add(&seg->generation, 1);
	changes = bpf_map_lookup_elem(&pulses, &index);
	if (changes) /* after the generation, which is looked at when this has changed */
		__sync_fetch_and_add(changes, 1);
}

/*
 * A host came to a port. Other edges may know it elsewhere, and its frame here may
 * be for one of them or be answered by this one: all shall be told.
 */
static __always_inline void arrived(struct pkt *p, bool was_remote)
{
	struct move m = { .segment = p->segment, .end = p->in, .was_remote = was_remote };

	copy16(m.mac, p->key.smac, ETH_ALEN);
	bpf_map_push_elem(&moves, &m, BPF_EXIST);
}

static __always_inline void learn_new(struct pkt *p, const struct fdb_key *key)
{
	struct fdb_entry fresh = { .end = p->in, .seen_ns = p->now_ns };

	if (tracing)
		return;
	if (bpf_map_update_elem(&fdb, key, &fresh, BPF_NOEXIST)) {
		count(EVENT_FDB_FULL);
		return;
	}
	count(EVENT_LEARNED);
	if (!p->key.vni)
		arrived(p, false);
}

static __always_inline void move(struct pkt *p, struct segment *seg, struct fdb_entry *old)
{
	struct end *from = end_get(old->end);

	if (!p->key.vni && from && from->kind == END_TEP)
		arrived(p, true);
	old->end = p->in;
	old->moves++;
	outdate(seg);
	count(EVENT_MOVED);
}

/* The gateway's MAC is every edge's: it comes out of tunnels, is never learned and no port's. */
static __always_inline int learn(struct pkt *p, struct segment *seg)
{
	struct fdb_entry *old;
	struct fdb_key key;

	if (seg->router && mac_equal(p->key.smac, seg->gateway_mac))
		return p->key.vni ? 0 : REASON_SPOOFED_MAC;
	if (seg->flags & SEGMENT_L3)
		return 0;
	fdb_key_of(&key, p->segment, p->key.smac);
	old = bpf_map_lookup_elem(&fdb, &key);
	step(p, STAGE_LEARN, p->in, old ? old->end : 0);
	if (!old) {
		learn_new(p, &key);
		return 0;
	}
	if (old->end != p->in) {
		if (old->is_static)
			return REASON_STATIC_ELSEWHERE;
		if (tracing)
			return 0;
		move(p, seg, old);
	}
	if (!tracing)
		old->seen_ns = p->now_ns;
	return 0;
}

/* Where dmac is in the segment to which the flow goes; everybody when that is not known. */
static __always_inline int find_end(struct pkt *p, struct decision *d, const __u8 *dmac)
{
	struct fdb_entry *entry;
	struct fdb_key key;
	struct end *out;

	fdb_key_of(&key, d->to_segment, dmac);
	entry = bpf_map_lookup_elem(&fdb, &key);
	out = entry ? end_get(entry->end) : NULL;
	step(p, STAGE_SWITCH, d->to_segment, entry ? entry->end : 0);
	if (!out || out->kind == END_NONE) {
		d->action = ACTION_FLOOD;
		d->slow = SLOW_UNKNOWN_UNICAST;
		return 0;
	}
	d->out = entry->end;
	d->action = out->kind == END_PORT ? ACTION_PORT : ACTION_TUNNEL;
	return 0;
}

static __always_inline int bridge(struct pkt *p, struct decision *d)
{
	int why;

	if (mac_is_group(p->key.dmac)) {
		d->action = ACTION_FLOOD;
		return 0;
	}
	why = find_end(p, d, p->key.dmac);
	if (why || d->action == ACTION_FLOOD)
		return why;
	if (d->out == p->in)
		return REASON_SAME_PORT;
	if (d->action == ACTION_TUNNEL && p->key.vni)
		return REASON_SPLIT_HORIZON;
	return 0;
}

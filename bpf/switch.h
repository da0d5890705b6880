/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * switch: learns where the source is and decides where the destination is.
 *
 * in:    p->in, p->segment, p->key
 * out:   the decision in struct flow
 * maps:  fdb, segments (generation), ends
 * stops: STATIC_ELSEWHERE, SAME_PORT, SPLIT_HORIZON
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
	__sync_fetch_and_add(&seg->generation, 1);
}

static __always_inline int learn(struct pkt *p, struct segment *seg)
{
	struct fdb_entry fresh = { .end = p->in, .seen_ns = p->now_ns };
	struct fdb_entry *old;
	struct fdb_key key;

	fdb_key_of(&key, p->segment, p->key.smac);
	old = bpf_map_lookup_elem(&fdb, &key);
	if (!old) {
		count(bpf_map_update_elem(&fdb, &key, &fresh, BPF_NOEXIST) ? EVENT_FDB_FULL :
									     EVENT_LEARNED);
		return 0;
	}
	if (old->end != p->in) {
		if (old->is_static)
			return REASON_STATIC_ELSEWHERE;
		old->end = p->in;
		old->moves++;
		outdate(seg);
		count(EVENT_MOVED);
	}
	old->seen_ns = p->now_ns;
	return 0;
}

static __always_inline int decide(struct pkt *p, struct segment *seg, struct flow *f)
{
	struct fdb_entry *entry;
	struct fdb_key key;
	struct end *out;

	f->segment = p->segment;
	f->generation = seg->generation; /* before the look-ups: a change meanwhile outdates it */
	f->in = p->in;
	f->action = ACTION_FLOOD;
	if (mac_is_group(p->key.dmac))
		return 0;
	fdb_key_of(&key, p->segment, p->key.dmac);
	entry = bpf_map_lookup_elem(&fdb, &key);
	out = entry ? end_get(entry->end) : NULL;
	if (!out || out->kind == END_NONE) {
		f->slow = SLOW_UNKNOWN_UNICAST;
		return 0;
	}
	if (entry->end == p->in)
		return REASON_SAME_PORT;
	if (out->kind == END_TEP && p->key.vni)
		return REASON_SPLIT_HORIZON;
	f->out = entry->end;
	f->action = out->kind == END_PORT ? ACTION_PORT : ACTION_TUNNEL;
	return 0;
}

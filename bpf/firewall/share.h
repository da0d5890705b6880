/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * share: the share of a vport in LRU maps of notes, so that what it causes does not evict the notes of
 * others. It has so many slots of each map. A slot is an entry of the same map, with the key of a
 * note: a new note takes the next slot, and the note that had it goes.
 *
 * in:    a key, the vport that caused the note
 * out:   a slot with the key
 * maps:  owner_usages, the map of notes
 * stops: nothing
 */
#pragma once

#include "core/limits.h"

#define FRAGMENT_SLOTS 1024 /* of a vport: fragmented datagrams; a power of two */

/* The number of the vport's next slot. Its maps of notes number theirs together. */
static __always_inline __u32 next_slot(__u32 vport)
{
	struct limit_usage *u = usage_of(vport);

	return u ? __sync_fetch_and_add(&u->rings[COUNT_NAT_SESSIONS].newest, 1) : 0;
}

/*
 * Gives the note of a fragmented datagram a slot. value: memory for the slot's entry, with the key
 * of the note at this offset.
 */
static __always_inline void fragment_slot(void *map, __u32 vport, struct fragment_key *slot,
					  const struct fragment_key *key, void *value, __u32 at)
{
	struct fragment_key *noted = value + at;
	void *before;

	__builtin_memset(slot, 0, sizeof(*slot));
	slot->zone = SHARE_SLOT | vport;
	slot->id = next_slot(vport) & (FRAGMENT_SLOTS - 1);
	before = bpf_map_lookup_elem(map, slot);
	if (before) {
		*noted = *(struct fragment_key *)(before + at);
		bpf_map_delete_elem(map, noted);
	}
	*noted = *key;
	bpf_map_update_elem(map, slot, value, BPF_ANY);
}

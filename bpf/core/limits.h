/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * limits: keeps one port, remote or segment from taking what is another's. Entries of tables are
 * counted, and their keys noted in a ring: at its limit an owner loses its own oldest entry.
 * Packets have token buckets.
 *
 * in:    an owner: a vport, or SEGMENT_OWNER + segment
 * out:   whether it is at its limit or above its rate, its oldest entry
 * maps:  owner_limits, owner_usages, limit_entries, limit_largest
 * stops: nothing
 */
#pragma once

#include "core/token_bucket.h"

static __always_inline struct limits *limits_of(__u32 owner)
{
	__u32 at = owner_index(owner);

	return bpf_map_lookup_elem(&owner_limits, &at);
}

static __always_inline struct limit_usage *usage_of(__u32 owner)
{
	__u32 at = owner_index(owner);

	return bpf_map_lookup_elem(&owner_usages, &at);
}

/*
 * Who answers for the packet: its port, or the segment of one out of a tunnel. A remote is no
 * owner of rates, since all tenants behind it share it.
 */
static __always_inline __u32 owner_of(const struct pkt *p)
{
	return p->key.vni ? SEGMENT_OWNER + p->segment : p->in;
}

/*
 * Whether the owner exceeds its rate with n packets. Those above are counted, also in observe
 * mode, which refuses nothing that the owner sends; what the edge sends for it is limited always.
 * Returns 0 or 1.
 */
SUBPROGRAM int packets_exceed(struct pkt *p, __u32 owner, __u32 rate, __u32 n)
{
	struct limits *l = limits_of(owner);
	struct limit_usage *u = usage_of(owner);
	__u32 most;

	if (!p || !l || !u || rate >= RATE_MAX || tracing)
		return 0;
	most = l->rates[rate];
	if (!most || take_tokens(&u->buckets[rate], p->now_ns, most, most, n))
		return 0;
	__sync_fetch_and_add(&u->limited[rate], n);
	return !l->observe || rate >= OBSERVED_RATES;
}

static __always_inline int rate_exceeded(struct pkt *p, __u32 owner, enum limited_rate rate)
{
	return packets_exceed(p, owner, rate, 1);
}

/* The verifier forgets the bounds of a variable that the compiler moves to the stack. */
static __always_inline bool is_count(__u32 *count)
{
	asm volatile("" : "+r"(*count));
	return *count < COUNT_MAX;
}

/* Whether the owner has as many entries as it may. In observe mode it is counted, and false. */
static __always_inline bool count_exceeded(__u32 owner, __u32 count)
{
	struct limits *l = limits_of(owner);
	struct limit_usage *u = usage_of(owner);

	if (!l || !u || !is_count(&count) || !l->counts[count] ||
	    u->used[count] < (__s32)l->counts[count])
		return false;
	__sync_fetch_and_add(&u->exceeded[count], 1);
	return !l->observe;
}

/* The owner with the most entries, as far as is known. */
static __always_inline __u32 largest_owner(enum limited_count count)
{
	__u32 *owner = bpf_map_lookup_elem(&limit_largest, &count);

	return owner ? *owner : 0;
}

static __always_inline void note_largest(__u32 owner, __u32 count, __s32 used)
{
	__u32 *now = bpf_map_lookup_elem(&limit_largest, &count);
	struct limit_usage *u = now ? usage_of(*now) : NULL;

	if (u && is_count(&count) && *now != owner && u->used[count] < used)
		*now = owner;
}

/* Counts an entry of the owner, without a key: it is not evicted. */
static __always_inline void count_entry(__u32 owner, __u32 count, __s32 n)
{
	struct limit_usage *u = usage_of(owner);

	if (u && is_count(&count))
		__sync_fetch_and_add(&u->used[count], n);
}

static __always_inline struct host_work *host_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&host_works, &zero);
}

/* Where a key is put together. It is valid until the next call of this. */
static __always_inline struct limit_entry *limit_work(void)
{
	return FIELD_OF(host_work(), noted);
}

/* Notes a key as the owner's newest. Returns its slot, or 0: there is no ring. */
SUBPROGRAM int note_key(const struct limit_entry *key, __u32 owner, __u32 count)
{
	struct limits *l = limits_of(owner);
	struct limit_usage *u = usage_of(owner);
	struct limit_slot at = { .owner = owner, .count = count };
	__u32 slot;

	if (!key || !l || !u || count >= COUNT_MAX || !l->ring_masks[count])
		return 0;
	slot = __sync_fetch_and_add(&u->rings[count].newest, 1) + 1;
	if (!slot) /* numbers wrap, and 0 is none */
		slot = __sync_fetch_and_add(&u->rings[count].newest, 1) + 1;
	at.slot = slot & l->ring_masks[count];
	bpf_map_update_elem(&limit_entries, &at, key, BPF_ANY);
	return slot;
}

/* Counts a new entry, and notes its key as the owner's newest. Returns its slot likewise. */
SUBPROGRAM int entry_added(const struct limit_entry *key, __u32 owner, __u32 count)
{
	struct limit_usage *u = usage_of(owner);

	if (!key || !u || count >= COUNT_MAX)
		return 0;
	note_largest(owner, count, __sync_fetch_and_add(&u->used[count], 1) + 1);
	return note_key(key, owner, count);
}

/*
 * The entry with the slot is gone. Only for owners whose rings have all slots: otherwise a
 * newer key may have it.
 */
SUBPROGRAM int entry_removed(__u32 owner, __u32 count, __u32 slot)
{
	struct limit_usage *u = usage_of(owner);
	struct limit_slot at = { .owner = owner, .count = count, .slot = slot };

	if (!u || count >= COUNT_MAX)
		return 0;
	__sync_fetch_and_add(&u->used[count], -1);
	bpf_map_delete_elem(&limit_entries, &at);
	return 0;
}

#define ROOM_TRIES 4 /* in a full table: cores that make room at once take each other's */

#define RING_STEPS 16 /* slots that a look for the oldest key passes, at most */

/*
 * Takes the owner's oldest key out of its ring. The entry may be gone, or another owner's, since:
 * the caller looks. Returns 1, or 0: there is none, or none after RING_STEPS empty slots.
 */
static __always_inline int take_oldest(struct limit_entry *key, __u32 owner, __u32 count)
{
	struct limits *l = limits_of(owner);
	struct limit_usage *u = usage_of(owner);
	struct limit_slot at = { .owner = owner, .count = count };
	struct limit_entry *found;
	struct limit_ring *r;

	if (!key || !l || !u || !is_count(&count))
		return 0;
	r = &u->rings[count];
	if (r->newest - r->oldest > l->ring_masks[count]) /* overwritten since */
		r->oldest = r->newest - l->ring_masks[count] - 1;
	for (int i = 0; i < RING_STEPS; i++) {
		if ((__s32)(r->newest - r->oldest) <= 0)
			return 0;
		at.slot = (__sync_fetch_and_add(&r->oldest, 1) + 1) & l->ring_masks[count];
		found = bpf_map_lookup_elem(&limit_entries, &at);
		if (!found)
			continue;
		*key = *found;
		bpf_map_delete_elem(&limit_entries, &at);
		return 1;
	}
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transit_cache: the flow cache of the transit programs. Each core has its own table, so
 * nothing is locked and cores share no written cache line. An entry is two cache lines: the
 * key, and the decision. A flow is in the slot of its hash or in one of the next three
 * (linear probing).
 *
 * A table starts small, so that few flows lie close together (each page costs a TLB entry),
 * and doubles, up to transit_slots, when flows evict each other. At the limit, one of the
 * four slots is reused: then some flows take the slow path again, not all of them.
 *
 * in:    p->key
 * out:   a decision, or none
 * maps:  transit_cache, transit_tables, global_counters, segments, routers
 * stops: nothing
 */
#pragma once

#include "cache/flow_cache.h"

#define PROBES 4
#define FEWEST_SLOTS 1024

static __always_inline struct transit_table *transit_table(void)
{
	__u32 zero = 0;
	struct transit_table *t = bpf_map_lookup_elem(&transit_tables, &zero);

	if (t && !t->mask)
		t->mask = (transit_slots < FEWEST_SLOTS ? transit_slots : FEWEST_SLOTS) - 1;
	return t;
}

/* The n-th slot of a flow. */
static __always_inline struct transit_entry *transit_slot(const struct transit_table *t, __u64 hash,
							  __u32 n)
{
	__u32 index = bpf_get_smp_processor_id() * transit_slots;

	index += ((hash >> 20) + n) & t->mask;
	return bpf_map_lookup_elem(&transit_cache, &index);
}

static __always_inline __u32 addr_differ(const struct addr *a, const struct addr *b)
{
	return (a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]) |
	       (a->w[3] ^ b->w[3]);
}

/*
 * Fields are read in the width in which they were written. A wider load would wait until the
 * stores before it have left the store buffer: about 10 ns in all.
 */
static __always_inline bool key_equal(const struct flow_key *a, const void *key)
{
	const struct flow_key *b = key;
	const __u32 *x = key_macs(a), *y = key_macs(b);
	__u32 differ = (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]);

	differ |= addr_differ(&a->saddr, &b->saddr) | addr_differ(&a->daddr, &b->daddr);
	differ |= addr_differ(&a->origin, &b->origin) | (a->vni ^ b->vni);
	differ |= (a->tags[0] ^ b->tags[0]) | (a->tags[1] ^ b->tags[1]);
	differ |= (a->sport ^ b->sport) | (a->dport ^ b->dport) | (a->ethertype ^ b->ethertype);
	return !(differ | (a->proto ^ b->proto) | (a->fragment ^ b->fragment));
}

/* Whether an entry's key is that of the packet. */
typedef bool (*key_match)(const struct flow_key *, const void *packet);

/* The flow's entry, or NULL. Slots are never freed, so nothing follows a free one. */
static __always_inline struct transit_entry *
transit_lookup(const struct transit_table *t, __u64 hash, key_match match, const void *packet)
{
	struct transit_entry *s;

	for (__u32 i = 0; i < PROBES; i++) {
		s = transit_slot(t, hash, i);
		if (!s || !s->decision.out)
			return NULL;
		if (match(&s->key, packet))
			return s;
	}
	return NULL;
}

#define EPOCHS 4 /* age at which a decision expires */

static __always_inline __u8 age_of(const struct transit_entry *s)
{
	return global_get(GLOBAL_CLOCK) - s->decision.age;
}

/*
 * Whether the decision is valid. If the global generation is the one that it was last checked
 * against, nothing at all has changed. Otherwise its own generations are compared, and the
 * entry is marked. The mark has 16 bits: if guests make it come round, an entry is taken for
 * valid one time in 65,536, until the next change.
 */
static __always_inline bool is_valid(struct transit_entry *s)
{
	__u16 generation = global_get(GLOBAL_GENERATION);

	if (s->decision.seen_generation == generation)
		return true;
	if (!is_current(&s->key, &s->decision))
		return false;
	s->decision.seen_generation = generation;
	return true;
}

/* A valid decision, or NULL. */
static __always_inline struct transit_entry *transit_find(struct pkt *p, __u64 hash)
{
	struct transit_table *t = flow_cache ? transit_table() : NULL;
	struct transit_entry *s;

	if (!t)
		return NULL;
	s = transit_lookup(t, hash, key_equal, &p->key);
	if (!s) {
		count(EVENT_MISS);
		return NULL;
	}
	if (!is_valid(s)) {
		count(EVENT_STALE);
		return NULL;
	}
	if (age_of(s) >= EPOCHS) {
		count(EVENT_REVALIDATED);
		return NULL;
	}
	count(EVENT_HIT);
	return s;
}

/*
 * Whether the slot holds a flow that can still be found: it is one of the flow's slots, also
 * since the table has grown, and it expired no longer ago than it was valid.
 */
static __always_inline bool is_taken(const struct transit_table *t, const struct transit_entry *s,
				     __u64 at)
{
	__u64 home = hash_of(&s->key);

	if (!s->decision.out || (((at >> 20) - (home >> 20)) & t->mask) >= PROBES)
		return false;
	return age_of(s) < 2 * EPOCHS;
}

/*
 * Doubles a table that is too small: for more than one in 64 packets its flow was evicted.
 * Below that, the misses cost less than spreading over more memory.
 */
static __always_inline void transit_grow(struct transit_table *t)
{
	if (t->mask < transit_slots - 1 && t->fast - t->fast_at_review < (__u64)t->evictions * 64)
		t->mask = t->mask * 2 + 1;
	t->fast_at_review = t->fast;
	t->evictions = 0;
}

/* A slot for a new flow: a free one, or one that another flow loses. */
static __always_inline struct transit_entry *transit_alloc(struct transit_table *t, __u64 hash)
{
	struct transit_entry *s;

	for (__u32 i = 0; i < PROBES; i++) {
		s = transit_slot(t, hash, i);
		if (!s || is_taken(t, s, hash + ((__u64)i << 20)))
			continue;
		if (!s->decision.out)
			t->used++;
		return s;
	}
	count(EVENT_EVICTED);
	s = transit_slot(t, hash, bpf_get_prandom_u32() % PROBES);
	if (++t->evictions > t->mask / 16)
		transit_grow(t);
	return s;
}

/*
 * Inserts the decision about the packet; generation: the global one before it was taken. A
 * known flow keeps its counters. NULL: the decision is not cached.
 */
static __always_inline struct transit_entry *transit_insert(struct pkt *p, __u64 hash,
							    __u32 generation)
{
	struct transit_table *t = flow_cache ? transit_table() : NULL;
	struct transit_entry *s;

	if (!t)
		return NULL;
	s = transit_lookup(t, hash, key_equal, &p->key);
	if (!s) {
		s = transit_alloc(t, hash);
		if (!s)
			return NULL;
		s->key = p->key;
		s->packets = 0;
		s->bytes = 0;
	}
	s->decision = p->decision;
	s->decision.age = global_get(GLOBAL_CLOCK);
	s->decision.seen_generation = generation;
	return s;
}

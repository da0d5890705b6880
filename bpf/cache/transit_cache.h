/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * shortcut: the cache of the transit programs. Each core has a table of its own, so
 * nothing is locked and no cache line is shared. An entry is two cache lines: what a
 * packet is compared with, and what is done to it. A flow's place is that of its hash
 * or one of the next three (linear probing).
 *
 * A table begins small, so that few flows lie close together (each page that is
 * touched costs an entry of the TLB), and doubles when flows push each other out, up
 * to shortcut_slots. When no more is to be had, one of the four goes: flows beyond
 * the size cost some others' decisions to be taken again, and not all of them.
 *
 * in:    p->key
 * out:   a decision, or none
 * maps:  shortcuts, shortcut_tables, pulses, segments, routers
 * stops: nothing
 */
#pragma once

#include "cache/flow_cache.h"

#define PROBES 4
#define FEWEST_SLOTS 1024

static __always_inline struct shortcut_table *shortcut_table(void)
{
	__u32 zero = 0;
	struct shortcut_table *t = bpf_map_lookup_elem(&shortcut_tables, &zero);

	if (t && !t->mask)
		t->mask = (shortcut_slots < FEWEST_SLOTS ? shortcut_slots : FEWEST_SLOTS) - 1;
	return t;
}

/* The n-th place for a flow. */
static __always_inline struct shortcut *shortcut_slot(const struct shortcut_table *t, __u64 hash,
						      __u32 n)
{
	__u32 index = bpf_get_smp_processor_id() * shortcut_slots;

	index += ((hash >> 20) + n) & t->mask;
	return bpf_map_lookup_elem(&shortcuts, &index);
}

static __always_inline __u32 addr_differ(const struct addr *a, const struct addr *b)
{
	return (a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]) |
	       (a->w[3] ^ b->w[3]);
}

/*
 * Each field is read as wide as it was written: a wider load would have to wait for
 * the stores before it to leave the core's store buffer, some 10 ns in all.
 */
static __always_inline bool key_equal(const struct flow_key *a, const struct flow_key *b)
{
	const __u32 *x = key_macs(a), *y = key_macs(b);
	__u32 differ = (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]);

	differ |= addr_differ(&a->saddr, &b->saddr) | addr_differ(&a->daddr, &b->daddr);
	differ |= addr_differ(&a->origin, &b->origin) | (a->vni ^ b->vni);
	differ |= (a->tags[0] ^ b->tags[0]) | (a->tags[1] ^ b->tags[1]);
	differ |= (a->sport ^ b->sport) | (a->dport ^ b->dport) | (a->ethertype ^ b->ethertype);
	return !(differ | (a->proto ^ b->proto) | (a->fragment ^ b->fragment));
}

/* The flow's entry, or NULL. Places are never given up, so behind a free one it is not. */
static __always_inline struct shortcut *shortcut_of(const struct shortcut_table *t,
						    const struct flow_key *key, __u64 hash)
{
	struct shortcut *s;

	for (__u32 i = 0; i < PROBES; i++) {
		s = shortcut_slot(t, hash, i);
		if (!s || !s->decision.out)
			return NULL;
		if (key_equal(&s->key, key))
			return s;
	}
	return NULL;
}

#define EPOCHS 4 /* after which a decision is taken again */

static __always_inline __u8 age_of(const struct shortcut *s)
{
	return pulse(PULSE_EPOCH) - s->decision.epoch;
}

/*
 * Whether nothing has changed that the decision depends on. Mostly nothing at all has
 * changed, which one number tells of all generations; else they are looked at, and the
 * entry is stamped. A stamp has 16 bits: before they come round the decision has aged.
 */
static __always_inline bool is_valid(struct shortcut *s)
{
	__u16 changes = pulse(PULSE_CHANGES);

	if (s->decision.stamp == changes)
		return true;
	if (!is_current(&s->key, &s->decision))
		return false;
	s->decision.stamp = changes;
	return true;
}

/* A valid decision, or NULL. */
static __always_inline struct shortcut *shortcut_find(struct pkt *p, __u64 hash)
{
	struct shortcut_table *t = flow_cache ? shortcut_table() : NULL;
	struct shortcut *s;

	if (!t)
		return NULL;
	s = shortcut_of(t, &p->key, hash);
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
 * Whether a flow has its place here: it is looked for here, also since the table has
 * grown, and its decision was due no longer ago than it would be good.
 */
static __always_inline bool is_taken(const struct shortcut_table *t, const struct shortcut *s,
				     __u64 at)
{
	__u64 home = hash_of(&s->key);

	if (!s->decision.out || (((at >> 20) - (home >> 20)) & t->mask) >= PROBES)
		return false;
	return age_of(s) < 2 * EPOCHS;
}

/*
 * Doubles a table that is too small: more than one packet in 64 found that its flow
 * had been pushed out. Less is not worth the memory that more places are spread over.
 */
static __always_inline void shortcut_judge(struct shortcut_table *t)
{
	if (t->mask < shortcut_slots - 1 && t->express - t->judged < (__u64)t->evictions * 64)
		t->mask = t->mask * 2 + 1;
	t->judged = t->express;
	t->evictions = 0;
}

/* A place for a new flow: a free one, or that of another one. */
static __always_inline struct shortcut *shortcut_place(struct shortcut_table *t, __u64 hash)
{
	struct shortcut *s;

	for (__u32 i = 0; i < PROBES; i++) {
		s = shortcut_slot(t, hash, i);
		if (!s || is_taken(t, s, hash + ((__u64)i << 20)))
			continue;
		if (!s->decision.out)
			t->used++;
		return s;
	}
	count(EVENT_EVICTED);
	s = shortcut_slot(t, hash, bpf_get_prandom_u32() % PROBES);
	if (++t->evictions > t->mask / 16)
		shortcut_judge(t);
	return s;
}

/*
 * Keeps the decision about the packet, which was begun at changes; a flow that had one
 * goes on counting. NULL: it is not kept.
 */
static __always_inline struct shortcut *shortcut_keep(struct pkt *p, __u64 hash, __u32 changes)
{
	struct shortcut_table *t = flow_cache ? shortcut_table() : NULL;
	struct shortcut *s;

	if (!t)
		return NULL;
	s = shortcut_of(t, &p->key, hash);
	if (!s) {
		s = shortcut_place(t, hash);
		if (!s)
			return NULL;
		s->key = p->key;
		s->packets = 0;
		s->bytes = 0;
	}
	s->decision = p->decision;
	s->decision.epoch = pulse(PULSE_EPOCH);
	s->decision.stamp = changes;
	return s;
}

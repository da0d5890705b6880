/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transit_cache: the flow cache of the transit programs. Each core has its own table, so
 * nothing is locked and cores share no written cache line. An entry is one cache line: what of
 * the key is a flow's own, and counters. The rest is in its action (cache/transit_action.h). A
 * flow is in the slot of its hash or in one of the next three (linear probing).
 *
 * A table starts small, so that few flows lie close together (each page costs a TLB entry),
 * and doubles, up to transit_slots, when flows evict each other. At the limit, one of the
 * four slots is reused: then some flows take the slow path again, not all of them. It halves
 * when few flows are left: half of them are decided anew then.
 *
 * in:    p->key
 * out:   a decision, or none
 * maps:  transit_cache, transit_actions, transit_tables, global_counters, segments, routers
 * stops: nothing
 */
#pragma once

#include "cache/transit_action.h"

#define FEWEST_SLOTS 1024

static __always_inline __u32 fewest_slots(void)
{
	return transit_slots < FEWEST_SLOTS ? transit_slots : FEWEST_SLOTS;
}

static __always_inline struct transit_table *transit_table(void)
{
	__u32 zero = 0;
	struct transit_table *t = bpf_map_lookup_elem(&transit_tables, &zero);

	if (t && !t->mask)
		t->mask = t->reached = fewest_slots() - 1;
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

/* Whether an entry has the key's part of it; as in action_has_key(). */
static __always_inline bool entry_has_key(const struct transit_entry *s, const void *key)
{
	const struct flow_key *k = key;
	__u32 differ = addr_differ(&s->saddr, &k->saddr) | addr_differ(&s->daddr, &k->daddr);

	differ |= (s->sport ^ k->sport) | (s->dport ^ k->dport) | (s->ethertype ^ k->ethertype);
	return !(differ | (s->proto ^ k->proto) | (s->fragment ^ k->fragment));
}

/* How a packet is compared with the two parts of a key. */
struct transit_match {
	bool (*entry)(const struct transit_entry *, const void *packet);
	bool (*action)(const struct transit_action *, const void *packet);
	const void *packet;
};

static __always_inline struct transit_match by_key(const struct pkt *p)
{
	return (struct transit_match){ entry_has_key, action_has_key, &p->key };
}

/* The flow's entry with its action, or NULL. Slots are never freed, so nothing follows a free one. */
static __always_inline struct transit_entry *transit_lookup(const struct transit_table *t,
							    __u64 hash, struct transit_match m,
							    struct transit_action **action)
{
	struct transit_entry *s, *found = NULL;

	for (__u32 i = 0; i < PROBES && !found; i++) {
		s = transit_slot(t, hash, i);
		if (!s || !s->ethertype)
			break;
		if (!m.entry(s, m.packet))
			continue;
		*action = action_of(s);
		if (*action && m.action(*action, m.packet))
			found = s;
	}
	barrier_var(found); /* or it is undefined where it is NULL, which the verifier refuses */
	return found;
}

#define EPOCHS 4 /* age at which a decision expires */

static __always_inline __u8 age_of(const struct transit_entry *s)
{
	return global_get(GLOBAL_CLOCK) - s->age;
}

/*
 * Whether the decision is valid. If the global generation is the one that it was last checked
 * against, nothing at all has changed. Otherwise its own generations are compared, and the
 * entry is marked. The mark has 16 bits: if guests make it come round, an entry is taken for
 * valid one time in 65,536, until the next change.
 */
static __always_inline bool is_valid(struct transit_entry *s, const struct transit_action *a)
{
	struct flow_ends e = { a->smac, a->dmac, &s->saddr, &s->daddr };
	__u16 generation = global_get(GLOBAL_GENERATION);

	if (s->seen_generation == generation)
		return true;
	if (!is_current(e, &a->decision, s->generation))
		return false;
	s->seen_generation = generation;
	return true;
}

/* A valid decision, or NULL. */
static __always_inline struct transit_entry *transit_find(struct pkt *p, __u64 hash,
							  struct transit_action **action)
{
	struct transit_table *t = flow_cache ? transit_table() : NULL;
	struct transit_entry *s;

	if (!t)
		return NULL;
	s = transit_lookup(t, hash, by_key(p), action);
	if (!s) {
		count(EVENT_MISS);
		return NULL;
	}
	if (!is_valid(s, *action)) {
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

/* hash_of() the entry's flow. */
static __always_inline __u64 entry_hash(const struct transit_entry *s)
{
	__u32 ports = (__u32)s->dport << 16 | s->sport;

	return s->ethertype == bpf_htons(ETH_P_IP) ?
		       hash4(s->proto, s->saddr.w[3], s->daddr.w[3], ports) :
		       hash6(s->proto, s->saddr.w, s->daddr.w, ports);
}

/*
 * Whether the slot holds a flow that can still be found: it is one of the flow's slots, also
 * since the table has grown, it expired no longer ago than it was valid, and has its action.
 */
static __always_inline bool is_taken(const struct transit_table *t, const struct transit_entry *s,
				     __u64 at)
{
	__u64 home = entry_hash(s);

	if (!s->ethertype || (((at >> 20) - (home >> 20)) & t->mask) >= PROBES)
		return false;
	return age_of(s) < 2 * EPOCHS && action_of(s);
}

/*
 * Doubles a table that is too small: for more than one in 64 packets its flow was evicted.
 * Below that, the misses cost less than spreading over more memory.
 */
static __always_inline void transit_grow(struct transit_table *t)
{
	if (t->mask < transit_slots - 1 && t->fast - t->fast_at_review < (__u64)t->evictions * 64)
		t->mask = t->mask * 2 + 1;
	if (t->mask > t->reached)
		t->reached = t->mask;
	t->fast_at_review = t->fast;
	t->evictions = 0;
}

/*
 * Halves a table that is too large. A flow with packets is decided once in EPOCHS, so the decisions
 * in that time are no fewer than such flows. From four slots for each on, there are to be two.
 */
static __always_inline void transit_shrink(struct transit_table *t)
{
	__u32 clock = global_get(GLOBAL_CLOCK);

	if (clock - t->counted_from >= EPOCHS) {
		if (t->mask / 4 > t->decided)
			for (__u32 i = 0;
			     i < 32 && t->mask >= fewest_slots() && t->mask / 2 > t->decided; i++)
				t->mask >>= 1;
		t->decided = 0;
		t->counted_from = clock;
	}
	t->decided++;
}

/*
 * A slot for a new flow: a free one, or one of a flow that has to be decided anew anyway, or one
 * that another flow loses.
 */
static __always_inline struct transit_entry *transit_alloc(struct transit_table *t, __u64 hash)
{
	struct transit_entry *s, *expired = NULL;

	for (__u32 i = 0; i < PROBES; i++) {
		s = transit_slot(t, hash, i);
		if (!s)
			continue;
		if (is_taken(t, s, hash + ((__u64)i << 20))) {
			if (!expired && age_of(s) >= EPOCHS)
				expired = s;
			continue;
		}
		if (!s->ethertype)
			t->used++;
		return s;
	}
	if (expired)
		return expired;
	count(EVENT_EVICTED);
	s = transit_slot(t, hash, bpf_get_prandom_u32() % PROBES);
	if (++t->evictions > t->mask / 16)
		transit_grow(t);
	return s;
}

/* Makes an entry that of the packet's flow. */
static __always_inline void set_key(struct transit_entry *s, const struct flow_key *k)
{
	s->saddr = k->saddr;
	s->daddr = k->daddr;
	s->sport = k->sport;
	s->dport = k->dport;
	s->ethertype = k->ethertype;
	s->proto = k->proto;
	s->fragment = k->fragment;
	s->packets_high = 0;
	s->packets = 0;
	s->bytes = 0;
}

/*
 * Inserts the decision about the packet; generation: the global one before it was taken. A
 * known flow keeps its counters. NULL: the decision is not cached.
 */
static __always_inline struct transit_entry *
transit_insert(struct pkt *p, __u64 hash, __u32 generation, struct transit_action **action)
{
	struct transit_table *t = flow_cache ? transit_table() : NULL;
	struct transit_entry *s;
	__u32 number = 0;

	if (!t)
		return NULL;
	transit_shrink(t);
	s = transit_lookup(t, hash, by_key(p), action);
	*action = action_for(p, &number);
	if (!*action)
		return NULL;
	if (!s) {
		s = transit_alloc(t, hash);
		if (!s)
			return NULL;
		set_key(s, &p->key);
	}
	s->generation = p->decision.generation;
	s->action = number;
	s->serial = (*action)->serial;
	s->age = global_get(GLOBAL_CLOCK);
	s->seen_generation = generation;
	return s;
}

static __always_inline void count_flow(struct transit_entry *s, __u32 bytes)
{
	if (!++s->packets)
		s->packets_high++;
	s->bytes += bytes;
}

/* The whole decision about a flow. */
static __always_inline void take_decision(struct pkt *p, const struct transit_entry *s,
					  const struct transit_action *a, __u64 hash)
{
	p->decision = a->decision;
	p->decision.generation = s->generation;
	p->decision.entropy = entropy_from(hash);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transit_action: what flows of the transit cache have in common stands once for all of them,
 * so that an entry has one cache line. Each core has its own actions.
 *
 * An action is in the place of its hash or in one of the next three. One that is needed finds a
 * free place, or takes that of the action that fewest flows got lately. Entries of those flows
 * have another serial number then. It is not taken from an action that was made since the
 * clock's last tick: so a serial number does not come round while an entry is valid.
 *
 * in:    p->key, p->decision; or an entry
 * out:   an action, or none
 * maps:  transit_actions, global_counters
 * stops: nothing
 */
#pragma once

#include "cache/flow_cache.h"

#define PROBES 4

static __always_inline struct transit_action *action_at(__u32 number)
{
	number += bpf_get_smp_processor_id() * transit_actions_max;
	return bpf_map_lookup_elem(&transit_actions, &number);
}

/* The action of an entry, or NULL: its place was taken. */
static __always_inline struct transit_action *action_of(const struct transit_entry *s)
{
	struct transit_action *a = action_at(s->action);

	return a && a->serial == s->serial ? a : NULL;
}

static __always_inline void *action_macs(const struct transit_action *a)
{
	return (void *)a + __builtin_offsetof(struct transit_action, dmac);
}

static __always_inline __u32 addr_differ(const struct addr *a, const struct addr *b)
{
	return (a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]) |
	       (a->w[3] ^ b->w[3]);
}

/*
 * Whether an action is of the key. Fields are read in the width in which they were written. A
 * wider load would wait until the stores before it have left the store buffer: about 10 ns in all.
 */
static __always_inline bool action_has_key(const struct transit_action *a, const void *key)
{
	const struct flow_key *k = key;
	const __u32 *x = action_macs(a), *y = key_macs(k);

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) |
		 addr_differ(&a->origin, &k->origin) | (a->vni ^ k->vni) |
		 (a->tags[0] ^ k->tags[0]) | (a->tags[1] ^ k->tags[1]));
}

static __always_inline bool macs_equal(const void *a, const void *b)
{
	const __u16 *x = a, *y = b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]));
}

/* Whether two decisions are the same but for what is a flow's own. */
static __always_inline bool decide_alike(const struct decision *a, const struct decision *b)
{
	return a->segment == b->segment && a->to_segment == b->to_segment && a->in == b->in &&
	       a->out == b->out && a->action == b->action && a->slow == b->slow &&
	       a->flags == b->flags && macs_equal(a->dmac, b->dmac) && macs_equal(a->smac, b->smac);
}

static __always_inline __u64 action_hash(const struct flow_key *k, const struct decision *d)
{
	const __u32 *macs = key_macs(k);
	const __u16 *next = (const void *)d->dmac;
	__u64 h = mix(k->vni, (__u64)k->origin.w[0] << 32 | k->origin.w[1]);

	h = mix(h, (__u64)k->origin.w[2] << 32 | k->origin.w[3]);
	h = mix(h, (__u64)macs[0] << 32 | macs[1]);
	h = mix(h, (__u64)macs[2] << 32 | k->tags[0]);
	h = mix(h, (__u64)next[0] << 48 | (__u64)next[1] << 32 | (__u32)next[2] << 16 | d->out);
	return mix_last(mix(h, (__u64)d->to_segment << 16 | d->in));
}

/* How many flows got it lately. NOT_FREE: its place is not to be taken yet. */
#define NOT_FREE 0xffffffff

static __always_inline __u32 recent_flows(const struct transit_action *a, __u8 clock)
{
	__u8 idle = clock - a->used;

	return idle > 31 ? 0 : a->flows >> idle;
}

/* Makes an action of a place. */
static __always_inline void make_action(struct transit_action *a, const struct pkt *p, __u8 clock)
{
	a->origin = p->key.origin;
	a->vni = p->key.vni;
	a->tags[0] = p->key.tags[0];
	a->tags[1] = p->key.tags[1];
	copy16(a->dmac, p->key.dmac, ETH_ALEN);
	copy16(a->smac, p->key.smac, ETH_ALEN);
	a->decision = p->decision;
	a->decision.generation = 0;
	a->decision.entropy = 0;
	a->serial++;
	a->made = clock;
	a->flows = 0;
}

/*
 * The action of the packet's flow, for whose entry its number is. NULL: there is no place for
 * it now, and the decision is not cached.
 */
static __always_inline struct transit_action *action_for(const struct pkt *p, __u32 *number)
{
	__u32 home = action_hash(&p->key, &p->decision) >> 20, least = NOT_FREE, flows;
	__u8 clock = global_get(GLOBAL_CLOCK);
	struct transit_action *a = NULL;
	bool known = false;

	for (__u32 i = 0; i < PROBES && least && !known; i++) {
		__u32 n = (home + i) & (transit_actions_max - 1);

		a = action_at(n);
		if (!a)
			return NULL;
		known = action_has_key(a, &p->key) && decide_alike(&a->decision, &p->decision);
		flows = !a->decision.out ? 0 :
			a->made == clock ? NOT_FREE :
					   recent_flows(a, clock) + 1;
		if (known || flows < least) {
			least = flows;
			*number = n;
		}
	}
	a = action_at(*number);
	if (!a || (!known && least == NOT_FREE))
		return NULL;
	if (!known)
		make_action(a, p, clock);
	a->flows = recent_flows(a, clock) + 1;
	a->used = clock;
	return a;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour_table: learns neighbours, within the limits of the port or remote that has them.
 *
 * in:    p->in, p->segment, p->key.smac, an address
 * out:   a neighbour, a host event
 * maps:  neighbours, segments (generations), those of limits
 * stops: nothing
 */
#pragma once

#include "l2/mac_moves.h"

/* Whether the frame's source MAC address may take the address. */
static __always_inline bool may_learn(const struct pkt *p, const struct neighbour *old)
{
	if (!old)
		return !p->no_learning;
	return old->origin != ORIGIN_STATIC && may_override(p, old->origin);
}

/* What is known of the neighbour after a message: what it says, else what was known. */
static __always_inline __u8 merged_flags(const struct pkt *p, const struct neighbour *old,
					 __u32 flags, __u32 said)
{
	flags |= p->key.vni ? 0 : NEIGHBOUR_AT_PORT;
	return old ? flags | (old->flags & ~(said | NEIGHBOUR_AT_PORT)) : flags;
}

/*
 * Writes a neighbour within the limits of p->in, which owns it. was: the owner that counts it
 * now, 0: none. Returns 0, or an error.
 */
static __always_inline int put_neighbour(struct pkt *p, const struct neighbour_key *key,
					 const struct neighbour *n, __u32 was)
{
	struct limit_entry *noted;
	int err;

	if (was != p->in && !make_room_for(p, COUNT_NEIGHBOURS, !was))
		return -E2BIG;
	err = bpf_map_update_elem(&neighbours, key, n, BPF_ANY);
	if (err == -E2BIG && make_room_in_full(p, COUNT_NEIGHBOURS))
		err = bpf_map_update_elem(&neighbours, key, n, BPF_ANY);
	if (err || was == p->in)
		return err;
	if (was)
		count_entry(was, COUNT_NEIGHBOURS, -1);
	else
		count_entry(SEGMENT_OWNER + p->segment, COUNT_NEIGHBOURS, 1);
	noted = limit_work();
	if (!noted)
		return 0;
	__builtin_memset(noted, 0, sizeof(*noted));
	*(struct neighbour_key *)noted = *key;
	entry_added(noted, p->in, COUNT_NEIGHBOURS);
	return 0;
}

/*
 * Learns that the address is at the frame's source MAC address. flags, said: neighbour_flags that
 * the message has, and those that it is about. Returns 0.
 */
SUBPROGRAM int learn_neighbour(struct pkt *p, const struct addr *addr, __u32 flags, __u32 said)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL;
	struct host_work *w = host_work();
	struct neighbour *old, *fresh;
	__u32 shard, was;
	bool same, known;

	if (!seg || !addr || !w || tracing)
		return 0;
	w->addr.segment = p->segment;
	w->addr.addr = *addr;
	fresh = &w->neighbour;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	old = bpf_map_lookup_elem(&neighbours, &w->addr);
	same = old && mac_equal(old->mac, p->key.smac);
	fresh->seen_ns = p->now_ns;
	fresh->since_s = seconds(p->now_ns);
	fresh->vport = p->in;
	fresh->flags = merged_flags(p, same ? old : NULL, flags, said);
	if (!may_learn(p, old)) {
		if (same)
			old->flags = (old->flags & ~said) | flags;
		return 0;
	}
	copy16(fresh->mac, p->key.smac, ETH_ALEN);
	/* Before the entry is reused. */
	shard = old ? mac_shard(old->mac) : 0;
	was = old && old->origin == ORIGIN_LEARNED ? old->vport : 0;
	known = same && was && old->flags == fresh->flags;
	if (known && was == p->in) {
		old->seen_ns = p->now_ns;
		return 0;
	}
	if (put_neighbour(p, &w->addr, fresh, was))
		return 0;
	if (old && !same)
		invalidate(&seg->shards[shard & (SHARDS - 1)]);
	if (fresh->flags & NEIGHBOUR_AT_PORT && !known)
		host_event_emit(p, addr, fresh->flags, NULL);
	return 0;
}

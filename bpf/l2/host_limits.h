/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * host_limits: makes room in the FDB and in the neighbour table. A port or remote at its limit,
 * or the one with the most entries when the table is full, loses the oldest that it has learned.
 * Entries of the configuration and of BGP are not counted, and never evicted here.
 *
 * in:    p->in and p->segment, which count a learned entry
 * out:   whether there is room
 * maps:  fdb, neighbours, segments (generations), those of limits
 * stops: nothing
 */
#pragma once

#include "core/limits.h"
#include "cache/generation.h"

/*
 * Keys in the ring of entries that are gone cost a try each. What is evicted for a packet is
 * bounded; the next packet goes on.
 */
#define HOST_EVICT_TRIES 16

/*
 * Nobody has sent to an address that was known for less than this, so no decision is invalid
 * without it. A flood of addresses must not invalidate all decisions of its segment.
 */
#define SETTLED_S 2

/* Counts learned entries of an owner, and of its segment. */
static __always_inline void count_host(__u32 owner, __u32 segment, __u32 count, __s32 n)
{
	count_entry(owner, count, n);
	count_entry(SEGMENT_OWNER + segment, count, n);
}

static __always_inline void invalidate_settled(struct pkt *p, __u32 segment, __u32 shard,
					       __u32 since_s)
{
	struct segment *seg = segment_get(segment);

	if (seg && seconds(p->now_ns) - since_s >= SETTLED_S)
		invalidate(&seg->shards[shard & (SHARDS - 1)]);
}

static __always_inline bool evict_mac(struct pkt *p, const struct fdb_key *key, __u32 owner)
{
	struct fdb_entry *e = bpf_map_lookup_elem(&fdb, key);
	__u32 since_s;

	if (!e || e->origin != ORIGIN_LEARNED || e->vport != owner)
		return false;
	since_s = e->since_s;
	if (bpf_map_delete_elem(&fdb, key))
		return false;
	count_host(owner, key->segment, COUNT_MACS, -1);
	invalidate_settled(p, key->segment, mac_shard(key->mac), since_s);
	return true;
}

static __always_inline bool evict_neighbour(struct pkt *p, const struct neighbour_key *key,
					    __u32 owner)
{
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, key);
	__u32 since_s, shard;

	if (!n || n->origin != ORIGIN_LEARNED || n->vport != owner)
		return false;
	since_s = n->since_s;
	shard = mac_shard(n->mac);
	barrier_var(shard); /* or the words of the address are kept on the stack */
	if (bpf_map_delete_elem(&neighbours, key))
		return false;
	count_host(owner, key->segment, COUNT_NEIGHBOURS, -1);
	invalidate_settled(p, key->segment, shard, since_s);
	return true;
}

struct eviction {
	struct pkt *p;
	__u32 owner;
	__u32 segment; /* of the entry, 0: any */
	__u32 count;
	bool done;
};

static long evict_next(__u64 index __attribute__((unused)), struct eviction *e)
{
	struct limit_entry *key = limit_work();

	if (!key)
		return 1;
	if (!take_oldest(key, e->owner, e->count))
		return 0;
	/* Keys of both tables begin with the segment. */
	if (e->segment && key->key[0] != e->segment) {
		note_key(key, e->owner, e->count);
		return 0;
	}
	if (e->count == COUNT_MACS ? !evict_mac(e->p, (void *)key, e->owner) :
				     !evict_neighbour(e->p, (void *)key, e->owner))
		return 0;
	e->done = true;
	return 1;
}

/*
 * Evicts the oldest learned entry of the owner: of a segment, or of any (0). A remote's entries
 * of other segments become its newest. Returns 1, or 0: none was found.
 */
SUBPROGRAM int evict_oldest(struct pkt *p, __u32 owner, __u32 segment, __u32 count)
{
	struct eviction e = { .p = p, .owner = owner, .segment = segment, .count = count };

	if (!p)
		return 0;
	bpf_loop(HOST_EVICT_TRIES, evict_next, &e, 0);
	return e.done;
}

/*
 * Makes room for an entry of p->in within its limits, and within its segment's if the segment
 * does not count the entry yet. Returns 1, or 0: it is refused.
 */
SUBPROGRAM int make_room_for(struct pkt *p, __u32 count, bool fresh)
{
	if (!p || count >= COUNT_MAX)
		return 0;
	if (count_exceeded(p->in, count) && !evict_oldest(p, p->in, 0, count))
		return 0;
	return !fresh || !count_exceeded(SEGMENT_OWNER + p->segment, count) ||
	       evict_oldest(p, p->in, p->segment, count);
}

/* Makes room in a full table. Returns 1, or 0: there is none. */
SUBPROGRAM int make_room_in_full(struct pkt *p, __u32 count)
{
	__u32 largest;

	if (!p || count >= COUNT_MAX)
		return 0;
	largest = largest_owner(count);
	if (largest && evict_oldest(p, largest, 0, count))
		return 1;
	return largest != p->in && evict_oldest(p, p->in, 0, count);
}

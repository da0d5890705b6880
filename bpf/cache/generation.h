/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * generation: numbers that grow when decisions may have changed. A segment and a router
 * have one for changes that affect all their flows, and one for each of SHARDS shards of
 * MAC or IP addresses. When an address moves, only decisions of its shard become invalid.
 * A decision stores the sum of the generations that it depends on: they only grow.
 *
 * in:    the segment or router, an address
 * out:   the sum of two generations
 * maps:  segments, routers, global_counters
 * stops: nothing
 */
#pragma once

#include "core/count.h"

/* The shard of a MAC address. internal/datapath has the same function. */
static __always_inline __u32 mac_shard(const __u8 *mac)
{
	const __u16 *w = (const __u16 *)mac;
	__u32 h = w[0] ^ w[1] ^ w[2];

	return (h ^ h >> 6 ^ h >> 12) & (SHARDS - 1);
}

/* The shard of an IP address. */
static __always_inline __u32 addr_shard(const struct addr *a)
{
	__u32 h = a->w[0] ^ a->w[1] ^ a->w[2] ^ a->w[3];

	h ^= h >> 16;
	return (h ^ h >> 6 ^ h >> 12) & (SHARDS - 1);
}

static __always_inline __u32 generation_of(const struct segment *seg, const __u8 *mac)
{
	return seg->generation + seg->shards[mac_shard(mac)];
}

/* The generation of the route to addr. With DNAT the key does not tell the final destination. */
static __always_inline __u32 generation_to(const struct router *r, const struct decision *d,
					   const struct addr *addr)
{
	return r->generation + (d->flags & FLOW_DNAT ? r->translated : r->shards[addr_shard(addr)]);
}

/* The generation of the route back, on which a decision of an uplink depends (l3/source_check.h). */
static __always_inline __u32 generation_from(const struct router *r, const struct segment *from,
					     const struct decision *d, const struct addr *addr)
{
	/* With DNAT, generation_to() has that of all routes. */
	return from->flags & SEGMENT_UPLINK && !(d->flags & FLOW_DNAT) ?
		       r->shards[addr_shard(addr)] :
		       0;
}

/* Adds the generation of the MAC address's shard. */
static __always_inline void depends_on(struct decision *d, const struct segment *seg,
				       const __u8 *mac)
{
	d->generation += seg->shards[mac_shard(mac)];
}

/* Invalidates decisions that depend on the generation. */
static __always_inline void invalidate(__u32 *generation)
{
	__u32 index = GLOBAL_GENERATION, *changes;

	if (tracing)
		return;
	__sync_fetch_and_add(generation, 1);
	changes = bpf_map_lookup_elem(&global_counters, &index);
	if (changes) /* after the generation: readers look at that when this one has changed */
		__sync_fetch_and_add(changes, 1);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * generation: numbers that grow when decisions may have changed. A segment and a router
 * have one for changes that concern all their flows, and SHARDS more, among which MAC
 * addresses and destinations are divided: one that moves outdates the decisions of its
 * own shard alone.
 *
 * in:    the segment or router, an address
 * out:   the sum of both numbers
 * maps:  segments, routers, pulses
 * stops: nothing
 */
#pragma once

#include "core/pkt.h"

/* The shard of a MAC address; internal/datapath has it too. */
static __always_inline __u32 mac_shard(const __u8 *mac)
{
	const __u16 *w = (const __u16 *)mac;
	__u32 h = w[0] ^ w[1] ^ w[2];

	return (h ^ h >> 6 ^ h >> 12) & (SHARDS - 1);
}

/* That of an IP address. */
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

/* That of the route to an address. What a translated destination becomes the key does not tell. */
static __always_inline __u32 generation_to(const struct router *r, const struct decision *d,
					   const struct addr *addr)
{
	return r->generation + (d->flags & FLOW_DNAT ? r->translated : r->shards[addr_shard(addr)]);
}

/* The decision depends on where the MAC address is, too. */
static __always_inline void depend_on(struct decision *d, const struct segment *seg,
				      const __u8 *mac)
{
	d->generation += seg->shards[mac_shard(mac)];
}

/* Decisions that depend on the generation are taken again. */
static __always_inline void outdate(__u32 *generation)
{
	__u32 index = PULSE_CHANGES, *changes;

	if (tracing)
		return;
	__sync_fetch_and_add(generation, 1);
	changes = bpf_map_lookup_elem(&pulses, &index);
	if (changes) /* after the generation, which is looked at when this has changed */
		__sync_fetch_and_add(changes, 1);
}

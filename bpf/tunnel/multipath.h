/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * spread: chooses the path to a remote that has several, by the flow or by where the
 * frame came from. When a path goes, its own flows move and no others: the Go side
 * gives its buckets to the rest and marks it as down.
 *
 * in:    p->key, the segment, the end that stands for the remote
 * out:   the end to send to
 * maps:  spreads, ends
 * stops: nothing
 */
#pragma once

#include "l3/route.h"

/* The port or remote, and the source MAC address there. */
static __always_inline __u64 hash_of_source(const struct pkt *p)
{
	const __u16 *mac = (const void *)p->key.smac;
	__u64 h = mix(p->in, (__u64)mac[0] << 32 | (__u32)mac[1] << 16 | mac[2]);

	return mix_last(h);
}

static __always_inline __u32 spread_to(const struct pkt *p, const struct segment *seg, __u32 end)
{
	struct spread_key key = { .end = end, .team = seg->team };
	struct end *to = end_get(end);
	struct spread *s;
	__u64 hash;

	if (!to || !(to->flags & END_SPREAD))
		return end;
	s = bpf_map_lookup_elem(&spreads, &key);
	if (!s)
		return end;
	hash = seg->flags & SEGMENT_BY_SOURCE ? hash_of_source(p) : hash_of(&p->key);
	/* Other bits than those of the entropy, the next hops' and the cache's places. */
	return s->buckets[hash >> 40 & (SPREAD_BUCKETS - 1)];
}

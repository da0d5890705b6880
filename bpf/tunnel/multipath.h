/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * multipath: selects a path to a remote that has several, by flow or by source. When a path
 * fails, user space assigns its buckets to the others and marks it as down: only its own
 * flows move.
 *
 * in:    p->key, the segment, the vport that represents the remote
 * out:   the vport of the path
 * maps:  path_groups, vports
 * stops: nothing
 */
#pragma once

#include "core/hash.h"

/* Hash of ingress vport and source MAC address. */
static __always_inline __u64 hash_of_source(const struct pkt *p)
{
	const __u16 *mac = (const void *)p->key.smac;
	__u64 h = mix(p->in, (__u64)mac[0] << 32 | (__u32)mac[1] << 16 | mac[2]);

	return mix_last(h);
}

static __always_inline __u32 select_path(const struct pkt *p, const struct segment *seg,
					 __u32 vport)
{
	struct path_group_key key = { .vport = vport, .path_policy = seg->path_policy };
	struct vport *to = vport_get(vport);
	struct path_group *s;
	__u64 hash;

	if (!to || !(to->flags & VPORT_MULTIPATH))
		return vport;
	s = bpf_map_lookup_elem(&path_groups, &key);
	if (!s)
		return vport;
	hash = seg->flags & SEGMENT_BY_SOURCE ? hash_of_source(p) : hash_of(&p->key);
	/* Other bits than entropy, next hops and transit cache use. */
	return s->buckets[hash >> 40 & (PATH_BUCKETS - 1)];
}

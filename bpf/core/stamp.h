/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * stamp: records when packets pass the points of the data path, so that the lab can tell
 * where the time of a round trip goes. In production it is off: a constant disables it, and
 * the verifier removes it.
 *
 * in:    nothing
 * out:   a stamp
 * maps:  stamps, stamped
 * stops: nothing; stamps without room are counted as lost
 */
#pragma once

#include "abi/abi.h"

/* Stamps of each core. 0: none are taken. */
const volatile __u32 stamp_slots;

/* Points in the order in which a packet passes them: one of the two entries first, POINT_SENT last. */
enum __attribute__((packed)) point {
	POINT_PORT,	/* entry: from a port */
	POINT_UNDERLAY, /* entry: from an underlay interface */
	POINT_PARSED,	/* headers are parsed */
	POINT_CACHED,	/* the flow cache has a decision */
	POINT_RESOLVED, /* the slow path has decided */
	POINT_ADMITTED, /* firewall and NAT have admitted it */
	POINT_DECIDED,	/* the decision is in the flow cache */
	POINT_SENT,	/* it is modified, and sent when the program returns */
	/* Of guests, see lab/breakdown/bpf/guests.bpf.c: */
	POINT_LEAVES, /* it has left its sender's stack */
	POINT_READY,  /* it is in its receiver's socket */
};

struct stamp {
	__u64 ns; /* CLOCK_MONOTONIC */
	__u32 cpu;
	enum point point;
	__u8 pad[3];
};

/* How far a core's part of stamps is filled. */
struct stamped {
	__u32 kept;
	__u32 lost;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* user space maps it */
	__type(key, __u32);
	__type(value, struct stamp);
} stamps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stamped);
} stamped SEC(".maps");

/* The time is taken first: the cost of a stamp counts for the point after it. */
static __always_inline void stamp(enum point at)
{
	__u32 zero = 0, index;
	struct stamped *part;
	struct stamp *s;
	__u64 now;

	if (!stamp_slots)
		return;
	now = bpf_ktime_get_ns();
	part = bpf_map_lookup_elem(&stamped, &zero);
	if (!part)
		return;
	index = bpf_get_smp_processor_id() * stamp_slots + part->kept;
	s = part->kept < stamp_slots ? bpf_map_lookup_elem(&stamps, &index) : NULL;
	if (!s) {
		part->lost++;
		return;
	}
	part->kept++;
	s->ns = now;
	s->cpu = bpf_get_smp_processor_id();
	s->point = at;
}

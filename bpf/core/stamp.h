/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * timing: writes down when packets pass the points of the data path, from which the lab
 * tells where the time of a round trip goes. An edge that carries traffic has it off: a
 * constant closes it, and the verifier removes it.
 *
 * in:    nothing
 * out:   a stamp
 * maps:  stamps, stamped
 * stops: nothing; what a core has no room for is counted and lost
 */
#pragma once

#include "abi/abi.h"

/* Stamps that each core has room for. 0: none are taken. */
const volatile __u32 stamp_slots;

/* What a packet has behind it. One that goes on passes an entry first and POINT_SENT last. */
enum __attribute__((packed)) point {
	POINT_PORT,	/* entry: nothing, it came from a port */
	POINT_UNDERLAY, /* entry: nothing, it came from an underlay interface */
	POINT_PARSED,	/* its headers are read */
	POINT_CACHED,	/* the flow cache knew what to do with it */
	POINT_SWITCHED, /* the slow path knows where it goes */
	POINT_POLICED,	/* and that the firewall lets it pass */
	POINT_DECIDED,	/* and has kept that in the flow cache */
	POINT_SENT,	/* it is changed, and handed on when the program returns */
	/* Of guests, see guests.bpf.c: */
	POINT_LEAVES, /* it is through its sender's stack */
	POINT_READY,  /* its receiver's socket has it */
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
	__uint(map_flags, BPF_F_MMAPABLE); /* it is read in one piece */
	__type(key, __u32);
	__type(value, struct stamp);
} stamps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stamped);
} stamped SEC(".maps");

/* The time is taken first: what a stamp costs is part of what comes after it. */
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

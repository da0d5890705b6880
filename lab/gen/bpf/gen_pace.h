/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * pace: whether a frame is due. The clock of a run is exact on the mean: bursts are
 * due at multiples of an interval since its start, whatever became of those before.
 * What is late by more than the run catches up with is given up: it is unsent.
 *
 * in:    the run
 * out:   the time, if a frame is to go now
 */
#pragma once

#include "gen.h"

#define PORTS_MAX 8
#define FRACTION 16 /* bits of a time below 1 ns */
#define LOOK 32	    /* frames between looks at the clock where no time is needed */

struct run {
	/* The load. */
	__u64 frames;	   /* to offer */
	__u64 duration_ns; /* without a rate; 0: until all frames are offered */
	__u64 interval;	   /* between bursts, in fractions; 0: no rate */
	__u64 catch_up;	   /* in fractions */
	__u32 burst;
	__u8 id;
	__u8 timed;
	__u16 pad;

	/* The outcome. */
	__u64 offered;
	__u64 unsent;
	__u64 bytes; /* of several sizes */
	__u64 start_ns;
	__u64 last_ns;
	__u64 sent[PORTS_MAX]; /* by several ports */

	/* The next frame. */
	__u64 due; /* in fractions since the start */
	__u64 seq;
	__u32 flow;
	__u32 source;
	__u32 destination;
	__u32 udp_port;
	__u32 port;
	__u32 pattern;
	__u32 burst_left;
	__u32 look;
};

struct run current;

/* Skips the bursts that were due too long ago. */
static __always_inline void give_up(struct run *r, __u64 late)
{
	__u64 bursts = (late - r->catch_up) / r->interval + 1;
	__u64 left = r->frames - r->offered;
	__u64 frames = bursts * r->burst;

	r->due += bursts * r->interval;
	if (frames > left)
		frames = left;
	r->unsent += frames;
	r->offered += frames;
}

/* The time, if a frame is due; otherwise 0. */
static __always_inline __u64 due(struct run *r)
{
	__u64 now, at;

	if (r->burst_left) {
		r->burst_left--;
		return r->timed ? bpf_ktime_get_ns() : r->last_ns;
	}
	now = bpf_ktime_get_ns();
	if (!r->start_ns)
		r->start_ns = now;
	if (now < r->start_ns) /* several generators begin together */
		return 0;
	at = (now - r->start_ns) << FRACTION;
	if (at < r->due)
		return 0;
	if (at - r->due > r->catch_up) {
		give_up(r, at - r->due);
		if (r->offered >= r->frames || at < r->due)
			return 0;
	}
	r->last_ns = now;
	r->due += r->interval;
	r->burst_left = r->burst - 1;
	return now;
}

/* Without a rate: the time, if there is some left; otherwise 0. */
static __always_inline __u64 time_left(struct run *r)
{
	if (r->look) {
		r->look--;
		return r->last_ns;
	}
	r->last_ns = bpf_ktime_get_ns();
	if (!r->start_ns)
		r->start_ns = r->last_ns;
	if (r->last_ns < r->start_ns)
		return 0;
	if (r->duration_ns && r->last_ns - r->start_ns >= r->duration_ns) {
		r->frames = r->offered;
		return 0;
	}
	if (!r->timed)
		r->look = LOOK - 1;
	return r->last_ns;
}

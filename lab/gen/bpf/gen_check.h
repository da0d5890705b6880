/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * check: counts the frames of a run, follows the sequence numbers of each flow and
 * times frames. Each core writes counts of its own, without atomics; a flow's state
 * is written by the core that takes the flow in.
 *
 * in:    a mark
 * maps:  counters, arounds, foreigns, followed
 */
#pragma once

#include "gen_hear.h"

/*
 * Latencies fall into buckets of 1 ns below 64 ns, and above into 32 buckets for
 * each power of 2: 3.2 % wide at most, up to 68 s.
 */
#define BUCKET_BITS 5
#define BUCKETS 1024

/* Sequence numbers behind the newest whose arrival is remembered. */
#define WINDOW 64

struct counts {
	__u64 frames;
	__u64 bytes;
	__u64 shortest; /* 0: none yet */
	__u64 longest;
	__u64 answered;
	__u64 unknown;

	__u64 timed;
	__u64 sum_ns;
	__u64 least_ns;
	__u64 most_ns;
	__u64 last_ns;
	__u64 change_ns; /* sum of the differences between consecutive latencies */
	__u64 buckets[BUCKETS];
};

struct flow {
	__u64 next;   /* one more than the largest sequence number */
	__u64 window; /* bit i: next - 1 - i came */
	__u64 gaps;   /* that did not come, below next */
	__u32 reordered;
	__u32 duplicated;
};

const volatile __u32 check_flows; /* how many there are; 0: do not follow them */
const volatile bool check_latency;
const volatile __u8 sink_stream;

__u8 current_run;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, AROUND_LEN);
	__type(key, enum around);
	__type(value, __u64); /* frames */
} arounds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FOREIGN_LEN);
	__type(key, enum foreign);
	__type(value, __u64); /* frames */
} foreigns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} followed SEC(".maps");

static __always_inline struct counts *counts_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

/* A sequence number below the newest. Beyond the window only an open gap tells late from twice. */
static __always_inline void came_late(struct flow *f, __u64 age)
{
	bool twice = age < WINDOW ? f->window >> age & 1 : !f->gaps;

	if (twice) {
		f->duplicated++;
		return;
	}
	if (age < WINDOW)
		f->window |= 1ULL << age;
	f->gaps--;
	f->reordered++;
}

static __always_inline void follow(struct counts *c, __u64 place)
{
	__u32 id = place >> SEQ_BITS;
	__u64 seq = place & SEQ_MASK, ahead;
	struct flow *f;

	f = bpf_map_lookup_elem(&followed, &id);
	if (!f) {
		c->unknown++;
		return;
	}
	if (seq < f->next) {
		came_late(f, f->next - 1 - seq);
		return;
	}
	ahead = seq - f->next;
	f->gaps += ahead;
	f->window = ahead < WINDOW - 1 ? f->window << (ahead + 1) | 1 : 1;
	f->next = seq + 1;
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bits = 0; /* below the BUCKET_BITS + 1 upper ones */
	__u64 left = ns >> (BUCKET_BITS + 1);

	if (!left)
		return ns;
	if (left >> 16) {
		bits += 16;
		left >>= 16;
	}
	if (left >> 8) {
		bits += 8;
		left >>= 8;
	}
	if (left >> 4) {
		bits += 4;
		left >>= 4;
	}
	if (left >> 2) {
		bits += 2;
		left >>= 2;
	}
	bits += 1 + (left >> 1);
	return (bits << BUCKET_BITS) + (ns >> bits);
}

static __always_inline void time_frame(struct counts *c, const struct mark *m)
{
	__u64 sent = m->sent_ns | (__u64)m->sent_ns_high << 32, ns, now;
	__u32 bucket;

	if (!sent)
		return;
	now = bpf_ktime_get_ns();
	ns = (now - sent) & CLOCK_MASK;
	if (ns > CLOCK_MASK / 2) /* two cores' clocks may differ by nanoseconds */
		ns = 0;
	bucket = ns >> (BUCKET_BITS + 31) ? BUCKETS - 1 : bucket_of(ns);
	if (bucket < BUCKETS)
		c->buckets[bucket]++;
	if (c->timed)
		c->change_ns += ns > c->last_ns ? ns - c->last_ns : c->last_ns - ns;
	if (!c->timed || ns < c->least_ns)
		c->least_ns = ns;
	if (ns > c->most_ns)
		c->most_ns = ns;
	c->timed++;
	c->sum_ns += ns;
	c->last_ns = ns;
}

/* Counts a frame with a mark. */
static __always_inline void count_frame(struct counts *c, const struct heard *h, __u64 len)
{
	enum around around = h->around;
	__u64 *n;

	c->frames++;
	c->bytes += len;
	if (len < c->shortest || !c->shortest)
		c->shortest = len;
	if (len > c->longest)
		c->longest = len;
	n = bpf_map_lookup_elem(&arounds, &around);
	if (n)
		(*n)++;
}

static __always_inline enum foreign check(struct counts *c, const struct heard *h, __u64 len)
{
	const struct mark *m = h->mark;

	if (m->head != mark_head(sink_stream, current_run))
		return (__u8)(m->head >> 16) != sink_stream ? FOREIGN_STREAM : FOREIGN_STALE;
	count_frame(c, h, len);
	if (check_flows)
		follow(c, m->place);
	if (check_latency)
		time_frame(c, m);
	return FOREIGN_NONE;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* trace: counters, and what a trace writes down. Keys, values and maps. */
#pragma once

#include "abi/cache.h"

#define MAX_STEPS 64

/* One step of a trace; internal/datapath/trace.go knows what a and b mean. */
struct trace_step {
	enum stage stage;
	__u32 a;
	__u32 b;
};

struct vport_counters {
	struct counter rx; /* from the vport into the edge */
	struct counter tx; /* from the edge to the vport */
	__u64 drops;	   /* of received packets */
};

struct token_bucket {
	__u64 tokens;
	__u64 filled_ns;
};

/* For log lines, see firewall/log.h. */
struct log_bucket {
	struct token_bucket bucket;
	__u64 lost; /* since the last line */
};

/* Enums as keys put their names into BTF, for the generated Go types. */
MAP(PERCPU_ARRAY, drops, enum reason, struct counter, REASON_MAX);
MAP(PERCPU_ARRAY, events, enum event, __u64, EVENT_MAX);
MAP(PERCPU_ARRAY, traffic, __u32, struct vport_counters, MAX_VPORTS);
MAP(ARRAY, trace, __u32, struct trace_step, MAX_STEPS);

/* Token buckets of each core: local replies, host events, log lines. */
MAP(PERCPU_ARRAY, icmp_buckets, __u32, struct token_bucket, 1);
MAP(PERCPU_ARRAY, host_event_buckets, __u32, struct token_bucket, 1);
MAP(PERCPU_ARRAY, log_buckets, __u32, struct log_bucket, 1);

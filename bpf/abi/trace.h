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

/* Whose packets were dropped: those of a port, or of a remote in a segment. */
struct drop_owner {
	enum reason reason;
	__u32 vport;   /* ingress */
	__u32 segment; /* ingress */
};

struct token_bucket {
	__u64 tokens;
	__u64 filled_ns;
};

/* Enums as keys put their names into BTF, for the generated Go types. */
MAP(PERCPU_ARRAY, drops, enum reason, struct counter, REASON_MAX);
MAP_FLAGS(PERCPU_HASH, owner_drops, struct drop_owner, struct counter, 16384, BPF_F_NO_PREALLOC);
MAP(PERCPU_ARRAY, events, enum event, __u64, EVENT_MAX);
MAP(PERCPU_ARRAY, traffic, __u32, struct vport_counters, VPORTS);
MAP(ARRAY, trace, __u32, struct trace_step, MAX_STEPS);

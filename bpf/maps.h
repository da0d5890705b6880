/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* State. Sizes of fdb and flows come from the configuration at load time. */
#pragma once

#include "abi.h"

#define MAP(map_type, map_name, key_type, value_type, entries) \
	struct {                                               \
		__uint(type, BPF_MAP_TYPE_##map_type);         \
		__uint(max_entries, entries);                  \
		__type(key, key_type);                         \
		__type(value, value_type);                     \
	} map_name SEC(".maps")

MAP(ARRAY, ends, __u32, struct end, MAX_ENDS);
MAP(ARRAY, segments, __u32, struct segment, MAX_SEGMENTS);
MAP(HASH, ports, __u32, __u32, MAX_ENDS);	      /* ifindex → end */
MAP(HASH, vnis, struct vni_key, __u32, MAX_SEGMENTS); /* → segment */
MAP(HASH, remotes, struct remote_key, __u32, 65536);  /* → end */
MAP(HASH, members, struct member_key, __u32, 131072); /* → end */
MAP(HASH, fdb, struct fdb_key, struct fdb_entry, 65536);
MAP(LRU_HASH, flows, struct flow_key, struct flow, 262144);

/* The enums are keys so that they reach BTF and become Go types. */
MAP(PERCPU_ARRAY, drops, enum reason, struct counter, REASON_MAX);
MAP(PERCPU_ARRAY, events, enum event, __u64, EVENT_MAX);
MAP(PERCPU_ARRAY, traffic, __u32, struct end_counters, MAX_ENDS);

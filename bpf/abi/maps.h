/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* State. Sizes of fdb and flows come from the configuration at load time. */
#pragma once

#include "abi/abi.h"

#define MAP(map_type, map_name, key_type, value_type, entries) \
	struct {                                               \
		__uint(type, BPF_MAP_TYPE_##map_type);         \
		__uint(max_entries, entries);                  \
		__type(key, key_type);                         \
		__type(value, value_type);                     \
	} map_name SEC(".maps")

/* The kernel wants tries without preallocation. */
#define LPM_MAP(map_name, key_type, value_type, entries) \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);     \
		__uint(max_entries, entries);            \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__type(key, key_type);                   \
		__type(value, value_type);               \
	} map_name SEC(".maps")

MAP(ARRAY, ends, __u32, struct end, MAX_ENDS);
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SEGMENTS);
	__uint(map_flags, BPF_F_MMAPABLE); /* the Go side raises single generations */
	__type(key, __u32);
	__type(value, struct segment);
} segments SEC(".maps");
MAP(HASH, ports, struct port_key, __u32, MAX_ENDS);   /* → end */
MAP(HASH, vnis, struct vni_key, __u32, MAX_SEGMENTS); /* → segment */
MAP(HASH, remotes, struct remote_key, __u32, 65536);  /* → end, with REMOTE_UNTAUGHT */
MAP(HASH, teps, struct path_key, __u32, MAX_ENDS);    /* → end */
MAP(HASH, spreads, struct spread_key, struct spread, MAX_ENDS);
MAP(HASH, members, struct member_key, __u32, 131072); /* → end */
MAP(HASH, fdb, struct fdb_key, struct fdb_entry, 65536);
MAP(ARRAY, routers, __u32, struct router, MAX_ROUTERS);
MAP(HASH, locals, struct local_key, __u32, 65536); /* → segment */
MAP(HASH, neighbours, struct neighbour_key, struct neighbour, 65536);
MAP(ARRAY, groups, __u32, struct group, MAX_GROUPS);
MAP(ARRAY, hops, __u32, struct hop, MAX_HOPS);
MAP(HASH, allowed_macs, struct allowed_mac, __u32, 65536);
MAP(HASH, known_options, __u32, __u32, 1024); /* Geneve option class << 8 | type */
LPM_MAP(routes, struct route_key, struct route, 262144);
LPM_MAP(allowed_addrs, struct allowed_addr, __u32, 65536);
MAP(LRU_HASH, flows, struct flow_key, struct flow, 262144);

/* The firewall, see firewall/firewall.h. Sizes come from the configuration at load time. */
#define CONN_MAP(map_type, map_name, flags)            \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_##map_type); \
		__uint(max_entries, 1);                \
		__uint(map_flags, flags);              \
		__type(key, struct conn_key);          \
		__type(value, struct conn);            \
	} map_name SEC(".maps")
CONN_MAP(HASH, connections, BPF_F_NO_PREALLOC);
CONN_MAP(LRU_HASH, half_open, 0);
MAP(ARRAY, half_opens, __u32, struct half_open_count, MAX_ENDS); /* by end */
MAP(LRU_HASH, fragments, struct fragment_key, __u64, 1);	 /* when the first passed */
MAP(ARRAY, rules, __u32, struct rule_counters, 1);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} logs SEC(".maps");
/* The firewall's policy, and which packets egress policies are for. An entry is replaced at once. The Go side makes its maps of the size it needs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, POLICIES);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_ARRAY);
			__uint(max_entries, 1);
			__uint(map_flags, BPF_F_INNER_MAP | BPF_F_MMAPABLE);
			__uint(key_size, sizeof(__u32));
			__uint(value_size, sizeof(struct line));
		});
} policy SEC(".maps");

/* Translation, see nat/nat.h. Sizes come from the configuration at load time. */
MAP(ARRAY, egresses, __u32, struct egress, MAX_EGRESS);
MAP(ARRAY, pool, __u32, struct addr, MAX_POOL);
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct conn_key);
	__type(value, struct binding);
} bindings SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct conn_key);
	__type(value, struct origin);
} returns SEC(".maps");
MAP(LRU_HASH, host_counts, struct host_key, struct host_bindings, 1);
MAP(HASH, forwards, struct forward_key, struct forward, 65536);
MAP(LRU_HASH, nat_fragments, struct fragment_key, struct fragment_translation, 1);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} news SEC(".maps"); /* struct binding_news */

/* Of the transit programs: shortcut_slots of each core, in whole cache lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* begins at a page */
	__type(key, __u32);
	__type(value, struct shortcut);
} shortcuts SEC(".maps");
MAP(ARRAY, pulses, enum pulse, __u32, PULSE_MAX);
MAP(PERCPU_ARRAY, shortcut_tables, __u32, struct shortcut_table, 1);
/*
 * Interfaces by number. The kernel ties such a map to programs that take fragments, or to
 * those that do not: the ones in generic mode have a map of their own, of equal content.
 */
#define EXITS(map_name)                                          \
	struct {                                                 \
		__uint(type, BPF_MAP_TYPE_DEVMAP);               \
		__uint(max_entries, MAX_EXITS);                  \
		__uint(key_size, sizeof(__u32));   /* number */  \
		__uint(value_size, sizeof(__u32)); /* ifindex */ \
	} map_name SEC(".maps")
EXITS(exits);
EXITS(exits_generic);
MAP(HASH, takers, __u32, __u32, 1024); /* interfaces with a transit program, by ifindex */

/* The enums are keys so that they reach BTF and become Go types. */
MAP(PERCPU_ARRAY, drops, enum reason, struct counter, REASON_MAX);
MAP(PERCPU_ARRAY, events, enum event, __u64, EVENT_MAX);
MAP(PERCPU_ARRAY, traffic, __u32, struct end_counters, MAX_ENDS);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} arrivals SEC(".maps"); /* struct arrival */

MAP(PERCPU_ARRAY, buckets, __u32, struct bucket, 1);
MAP(PERCPU_ARRAY, arrival_buckets, __u32, struct bucket, 1);
MAP(PERCPU_ARRAY, log_buckets, __u32, struct log_bucket, 1);
MAP(PERCPU_ARRAY, current, __u32, struct pkt, 1);
MAP(PERCPU_ARRAY, hearings, __u32, struct hearing, 1);
MAP(PERCPU_ARRAY, scratch, __u32, struct scratch, 1);

/* What the last traced packet met, in order. */
MAP(ARRAY, trace, __u32, struct trace_step, MAX_STEPS);

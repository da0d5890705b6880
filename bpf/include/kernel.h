/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The part of the kernel's user-space ABI that the programs need, so that they
 * build without the headers of the running system, which are older than it.
 * Layouts and numbers are the kernel's (struct __sk_buff, enum bpf_map_type …).
 */
#pragma once

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_F_INNER_MAP = 1U << 12,
	BPF_RB_NO_WAKEUP = 1U << 0,
};

enum tcx_action {
	TCX_NEXT = -1,
	TCX_PASS = 0,
	TCX_DROP = 2,
	TCX_REDIRECT = 7,
};

enum xdp_action {
	XDP_ABORTED = 0,
	XDP_DROP = 1,
	XDP_PASS = 2,
	XDP_TX = 3,
	XDP_REDIRECT = 4,
};

struct xdp_md {
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

enum {
	BPF_F_RECOMPUTE_CSUM = 1ULL << 0,
	BPF_F_PSEUDO_HDR = 1ULL << 4,
	BPF_CSUM_LEVEL_QUERY = 0,
	BPF_F_MARK_MANGLED_0 = 1ULL << 5,
	BPF_F_INGRESS = 1ULL << 0,
};

enum bpf_adj_room_mode {
	BPF_ADJ_ROOM_NET = 0,
	BPF_ADJ_ROOM_MAC = 1,
};

enum {
	BPF_F_ADJ_ROOM_FIXED_GSO = 1ULL << 0,
	BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 = 1ULL << 1,
	BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 = 1ULL << 2,
	BPF_F_ADJ_ROOM_ENCAP_L4_GRE = 1ULL << 3,
	BPF_F_ADJ_ROOM_ENCAP_L4_UDP = 1ULL << 4,
	BPF_F_ADJ_ROOM_ENCAP_L2_ETH = 1ULL << 6,
	BPF_F_ADJ_ROOM_DECAP_L3_IPV4 = 1ULL << 7,
	BPF_F_ADJ_ROOM_DECAP_L3_IPV6 = 1ULL << 8,
};
#define BPF_F_ADJ_ROOM_ENCAP_L2(len) (((__u64)(len) & 0xff) << 56)

enum {
	BPF_F_TUNINFO_IPV6 = 1ULL << 0,
};

struct bpf_tunnel_key {
	__u32 tunnel_id;
	__u32 remote_ipv6[4];
	__u8 tunnel_tos;
	__u8 tunnel_ttl;
	__u16 tunnel_ext;
	__u32 tunnel_label;
	__u32 local_ipv6[4];
};

/* skb->pkt_type */
enum {
	PACKET_HOST = 0,
	PACKET_BROADCAST = 1,
	PACKET_MULTICAST = 2,
	PACKET_OTHERHOST = 3,
};

struct bpf_flow_keys;
struct bpf_sock;

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	union {
		struct bpf_flow_keys *flow_keys;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union {
		struct bpf_sock *sk;
		__u64 : 64;
	} __attribute__((aligned(8)));
	__u32 gso_size;
	__u8 tstamp_type;
	__u32 : 24;
	__u64 hwtstamp;
};

#include "bpf/bpf_helpers.h"
#include "bpf/bpf_endian.h"

/* The kernel's counting loop, which the verifier walks once, not once for each turn. */
struct bpf_iter_num;
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __ksym;
struct bpf_iter_num {
	__u64 state[1];
} __attribute__((aligned(8)));

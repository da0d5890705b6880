/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* routing: routers, their addresses, neighbours, routes and next hops. Keys, values and maps. */
#pragma once

#include "abi/forwarding.h"

#define MAX_ROUTERS 1024    /* routers of one edge */
#define MAX_NEXTHOPS 65536  /* of all routers: their numbers have 16 bits */
#define NEXTHOP_BUCKETS 128 /* of a next-hop group */

enum router_flags {
	ROUTER_NAT = 1,	   /* it has NAT pools, port forwards, or an uplink that translates */
	ROUTER_EGRESS = 2, /* egress policies apply to it */
};

/* A router (VRF). Number 0 is none. */
struct router {
	__u32 generation; /* raised when any route may have changed */
	__u32 used;
	enum router_flags flags;
	__u32 translated;    /* generation: raised with any shard */
	struct addr source4; /* of ICMP messages in segments without a gateway address */
	struct addr source6;
	__u32 shards[SHARDS]; /* generations: raised when a route of the shard changes */
};

/*
 * Addresses of the edge itself: gateways and loopbacks of a router, and link-local
 * addresses of a segment. Flags of the key's router:
 */
#define LOCAL_LINK 0x80000000 /* the number is a segment's */
/* Flags of the value, beside the segment: */
#define LOCAL_NAT 0x80000000	/* packets for the address may need DNAT */
#define LOCAL_LEASED 0x40000000 /* another gateway takes the address if this process dies */
#define LOCAL_LOOPBACK 0x20000000
struct local_key {
	__u32 router;
	struct addr addr;
};

struct neighbour_key {
	__u32 segment;
	struct addr addr;
};

BYTE_ENUM neighbour_flags {
	NEIGHBOUR_AT_PORT = 1,	   /* learned at a port */
	NEIGHBOUR_ROUTER = 2,	   /* IPv6: its advertisements have the R flag (RFC 4861 4.4) */
	NEIGHBOUR_NO_OVERRIDE = 4, /* IPv6: they do not have the O flag, as of anycast addresses */
};

struct neighbour {
	__u8 mac[ETH_ALEN];
	enum host_origin origin;
	enum neighbour_flags flags;
	__u64 seen_ns; /* CLOCK_MONOTONIC */
	__u32 vport;   /* learned: the owner, of which limits count it */
	__u32 since_s; /* when it was learned, CLOCK_MONOTONIC */
};

BYTE_ENUM route_kind {
	ROUTE_NONE,
	ROUTE_GROUP,
	ROUTE_BLACKHOLE,
	ROUTE_UNREACHABLE,
	ROUTE_PROHIBIT,
};

/* Longest prefix match: 32 bits of the router, then the address. */
struct route_key {
	__u32 prefixlen;
	__u32 router;
	struct addr addr;
};

struct route {
	enum route_kind kind;
	__u8 is_default; /* all that has no other route: it says nothing of a source */
	__u8 pad[2];
	__u32 group;
};

/*
 * The flow's hash selects a bucket, and the bucket a next hop. When a next hop goes, only
 * its own buckets change (resilient hashing).
 */
struct nexthop_group {
	__u16 buckets[NEXTHOP_BUCKETS];
};

struct nexthop {
	__u32 segment;
	__u16 vport; /* of a remote, whose MAC address is mac; 0: addr is a neighbour */
	__u8 mac[ETH_ALEN];
	struct addr addr; /* zero: the packet's destination */
};

MAP(ARRAY, routers, __u32, struct router, MAX_ROUTERS);
MAP(HASH, local_addrs, struct local_key, __u32, 65536); /* → segment */
MAP(HASH, neighbours, struct neighbour_key, struct neighbour, 65536);
MAP(LRU_HASH, neighbour_requests, struct neighbour_key, __u64, 16384); /* → time of the last one */
MAP(ARRAY, nexthop_groups, __u32, struct nexthop_group, 4096);
MAP(ARRAY, nexthops, __u32, struct nexthop, 4096);
LPM_MAP(routes, struct route_key, struct route, 262144);

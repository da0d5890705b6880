/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* nat: sessions, pools, port forwards and egress policies. Keys, values and maps. */
#pragma once

#include "abi/conntrack.h"

#define MAX_EGRESS 1024	   /* egress policies, and uplinks that translate */
#define EGRESS_BUCKETS 256 /* a policy's sources are distributed over them by hash */
#define MAX_GATEWAYS 16	   /* of an egress policy */
#define MAX_POOL 65536	   /* addresses of all pools */

/*
 * A session translates one connection between an address inside and one outside. Its key
 * is a struct ct_key whose zone is the router. Packets from outside find it by the reverse
 * key: the same, with the external address and port as inside.
 */
enum nat_session_flags {
	NAT_SESSION_REPLICA = 1,     /* made by another gateway; no packet of it was seen here */
	NAT_SESSION_FORWARDED = 2,   /* opened from outside: port forward or open mapping */
	NAT_SESSION_INDEPENDENT = 4, /* it uses the port of its source's mapping */
	NAT_SESSION_MAPPING = 8,     /* a mapping: outside is zero, it holds the port */
	/* It came in by an uplink, not to an address of NAT: its packets keep their addresses. */
	NAT_SESSION_UNTRANSLATED = 16,
};

struct nat_session {
	struct ct_entry ct;  /* state; rule and policy are unused */
	struct addr addr;    /* external address */
	struct addr via;     /* remote that the source is behind, zero: routed */
	__be16 port;	     /* external port; ICMP echo: identifier */
	__u16 egress;	     /* number of the policy */
	__u32 flags;	     /* enum nat_session_flags */
	__u64 replicated_ns; /* time when other gateways were told of it */
	__u16 vport;	     /* ingress vport and segment of the packet that opened it */
	__u16 segment;
	__u32 pad;
};

/* The original (inside) address and port of a session: the value of its reverse key. */
struct nat_orig {
	struct addr addr;
	__be16 port;
	__u16 inserted_s; /* seconds, low bits: a reverse key is older than its session */
};

/* Sessions of a source that are not over. Those opened from outside are counted apart. */
#define NAT_HOST_INBOUND 0x80000000 /* beside the router */
struct nat_host_key {
	__u32 router;
	struct addr addr;
};

struct nat_host_count {
	__u32 count;
	__u32 run; /* of garbage collection, which found so many */
	__u32 found;
};

/* A port of an external address that leads inside. */
struct port_forward_key {
	__u32 router;
	__u8 proto;
	__u8 pad;
	__be16 port;
	struct addr addr;
};

struct port_forward {
	struct addr addr;
	__be16 port;
	__u16 egress;
};

enum egress_flags {
	EGRESS_BY_CONNECTION = 1, /* connections of one source use different addresses */
	EGRESS_INDEPENDENT = 2,	  /* endpoint-independent mapping (RFC 4787 4.1) */
	EGRESS_OPEN = 4,	  /* endpoint-independent filtering (RFC 4787 5) */
};

#define NO_GATEWAY 0xffff /* as next hop: no gateway serves the bucket */

/* The buckets of a policy, for one address family. */
struct egress_family {
	__u32 pool;			/* index of the first address in the map pool */
	__u32 count;			/* of this edge's addresses */
	__u16 nexthops[EGRESS_BUCKETS]; /* to the gateway; 0: this edge */
	__u16 first[EGRESS_BUCKETS];	/* index of the address that is tried first */
};

/* An egress policy, or the translation of an uplink. Number 0 is none. */
struct egress_policy {
	__u32 used; /* hash of its name */
	__u32 router;
	__u32 segment; /* between edges and gateways; 0: the translation of an uplink */
	enum egress_flags flags;
	__u16 first_port; /* host byte order */
	__u16 last_port;
	__u32 limit;			/* sessions of one source, 0: unlimited */
	__u32 inbound_limit;		/* of one host, opened from outside */
	__u16 kept[MAX_GATEWAYS];	/* next hops to gateways that keep their flows */
	struct egress_family family[2]; /* IPv4, IPv6 */
};

/* The translation of a fragmented datagram. */
struct fragment_translation {
	__u64 passed_ns; /* time of the first fragment */
	struct tuple translation;
	struct addr via;
	__u16 egress;
	__u16 flags;		   /* FLOW_SNAT, FLOW_DNAT */
	__u32 headers;		   /* bytes of the first fragment that no later one may replace */
	struct fragment_key noted; /* of a slot, see firewall/share.h */
	__u32 pad;
};

BYTE_ENUM nat_event_kind {
	NAT_EVENT_CREATED,
	NAT_EVENT_ESTABLISHED, /* answered: it is worth replicating */
	NAT_EVENT_DELETED,
};

/* For the log and for other gateways. */
struct nat_event {
	__u64 ns; /* CLOCK_MONOTONIC */
	struct ct_key key;
	enum nat_event_kind event;
	__u8 pad[3];
	struct nat_session session;
};

/* External ports in use for one destination. */
struct port_usage_key {
	__u32 router;
	__u8 proto;
	__u8 pad;
	__be16 outside_port;
	struct addr egress;
	struct addr outside;
};

struct port_usage {
	__u32 run; /* of garbage collection, which counted */
	__u32 count;
};

/* What garbage collection counted and removed. */
struct nat_gc_stats {
	__u32 states[CT_STATE_MAX];
	__u32 sessions;
	__u32 mappings;
	__u32 replicas;
	__u32 expired;
	__u32 run; /* its number */
	__u32 pad;
};

MAP(ARRAY, egress_policies, __u32, struct egress_policy, MAX_EGRESS);
MAP(ARRAY, pool, __u32, struct addr, MAX_POOL);
MAP_FLAGS(HASH, nat_sessions, struct ct_key, struct nat_session, 1, BPF_F_NO_PREALLOC);
MAP_FLAGS(HASH, nat_reverse, struct ct_key, struct nat_orig, 1, BPF_F_NO_PREALLOC);
MAP_FLAGS(HASH, nat_host_counts, struct nat_host_key, struct nat_host_count, 1, BPF_F_NO_PREALLOC);
MAP(LRU_HASH, nat_inbound, struct ct_key, struct nat_session, 1);
QUEUE(nat_over, struct ct_key, 1);	 /* sessions that can go when there is no room: closed */
QUEUE(nat_unanswered, struct ct_key, 1); /* and those that nobody has answered */
MAP(HASH, port_forwards, struct port_forward_key, struct port_forward, 65536);
MAP(LRU_HASH, nat_fragments, struct fragment_key, struct fragment_translation, 1);
RINGBUF(nat_events, 1 << 22); /* struct nat_event */

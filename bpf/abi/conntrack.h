/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* conntrack: the firewall's connections, rules and log. Keys, values and maps. */
#pragma once

#include "abi/cache.h"
#include "abi/map.h"

#define MAX_RULES 131072 /* of the firewall, with one for each default */

/* In the zone of a key: a slot of the vport that is the rest of the zone, see firewall/share.h. */
#define SHARE_SLOT 0x80000000

/*
 * A connection belongs to one port: inside is its workload, outside the peer. A connection
 * between two ports of an edge has two entries.
 */
struct ct_key {
	__u32 zone; /* firewall: vport of the port; NAT: router */
	__u8 proto;
	__u8 echo_dir; /* ICMP echo: 1 requested from inside, 2 from outside */
	__u8 pad[2];
	struct addr inside;
	struct addr outside;
	__be16 inside_port; /* TCP, UDP, SCTP; ICMP echo: the identifier in both; else zero */
	__be16 outside_port;
};

/*
 * State of a connection. Bits of a direction come in pairs: the first is the originator's,
 * the next one the other direction's.
 */
enum ct_bits {
	CT_OUT = 1,	    /* opened from inside */
	CT_SYN = 2,	    /* and 4 */
	CT_ACK = 8,	    /* and 16: this direction's end acknowledged the SYN */
	CT_FIN = 32,	    /* and 64 */
	CT_RST = 128,	    /* reset */
	CT_REPLIED = 256,   /* not TCP: a packet of the other direction was seen */
	CT_PICKED_UP = 512, /* TCP: it was open before it was first seen */
	CT_STREAM = 1024,   /* not TCP: answered, and packets go on for STREAM_AGE */
};

struct ct_entry {
	__u64 seen_ns; /* CLOCK_MONOTONIC_COARSE; data packets update it every revalidate_ns */
	struct counter counters[2]; /* by direction, updated like seen_ns */
	__u32 next_seq[2];	    /* TCP: end of the last tracked packet */
	__u32 bits;		    /* enum ct_bits */
	__u32 rule;		    /* number of the rule that allows it */
	__u32 policy;		    /* number of the policy that was asked */
	/* For reevaluation: */
	__u16 peer_vport; /* the outside, if it is a port of this edge, else 0 */
	__u16 peer_segment;
	__u8 smac[ETH_ALEN]; /* of the first packet */
	__u8 dmac[ETH_ALEN];
	__u8 scale[2]; /* TCP: window scale (RFC 7323), NO_SCALE: not seen */
	__u16 check;   /* of the key: an entry may be reused while a program reads it */
	__u32 born;    /* when it began, in units of BORN_SHIFT */
	__u32 slot;    /* among its port's, see firewall/ct_limits.h; 0: it is not counted */
};

#define NO_SCALE 255
#define BORN_SHIFT 30 /* of ns: about a second */

/* States with a timeout each. */
enum ct_state {
	CT_STATE_OPENING,
	CT_STATE_ESTABLISHED,
	CT_STATE_HALF_CLOSED,
	CT_STATE_TIME_WAIT,
	CT_STATE_CLOSED,
	CT_STATE_UDP,
	CT_STATE_UDP_REPLIED,
	CT_STATE_UDP_STREAM,
	CT_STATE_ICMP,
	CT_STATE_MAX,
};

BYTE_ENUM direction {
	DIRECTION_IN,  /* to the workload at the port */
	DIRECTION_OUT, /* from it */
};

BYTE_ENUM verdict {
	VERDICT_ALLOW,
	VERDICT_DROP,
	VERDICT_REJECT,
	VERDICT_LOG_ONLY, /* in the log: a rule on trial would have decided */
};

/* The first packet of a connection, as rules see it. */
struct rule_query {
	struct addr src;
	struct addr dst;
	__u8 smac[ETH_ALEN];
	__u8 dmac[ETH_ALEN];
	__u16 src_vport; /* port of this edge, 0: elsewhere or unknown */
	__u16 dst_vport;
	__u16 src_segment; /* ingress */
	__u16 dst_segment; /* egress */
	__u16 vport;	   /* whose rules are asked: a port, or of egress policies the router */
	__u16 sport;	   /* host byte order; TCP, UDP and SCTP, else 0 */
	__u16 dport;	   /* the same; ICMP: type << 8 | code */
	__u8 proto;
	enum direction direction;
	bool ported; /* ports or ICMP type are known; otherwise rules with ports do not match */
};

/* The answer. */
struct rule_match {
	__u32 rule;	/* number of the rule that decides, never 0 */
	__u32 log_only; /* number of the first rule on trial before it, 0: none */
	__u32 policy;	/* number of the policy */
	enum verdict verdict;
	bool log;
	bool is_default; /* no rule of the policy matches: the default of the port decides */
};

/* Entries of the map policy. */
enum policies {
	POLICY_FIREWALL,
	POLICY_EGRESS, /* rule numbers are egress policies, where the verdict is allow */
	POLICIES,
};

/* Egress policies: rule_query.vport is a router, and vports are numbered above them. */
#define EGRESS_QUERY_VPORTS MAX_ROUTERS

/* A cache line of a compiled policy: internal/policy writes it, firewall/classify.h reads it. */
struct policy_record {
	__u32 w[16];
};

/* By rule number. name is a hash, by which a new process finds the numbers of its rules. */
struct rule_counters {
	__u64 name; /* 0: free */
	__u64 connections;
	__u64 packets; /* data packets are added every revalidate_ns */
	__u64 bytes;
	__u64 seen_ns;
};

/* Connections of a port or segment, as garbage collection found them. */
struct ct_found {
	__s32 used[COUNT_MAX]; /* in usages, when it began */
	__s32 found[COUNT_MAX];
};

/* A fragmented datagram whose first fragment passed. With SHARE_SLOT in zone: see firewall/share.h. */
struct fragment_key {
	__u32 zone;
	__u32 id;
	struct addr saddr;
	struct addr daddr;
	__u8 proto;
	enum direction direction;
	__u8 pad[2];
};

/* Its first fragment. */
struct fragment_first {
	__u64 passed_ns;
	__u32 headers;		   /* bytes of it that no later fragment may replace */
	struct fragment_key noted; /* of a slot */
};

struct log_line {
	__u64 ns; /* CLOCK_MONOTONIC */
	struct addr src;
	struct addr dst;
	__u32 rule;
	__u32 reason; /* 0: passed */
	__u32 lost;   /* lines that this core could not write before this one */
	__u16 vport;
	__u16 sport; /* as in struct rule_query */
	__u16 dport;
	__u16 len;
	__u8 proto;
	__u8 tcp_flags;
	enum direction direction;
	enum verdict verdict;
	__u32 pad;
};

/* What garbage collection counted and removed. */
struct ct_gc_stats {
	__u32 states[CT_STATE_MAX];
	__u32 established; /* entries of the map ct_established */
	__u32 half_open;
	__u32 expired;
	__u32 pad;
};

MAP_FLAGS(HASH, ct_established, struct ct_key, struct ct_entry, 1, BPF_F_NO_PREALLOC);
MAP_FLAGS(HASH, ct_half_open, struct ct_key, struct ct_entry, 1, BPF_F_NO_PREALLOC);
QUEUE(ct_closed, struct ct_key, 1); /* closed connections, which go first */
MAP(LRU_HASH, fragments, struct fragment_key, struct fragment_first, 1);
MAP(ARRAY, rules, __u32, struct rule_counters, 1);
RINGBUF(logs, 1 << 18); /* struct log_line */

/* A policy is replaced in one step. User space creates the inner maps in the size it needs. */
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
			__uint(value_size, sizeof(struct policy_record));
		});
} policy SEC(".maps");

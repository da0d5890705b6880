/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* cache: flows, and the decisions about them. Keys, values and maps. */
#pragma once

#include "abi/map.h"
#include "abi/forwarding.h"
#include "core/reasons.h"

#define MAX_TAGS 2 /* 802.1Q tags of a frame */

/* Packets with equal keys get equal decisions. */
struct flow_key {
	struct addr origin; /* tunnel: outer source; port: ifindex in the last word */
	__u32 vni; /* tunnel: VNI, and in bits 24 to 31 its listener, see parse_outer(); port: 0 */
	__be32 tags[MAX_TAGS]; /* 802.1Q tags as on the wire, the outermost first */
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	__be16 ethertype;
	__u8 proto;
	__u8 fragment;
	struct addr saddr; /* zero if not IP */
	struct addr daddr;
	__be16 sport; /* zero if not TCP or UDP, and for fragments */
	__be16 dport;
};

BYTE_ENUM action {
	ACTION_PORT,	    /* send to a port */
	ACTION_TUNNEL,	    /* encapsulate for a remote */
	ACTION_FLOOD,	    /* replicate to all members of the segment */
	ACTION_HOST,	    /* pass to the host's network stack */
	ACTION_PROXY_REPLY, /* reply to ARP, ND or echo in place of the destination */
	ACTION_RESOLVE,	    /* replace the packet by a request for the next hop's MAC address */
	ACTION_LOCAL,	    /* ARP, ND or echo reply for the edge itself: read, then dropped */
};

/* State of a TCP flow between bursts, see tx/gro.h. */
BYTE_ENUM burst {
	BURST_NONE,
	BURST_FIRST,  /* a packet that may start a burst */
	BURST_POLLED, /* packets are being coalesced */
};

BYTE_ENUM flow_flags {
	FLOW_ROUTED = 1,	  /* new MAC addresses, TTL decremented */
	FLOW_TAG = 2,		  /* the outermost tag selected the segment and is removed */
	FLOW_GATEWAY = 4,	  /* proxy reply: for the gateway, not for a host */
	FLOW_TRACKED = 8,	  /* firewall or NAT track the connection */
	FLOW_SNAT = 16,		  /* the source is translated */
	FLOW_DNAT = 32,		  /* the destination is translated */
	FLOW_EGRESS = 64,	  /* sent to a gateway of an egress policy */
	FLOW_NEVER_CURRENT = 128, /* for this packet only: the next one decides anew */
};

#define FLOW_NAT (FLOW_SNAT | FLOW_DNAT)

/* What happens to the packets of a flow; replay carries it out. */
struct decision {
	__u32 generation; /* sum of the generations that it depends on, see cache/generation.h */
	__u16 segment;	  /* ingress */
	__u16 to_segment; /* egress */
	__u16 in;	  /* ingress vport */
	__u16 out;	  /* egress vport */
	enum action action;
	enum slow slow; /* why it is not cached, or SLOW_FAST */
	enum flow_flags flags;
	__u8 pad;
	__be16 entropy;	     /* outer UDP source port */
	__u8 dmac[ETH_ALEN]; /* with FLOW_ROUTED */
	__u8 smac[ETH_ALEN];
	__u16 pad2;
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

/* Addresses and ports of a packet. */
struct tuple {
	struct addr src;
	struct addr dst;
	__be16 sport;
	__be16 dport;
	__u32 pad;
};

/* An entry of the flow cache. */
struct flow {
	/* Of the key, see flow_digest(). It is first: the kernel writes it before the decision. */
	__u64 digest;
	struct flow_key key;
	struct decision decision;
	enum burst burst;
	__u8 pad;
	__u16 nexthop;	 /* with FLOW_EGRESS: to the gateway */
	__u32 next_seq;	 /* TCP: end of the last in-order packet, see cache/reorder.h */
	__u32 gap_since; /* TCP: time since a packet is missing (low bits of ns), 0: none is */
	__u32 burst_ns;	 /* TCP: time of the last packet (low bits), see tx/gro.h */
	__u64 decided_ns;
	__u64 seen_ns;
	__u64 packets;
	__u64 bytes;
	struct counter reported;  /* of those, what conntrack has counted */
	struct tuple translation; /* with FLOW_SNAT or FLOW_DNAT */
};

/*
 * What flows of the transit cache have in common: what of their keys is not of one flow, and
 * what happens to their packets.
 */
struct transit_action {
	/* Of struct flow_key. */
	struct addr origin;
	__u32 vni;
	__be32 tags[MAX_TAGS];
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	__u16 serial; /* raised when it becomes that of other flows */
	__u8 made;    /* GLOBAL_CLOCK then */
	__u8 used;    /* GLOBAL_CLOCK when a flow last got it */
	__u32 flows;  /* that got it, halved with each epoch */
	/* Without what is a flow's own: generation, entropy and age. out is 0 if it is free. */
	struct decision decision;
};

/* An entry of the transit cache: one cache line. */
struct transit_entry {
	/* Of struct flow_key, ethertype to fragment as one word. */
	struct addr saddr;
	struct addr daddr;
	__be16 sport;
	__be16 dport;
	__be16 ethertype; /* 0 if the entry is free */
	__u8 proto;
	__u8 fragment;
	__u32 generation;      /* see struct decision */
	__u16 action;	       /* number of its struct transit_action */
	__u16 serial;	       /* of that: another one's since, if it differs */
	__u16 seen_generation; /* GLOBAL_GENERATION when it was last valid */
	__u8 age;	       /* GLOBAL_CLOCK when it was decided */
	__u8 packets_high;     /* more than 32 bits */
	__u32 packets;
	__u64 bytes;
};

/* The table of one core, see cache/transit_cache.h. */
struct transit_table {
	__u32 mask;	      /* entries in use less 1; 0: none yet */
	__u32 evictions;      /* since it grew, or was found large enough */
	__u32 used;	      /* entries with a flow */
	__u32 reached;	      /* the greatest mask so far: there are no flows beyond */
	__u64 fast;	      /* packets on the transit fast path */
	__u64 fast_at_review; /* the same, when evictions were last reviewed */
	__u32 decided;	      /* decisions cached since GLOBAL_CLOCK was counted_from */
	__u32 counted_from;
};

/* Values that all transit programs read. */
enum global_counter {
	GLOBAL_GENERATION, /* raised with every generation, and when a path goes down */
	GLOBAL_CLOCK,	   /* raised by user space as time passes */
	GLOBAL_LEASE,	   /* CLOCK_MONOTONIC in ms (low bits) when user space was last alive */
	GLOBAL_MAX,
};

/* The interface of a transit program. */
BYTE_ENUM device_flags {
	DEVICE_UNDERLAY = 1, /* tunnel packets arrive here */
	DEVICE_UPLINK = 2,   /* a router's uplink */
};

/* By digest. The kernel's hash of a whole key takes 60 ns, that of a digest 10. */
MAP(LRU_HASH, flows, __u64, struct flow, 262144);

/* Of digests: random numbers, written before the first packet, and kept as long as the flows. */
struct flow_secret {
	__u32 words[sizeof(struct flow_key) / sizeof(__u32)];
};

MAP(ARRAY, flow_secret, __u32, struct flow_secret, 1);

#define FLOW_CANDIDATES 65536
MAP(ARRAY, flow_candidates, __u32, __u32, FLOW_CANDIDATES); /* of ports at their limit, by hash */

/* For each core transit_slots entries, and transit_actions_max actions. */
MAP_FLAGS(ARRAY, transit_cache, __u32, struct transit_entry, 1,
	  BPF_F_MMAPABLE /* for page alignment */);
MAP_FLAGS(ARRAY, transit_actions, __u32, struct transit_action, 1, BPF_F_MMAPABLE);
MAP(PERCPU_ARRAY, transit_tables, __u32, struct transit_table, 1);
MAP(ARRAY, global_counters, enum global_counter, __u32, GLOBAL_MAX);

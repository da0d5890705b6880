/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * monitor: what user space watches packets with: a few sessions, each with a filter and a ring
 * buffer of its own. Keys, values and maps.
 */
#pragma once

#include "abi/cache.h"

#define MONITORS 4	   /* sessions of one edge at a time */
#define MONITOR_BYTES 9216 /* of a packet, at most */
#define MONITOR_REMOTES 8  /* addresses of one remote */

/* Which sessions (bits) want what. Zero while nobody watches. */
struct monitor_wants {
	__u32 drops;
	__u32 forwarded;
	__u32 originals; /* packets as they came are copied before anything is decided */
	__u32 snaplen;	 /* bytes of those, the most that a session wants */
};

/* Where the bytes of an event are from. */
BYTE_ENUM monitor_point {
	MONITOR_INGRESS = 1, /* as the packet came */
	MONITOR_DROP = 2,    /* as it was when it was dropped */
	MONITOR_EGRESS = 4,  /* as it leaves */
	MONITOR_COPY = 8,    /* a copy of a flooded frame, as it leaves */
};

/* What a filter asks about. */
BYTE_ENUM monitor_tests {
	MONITOR_REASONS = 1,
	MONITOR_PORT = 2,
	MONITOR_SEGMENT = 4,
	MONITOR_REMOTE = 8,
	MONITOR_PACKET = 16, /* addresses, ports, protocol */
	MONITOR_EITHER = 32, /* of those, source and destination may be exchanged */
};

struct monitor_filter {
	enum monitor_tests tests;
	__u8 proto;	     /* 0: any */
	__u8 proto2;	     /* or this: ICMP and ICMPv6 */
	__u8 any_proto;	     /* 0: of proto */
	__be16 ethertype;    /* 0: any */
	__be16 sport, dport; /* 0: any */
	__u16 segment;	     /* ingress or egress */
	__u32 ifindex;	     /* of a port, ingress or egress */
	__u32 vport;	     /* of it, 0: any */
	__u32 pad;
	__u64 reasons[4]; /* bits */
	struct addr src, src_mask;
	struct addr dst, dst_mask;
	struct addr remotes[MONITOR_REMOTES]; /* zero after the last */
};

struct monitor {
	__u64 id;	/* of the session, 0: none */
	__u64 until_ns; /* CLOCK_MONOTONIC: user space has to prolong it */
	__u32 tokens;	/* events of each core in a MONITOR_WINDOW */
	__u32 snaplen;
	__u32 sample; /* forwarded packets: one of so many */
	__u32 points; /* enum monitor_point */
	struct monitor_filter filter;
};

#define MONITOR_WINDOW 27 /* log2 of ns: 134 ms */

/* What a session has seen on one core. matched is the sum of all that follows, and of events. */
struct monitor_counts {
	__u64 matched[128]; /* packets, by reason */
	__u64 sampled_out;  /* of forwarded packets */
	__u64 limited;	    /* no token */
	__u64 lost;	    /* no room in the ring */
	__u64 cut;	    /* further events about packets: no room either */
	__u64 id;	    /* of the session that has the tokens */
	__u64 window;
	__u32 left; /* tokens in the window */
	__u32 sample;
};

/* An event, and the bytes of the packet. */
struct monitor_event {
	__u64 ns;		  /* CLOCK_MONOTONIC */
	__u64 packet;		  /* the same in all events about one packet */
	struct addr origin;	  /* from a tunnel: outer source */
	struct tuple translation; /* with FLOW_SNAT or FLOW_DNAT */
	enum reason reason;
	__u32 rule;	  /* of the firewall, the last one that was asked */
	__u32 rule_vport; /* whose firewall */
	__u32 in, out;	  /* vports; out with decided */
	__u32 ifindex;
	__u32 vni;	/* from a tunnel, with its listener in bits 24 to 31 */
	__u32 len;	/* bytes of the packet */
	__u32 captured; /* of those that follow */
	__u32 gso_size; /* of a large segment */
	__be32 tag;	/* in the metadata, which is not among the bytes */
	__u16 segment, to_segment;
	__u16 inner;   /* offset of the frame in a tunnel packet, 0: there is no tunnel header */
	__u16 gateway; /* next hop to the gateway of an egress policy */
	enum monitor_point point;
	enum action action; /* with decided */
	enum slow slow;
	enum flow_flags flags;
	bool first;   /* of the events about the packet */
	bool decided; /* the decision is known */
	bool cached;  /* from the flow cache */
	bool xdp;
	__u32 pad;
	__u8 bytes[MONITOR_BYTES];
};

/* What there is for all cores, and on each. A program may have 64 maps, so they are few. */
struct monitor_table {
	struct monitor_wants wants;
	struct monitor sessions[MONITORS];
};

struct monitor_core {
	struct monitor_counts counts[MONITORS];
	struct monitor_event event; /* that is made */
};

/*
 * A map like the others, of one entry, but a section: programs read it by its address, without a
 * look-up. User space gives it its name. It is hidden, or types would be generated for it twice.
 */
__hidden struct monitor_table monitors SEC(".data.monitors");
MAP(PERCPU_ARRAY, monitor_cores, __u32, struct monitor_core, 1);

/* User space makes the rings when somebody watches. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MONITORS);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries, 4096);
		});
} monitor_rings SEC(".maps");

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys and values of the maps: what the programs and the Go side share. The Go
 * types are generated from these. ABI_VERSION changes with any of them; a new
 * process then replaces the maps of an old one instead of adopting them.
 */
#pragma once

#include "include/net.h"
#include "reasons.h"

/* One byte in memory, and typed fields put the names into BTF for the Go side. */
#define BYTE_ENUM enum __attribute__((packed))

#define ABI_VERSION 1

#define MAX_ENDS 8192	  /* ports and remote TEPs of one edge */
#define MAX_SEGMENTS 4096 /* segments of one edge */
#define MAX_MEMBERS 1024  /* ports and remotes of one segment */
#define MAX_UDP_PORTS 8	  /* UDP ports on which tunnels arrive */
#define OUTER_MAX 64	  /* Ethernet, IPv6 and UDP: 62 bytes */

/* An IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d). */
struct addr {
	__be32 w[4];
};

BYTE_ENUM end_kind {
	END_NONE,
	END_PORT, /* a local interface */
	END_TEP,  /* a remote tunnel endpoint */
};

BYTE_ENUM end_flags {
	END_PEER = 1,	  /* port: deliver into the other namespace of the veth */
	END_RESOLVED = 2, /* TEP: the template holds the next hop's MAC */
};

/* One end of a segment: where a frame can come from and go to. */
struct end {
	enum end_kind kind;
	enum end_flags flags;
	__u8 outer_len; /* TEP: bytes of the template in use */
	__u8 pad;
	__u32 ifindex;	       /* port: itself; TEP: the underlay interface, 0 without a route */
	__u32 mtu;	       /* of that interface: an IP packet's size in bytes */
	__u32 segment;	       /* port: its segment */
	struct addr addr;      /* TEP: its address */
	__u8 outer[OUTER_MAX]; /* TEP: Ethernet, IP and UDP header, lengths and ports zero */
};

BYTE_ENUM segment_flags {
	SEGMENT_UDP_CSUM = 1, /* outer UDP checksums, see encap_by_kernel */
};

struct segment {
	__u32 generation; /* raised when a decision about the segment may have changed */
	__u32 vni;
	__u32 members; /* number of entries in the map members */
	__be16 udp_port;
	__u8 used;
	enum segment_flags flags;
	__u32 csum_ifindex; /* the kernel's tunnel device that fills them in, 0 while there is none */
};

struct vni_key {
	__u32 vni;
	__be16 udp_port;
	__u16 pad;
};

struct remote_key {
	struct addr addr;
	__u32 segment;
};

struct member_key {
	__u32 segment;
	__u32 index; /* from 0 to segment.members - 1, ports before remotes */
};

struct fdb_key {
	__u32 segment;
	__u8 mac[ETH_ALEN];
	__u16 pad;
};

struct fdb_entry {
	__u32 end;
	__u32 moves;
	__u64 seen_ns; /* CLOCK_MONOTONIC */
	__u32 is_static;
	__u32 pad;
};

/* What tells flows apart. Equal keys get equal decisions. */
struct flow_key {
	struct addr origin; /* tunnel: outer source; port: the ifindex in the last word */
	__u32 vni;	    /* tunnel: VNI, and above bit 24 its UDP port's index + 1; port: 0 */
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	__be16 ethertype;
	__u8 proto;
	__u8 fragment;
	struct addr saddr; /* zero when not IP */
	struct addr daddr;
	__be16 sport; /* zero when not TCP or UDP, and for fragments */
	__be16 dport;
};

BYTE_ENUM action {
	ACTION_PORT,   /* deliver to a port */
	ACTION_TUNNEL, /* encapsulate to a remote */
	ACTION_FLOOD,  /* replicate to all members of the segment */
};

/* Where a TCP flow stands between bursts, see coalesce.h. */
BYTE_ENUM burst {
	BURST_NONE,
	BURST_FIRST,  /* a packet that a burst may follow */
	BURST_POLLED, /* packets that are being coalesced */
};

/* A decision, ready to be replayed; within one cache line. */
struct flow {
	__u32 generation;
	__u32 segment;
	__u16 in;  /* end */
	__u16 out; /* end */
	enum burst burst;
	__u8 pad[3];
	enum action action;
	enum slow slow; /* not SLOW_FAST when it is decided anew each time */
	__be16 entropy; /* outer UDP source port */
	__u32 next_seq; /* TCP: behind the last in-order packet, see order.h */
	__u32 gap_ns;	/* TCP: since when a packet is missing (low bits), 0 when none is */
	__u32 burst_ns; /* TCP: when the last packet came (low bits), see coalesce.h */
	__u64 decided_ns;
	__u64 seen_ns;
	__u64 packets;
	__u64 bytes;
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

struct end_counters {
	struct counter rx; /* from the end into the edge */
	struct counter tx; /* from the edge to the end */
	__u64 drops;	   /* of what came from the end */
};

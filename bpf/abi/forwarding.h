/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * forwarding: vports, segments and the FDB: what the control plane configures, and what
 * the data plane learns. Keys, values and maps.
 */
#pragma once

#include "abi/map.h"
#include "include/net.h"

/*
 * Sizes that are not of the configuration bound it. Numbers of vports have 16 bits, of which
 * egress policies need a part, see MAX_ROUTERS.
 */
#define MAX_VPORTS 64512   /* ports and paths to remotes of one edge */
#define VPORTS 8192	   /* the same, where the configuration says nothing */
#define MAX_SEGMENTS 4096  /* segments of one edge */
#define MAX_MEMBERS 16384  /* ports and remotes of one segment: a flood visits each */
#define MAX_UDP_PORTS 8	   /* UDP ports on which tunnel packets arrive */
#define MAX_TX_DEVICES 256 /* interfaces that transit programs send to */
#define MAX_TEPS 8	   /* tunnel endpoints of one edge */
#define PATH_BUCKETS 64	   /* of a path group */
#define OUTER_MAX 56	   /* Ethernet and IPv6 take 54 bytes */
#define OPTIONS_MAX 252	   /* Geneve options (RFC 8926 3.4) */
#define SHARDS 64	   /* generations of a segment or router, see cache/generation.h */

/* An IPv6 address, or an IPv4-mapped IPv6 address (::ffff:a.b.c.d). */
struct addr {
	__be32 w[4];
};

BYTE_ENUM vport_kind {
	VPORT_NONE,
	VPORT_PORT, /* a local interface, or a VLAN of it */
	VPORT_TEP,  /* a path to a remote tunnel endpoint */
};

enum __attribute__((packed)) vport_flags {
	VPORT_PEER = 1,		  /* port: redirect into the other namespace of the veth */
	VPORT_RESOLVED = 2,	  /* TEP: the outer header has the next hop's MAC address */
	VPORT_UPLINK = 4,	  /* port: frames that are not for the gateway go to the host */
	VPORT_GUARD_MACS = 8,	  /* port: source MAC addresses are restricted */
	VPORT_GUARD_ADDRS = 16,	  /* port: source IP addresses are restricted */
	VPORT_GSO = 32,		  /* port: the interface accepts large TCP segments */
	VPORT_TRANSIT = 64,	  /* XDP programs may redirect to the interface */
	VPORT_DOWN = 128,	  /* cached decisions for it are invalid; port: its link is down */
	VPORT_MULTIPATH = 256,	  /* TEP: represents a remote with several paths */
	VPORT_FIREWALL = 512,	  /* port: the firewall filters it */
	VPORT_RA = 1024,	  /* port: a router is there */
	VPORT_DHCP_SERVER = 2048, /* port: a DHCP server or relay is there */
	VPORT_LOOP = 4096,	  /* port: it is cut off from floods, as its segment has a loop */
};

/*
 * A vport is where a frame comes from or goes to: a port, or a path from one of this
 * edge's TEPs to one of a remote's. If a remote has several paths, one vport represents
 * the remote, and each decision selects a path (tunnel/multipath.h).
 */
struct vport {
	enum vport_kind kind;
	__u8 outer_len; /* TEP: length of the outer header template */
	enum vport_flags flags;
	__u32 ifindex;	       /* port: the interface; TEP: the underlay's, 0 without a route */
	__u32 mtu;	       /* of the interface or path, in bytes of an IP packet */
	__u32 segment;	       /* port: its segment; TEP: which next hop (ECMP), 0 for all */
	__u16 vlan;	       /* port: VLAN ID of a trunk, 0: untagged */
	__u16 tx_index;	       /* index of the interface in tx_devmap, with VPORT_TRANSIT */
	struct addr addr;      /* TEP: the remote's address */
	struct addr local;     /* TEP: this edge's address */
	__u8 outer[OUTER_MAX]; /* TEP: Ethernet and IP header; per-packet fields are zero */
};

/* The paths to a remote, for all segments with the same path policy. */
struct path_group_key {
	__u16 vport; /* represents the remote */
	__u16 path_policy;
};

struct path_group {
	__u16 buckets[PATH_BUCKETS]; /* the vport of each bucket */
};

/* A path, as an ICMP message of the underlay names it. */
struct path_key {
	struct addr local;
	struct addr remote;
};

/*
 * What ICMP messages said about a path, to be confirmed by a probe. User space sets both MTUs
 * to 0 when it has decided.
 */
struct path_report {
	__u64 at_ns;   /* of the first message, CLOCK_MONOTONIC */
	__u32 mtu;     /* the least value, 0: decided */
	__u32 vni_mtu; /* the least of messages that embed a VNI of the path, 0: none did */
};

BYTE_ENUM encapsulation {
	ENCAP_NONE, /* the segment of an uplink has no tunnels */
	ENCAP_VXLAN,
	ENCAP_GENEVE,
	ENCAP_NVGRE,
};

enum __attribute__((packed)) segment_flags {
	SEGMENT_UDP_CSUM = 1,	  /* outer UDP checksums, see encap_by_kernel() */
	SEGMENT_TAGS = 2,	  /* tagged frames are forwarded */
	SEGMENT_SUPPRESS = 4,	  /* ARP and ND suppression */
	SEGMENT_CLAMP = 8,	  /* TCP MSS clamping */
	SEGMENT_L3 = 16,	  /* between routers: no learning, bridging or flooding */
	SEGMENT_BY_SOURCE = 32,	  /* the source selects the path, not the flow */
	SEGMENT_UPLINK = 64,	  /* the plain network of an uplink */
	SEGMENT_TRANSLATED = 128, /* uplink: drop what no session translates */
	SEGMENT_WIRE = 256,	  /* reserved group addresses are forwarded */
	SEGMENT_RPF_STRICT = 512, /* uplink: the route to a source must leave by it */
	SEGMENT_RPF_OFF = 1024,	  /* uplink: sources are not checked */
};

/* At an uplink: the families in which replies to what comes in may be translated. */
BYTE_ENUM inbound_flags {
		INBOUND_IPV4 = 1,
		INBOUND_IPV6 = 2,
	};

/* What BGP says of the hosts in a segment. */
BYTE_ENUM evpn_flags {
	EVPN_SEGMENT = 1, /* it advertises some */
	EVPN_ONLY = 2,	  /* it advertises all: nothing is learned from tunnels */
};

/* Fields of the outer IP header that are copied from the inner one. */
BYTE_ENUM outer_flags {
		OUTER_DSCP_INHERIT = 1,
		OUTER_TTL_INHERIT = 2,
		OUTER_DF = 4,
		OUTER_DF_INHERIT = 8,
	};

struct segment {
	__u32 generation; /* raised when any decision in the segment may have changed */
	__u32 vni;
	__u32 members;	 /* number of entries in the map members */
	__be16 udp_port; /* 0: NVGRE */
	enum segment_flags flags;
	__u32 csum_ifindex; /* kernel tunnel device that completes checksums, 0: none yet */
	__u32 router;	    /* 0: none */
	enum encapsulation encap;
	enum outer_flags outer;
	__u8 tos; /* outer DSCP, shifted into the TOS byte */
	__u8 ttl;
	__u8 options_len;
	__u8 options_critical; /* an option has the C bit */
	__u16 tunnel_len;      /* bytes of UDP, tunnel header and options */
	__u8 gateway_mac[ETH_ALEN];
	__u16 path_policy; /* how paths to a remote are selected */
	__u16 egress;	   /* policy whose traffic it carries; uplink: its own; 0: none */
	enum evpn_flags evpn;
	__u8 used;
	enum inbound_flags inbound;
	__u8 pad[3];
	struct addr gateway4; /* source of ICMP messages, zero: none */
	struct addr gateway6;
	__u8 options[OPTIONS_MAX];
	__u8 pad2[52];	      /* to whole cache lines */
	__u32 shards[SHARDS]; /* generations: raised when a MAC address of the shard moves */
};

/* Source addresses that a port may use. */
struct allowed_mac {
	__u32 vport;
	__u8 mac[ETH_ALEN];
	__u16 pad;
};

struct allowed_addr { /* longest prefix match: 32 bits of the vport, then the address */
	__u32 prefixlen;
	__u32 vport;
	struct addr addr;
};

#define PORT_SHARED 0xffff /* as VLAN ID: the host shares the interface, it has an uplink */

struct port_key {
	__u32 ifindex;
	__u32 vlan;
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

#define REMOTE_NO_LEARNING 0x80000000 /* beside the vport: BGP advertises its hosts */

struct member_key {
	__u32 segment;
	__u32 index; /* below segment.members; ports come before remotes */
};

/* Who told where a host is. */
BYTE_ENUM host_origin {
	ORIGIN_LEARNED, /* packets of the host */
	ORIGIN_STATIC,
	ORIGIN_BGP,
};

struct fdb_key {
	__u32 segment;
	__u8 mac[ETH_ALEN];
	__u16 pad;
};

/* Times are CLOCK_MONOTONIC. */
struct fdb_entry {
	__u32 vport; /* learned: also the owner, of which limits count it */
	__u32 moves;
	__u64 seen_ns;
	enum host_origin origin;
	__u8 sticky;	/* BGP: the MAC address must not move (RFC 7432 15.2) */
	__u8 recent;	/* moves since window_s */
	__u8 freezes;	/* how often it was frozen lately */
	__u32 since_s;	/* when it came to the vport */
	__u32 home;	/* the vport where it was before the recent moves */
	__u32 window_s; /* when recent began to count */
	__u32 frozen_s; /* until when it stays where it is, 0: it may move */
	__u32 other;	/* frozen: the vport where it was seen too */
};

/*
 * Event: a MAC address came to a port, or a neighbour at a port has an address. Or a loop probe
 * came back, or path_reports has something new.
 */
struct host_event {
	struct addr addr; /* zero: the event is about the MAC address */
	__u32 segment;
	__u32 vport;
	__u8 mac[ETH_ALEN];
	__u16 from_vport; /* the remote where the host was before, 0: none; frozen: seen there too */
	__u32 flags;	  /* neighbour_flags of the address */
	__u32 frozen_s;	  /* for so long the MAC address was frozen at vport, 0: it was not */
	__u32 loop_vport;  /* the port whose loop probe came to vport, 0: it is no such event */
	__u32 path_report; /* a message is kept about the path of vport: nothing else is set */
	__u64 loop_token;  /* of the probe */
};

MAP(ARRAY, vports, __u32, struct vport, VPORTS);
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SEGMENTS);
	__uint(map_flags, BPF_F_MMAPABLE); /* user space raises single generations */
	__type(key, __u32);
	__type(value, struct segment);
} segments SEC(".maps");
MAP(HASH, ports, struct port_key, __u32, VPORTS);     /* → vport */
MAP(HASH, vnis, struct vni_key, __u32, MAX_SEGMENTS); /* → segment */
MAP(HASH, remotes, struct remote_key, __u32, 65536);  /* → vport, with REMOTE_NO_LEARNING */
MAP(HASH, teps, struct path_key, __u32, VPORTS);      /* → vport */
MAP_FLAGS(HASH, path_reports, struct path_key, struct path_report, VPORTS, BPF_F_NO_PREALLOC);
MAP(HASH, path_groups, struct path_group_key, struct path_group, VPORTS);
MAP(HASH, members, struct member_key, __u32, 131072); /* → vport */
MAP(HASH, fdb, struct fdb_key, struct fdb_entry, 65536);
MAP(HASH, allowed_macs, struct allowed_mac, __u32, 65536);
MAP(HASH, known_options, __u32, __u32, 1024); /* Geneve option class << 8 | type */
LPM_MAP(allowed_addrs, struct allowed_addr, __u32, 65536);
RINGBUF(host_events, 1 << 18);

/*
 * Interfaces by index. The kernel ties a devmap to programs that take multi-buffer frames,
 * or to those that do not: programs in generic mode have a devmap of their own with the
 * same content.
 */
#define TX_DEVMAP(map_name)                                      \
	struct {                                                 \
		__uint(type, BPF_MAP_TYPE_DEVMAP);               \
		__uint(max_entries, MAX_TX_DEVICES);             \
		__uint(key_size, sizeof(__u32));   /* index */   \
		__uint(value_size, sizeof(__u32)); /* ifindex */ \
	} map_name SEC(".maps")
TX_DEVMAP(tx_devmap);
TX_DEVMAP(tx_devmap_generic);
MAP(HASH, xdp_interfaces, __u32, __u32, 1024); /* with a transit program, by ifindex */

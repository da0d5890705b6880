/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys and values of the maps: what the programs and the Go side share. The Go
 * types are generated from these. ABI_VERSION changes with any of them; a new
 * process then replaces the maps of an old one instead of adopting them.
 */
#pragma once

#include "include/net.h"
#include "core/reasons.h"

/* One byte in memory, and typed fields put the names into BTF for the Go side. */
#define BYTE_ENUM enum __attribute__((packed))

#define ABI_VERSION 6

#define MAX_ENDS 8192	   /* ports and remote TEPs of one edge */
#define MAX_SEGMENTS 4096  /* segments of one edge */
#define MAX_MEMBERS 1024   /* ports and remotes of one segment */
#define MAX_UDP_PORTS 8	   /* UDP ports on which tunnels arrive */
#define MAX_EXITS 256	   /* interfaces that transit programs send to */
#define MAX_TEPS 8	   /* tunnel endpoints of one edge */
#define SPREAD_BUCKETS 64  /* among which the paths to a remote share the flows */
#define MAX_ROUTERS 1024   /* routers of one edge */
#define MAX_GROUPS 4096	   /* next-hop groups of all routers */
#define MAX_HOPS 4096	   /* next hops of all routers */
#define GROUP_BUCKETS 128  /* among which the next hops of a group share the flows */
#define OUTER_MAX 56	   /* Ethernet and IPv6: 54 bytes */
#define OPTIONS_MAX 252	   /* Geneve options (RFC 8926 3.4) */
#define MAX_TAGS 2	   /* 802.1Q tags that a frame may have */
#define MAX_RULES 131072   /* of the firewall, with the ones that stand for defaults */
#define MAX_EGRESS 1024	   /* egress policies, and uplinks that translate by themselves */
#define EGRESS_BUCKETS 256 /* into which the sources of a policy are divided by their hash */
#define MAX_GATEWAYS 16	   /* of an egress policy */
#define MAX_POOL 65536	   /* addresses of all pools */
#define SHARDS 64 /* generations among which addresses are divided, see cache/flow_cache.h */

/* An IPv6 address, or an IPv4 address mapped into one (::ffff:a.b.c.d). */
struct addr {
	__be32 w[4];
};

BYTE_ENUM end_kind {
	END_NONE,
	END_PORT, /* a local interface */
	END_TEP,  /* a remote tunnel endpoint */
};

enum __attribute__((packed)) end_flags {
	END_PEER = 1,	      /* port: deliver into the other namespace of the veth */
	END_RESOLVED = 2,     /* TEP: the template holds the next hop's MAC */
	END_UPLINK = 4,	      /* port: what is not for the gateway is the host's */
	END_GUARD_MACS = 8,   /* port: only allowed source MACs */
	END_GUARD_ADDRS = 16, /* port: only allowed source addresses */
	END_SEGMENTS = 32,    /* port: takes large TCP segments */
	END_TRANSIT = 64,     /* the interface takes packets from a transit program */
	END_DOWN = 128,	      /* TEP: decisions for it are taken again */
	END_SPREAD = 256,     /* TEP: stands for a remote with several, see tunnel/multipath.h */
	END_POLICED = 512,    /* port: the firewall stands before it, see firewall/firewall.h */
};

/*
 * One end of a segment: where a frame can come from and go to. A TEP is a path, from
 * one of this edge's addresses to one of a remote's. Of a remote with several paths
 * one stands for it; which is taken is chosen with each decision.
 */
struct end {
	enum end_kind kind;
	__u8 outer_len; /* TEP: bytes of the template in use */
	enum end_flags flags;
	__u32 ifindex;	       /* port: itself; TEP: the underlay interface, 0 without a route */
	__u32 mtu;	       /* of the interface or path: an IP packet's size in bytes */
	__u32 segment;	       /* port: its segment */
	__u32 path_mtu;	       /* TEP: what an ICMP message said, 0 when none did */
	__u16 vlan;	       /* port: VLAN of a trunk, 0 untagged */
	__u16 exit;	       /* its interface's number in the map exits, with END_TRANSIT */
	__u64 path_mtu_ns;     /* TEP: when, CLOCK_MONOTONIC */
	struct addr addr;      /* TEP: its address */
	struct addr local;     /* TEP: this edge's */
	__u8 outer[OUTER_MAX]; /* TEP: Ethernet and IP header; what depends on the packet is zero */
};

/* Which TEPs take the flows to a remote, of segments with the same team. */
struct spread_key {
	__u16 end; /* that stands for the remote */
	__u16 team;
};

struct spread {
	__u16 buckets[SPREAD_BUCKETS]; /* end of each */
};

/* A path, as the underlay's messages name it. */
struct path_key {
	struct addr local;
	struct addr remote;
};

BYTE_ENUM encapsulation {
	ENCAP_NONE, /* no tunnels: the segment of an uplink */
	ENCAP_VXLAN,
	ENCAP_GENEVE,
	ENCAP_NVGRE,
};

BYTE_ENUM segment_flags {
	SEGMENT_UDP_CSUM = 1,	  /* outer UDP checksums, see encap_by_kernel */
	SEGMENT_TAGS = 2,	  /* tagged frames pass */
	SEGMENT_SUPPRESS = 4,	  /* ARP and ND for known remote hosts are answered here */
	SEGMENT_CLAMP = 8,	  /* TCP MSS is clamped */
	SEGMENT_L3 = 16,	  /* between routers: nothing is learned, bridged or flooded */
	SEGMENT_BY_SOURCE = 32,	  /* paths are chosen by where a frame came from, not by flow */
	SEGMENT_UPLINK = 64,	  /* the plain network at an uplink */
	SEGMENT_TRANSLATED = 128, /* uplink: what nothing translates does not leave by it */
};

/* Whether BGP says where hosts are. */
BYTE_ENUM evpn_flags {
	EVPN_SEGMENT = 1, /* it says so of some */
	EVPN_ALONE = 2,	  /* no remote tells of its hosts by their packets */
};

/* What the outer header takes from the inner one. */
BYTE_ENUM outer_flags {
	OUTER_DSCP_INHERIT = 1,
	OUTER_TTL_INHERIT = 2,
	OUTER_DF = 4,
	OUTER_DF_INHERIT = 8,
};

struct segment {
	__u32 generation; /* raised when any decision about the segment may have changed */
	__u32 vni;
	__u32 members;	 /* number of entries in the map members */
	__be16 udp_port; /* 0 with NVGRE */
	__u8 used;
	enum segment_flags flags;
	__u32 csum_ifindex; /* the kernel's tunnel device that fills them in, 0 while there is none */
	__u32 router;	    /* 0: none */
	enum encapsulation encap;
	enum outer_flags outer;
	__u8 tos; /* outer DSCP, in its place */
	__u8 ttl;
	__u8 options_len;
	__u8 options_critical; /* one of them is */
	__u16 tunnel_len;      /* bytes of the UDP and the tunnel header with options */
	__u8 gateway_mac[ETH_ALEN];
	__u16 team;   /* how it chooses among the paths to a remote */
	__u16 egress; /* policy whose sources come by it; of an uplink: its own translation; or 0 */
	enum evpn_flags evpn;
	__u8 pad;
	struct addr gateway4; /* source of ICMP messages, zero when there is none */
	struct addr gateway6;
	__u8 options[OPTIONS_MAX];
	__u8 pad2[60];	      /* to whole cache lines */
	__u32 shards[SHARDS]; /* generations: raised when a MAC address of theirs has moved */
};

enum router_flags {
	ROUTER_NAT =
		1, /* something of it is translated: it has pools, forwards or an uplink's own */
	ROUTER_EGRESS = 2, /* there are egress policies for it */
};

/* A VRF. Number 0 is none. */
struct router {
	__u32 generation; /* raised when any route may have changed */
	__u32 used;
	enum router_flags flags;
	__u32 translated;    /* generation: raised with any of the shards */
	struct addr source4; /* of ICMP messages where the segment has no gateway address */
	struct addr source6;
	__u32 shards[SHARDS]; /* generations: raised when the route of one address has changed */
};

/*
 * Addresses of the edge itself in a router: the gateways', and loopbacks, which are in no
 * segment; a link-local one in a segment.
 */
#define LOCAL_LINK 0x80000000	/* in the place of the router: this is a segment */
#define LOCAL_NAT 0x80000000	/* beside the segment: packets for it may be for who is behind it */
#define LOCAL_LEASED 0x40000000 /* and another gateway takes it when this process dies */
#define LOCAL_LOOPBACK 0x20000000
struct local_key {
	__u32 router;
	struct addr addr;
};

struct neighbour_key {
	__u32 segment;
	struct addr addr;
};

/* Who says where a host is. */
BYTE_ENUM host_origin {
	ORIGIN_LEARNED, /* its own packets */
	ORIGIN_STATIC,
	ORIGIN_BGP,
};

struct neighbour {
	__u8 mac[ETH_ALEN];
	enum host_origin origin;
	__u8 at_port;  /* learned there */
	__u64 seen_ns; /* CLOCK_MONOTONIC */
};

BYTE_ENUM route_kind {
	ROUTE_NONE,
	ROUTE_GROUP,
	ROUTE_BLACKHOLE,
	ROUTE_UNREACHABLE,
	ROUTE_PROHIBIT,
};

/* Longest prefix match: 32 bits of router number, then of the address. */
struct route_key {
	__u32 prefixlen;
	__u32 router;
	struct addr addr;
};

struct route {
	enum route_kind kind;
	__u8 pad[3];
	__u32 group;
};

/*
 * Next hops share the flows by bucket (hash-threshold with a fixed table): when
 * one goes, only its own buckets move (resilient hashing).
 */
struct group {
	__u16 buckets[GROUP_BUCKETS]; /* next hop of each */
};

struct hop {
	__u32 segment;
	__u16 end; /* a remote's, with mac; 0: the neighbour's */
	__u8 mac[ETH_ALEN];
	struct addr addr; /* neighbour, zero: the destination itself */
};

/* Who may send from a port. */
struct allowed_mac {
	__u32 end;
	__u8 mac[ETH_ALEN];
	__u16 pad;
};

struct allowed_addr { /* longest prefix match: 32 bits of end, then of the address */
	__u32 prefixlen;
	__u32 end;
	struct addr addr;
};

#define PORT_SHARED 0xffff /* in the place of the VLAN: the interface has an uplink */

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

#define REMOTE_UNTAUGHT 0x80000000 /* beside the end: only BGP knows it, and tells of its hosts */

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
	enum host_origin origin;
	__u8 sticky; /* BGP says that it does not move */
	__u8 pad[6];
};

/* What tells flows apart. Equal keys get equal decisions. */
struct flow_key {
	struct addr origin; /* tunnel: outer source; port: the ifindex in the last word */
	__u32 vni; /* tunnel: VNI, and above bit 24 how it came, see parse_outer; port: 0 */
	__be32 tags[MAX_TAGS]; /* 802.1Q tags as on the wire, the outermost first */
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
	ACTION_PORT,	  /* deliver to a port */
	ACTION_TUNNEL,	  /* encapsulate to a remote */
	ACTION_FLOOD,	  /* replicate to all members of the segment */
	ACTION_HOST,	  /* leave to the host's own stack */
	ACTION_ANSWER,	  /* ARP, ND or echo for an address that the edge answers for */
	ACTION_ASK,	  /* ask for the neighbour's MAC in the packet's stead */
	ACTION_CONSUME,	  /* ARP or ND for the edge itself, which it has read */
	ACTION_TRANSLATE, /* not known before its destination is translated: never carried out */
};

/* Where a TCP flow stands between bursts, see tx/gro.h. */
BYTE_ENUM burst {
	BURST_NONE,
	BURST_FIRST,  /* a packet that a burst may follow */
	BURST_POLLED, /* packets that are being coalesced */
};

BYTE_ENUM flow_flags {
	FLOW_ROUTED = 1,  /* new MACs, TTL lowered */
	FLOW_TAG = 2,	  /* the outermost tag chose the segment and goes */
	FLOW_GATEWAY = 4, /* answered for the gateway, not for a host */
	FLOW_TRACKED =
		8,	/* of a connection that firewall or NAT know: SYN, FIN and RST are theirs */
	FLOW_SNAT = 16, /* gets another source, see nat/nat.h */
	FLOW_DNAT = 32, /* gets another destination */
	FLOW_EGRESS = 64, /* goes to a gateway of an egress policy */
};

/* What becomes of a flow's packets: ready to be replayed. */
struct decision {
	__u32 generation; /* of what it depends on, see cache/flow_cache.h */
	__u16 segment;	  /* where it came in */
	__u16 to_segment; /* where it goes */
	__u16 in;	  /* end */
	__u16 out;	  /* end */
	enum action action;
	enum slow slow; /* not SLOW_FAST when it is taken anew each time */
	enum flow_flags flags;
	__u8 epoch;	     /* of a shortcut, see cache/transit_cache.h */
	__be16 entropy;	     /* outer UDP source port */
	__u8 dmac[ETH_ALEN]; /* routed */
	__u8 smac[ETH_ALEN];
	__u16 stamp; /* of a shortcut, see cache/transit_cache.h */
};

struct counter {
	__u64 packets;
	__u64 bytes;
};

/*
 * The firewall. A connection is one port's: between its workload, inside, and what is
 * beyond, outside. One between two ports is in the table twice.
 */
struct conn_key {
	__u32 end; /* the port */
	__u8 proto;
	__u8 asker; /* ICMP echo: 1 the one inside, 2 outside */
	__u8 pad[2];
	struct addr inside;
	struct addr outside;
	__be16 inside_port; /* TCP, UDP, SCTP; ICMP echo: the identifier in both; else zero */
	__be16 outside_port;
};

/* What is known of it. Those of two directions: first from who opened it. */
enum conn_bits {
	CONN_OUT = 1,	      /* opened from inside */
	CONN_SYN = 2,	      /* 4: the other direction's */
	CONN_ACK = 8,	      /* 16: the other direction's; the SYN was acknowledged */
	CONN_FIN = 32,	      /* 64: the other direction's */
	CONN_RST = 128,	      /* reset */
	CONN_REPLIED = 256,   /* not TCP: there was a packet in the other direction */
	CONN_PICKED_UP = 512, /* TCP: it was open before it was seen */
};

struct conn {
	__u64 seen_ns; /* CLOCK_MONOTONIC_COARSE; of data packets with revalidate_ns delay */
	__u64 born_ns;
	struct counter counters[2]; /* by direction; of data packets with revalidate_ns delay */
	__u32 next_seq[2];	    /* TCP: behind the last packet that was looked at */
	__u32 bits;		    /* enum conn_bits */
	__u32 rule;		    /* number of the rule that allowed it */
	__u32 policy;		    /* number of the policy that was asked */
	/* What a new policy has to know: */
	__u16 peer_end; /* port of this edge outside, 0: none */
	__u16 peer_segment;
	__u8 smac[ETH_ALEN]; /* of the opening packet */
	__u8 dmac[ETH_ALEN];
	__u8 scale[2]; /* TCP: window scale (RFC 7323), NO_SCALE when it was not seen */
	__u8 pad[2];
};

#define NO_SCALE 255

BYTE_ENUM direction {
	DIRECTION_IN,  /* to the workload behind the port */
	DIRECTION_OUT, /* from it */
};

BYTE_ENUM verdict {
	VERDICT_ALLOW,
	VERDICT_DROP,
	VERDICT_REJECT,
	VERDICT_LOG_ONLY, /* in logs: what a rule on trial would have decided about */
};

BYTE_ENUM transport_kind {
	TRANSPORT_WHOLE,
	TRANSPORT_ERROR, /* ICMP error: src to sport are those of the packet that it is about, turned round */
	TRANSPORT_FIRST, /* fragment with the transport header */
	TRANSPORT_LATER, /* fragment without it */
};

/* What the firewall reads behind the IP header and its extension headers. */
struct transport {
	struct addr src;
	struct addr dst;
	__u32 seq;	  /* TCP */
	__u32 end;	  /* TCP: the sequence number behind the packet */
	__u32 ack;	  /* TCP */
	__u32 id;	  /* of a fragment's datagram */
	__u16 off;	  /* of the transport header, behind that of the IP header */
	__u16 quoted;	  /* of the quoted IP header, TRANSPORT_ERROR */
	__u16 quoted_off; /* of the quoted transport header */
	__be16 sport;
	__be16 dport;
	__u16 icmp; /* type << 8 | code */
	__u8 proto;
	__u8 flags; /* TCP */
	__u8 scale; /* TCP, with SYN: NO_SCALE without the option */
	__u8 asker; /* ICMP echo: 1 a request, 2 a reply */
	enum transport_kind kind;
	bool uncached; /* the flow cache's key does not tell such packets apart */
};

/* How a connection begins, as the rules see it. */
struct opening {
	struct addr src;
	struct addr dst;
	__u8 smac[ETH_ALEN];
	__u8 dmac[ETH_ALEN];
	__u16 src_end; /* port of this edge, 0: it is beyond a tunnel or uplink, or not known */
	__u16 dst_end;
	__u16 src_segment; /* where the packet came in */
	__u16 dst_segment; /* where it goes */
	__u16 end;	   /* the port whose firewall is asked */
	__u16 sport;	   /* host's byte order: TCP, UDP, SCTP, else 0 */
	__u16 dport;	   /* the same; ICMP: type << 8 | code */
	__u8 proto;
	enum direction direction;
	bool ported; /* the ports (the ICMP type) are known; no rule that asks for them matches else */
};

/* What the rules say. */
struct judgement {
	__u32 rule;	/* number of the rule that decides, never 0 */
	__u32 log_only; /* number of the first rule on trial that comes before, 0: none */
	__u32 policy;	/* number of the policy */
	enum verdict verdict;
	bool log;
};

/* Rules that are looked up: entries of the map policy. */
enum policies {
	POLICY_FIREWALL,
	POLICY_EGRESS, /* a rule's number is that of the egress policy, where it allows */
	POLICIES,
};

/* In the place of a port's end in the egress policy: a router, whose number is added. */
#define EGRESS_PLACE MAX_ENDS

/* A piece of a policy, which internal/policy makes and firewall/classify.h reads: a cache line. */
struct line {
	__u32 w[16];
};

/* By a rule's number. name is a hash by which a new process finds its rules' numbers again. */
struct rule_counters {
	__u64 name; /* 0: free */
	__u64 connections;
	__u64 packets; /* of data packets with revalidate_ns delay */
	__u64 bytes;
	__u64 seen_ns;
};

/* Connections that wait for an answer, of one port. */
struct half_open_count {
	__u32 count;
};

/* A fragment's datagram, whose first one the firewall let pass. */
struct fragment_key {
	__u32 end;
	__u32 id;
	struct addr saddr;
	struct addr daddr;
	__u8 proto;
	enum direction direction;
	__u8 pad[2];
};

/* A line of the firewall's log. */
struct log_line {
	__u64 ns; /* CLOCK_MONOTONIC */
	struct addr src;
	struct addr dst;
	__u32 rule;
	__u32 reason; /* 0: it passes */
	__u32 lost;   /* lines that this core could not write before this one */
	__u16 end;
	__u16 sport; /* host's byte order, as in struct opening */
	__u16 dport;
	__u16 len;
	__u8 proto;
	__u8 tcp_flags;
	enum direction direction;
	enum verdict verdict;
	__u32 pad;
};

/* Sorts of connections, by their state: each has a timeout. */
enum conn_state {
	STATE_OPENING,
	STATE_ESTABLISHED,
	STATE_HALF_CLOSED,
	STATE_TIME_WAIT,
	STATE_CLOSED,
	STATE_UDP,
	STATE_UDP_REPLIED,
	STATE_ICMP,
	STATE_MAX,
};

/*
 * Translation of addresses. A binding is of one connection, between an address inside and
 * one outside: struct conn_key with the router in the place of the port. Its return is how
 * packets from outside find it: the same key, with the egress address and port inside.
 */
enum binding_flags {
	BINDING_REPLICA = 1,   /* another gateway made it, and this one has not seen its packets */
	BINDING_FORWARDED = 2, /* opened from outside, by a forward or an open mapping */
	BINDING_INDEPENDENT = 4, /* its port is that of the mapping with the same source */
	BINDING_MAPPING = 8,	 /* outside is zero: holds the port for all destinations */
};

struct binding {
	struct conn conn;   /* its state; rule and policy are not used */
	struct addr addr;   /* egress address */
	struct addr via;    /* remote that the source is behind, zero: reached by the router */
	__be16 port;	    /* egress port; ICMP echo: identifier */
	__u16 egress;	    /* number of the policy */
	__u32 flags;	    /* enum binding_flags */
	__u64 announced_ns; /* when other gateways were told of it */
};

/* Where a return leads. */
struct origin {
	struct addr addr;
	__be16 port;
	__u16 pad;
};

/* Bindings that a source has; those that were opened to it from outside are counted apart. */
#define HOST_FROM_OUTSIDE 0x80000000 /* beside the router */
struct host_key {
	__u32 router;
	struct addr addr;
};

struct host_bindings {
	__u32 count;
};

/* Port of an egress address that is for a host inside. */
struct forward_key {
	__u32 router;
	__u8 proto;
	__u8 pad;
	__be16 port;
	struct addr addr;
};

struct forward {
	struct addr addr;
	__be16 port;
	__u16 egress;
};

enum egress_flags {
	EGRESS_BY_CONNECTION = 1, /* a source's connections take different addresses of the pool */
	EGRESS_INDEPENDENT = 2,	  /* endpoint-independent mapping (RFC 4787 4.1) */
	EGRESS_OPEN = 4,	  /* and filtering (RFC 4787 5) */
};

#define WAY_NONE 0xffff /* in the place of a next hop: nobody serves the source */

/* Who translates the sources of a bucket, and to what: of one family. */
struct egress_family {
	__u32 pool;		     /* number of the first address in the map pool */
	__u32 count;		     /* of addresses that this edge translates to */
	__u16 hops[EGRESS_BUCKETS];  /* next hop to the gateway; 0: this edge is it */
	__u16 first[EGRESS_BUCKETS]; /* which address of the pool is tried first */
};

/* An egress policy, or an uplink's own translation. Number 0 is none. */
struct egress {
	__u32 used; /* a hash of its name */
	__u32 router;
	__u32 segment; /* its own, between edges and gateways; 0: an uplink's own */
	enum egress_flags flags;
	__u16 first_port; /* host's byte order */
	__u16 last_port;
	__u32 limit;		  /* bindings of one source, 0: without limit */
	__u16 kept[MAX_GATEWAYS]; /* next hops to gateways that keep the flows that they have */
	struct egress_family family[2]; /* IPv4, IPv6 */
};

/* What a packet's addresses and ports become. */
struct translation {
	struct addr src;
	struct addr dst;
	__be16 sport;
	__be16 dport;
	__u32 pad;
};

/* The translation of a fragment's datagram, and when its first one passed. */
struct fragment_translation {
	__u64 passed_ns;
	struct translation translation;
	struct addr via;
	__u16 egress;
	__u16 flags; /* enum flow_flags of it: FLOW_SNAT, FLOW_DNAT */
	__u16 pad[2];
};

BYTE_ENUM binding_event {
	BINDING_BEGAN,
	BINDING_OPEN, /* answered: worth telling other gateways */
	BINDING_ENDED,
};

/* News of a binding, for the log and other gateways. */
struct binding_news {
	__u64 ns; /* CLOCK_MONOTONIC */
	struct conn_key key;
	enum binding_event event;
	__u8 pad[3];
	struct binding binding;
};

/* Ports of an egress address that are in use for one destination. */
struct pressure_key {
	__u32 router;
	__u8 proto;
	__u8 pad;
	__be16 outside_port;
	struct addr egress;
	struct addr outside;
};

struct pressure {
	__u32 sweep; /* which one counted */
	__u32 count;
};

/* What the sweep over the bindings counts, and removes. */
struct nat_census {
	__u32 states[STATE_MAX];
	__u32 bindings;
	__u32 mappings;
	__u32 replicas;
	__u32 expired;
	__u32 sweep;
	__u32 pad;
};

/* What the sweep over the connections counts, and removes. */
struct census {
	__u32 states[STATE_MAX];
	__u32 connections; /* in the table of those that were answered */
	__u32 half_open;
	__u32 expired;
	__u32 pad;
};

/*
 * A packet on its way through the stages: offsets and facts, no pointers into it.
 * It is in a map for its size, one for each core; the Go side has no use for it.
 */
struct pkt {
	__u64 now_ns; /* CLOCK_MONOTONIC_COARSE: a tick's resolution, a read's cost */
	struct flow_key key;
	__u32 in;	 /* end that it came from, 0 before guard or a cache hit */
	__u32 segment;	 /* where it came in, set by guard */
	__u32 len;	 /* bytes of the packet as it came */
	__u32 frame_len; /* bytes of the inner frame without its tags */
	__u32 l3;	 /* offset of the inner IP header */
	__u32 l4;	 /* offset of what follows it */
	__u32 headers;	 /* inner bytes up to the L4 payload without tags, to size a cut segment */
	__u32 payload;	 /* L4 payload, without the padding of a short frame */
	__u32 seq;	 /* TCP: sequence number */
	__u32 path;  /* smallest MTU of the tunnels that it came or goes through, 0 without one */
	__u16 inner; /* offset of the inner Ethernet header: what decapsulation removes */
	__be16 udp_port; /* tunnel: the outer destination port */
	__u8 tag_bytes;	 /* of the key's tags: those that stand in the frame, not beside it */
	__u8 tcp_flags;	 /* 0 when not TCP */
	__u8 icmp_type;	 /* of ICMP and ICMPv6 */
	__u8 tos;	 /* inner DSCP and ECN */
	__u8 ttl;	 /* inner TTL or hop limit */
	__u8 outer_tos;
	bool df;		/* not to be fragmented: set in the inner header, or not IPv4 */
	bool tail;		/* a fragment but the first */
	bool untagged;		/* its tags are off */
	bool polled;		/* goes to its port by way of the coalescer */
	bool routed;		/* has new MACs */
	bool examined;		/* its transport is known */
	bool untaught;		/* came from a remote whose packets teach nothing */
	__u8 steps;		/* of a trace */
	__s32 verdict;		/* what the program returns, when nothing stopped the packet */
	__u8 was[2 * ETH_ALEN]; /* routed: the MACs that it came with */
	struct decision
		decision; /* what becomes of it: the cache's entry may be replaced meanwhile */
};

/*
 * What the firewall has of the packet that a core is working on: a map of its own, so
 * that the transit programs can have struct pkt on their stack.
 */
struct hearing {
	struct counter carried; /* the flow's packets since the firewall was told of them last */
	__u32 carried_seq;	/* TCP: behind the flow's last packet, with has_seq */
	__u32 next_seq; /* TCP: behind the packets of its direction, when it has been looked at */
	bool has_seq;
	struct transport transport;
	struct opening opening;
	struct judgement judgement;
	struct conn_key key;
	struct conn fresh; /* a connection that begins */
	struct fragment_key fragment;
	/* NAT: */
	struct translation translation; /* of the packet */
	struct addr via;		/* remote that its destination is behind, or zero */
	__u16 egress;			/* policy or uplink that translates its source, or 0 */
	__u16 via_egress;		/* policy by whose segment it goes there */
	__u16 hop;			/* next hop to its gateway, or 0 */
	__u16 former;			/* that of the flow until now */
	bool bound;		 /* the packet made a binding from outside, whose return is back */
	struct conn_key back;	 /* return of a binding */
	struct conn_key mapping; /* of its source */
	struct conn_key taken;	 /* one whose port is taken away */
	struct origin origin;	 /* where a return that is made leads */
	struct binding binding;	 /* one that begins */
};

struct flow {
	struct decision decision;
	enum burst burst;
	__u8 pad;
	__u16 hop;	/* with FLOW_EGRESS: the next hop to the gateway */
	__u32 next_seq; /* TCP: behind the last in-order packet, see cache/reorder.h */
	__u32 gap_ns;	/* TCP: since when a packet is missing (low bits), 0 when none is */
	__u32 burst_ns; /* TCP: when the last packet came (low bits), see tx/gro.h */
	__u64 decided_ns;
	__u64 seen_ns;
	__u64 packets;
	__u64 bytes;
	struct counter told;		/* of those, what the firewall has been told of */
	struct translation translation; /* with FLOW_SNAT or FLOW_DNAT */
};

/* A flow of the transit programs, see cache/transit_cache.h: two cache lines. */
struct shortcut {
	struct flow_key key;
	struct decision decision; /* out: 0 when the place is free */
	__u64 packets;
	__u64 bytes;
};

/* Numbers that all transit programs look at. */
enum pulse {
	PULSE_CHANGES, /* grows when any generation does, and when a path goes down */
	PULSE_EPOCH,   /* grows with time, by the Go side */
	PULSE_LEASE,   /* ms of CLOCK_MONOTONIC when the Go side was alive, low bits */
	PULSE_MAX,
};

/* A core's shortcuts. */
struct shortcut_table {
	__u32 mask;	 /* of the places in use, 0 before the first */
	__u32 evictions; /* since it was judged */
	__u32 used;	 /* places with a flow */
	__u32 pad;
	__u64 express; /* packets that took the shortest way, see cache/transit_fast.h */
	__u64 judged;  /* express then */
};

/* What the interface of a transit program is. */
BYTE_ENUM device_flags {
	DEVICE_UNDERLAY = 1, /* tunnels arrive here */
	DEVICE_UPLINK = 2,   /* a port of a router is here */
};

struct end_counters {
	struct counter rx; /* from the end into the edge */
	struct counter tx; /* from the edge to the end */
	__u64 drops;	   /* of what came from the end */
};

#define MAX_STEPS 64

/* One line of a trace. */
struct trace_step {
	enum stage stage;
	__u32 a;
	__u32 b;
};

/* A host that came to a port, or an address that one there says it has: for the Go side. */
struct arrival {
	struct addr addr; /* zero: of the MAC address itself */
	__u32 segment;
	__u32 end;
	__u8 mac[ETH_ALEN];
	__u16 was; /* end of the remote that it was behind, 0: none */
};

/* Tokens, see core/token_bucket.h. */
struct bucket {
	__u64 tokens;
	__u64 filled_ns;
};

/* Tokens for log lines, see firewall/log.h. */
struct log_bucket {
	struct bucket bucket;
	__u64 lost; /* since the last line */
};

/* A packet's beginning, where its checksum is taken. */
struct scratch {
	__u8 bytes[1536];
};

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* pkt: a packet on its way through the stages: offsets and fields, no pointers into it. */
#pragma once

#include "abi/abi.h"
#include "core/addr.h"
#include "core/config.h"
#include "core/ctx.h"
#include "core/l4_info.h"
#include "core/stamp.h"

/* The Ethernet header of a frame, in the order of the wire but for the tags. */
struct frame_header {
	__u8 dmac[ETH_ALEN];
	__u8 smac[ETH_ALEN];
	__be32 tags[MAX_TAGS]; /* as in a key */
	__be16 ethertype;
};

/*
 * The offsets and fields of a packet. It is in a per-CPU map for its size; the transit fast
 * path has one on its stack. The key does not change once the packet is parsed.
 */
struct pkt {
	__u64 now_ns; /* CLOCK_MONOTONIC_COARSE: cheap to read, with a tick's resolution */
	struct flow_key key;
	__u32 in;	 /* ingress vport, 0 until the source guard or a cache hit sets it */
	__u32 segment;	 /* ingress segment, set likewise */
	__u32 len;	 /* bytes of the packet as received */
	__u32 frame_len; /* bytes of the inner frame without tags */
	__u32 l3;	 /* offset of the inner IP header */
	__u32 l4;	 /* offset of its payload */
	__u32 headers;	 /* inner bytes before the L4 payload, without tags */
	__u32 payload;	 /* L4 payload, without padding */
	__u32 seq;	 /* TCP: sequence number */
	__u32 path;	 /* MTU of the egress, for ICMP errors; 0: unknown */
	__u16 inner;	 /* offset of the inner Ethernet header: bytes that decapsulation removes */
	__be16 udp_port; /* tunnel: outer destination port */
	__u8 tag_bytes;	 /* of the key's tags, those in the frame */
	__u8 tcp_flags;	 /* 0 if not TCP */
	__u8 icmp_type;	 /* of ICMP and ICMPv6 */
	__u8 tos;	 /* inner DSCP and ECN */
	__u8 ttl;	 /* inner TTL or hop limit */
	__u8 outer_tos;
	bool outer_csum;  /* XDP: an outer UDP checksum that may be wrong: tc tells */
	bool df;	  /* inner DF bit, or not IPv4 */
	bool tail;	  /* a later fragment */
	bool untagged;	  /* tags are removed */
	bool polled;	  /* goes through GRO */
	bool l4_parsed;	  /* l4_info is valid */
	bool no_learning; /* from a remote whose hosts BGP advertises */
	bool new_flow;	  /* cache/flow_cache.h: the flow cache does not have the flow */
	bool arp_nd;	  /* ARP, or ND that no router has forwarded */
	bool hidden;	  /* IP, ARP, ND or DHCP may be where nobody looks, see l2/port_guard.h */
	__u8 na_flags;	  /* l2/neighbour.h: of the host that a proxy reply is about */
	__u8 steps;	  /* of a trace */
	__s32 verdict;	  /* return value of the program, if nothing stopped the packet */
	__u16 egress;	  /* nat/egress.h: policy or uplink that translates the source */
	__u16 gateway;	  /* nat/egress.h: next hop to the gateway; 0: this edge */
	bool opened_connection; /* firewall/: at the ingress port, by this packet */
	bool opened_session;	/* nat/: from outside, by this packet */
	bool opened_snat;	/* nat/: from inside, by this packet */
	bool decided;		/* the decision below is of this packet */
	bool cached;		/* it was in the flow cache, or in the transit cache */
	bool kept;		/* core/monitor.h: the packet as it came is in the event */
	__u8 chosen;		/* core/monitor.h: the sessions that chose it, and MONITOR_ASKED */
	__u32 rule; /* firewall/: the last rule that was asked, or that let the connection open */
	__u32 rule_vport; /* firewall/: the port whose firewall that was */
	/* The rest is written before it is read. */
	struct frame_header eth;  /* as it leaves; parse() starts with what was received */
	struct addr nexthop;	  /* l3/route.h: with ACTION_RESOLVE, the address to resolve */
	struct decision decision; /* a copy: the cache's entry may be replaced meanwhile */
				  /* Of the stateful stages, which XDP leaves to tc: */
#ifndef XDP
	struct l4_info l4_info;	   /* firewall/l4.h, with l4_parsed */
	struct tuple translation;  /* nat/: addresses and ports after NAT, with FLOW_NAT */
	struct counter unreported; /* flow_cache.h: what conntrack has not counted of the flow */
	__u64 digest;		   /* flow_cache.h: of the key */
	__u32 flow_seq;		   /* flow_cache.h: the flow's next_seq, with has_flow_seq */
	__u32 next_seq;		   /* conntrack: TCP: end of the tracked packets of the direction */
	__u16 previous_gateway;	   /* flow_cache.h: that of the flow's previous decision, or 0 */
	bool has_flow_seq;	   /* flow_cache.h: conntrack follows the flow */
#endif
};

/* tc and XDP have one each. */
#ifdef XDP
#define current transit_current
#endif
MAP(PERCPU_ARRAY, current, __u32, struct pkt, 1);

/*
 * A function that the verifier checks once, for all values of its arguments. It returns a
 * drop reason, or 0.
 */
#define SUBPROGRAM __attribute__((noinline))

#define NOT_OURS -1 /* not a drop reason: the packet belongs to the host */

/* The MAC addresses of a key, destination first, as in a frame. */
static __always_inline void *key_macs(const struct flow_key *key)
{
	return (void *)key + __builtin_offsetof(struct flow_key, dmac);
}

static __always_inline struct vport *vport_get(__u32 id)
{
	return bpf_map_lookup_elem(&vports, &id);
}

static __always_inline bool is_ip_type(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_IP) || ethertype == bpf_htons(ETH_P_IPV6);
}

static __always_inline bool is_ip(const struct pkt *p)
{
	return is_ip_type(p->key.ethertype);
}

/* The same of the packet that leaves, which may be a reply of the edge. */
static __always_inline bool leaves_as_ip(const struct pkt *p)
{
	return is_ip_type(p->eth.ethertype);
}

static __always_inline struct segment *segment_get(__u32 id)
{
	return bpf_map_lookup_elem(&segments, &id);
}

static __always_inline bool is_v6(const struct pkt *p)
{
	return p->key.ethertype == bpf_htons(ETH_P_IPV6);
}

/* ICMP errors (RFC 792). */
static __always_inline bool is_error4(__u8 type)
{
	return type == ICMP_UNREACHABLE || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
	       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER;
}

/* ND as a type of ICMPv6. */
static __always_inline bool is_nd_type(__u8 type)
{
	return type >= ICMPV6_ROUTER_SOLICITATION && type <= ICMPV6_ND_REDIRECT;
}

/* What routers say, and hosts ask them (RFC 4861): ND but for neighbours. */
static __always_inline bool is_router_discovery(const struct pkt *p)
{
	return p->arp_nd && is_v6(p) && p->icmp_type != ICMPV6_SOLICITATION &&
	       p->icmp_type != ICMPV6_ADVERTISEMENT;
}

static __always_inline bool is_icmp_error(const struct pkt *p)
{
	if (is_v6(p))
		return p->key.proto == IPPROTO_ICMPV6 && p->icmp_type < 128;
	return p->key.proto == IPPROTO_ICMP && is_error4(p->icmp_type);
}

/*
 * Time since then. Clocks of other cores may be a little ahead, so it may be negative. A
 * replicated session may be older than this machine's clock, so then may be negative too.
 */
static __always_inline __s64 ns_since(__u64 then, __u64 now)
{
	return now - then;
}

/* The packet of this core. There is one: programs neither sleep nor nest. */
static __always_inline struct pkt *packet(CTX *ctx)
{
	__u32 zero = 0;
	struct pkt *p = bpf_map_lookup_elem(&current, &zero);

	if (!p)
		return NULL;
	__builtin_memset(p, 0, __builtin_offsetof(struct pkt, eth));
	p->len = ctx_len(ctx);
	p->now_ns = bpf_ktime_get_coarse_ns();
	return p;
}

/* A large segment, to be cut into packets of gso_size. gso_segs is unset behind a tunnel. */
static __always_inline bool is_gso(CTX *ctx)
{
	return ctx_gso_size(ctx) != 0;
}

/* Packets on the wire. */
static __always_inline __u32 packets_of(CTX *ctx, const struct pkt *p)
{
	__u32 size = ctx_gso_size(ctx);

	return size ? (p->frame_len - p->headers + size - 1) / size : 1;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * hear: finds the mark in a frame, plain or inside a tunnel, and says what a frame
 * without one is. Reserved bits and checksums are not looked at: what a device sends
 * is the lab's to examine, not the sink's.
 *
 * in:    a frame
 * out:   struct heard, or the kind of a foreign frame
 */
#pragma once

#include "gen.h"

enum around { AROUND_PLAIN, AROUND_VXLAN, AROUND_GENEVE, AROUND_NVGRE, AROUND_LEN };

/* Frames that are not of the stream. */
enum foreign {
	FOREIGN_NONE,
	FOREIGN_ARP,
	FOREIGN_ND,	   /* all of ICMPv6 that neighbours and routers say */
	FOREIGN_ICMP,	   /* ICMP and the rest of ICMPv6 */
	FOREIGN_IP,	   /* other IP packets */
	FOREIGN_ETHERTYPE, /* other frames */
	FOREIGN_SHORT,	   /* ends within its headers */
	FOREIGN_STREAM,	   /* another stream's */
	FOREIGN_STALE,	   /* another run's of this stream */
	FOREIGN_LEN,
};

struct heard {
	void *eth, *ip; /* the outermost */
	void *inner_eth, *inner_ip;
	__be16 type, inner_type; /* IPv4 or IPv6 */
	enum around around;
	struct mark *mark;
};

const volatile __u16 vxlan_port = 4789, geneve_port = 6081;

/* Behind an Ethernet header with at most one tag. */
static __always_inline void *behind_ethernet(void *at, void *end, __be16 *type)
{
	struct ethhdr *eth = at;
	struct vlanhdr *tag = (void *)(eth + 1);

	if ((void *)(eth + 1) > end)
		return NULL;
	*type = eth->type;
	if (eth->type != bpf_htons(ETH_P_8021Q) && eth->type != bpf_htons(ETH_P_8021AD))
		return eth + 1;
	if ((void *)(tag + 1) > end)
		return NULL;
	*type = tag->type;
	return tag + 1;
}

static __always_inline enum foreign kind_of_icmpv6(void *at, void *end)
{
	struct icmphdr *icmp = at;

	if ((void *)(icmp + 1) > end)
		return FOREIGN_SHORT;
	return icmp->type >= ICMPV6_ROUTER_SOLICITATION && icmp->type <= ICMPV6_ND_REDIRECT ?
		       FOREIGN_ND :
		       FOREIGN_ICMP;
}

/* Behind an IP header with UDP or GRE; other packets' kind goes to *kind. */
static __always_inline void *behind_ip(void *at, void *end, __be16 type, __u8 *proto,
				       enum foreign *kind)
{
	struct ipv6hdr *ip6 = at;
	struct iphdr *ip = at;

	*kind = FOREIGN_SHORT;
	if (type == bpf_htons(ETH_P_IP)) {
		if ((void *)(ip + 1) > end)
			return NULL;
		*kind = ip->protocol == IPPROTO_ICMP ? FOREIGN_ICMP : FOREIGN_IP;
		*proto = ip->protocol;
		if (ip->ihl != 5 || ip->frag_off & bpf_htons(IP_MF | IP_OFFSET))
			return NULL;
		at = ip + 1;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(ip6 + 1) > end)
			return NULL;
		*kind = FOREIGN_IP;
		*proto = ip6->nexthdr;
		at = ip6 + 1;
		if (*proto == IPPROTO_ICMPV6)
			*kind = kind_of_icmpv6(at, end);
	} else {
		*kind = type == bpf_htons(ETH_P_ARP) ? FOREIGN_ARP : FOREIGN_ETHERTYPE;
		return NULL;
	}
	if (*proto != IPPROTO_UDP && *proto != IPPROTO_GRE)
		return NULL;
	if (at + sizeof(struct udphdr) > end) { /* GRE with a key is as long */
		*kind = FOREIGN_SHORT;
		return NULL;
	}
	return at;
}

/* The frame in a tunnel, NULL where there is none or it is cut. */
static __always_inline void *inside(void *at, void *end, __u8 proto, enum around *around)
{
	struct genevehdr *geneve = at + sizeof(struct udphdr);
	struct udphdr *udp = at;
	struct grehdr *gre = at;

	*around = AROUND_PLAIN;
	if (proto == IPPROTO_GRE) {
		if (gre->flags != bpf_htons(GRE_KEY) || gre->protocol != bpf_htons(ETH_P_TEB))
			return NULL;
		*around = AROUND_NVGRE;
		return gre + 1;
	}
	if (udp->dest == bpf_htons(vxlan_port)) {
		*around = AROUND_VXLAN;
		return at + sizeof(struct udphdr) + sizeof(struct vxlanhdr);
	}
	if (udp->dest != bpf_htons(geneve_port) || (void *)(geneve + 1) > end)
		return NULL;
	*around = AROUND_GENEVE;
	return (void *)(geneve + 1) + geneve->options_len * 4;
}

static __always_inline enum foreign hear(struct frame *f, struct heard *h)
{
	void *at = frame_data(f), *end = frame_end(f);
	enum foreign kind;
	__u8 proto = 0;

	h->eth = at;
	h->inner_eth = NULL;
	h->around = AROUND_PLAIN;
	h->ip = at = behind_ethernet(at, end, &h->type);
	if (!at)
		return FOREIGN_SHORT;
	at = behind_ip(at, end, h->type, &proto, &kind);
	if (!at)
		return kind;
	h->inner_eth = inside(at, end, proto, &h->around);
	if (h->inner_eth) {
		h->inner_ip = at = behind_ethernet(h->inner_eth, end, &h->inner_type);
		if (!at)
			return FOREIGN_SHORT;
		at = behind_ip(at, end, h->inner_type, &proto, &kind);
		if (!at)
			return kind;
	}
	if (proto != IPPROTO_UDP)
		return FOREIGN_IP;
	h->mark = at + sizeof(struct udphdr);
	if ((void *)(h->mark + 1) > end || (h->mark->head & MAGIC_MASK) != MARK_MAGIC)
		return FOREIGN_IP;
	return FOREIGN_NONE;
}

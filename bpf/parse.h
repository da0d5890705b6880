/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * parse: reads the inner frame into the flow key and refuses what is cut short.
 *
 * in:    skb, p->inner
 * out:   p->key (all but origin and vni), p->frame_len, p->headers
 * maps:  none
 * stops: MALFORMED_*, SOURCE_MULTICAST, VLAN_TAGGED
 */
#pragma once

#include "pkt.h"

/* TCP, UDP and ICMP; other protocols have no header that we know. */
static __always_inline int parse_l4(struct pkt *p, __u32 off, __u32 len)
{
	struct tcphdr *tcp;
	struct l4ports *l4;
	__u32 size = 0;

	p->headers = off - p->inner;
	if (p->key.fragment)
		return 0;
	switch (p->key.proto) {
	case IPPROTO_TCP:
		tcp = ctx_at(p->skb, off, sizeof(*tcp));
		if (!tcp)
			return REASON_MALFORMED_L4;
		size = tcp->doff * 4;
		if (size < sizeof(*tcp))
			return REASON_MALFORMED_L4;
		p->seq = bpf_ntohl(tcp->seq);
		p->tcp_flags = tcp->flags;
		p->key.sport = tcp->source;
		p->key.dport = tcp->dest;
		break;
	case IPPROTO_UDP:
		size = sizeof(struct udphdr);
		l4 = ctx_at(p->skb, off, sizeof(struct udphdr));
		if (!l4)
			return REASON_MALFORMED_L4;
		p->key.sport = l4->source;
		p->key.dport = l4->dest;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		size = 4; /* type, code, checksum */
		break;
	}
	if (size > len)
		return REASON_MALFORMED_L4;
	p->headers += size;
	p->payload = len - size;
	return 0;
}

static __always_inline int parse_ipv4(struct pkt *p, __u32 off, __u32 len)
{
	struct iphdr *ip = ctx_at(p->skb, off, sizeof(*ip));
	__u32 ihl, total;

	if (!ip || ip->version != 4)
		return REASON_MALFORMED_IPV4;
	ihl = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (total == 0 && is_gso(p)) /* BIG TCP: the length does not fit */
		total = len;
	if (ihl < sizeof(*ip) || total < ihl || total > len)
		return REASON_MALFORMED_IPV4;
	p->key.saddr.w[2] = p->key.daddr.w[2] = bpf_htonl(0xffff);
	p->key.saddr.w[3] = ip->saddr;
	p->key.daddr.w[3] = ip->daddr;
	p->key.proto = ip->protocol;
	p->key.fragment = (ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)) != 0;
	return parse_l4(p, off + ihl, total - ihl);
}

static __always_inline int parse_ipv6(struct pkt *p, __u32 off, __u32 len)
{
	struct ipv6hdr *ip = ctx_at(p->skb, off, sizeof(*ip));
	struct ipv6_opt *opt;
	__u32 total, size;

	if (!ip || (ip->flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return REASON_MALFORMED_IPV6;
	total = bpf_ntohs(ip->payload_len);
	if (total == 0 && is_gso(p)) /* BIG TCP */
		total = len - sizeof(*ip);
	if (len < sizeof(*ip) || total > len - sizeof(*ip))
		return REASON_MALFORMED_IPV6;
	copy(&p->key.saddr, ip->saddr, sizeof(p->key.saddr));
	copy(&p->key.daddr, ip->daddr, sizeof(p->key.daddr));
	p->key.proto = ip->nexthdr;
	off += sizeof(*ip);

	/* One extension header is looked behind; with more, the addresses tell flows apart. */
	if (p->key.proto == IPPROTO_FRAGMENT) {
		p->key.fragment = 1;
	} else if (p->key.proto == IPPROTO_HOPOPTS || p->key.proto == IPPROTO_ROUTING ||
		   p->key.proto == IPPROTO_DSTOPTS) {
		opt = ctx_at(p->skb, off, sizeof(*opt));
		if (!opt)
			return REASON_MALFORMED_IPV6;
		size = (opt->len + 1) * 8;
		if (size > total)
			return REASON_MALFORMED_IPV6;
		if (size > 64) /* longer than the headers that we make linear */
			return 0;
		p->key.proto = opt->nexthdr;
		off += size;
		total -= size;
	}
	return parse_l4(p, off, total);
}

static __always_inline int parse(struct pkt *p)
{
	__u32 off = p->inner;
	struct ethhdr *eth = ctx_at(p->skb, off, sizeof(*eth));
	__u32 len;

	if (!eth)
		return REASON_MALFORMED_ETHERNET;
	copy(key_macs(&p->key), eth, 2 * ETH_ALEN);
	p->key.ethertype = eth->type;
	p->frame_len = p->skb->len - off;
	off += sizeof(*eth);
	len = p->frame_len - sizeof(*eth);
	p->headers = sizeof(*eth);

	if (mac_is_group(p->key.smac) || mac_is_zero(p->key.smac))
		return REASON_SOURCE_MULTICAST;
	switch (bpf_ntohs(eth->type)) {
	case ETH_P_IP:
		return parse_ipv4(p, off, len);
	case ETH_P_IPV6:
		return parse_ipv6(p, off, len);
	case ETH_P_ARP:
		return len < 28 ? REASON_MALFORMED_ARP : 0; /* RFC 826 for Ethernet and IPv4 */
	case ETH_P_8021Q:
	case ETH_P_8021AD:
		return REASON_VLAN_TAGGED;
	}
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * proxy_reply: replies to ARP requests, neighbour solicitations and echo requests, and resolves
 * the MAC address of a next hop.
 *
 * in:    p, decapsulated and without tags; d->smac: the MAC address to reply with
 * out:   the reply or request in the packet's layout
 * maps:  segments
 * stops: NO_HEADROOM
 */
#pragma once

#include "tx/icmp.h"

#define ND_TTL 255 /* RFC 4861: not forwarded */

static __always_inline int reply_arp(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct arphdr *arp = ctx_at(ctx, p->l3, sizeof(*arp));
	__u32 target;

	if (!arp)
		return REASON_NO_HEADROOM;
	copy(&target, arp->target, sizeof(target));
	copy(arp->target_mac, arp->sender_mac, ETH_ALEN);
	copy(arp->target, arp->sender, sizeof(target));
	copy(arp->sender_mac, d->smac, ETH_ALEN);
	copy(arp->sender, &target, sizeof(target));
	arp->op = bpf_htons(ARP_REPLY);
	reply_macs(p, d->smac);
	return write_macs(ctx, p);
}

/* Writes Ethernet, IPv6 and a neighbour message with the sender's MAC address. */
static __always_inline int make_nd(CTX *ctx, struct pkt *p, __u8 type, __be32 flags,
				   const struct addr *from, const struct addr *to,
				   const struct addr *target, const __u8 *mac)
{
	__u32 len = sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct nd_msg), sum;
	struct ipv6hdr *ip;
	struct nd_msg *nd;

	if (ctx_renew(ctx, p->l4, len))
		return REASON_NO_HEADROOM;
	ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(*nd));
	if (!ip)
		return REASON_NO_HEADROOM;
	nd = (void *)(ip + 1);
	write_header6(ip, from, to, sizeof(*nd), IPPROTO_ICMPV6, 0, ND_TTL);
	nd->icmp.type = type;
	nd->icmp.code = 0;
	nd->icmp.check = 0;
	nd->icmp.rest = flags;
	copy(nd->target, target, sizeof(nd->target));
	nd->option = type == ICMPV6_ADVERTISEMENT ? ND_OPTION_TARGET : ND_OPTION_SOURCE;
	nd->option_len = 1;
	copy(nd->mac, mac, ETH_ALEN);
	sum = sum_pseudo6(from, to, sizeof(*nd), IPPROTO_ICMPV6, 0);
	nd->icmp.check = fold(bpf_csum_diff(NULL, 0, (void *)nd, sizeof(*nd), sum));
	p->eth.ethertype = bpf_htons(ETH_P_IPV6);
	p->frame_len = len;
	p->headers = len;
	return 0;
}

/* Duplicate address detection has no source address: reply to all nodes (RFC 4861 7.2.4). */
static __always_inline int reply_nd(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct nd_msg *nd = ctx_at(ctx, p->l4, ND_MIN);
	struct addr target, to = p->key.saddr;
	__be32 flags = p->na_flags & NEIGHBOUR_NO_OVERRIDE ? 0 : NA_OVERRIDE;
	int why;

	if (!nd)
		return REASON_NO_HEADROOM;
	if (d->flags & FLOW_GATEWAY || p->na_flags & NEIGHBOUR_ROUTER)
		flags |= NA_ROUTER;
	copy(&target, nd->target, sizeof(target));
	if (addr_is_zero(&to)) {
		to.w[0] = bpf_htonl(0xff020000);
		to.w[3] = bpf_htonl(1);
	} else {
		flags |= NA_SOLICITED;
	}
	why = make_nd(ctx, p, ICMPV6_ADVERTISEMENT, flags, &target, &to, &target, d->smac);
	if (why)
		return why;
	reply_macs(p, d->smac);
	return write_macs(ctx, p);
}

static __always_inline int reply_echo6(CTX *ctx, struct pkt *p)
{
	struct ipv6hdr *ip = ctx_at(ctx, p->l3, sizeof(*ip));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_HEADROOM;
	copy(ip->saddr, &p->key.daddr, sizeof(ip->saddr));
	copy(ip->daddr, &p->key.saddr, sizeof(ip->daddr));
	ip->hop_limit = ICMP_TTL;
	icmp = ctx_at(ctx, p->l4, sizeof(*icmp));
	if (!icmp)
		return REASON_NO_HEADROOM;
	icmp->type = ICMPV6_ECHO_REPLY;
	icmp->check = sum_replace(icmp->check, bpf_htons(ICMPV6_ECHO << 8),
				  bpf_htons(ICMPV6_ECHO_REPLY << 8));
	return 0;
}

static __always_inline int reply_echo4(CTX *ctx, struct pkt *p)
{
	struct iphdr *ip = ctx_at(ctx, p->l3, sizeof(*ip));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_HEADROOM;
	ip->saddr = p->key.daddr.w[3];
	ip->daddr = p->key.saddr.w[3];
	ip->check = sum_replace(ip->check, bpf_htons(ip->ttl << 8), bpf_htons(ICMP_TTL << 8));
	ip->ttl = ICMP_TTL;
	icmp = ctx_at(ctx, p->l4, sizeof(*icmp));
	if (!icmp)
		return REASON_NO_HEADROOM;
	icmp->type = ICMP_ECHO_REPLY;
	icmp->check = sum_replace(icmp->check, bpf_htons(ICMP_ECHO << 8), 0);
	return 0;
}

static __always_inline int proxy_reply(CTX *ctx, struct pkt *p, const struct decision *d)
{
	int why;

	count(EVENT_PROXY_REPLIED);
	p->tcp_flags = 0;
	if (p->key.ethertype == bpf_htons(ETH_P_ARP))
		return reply_arp(ctx, p, d);
	if (p->icmp_type == ICMPV6_SOLICITATION && is_v6(p))
		return reply_nd(ctx, p, d);
	why = is_v6(p) ? reply_echo6(ctx, p) : reply_echo4(ctx, p);
	if (why)
		return why;
	p->ttl = ICMP_TTL;
	reply_macs(p, d->smac);
	return write_macs(ctx, p);
}

static __always_inline int make_arp_request(CTX *ctx, struct pkt *p, const struct segment *seg)
{
	__u32 len = ETH_ZLEN;
	struct arphdr *arp;

	if (ctx_renew(ctx, p->l4, len))
		return REASON_NO_HEADROOM;
	arp = ctx_at(ctx, sizeof(struct ethhdr), ETH_ZLEN - sizeof(struct ethhdr));
	if (!arp)
		return REASON_NO_HEADROOM;
	__builtin_memset(arp, 0, ETH_ZLEN - sizeof(struct ethhdr));
	arp->hardware = bpf_htons(1);
	arp->protocol = bpf_htons(ETH_P_IP);
	arp->hardware_len = ETH_ALEN;
	arp->protocol_len = 4;
	arp->op = bpf_htons(ARP_REQUEST);
	copy(arp->sender_mac, seg->gateway_mac, ETH_ALEN);
	copy(arp->sender, &seg->gateway4.w[3], 4);
	copy(arp->target, &p->nexthop.w[3], 4);
	__builtin_memset(p->eth.dmac, 0xff, ETH_ALEN);
	p->eth.ethertype = bpf_htons(ETH_P_ARP);
	p->frame_len = len;
	p->headers = sizeof(struct ethhdr);
	return 0;
}

/* The link-local address that is made of a MAC address (RFC 4291 2.5.6 and appendix A). */
static __always_inline void link_local_of(struct addr *a, const __u8 *mac)
{
	a->w[0] = bpf_htonl(0xfe800000);
	a->w[1] = 0;
	a->w[2] = bpf_htonl((__u32)(mac[0] ^ 2) << 24 | mac[1] << 16 | mac[2] << 8 | 0xff);
	a->w[3] = bpf_htonl(0xfe000000 | mac[3] << 16 | mac[4] << 8 | mac[5]);
}

/* To the target's solicited-node multicast address (RFC 4291 2.7.1). */
static __always_inline int make_nd_solicitation(CTX *ctx, struct pkt *p, const struct segment *seg)
{
	struct addr to = { .w = { bpf_htonl(0xff020000), 0, bpf_htonl(1) } };
	struct addr target = p->nexthop, from = seg->gateway6;

	if (addr_is_link_local(&target)) /* routers need not know a way to the global address */
		link_local_of(&from, seg->gateway_mac);
	to.w[3] = target.w[3] | bpf_htonl(0xff000000);
	*(__u16 *)p->eth.dmac = bpf_htons(0x3333);
	copy16(p->eth.dmac + 2, &to.w[3], 4);
	return make_nd(ctx, p, ICMPV6_SOLICITATION, 0, &from, &to, &target, seg->gateway_mac);
}

/* Replaces the packet by a request for the MAC address of the next hop. */
static __always_inline int resolve_neighbour(CTX *ctx, struct pkt *p, const struct segment *seg)
{
	bool v4 = addr_is_v4(&p->nexthop);
	int why;

	if (addr_is_zero(v4 ? &seg->gateway4 : &seg->gateway6))
		return REASON_NO_NEIGHBOUR;
	copy16(p->eth.smac, seg->gateway_mac, ETH_ALEN);
	p->tcp_flags = 0;
	why = v4 ? make_arp_request(ctx, p, seg) : make_nd_solicitation(ctx, p, seg);
	if (why)
		return why;
	count(EVENT_NEIGH_REQUESTED);
	return write_macs(ctx, p);
}

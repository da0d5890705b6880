/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * reset: the answer to a TCP segment that is rejected, as if its destination had
 * nothing there (RFC 9293 3.10.7.1).
 *
 * in:    p, examined, out of its tunnel and without tags
 * out:   the reset in the packet's place, addressed to the sender
 * maps:  none
 * stops: NO_ROOM
 */
#pragma once

#include "icmp.h"

#define RESET_TTL 64

/* The header's fields; the checksum is that over its pseudo header too. */
static __always_inline void write_reset(struct tcphdr *tcp, const struct transport *t, bool v6)
{
	__be32 pseudo[2] = { bpf_htonl(sizeof(*tcp)), bpf_htonl(IPPROTO_TCP) };
	__u32 sum;

	__builtin_memset(tcp, 0, sizeof(*tcp));
	tcp->source = t->dport;
	tcp->dest = t->sport;
	tcp->doff = sizeof(*tcp) / 4;
	tcp->flags = TCP_RST;
	if (t->flags & TCP_ACK) {
		tcp->seq = bpf_htonl(t->ack);
	} else {
		tcp->ack = bpf_htonl(t->end);
		tcp->flags |= TCP_ACK;
	}
	sum = bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0);
	if (v6) {
		sum = bpf_csum_diff(NULL, 0, (void *)&t->src, sizeof(t->src), sum);
		sum = bpf_csum_diff(NULL, 0, (void *)&t->dst, sizeof(t->dst), sum);
	} else {
		sum = bpf_csum_diff(NULL, 0, (void *)&t->src.w[3], 4, sum);
		sum = bpf_csum_diff(NULL, 0, (void *)&t->dst.w[3], 4, sum);
	}
	tcp->check = fold(bpf_csum_diff(NULL, 0, (void *)tcp, sizeof(*tcp), sum));
}

static __always_inline void write_reset_ip(struct iphdr *ip, const struct transport *t, __u32 len)
{
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(len);
	ip->frag_off = bpf_htons(IP_DF);
	ip->ttl = RESET_TTL;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = t->dst.w[3];
	ip->daddr = t->src.w[3];
	ip->check = fold(bpf_csum_diff(NULL, 0, (void *)ip, sizeof(*ip), 0));
}

static __always_inline int make_reset(CTX *ctx, struct pkt *p, const struct transport *t)
{
	__u32 headers = is_v6(p) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u32 len = sizeof(struct ethhdr) + headers + sizeof(struct tcphdr);
	struct ipv6hdr *ip6;
	struct iphdr *ip;

	if (ctx_renew(ctx, p->l4, len))
		return REASON_NO_ROOM;
	if (is_v6(p)) {
		ip6 = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip6) + sizeof(struct tcphdr));
		if (!ip6)
			return REASON_NO_ROOM;
		write_header6(ip6, &t->dst, &t->src, sizeof(struct tcphdr), 0, RESET_TTL);
		ip6->nexthdr = IPPROTO_TCP;
		write_reset((void *)(ip6 + 1), t, true);
	} else {
		ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct tcphdr));
		if (!ip)
			return REASON_NO_ROOM;
		write_reset_ip(ip, t, len - sizeof(struct ethhdr));
		write_reset((void *)(ip + 1), t, false);
	}
	if (p->routed)
		copy16(key_macs(&p->key), p->was, 2 * ETH_ALEN);
	turn_macs(p, p->key.dmac);
	p->frame_len = len;
	p->headers = len;
	p->payload = 0;
	p->tos = 0;
	p->ttl = RESET_TTL;
	p->df = true;
	p->tcp_flags = 0;
	return write_macs(ctx, p);
}

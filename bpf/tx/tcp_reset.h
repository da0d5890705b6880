/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * tcp_reset: replies to a rejected TCP segment as if its destination had no listener
 * (RFC 9293 3.10.7.1).
 *
 * in:    p, parsed by l4.h, decapsulated and without tags
 * out:   the reset in the packet's layout, for the sender
 * maps:  none
 * stops: NO_HEADROOM
 */
#pragma once

#include "tx/icmp.h"

/* The sum of the pseudo header of RFC 9293 3.1 or RFC 8200 8.1. */
static __always_inline __u32 sum_pseudo(const struct l4_info *t, bool v6)
{
	__be32 pseudo[4] = { t->tuple.src.w[3], t->tuple.dst.w[3], bpf_htonl(sizeof(struct tcphdr)),
			     bpf_htonl(IPPROTO_TCP) };

	if (v6)
		return sum_pseudo6(&t->tuple.src, &t->tuple.dst, sizeof(struct tcphdr), IPPROTO_TCP,
				   0);
	return bpf_csum_diff(NULL, 0, pseudo, sizeof(pseudo), 0);
}

static __always_inline void write_reset(struct tcphdr *tcp, const struct l4_info *t, bool v6)
{
	__builtin_memset(tcp, 0, sizeof(*tcp));
	tcp->source = t->tuple.dport;
	tcp->dest = t->tuple.sport;
	tcp->doff = sizeof(*tcp) / 4;
	tcp->flags = TCP_RST;
	if (t->flags & TCP_ACK) {
		tcp->seq = bpf_htonl(t->ack);
	} else {
		tcp->ack = bpf_htonl(t->end);
		tcp->flags |= TCP_ACK;
	}
	tcp->check = fold(bpf_csum_diff(NULL, 0, (void *)tcp, sizeof(*tcp), sum_pseudo(t, v6)));
}

static __always_inline int make_reset(CTX *ctx, struct pkt *p, const struct l4_info *t)
{
	__u32 headers = is_v6(p) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u32 len = sizeof(struct ethhdr) + headers + sizeof(struct tcphdr);
	struct ipv6hdr *ip6;
	struct iphdr *ip;

	if (ctx_renew(ctx, p->l4, len))
		return REASON_NO_HEADROOM;
	if (is_v6(p)) {
		ip6 = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip6) + sizeof(struct tcphdr));
		if (!ip6)
			return REASON_NO_HEADROOM;
		write_header6(ip6, &t->tuple.dst, &t->tuple.src, sizeof(struct tcphdr), IPPROTO_TCP,
			      0, ICMP_TTL);
		write_reset((void *)(ip6 + 1), t, true);
	} else {
		ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct tcphdr));
		if (!ip)
			return REASON_NO_HEADROOM;
		write_header4(ip, &t->tuple.dst, &t->tuple.src, sizeof(struct tcphdr), IPPROTO_TCP,
			      0, true);
		write_reset((void *)(ip + 1), t, false);
	}
	return reply_to_sender(ctx, p, len, 0, true);
}

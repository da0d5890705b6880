/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * quote: the packet that an ICMP error is about, which it quotes (RFC 792, RFC 4443).
 *
 * in:    ctx, where the quoted IP header is
 * out:   its addresses and what follows it
 * maps:  none
 * stops: nothing: what cannot be read is nobody's
 */
#pragma once

#include "core/pkt.h"

struct quote {
	struct addr src;
	struct addr dst;
	__u32 off; /* of what follows the quoted IP header */
	__u8 proto;
	bool tail; /* a fragment but the first: IPv4's, IPv6 says so behind its header */
};

static __always_inline bool read_quote4(CTX *ctx, __u32 off, struct quote *q)
{
	struct iphdr ip;

	if (ctx_load(ctx, off, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return false;
	q->src.w[2] = q->dst.w[2] = bpf_htonl(0xffff);
	q->src.w[3] = ip.saddr;
	q->dst.w[3] = ip.daddr;
	q->proto = ip.protocol;
	q->off = off + ip.ihl * 4;
	q->tail = (ip.frag_off & bpf_htons(IP_OFFSET)) != 0;
	return true;
}

static __always_inline bool read_quote6(CTX *ctx, __u32 off, struct quote *q)
{
	struct ipv6hdr ip;

	if (ctx_load(ctx, off, &ip, sizeof(ip)))
		return false;
	copy(&q->src, ip.saddr, sizeof(q->src));
	copy(&q->dst, ip.daddr, sizeof(q->dst));
	q->proto = ip.nexthdr;
	q->off = off + sizeof(ip);
	return true;
}

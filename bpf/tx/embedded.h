/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * embedded: reads the packet embedded in an ICMP error (RFC 792, RFC 4443, RFC 5508).
 *
 * in:    ctx, offset of the embedded IP header
 * out:   its addresses and the offset of its payload
 * maps:  none
 * stops: nothing: an unreadable packet belongs to no connection
 */
#pragma once

#include "core/count.h"

struct embedded {
	struct addr src;
	struct addr dst;
	__u32 off; /* of the embedded IP packet's payload */
	__u8 proto;
	bool tail; /* a later fragment; IPv4 only: IPv6 tells in a header behind */
};

static __always_inline bool read_embedded4(CTX *ctx, __u32 off, struct embedded *q)
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

static __always_inline bool read_embedded6(CTX *ctx, __u32 off, struct embedded *q)
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

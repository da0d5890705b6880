/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * headers: writes IP headers of local replies, and addresses them to the sender.
 *
 * in:    p, addresses
 * out:   headers in the packet
 * maps:  fragment_works
 * stops: NO_HEADROOM
 */
#pragma once

#include "tunnel/headroom.h"
#include "tx/work.h"

#define ICMP_TOS 0xc0 /* internetwork control, RFC 1812 4.3.2.5 */
#define ICMP_TTL 64

/* The sum over len bytes of the scratch buffer, a multiple of 4. */
static __always_inline __u32 sum_scratch(const struct scratch *s, __u32 len, __u32 sum)
{
	for (__u32 at = 0; at < sizeof(s->bytes); at += 512) {
		__u32 n = len > at ? len - at : 0;

		if (n > 512)
			n = 512;
		if (n && at + 512 <= sizeof(s->bytes))
			sum = bpf_csum_diff(NULL, 0, (void *)s->bytes + at, n, sum);
	}
	return sum;
}

static __always_inline __sum16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* Writes the header after Ethernet, without options. len: of its payload. */
static __always_inline void write_header4(struct iphdr *ip, const struct addr *source,
					  const struct addr *to, __u32 len, __u8 proto, __u8 tos,
					  bool df)
{
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = tos;
	ip->tot_len = bpf_htons(sizeof(*ip) + len);
	ip->frag_off = df ? bpf_htons(IP_DF) : 0;
	ip->ttl = ICMP_TTL;
	ip->protocol = proto;
	ip->saddr = source->w[3];
	ip->daddr = to->w[3];
	ip->check = fold(bpf_csum_diff(NULL, 0, (void *)ip, sizeof(*ip), 0));
}

/* Adds the pseudo header of RFC 8200 8.1. */
static __always_inline __u32 sum_pseudo6(const struct addr *source, const struct addr *to,
					 __u32 len, __u8 proto, __u32 sum)
{
	__be32 rest[2] = { bpf_htonl(len), bpf_htonl(proto) };

	sum = bpf_csum_diff(NULL, 0, (void *)source, sizeof(*source), sum);
	sum = bpf_csum_diff(NULL, 0, (void *)to, sizeof(*to), sum);
	return bpf_csum_diff(NULL, 0, rest, sizeof(rest), sum);
}

static __always_inline void write_header6(struct ipv6hdr *ip, const struct addr *source,
					  const struct addr *to, __u32 len, __u8 proto, __u8 tos,
					  __u8 ttl)
{
	ip->flow = bpf_htonl(0x60000000 | (__u32)tos << 20);
	ip->payload_len = bpf_htons(len);
	ip->nexthdr = proto;
	ip->hop_limit = ttl;
	copy(ip->saddr, source, sizeof(ip->saddr));
	copy(ip->daddr, to, sizeof(ip->daddr));
}

/* Addresses the frame to its sender. */
static __always_inline void reply_macs(struct pkt *p, const __u8 *from)
{
	copy16(p->eth.dmac, p->key.smac, ETH_ALEN);
	copy16(p->eth.smac, from, ETH_ALEN);
}

/* Addresses the packet that was written in layout of another, len bytes, to the sender of that. */
static __always_inline int reply_to_sender(CTX *ctx, struct pkt *p, __u32 len, __u8 tos, bool df)
{
	reply_macs(p, p->key.dmac);
	p->frame_len = len;
	p->headers = len;
	p->tos = tos;
	p->ttl = ICMP_TTL;
	p->df = df;
	p->tcp_flags = 0;
	return write_macs(ctx, p);
}

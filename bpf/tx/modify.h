/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * modify: changes the frame as decided: MAC addresses, TTL, ECN, and the MSS of a SYN.
 *
 * in:    p, the decision
 * out:   the frame, p->eth, p->tos, p->ttl
 * maps:  none
 * stops: NO_HEADROOM, ECN_MARKED
 */
#pragma once

#include "tunnel/decap.h"

static __always_inline int set_tos(CTX *ctx, struct pkt *p, __u8 tos)
{
	struct ipv6hdr *ip6;
	struct iphdr *ip;
	__be32 old, new;

	if (is_v6(p)) {
		ip6 = ctx_at(ctx, p->l3, sizeof(*ip6));
		if (!ip6)
			return REASON_NO_HEADROOM;
		old = ip6->flow;
		new = (old & bpf_htonl(0xf00fffff)) | bpf_htonl((__u32)tos << 20);
		ip6->flow = new;
		ctx_csum_update(ctx, bpf_csum_diff(&old, sizeof(old), &new, sizeof(new), 0));
	} else {
		ip = ctx_at(ctx, p->l3, sizeof(*ip));
		if (!ip)
			return REASON_NO_HEADROOM;
		ip->check = sum_replace(ip->check, bpf_htons(ip->tos), bpf_htons(tos));
		ip->tos = tos;
	}
	p->tos = tos;
	return 0;
}

/* A congestion mark on an inner packet that is not ECN-capable: drop it (RFC 6040 4.2). */
static __always_inline bool ecn_drop(const struct pkt *p)
{
	return is_ip(p) && (p->outer_tos & ECN_MASK) == ECN_CE && !(p->tos & ECN_MASK);
}

/* Copies the congestion mark of the underlay to the inner packet (RFC 6040 4.2). */
static __always_inline int merge_ecn(CTX *ctx, struct pkt *p)
{
	__u8 outer = p->outer_tos & ECN_MASK, inner = p->tos & ECN_MASK;

	if (!is_ip(p) || outer == inner || inner == ECN_CE)
		return 0;
	if (outer == ECN_CE)
		return set_tos(ctx, p, p->tos | ECN_CE);
	if (outer == ECN_ECT1 && inner == ECN_ECT0)
		return set_tos(ctx, p, (p->tos & ~ECN_MASK) | ECN_ECT1);
	return 0;
}

static __always_inline int write_macs(CTX *ctx, struct pkt *p)
{
	struct ethhdr *eth = ctx_at(ctx, 0, sizeof(*eth));

	if (!eth)
		return REASON_NO_HEADROOM;
	write_inner_ethernet(p, eth);
	return 0;
}

static __always_inline int lower_ttl(CTX *ctx, struct pkt *p)
{
	struct ipv6hdr *ip6;
	struct iphdr *ip;

	p->ttl--;
	if (is_v6(p)) {
		ip6 = ctx_at(ctx, p->l3, sizeof(*ip6));
		if (!ip6)
			return REASON_NO_HEADROOM;
		ip6->hop_limit = p->ttl;
		ctx_csum_update(ctx, (__u16)~bpf_htons(1)); /* of the whole packet, from a NIC */
		return 0;
	}
	ip = ctx_at(ctx, p->l3, sizeof(*ip));
	if (!ip)
		return REASON_NO_HEADROOM;
	ip->check = sum_replace(ip->check, bpf_htons(0x100), 0);
	ip->ttl = p->ttl;
	return 0;
}

/* Routing: decrements the TTL and sets new MAC addresses. */
static __always_inline int rewrite_routed(CTX *ctx, struct pkt *p, const struct decision *d)
{
	int why;

	if (p->ttl <= 1)
		return REASON_TTL_EXCEEDED;
	why = lower_ttl(ctx, p);
	if (why)
		return why;
	copy16(p->eth.dmac, d->dmac, ETH_ALEN);
	copy16(p->eth.smac, d->smac, ETH_ALEN);
	return 0;
}

struct option_walk {
	CTX *ctx;
	__u32 off;
	__u32 end;
	__u32 found; /* offset of the MSS option, 0: none */
};

static long find_mss(__u64 index __attribute__((unused)), struct option_walk *w)
{
	__u8 *o = ctx_at(w->ctx, w->off, 2);

	if (!o || w->off + 4 > w->end || o[0] == TCPOPT_END)
		return 1;
	if (o[0] == TCPOPT_NOP) {
		w->off++;
		return 0;
	}
	if (o[0] == TCPOPT_MSS && o[1] == 4)
		w->found = w->off;
	w->off += o[1];
	return w->found || o[1] < 2;
}

static __always_inline void write_mss(CTX *ctx, struct pkt *p, __u32 off, __u16 limit)
{
	__be16 *mss = ctx_at(ctx, off + 2, sizeof(*mss));
	__be16 old, new = bpf_htons(limit);

	if (!mss || bpf_ntohs(*mss) <= limit)
		return;
	old = *mss;
	*mss = new;
	if ((off - p->l4) & 1) { /* it overlaps two words of the checksum */
		old = __builtin_bswap16(old);
		new = __builtin_bswap16(new);
	}
	ctx_l4_replace(ctx, p->l4 + __builtin_offsetof(struct tcphdr, check), old, new);
	step(p, STAGE_CLAMP, limit, 0);
	count(EVENT_MSS_CLAMPED);
}

/* Lowers the MSS of a SYN (RFC 9293 3.7.1) so that segments fit mtu, that of an inner packet. */
SUBPROGRAM int clamp_mss(CTX *ctx, struct pkt *p, __u32 mtu)
{
	__u32 headers = sizeof(struct tcphdr);
	struct option_walk w = { .ctx = ctx };

	if (!p)
		return REASON_NO_HEADROOM;
	w.off = p->l4 + sizeof(struct tcphdr);
	headers += is_v6(p) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	if (!mtu || mtu <= headers)
		return 0;
	w.end = p->l3 - sizeof(struct ethhdr) + p->headers;
	bpf_loop(40, find_mss, &w, 0);
	if (w.found)
		write_mss(ctx, p, w.found, mtu - headers);
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * path: hears from the underlay that a tunnel packet was too big for its way (RFC
 * 1191, RFC 8201). Inner senders are told by icmp.h when their next packet does
 * not fit any more: what the underlay quotes is seldom enough to find them.
 *
 * in:    ctx, the outer IP header
 * out:   path_mtu of the remote's end, until the Go side has probed and forgets it
 * maps:  teps, ends
 * stops: nothing: the host hears of it too
 */
#pragma once

#include "outer.h"

/* Nobody needs to go below; a forger would like to. RFC 791, RFC 8200 5. */
#define PATH_MTU_MIN4 576
#define PATH_MTU_MIN6 1280

#define QUOTED_HEADERS 68 /* IPv4 with options, and UDP */

/* What an ICMP message quotes, when it is of a tunnel packet of ours. */
struct quote {
	struct addr src;
	struct addr dst;
	__u32 off; /* of what follows the quoted IP header */
	__u8 proto;
};

static __always_inline bool read_quote4(CTX *ctx, __u32 off, struct quote *q)
{
	struct iphdr *ip = ctx_at(ctx, off, sizeof(*ip));

	if (!ip || ip->version != 4 || ip->ihl < 5)
		return false;
	q->src.w[2] = q->dst.w[2] = bpf_htonl(0xffff);
	q->src.w[3] = ip->saddr;
	q->dst.w[3] = ip->daddr;
	q->proto = ip->protocol;
	q->off = off + ip->ihl * 4;
	return true;
}

static __always_inline bool read_quote6(CTX *ctx, __u32 off, struct quote *q)
{
	struct ipv6hdr *ip = ctx_at(ctx, off, sizeof(*ip));

	if (!ip)
		return false;
	copy(&q->src, ip->saddr, sizeof(q->src));
	copy(&q->dst, ip->daddr, sizeof(q->dst));
	q->proto = ip->nexthdr;
	q->off = off + sizeof(*ip);
	return true;
}

/* Whether the quoted packet is one that this edge sends. */
static __always_inline bool is_our_tunnel(CTX *ctx, const struct quote *q)
{
	struct udphdr *udp;

	if (!is_tep(&q->src))
		return false;
	if (q->proto == IPPROTO_GRE)
		return nvgre;
	udp = ctx_at(ctx, q->off, 4);
	return q->proto == IPPROTO_UDP && udp && udp_port_index(udp->dest) >= 0;
}

SUBPROGRAM int hear_too_big(CTX *ctx, struct pkt *p)
{
	struct outer o = {};
	struct path_key key;
	struct quote q = {};
	struct icmphdr *icmp;
	struct end *to;
	bool v6, read;
	__u32 *id, mtu;

	if (!p || outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return NOT_OURS;
	v6 = o.proto == IPPROTO_ICMPV6;
	if (!v6 && o.proto != IPPROTO_ICMP)
		return NOT_OURS;
	ctx_pull_headers(ctx, o.off + sizeof(*icmp) + QUOTED_HEADERS);
	icmp = ctx_at(ctx, o.off, sizeof(*icmp));
	if (!icmp || icmp->type != (v6 ? ICMPV6_TOO_BIG : ICMP_UNREACHABLE) ||
	    icmp->code != (v6 ? 0 : ICMP_FRAGMENTATION_NEEDED))
		return NOT_OURS;
	mtu = bpf_ntohl(icmp->rest) & (v6 ? ~0U : 0xffff);
	if (mtu < (v6 ? PATH_MTU_MIN6 : PATH_MTU_MIN4))
		return NOT_OURS;
	o.off += sizeof(*icmp);
	read = v6 ? read_quote6(ctx, o.off, &q) : read_quote4(ctx, o.off, &q);
	if (!read || !is_our_tunnel(ctx, &q))
		return NOT_OURS;
	key.local = q.src;
	key.remote = q.dst;
	id = bpf_map_lookup_elem(&teps, &key);
	to = id ? end_get(*id) : NULL;
	if (!to || to->kind != END_TEP || mtu >= to->mtu || (to->path_mtu && mtu >= to->path_mtu))
		return NOT_OURS;
	to->path_mtu = mtu;
	to->path_mtu_ns = bpf_ktime_get_ns();
	count(EVENT_PATH_MTU);
	return NOT_OURS;
}

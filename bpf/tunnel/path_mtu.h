/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * path: hears from the underlay that a tunnel packet was too big for its way (RFC
 * 1191, RFC 8201). Inner senders are told by tx/icmp.h when their next packet does
 * not fit any more: what the underlay quotes is seldom enough to find them.
 *
 * in:    ctx, the outer IP header
 * out:   path_mtu of the remote's end, until the Go side has probed and forgets it
 * maps:  teps, ends
 * stops: nothing: the host hears of it too
 */
#pragma once

#include "tunnel/decap.h"
#include "tx/embedded.h"

/* Nobody needs to go below; a forger would like to. RFC 791, RFC 8200 5. */
#define PATH_MTU_MIN4 576
#define PATH_MTU_MIN6 1280

/* Whether the quoted packet is one that this edge sends. */
static __always_inline bool is_our_tunnel(CTX *ctx, const struct quote *q)
{
	__be16 ports[2];

	if (!is_tep(&q->src))
		return false;
	if (q->proto == IPPROTO_GRE)
		return nvgre;
	return q->proto == IPPROTO_UDP && !ctx_load(ctx, q->off, ports, sizeof(ports)) &&
	       udp_port_index(ports[1]) >= 0;
}

SUBPROGRAM int hear_too_big(CTX *ctx, struct pkt *p)
{
	struct outer o = {};
	struct path_key key;
	struct quote q = {};
	struct icmphdr icmp;
	struct end *to;
	bool v6, read;
	__u32 *id, mtu;

	if (!p || outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return NOT_OURS;
	v6 = o.proto == IPPROTO_ICMPV6;
	if (!v6 && o.proto != IPPROTO_ICMP)
		return NOT_OURS;
	if (ctx_load(ctx, o.off, &icmp, sizeof(icmp)) ||
	    icmp.type != (v6 ? ICMPV6_TOO_BIG : ICMP_UNREACHABLE) ||
	    icmp.code != (v6 ? 0 : ICMP_FRAGMENTATION_NEEDED))
		return NOT_OURS;
	mtu = bpf_ntohl(icmp.rest) & (v6 ? ~0U : 0xffff);
	if (mtu < (v6 ? PATH_MTU_MIN6 : PATH_MTU_MIN4))
		return NOT_OURS;
	o.off += sizeof(icmp);
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

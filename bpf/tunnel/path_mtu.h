/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * path_mtu: learns the MTU of a path from ICMP messages of the underlay (RFC 1191, RFC 8201).
 * The inner sender is told when its next packet does not fit (tx/icmp.h): the embedded part is
 * rarely long enough to find it.
 *
 * in:    ctx, the outer IP header
 * out:   path_mtu of the path's vport, until user space has probed the path
 * maps:  teps, vports
 * stops: nothing: the host sees the message too
 */
#pragma once

#include "tunnel/decap.h"
#include "tx/embedded.h"

/* Lower values are attacks. RFC 791, RFC 8200 5. */
#define PATH_MTU_MIN4 576
#define PATH_MTU_MIN6 1280

/* Whether the embedded packet is a tunnel packet of this edge. */
static __always_inline bool is_our_tunnel(CTX *ctx, const struct embedded *q)
{
	__be16 ports[2];

	if (!is_tep(&q->src))
		return false;
	if (q->proto == IPPROTO_GRE)
		return nvgre;
	return q->proto == IPPROTO_UDP && !ctx_load(ctx, q->off, ports, sizeof(ports)) &&
	       udp_port_index(ports[1]) >= 0;
}

SUBPROGRAM int learn_path_mtu(CTX *ctx, struct pkt *p)
{
	struct outer_hdr o = {};
	struct path_key key;
	struct embedded q = {};
	struct icmphdr icmp;
	struct vport *to;
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
	read = v6 ? read_embedded6(ctx, o.off, &q) : read_embedded4(ctx, o.off, &q);
	if (!read || !is_our_tunnel(ctx, &q))
		return NOT_OURS;
	key.local = q.src;
	key.remote = q.dst;
	id = bpf_map_lookup_elem(&teps, &key);
	to = id ? vport_get(*id) : NULL;
	if (!to || to->kind != VPORT_TEP || mtu >= to->mtu || (to->path_mtu && mtu >= to->path_mtu))
		return NOT_OURS;
	to->path_mtu = mtu;
	to->path_mtu_ns = bpf_ktime_get_ns();
	count(EVENT_PATH_MTU);
	return NOT_OURS;
}

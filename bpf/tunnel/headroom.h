/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * room: makes room for a tunnel's headers and takes it away, so that the kernel
 * knows how to cut a large segment behind them.
 *
 * in:    p, the remote's end, the segment and the flow's entropy
 * out:   ctx
 * maps:  ends, segments
 * stops: TOO_BIG, NO_ROOM, NO_ROUTE, GSO_NESTED, NO_CSUM
 */
#pragma once

#include "tunnel/encap.h"
#include "core/vlan.h"

/* Removes the outer headers and tags; the frame is then what the sender's port took in. */
SUBPROGRAM int decap(CTX *ctx, struct pkt *p)
{
	struct ethhdr *eth;
	__u32 len;

	if (!p)
		return REASON_NO_ROOM;
	len = p->inner + p->tag_bytes;
	/* The kernel leaves at least an IP header: a short frame gets Ethernet's minimum first. */
	if (!is_ip(p) && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(ctx, len + ETH_ZLEN, 0))
			return REASON_NO_ROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_pull(ctx, len, is_v6(p)))
		return REASON_NO_ROOM;
	eth = ctx_at(ctx, 0, sizeof(*eth));
	if (!eth)
		return REASON_NO_ROOM;
	write_inner_ethernet(p, eth);
	p->l3 -= len;
	p->l4 -= len;
	p->inner = 0;
	p->tag_bytes = 0;
	return 0;
}

/*
 * Leaves the outer headers to the kernel's own tunnel device, where a segment
 * asks for outer UDP checksums on IPv6 (RFC 6935): each packet that a large
 * segment is cut into needs its own, and no BPF helper can ask for that.
 */
static __always_inline int encap_by_kernel(CTX *ctx, struct pkt *p, struct end *to,
					   struct segment *seg)
{
	struct bpf_tunnel_key key = {
		.tunnel_id = seg->vni,
		.tunnel_tos = outer_tos(p, seg),
		.tunnel_ttl = outer_ttl(p, seg),
	};
	int why;

	if (!seg->csum_ifindex)
		return REASON_NO_CSUM;
	why = p->inner ? decap(ctx, p) : 0;
	if (!why)
		why = retag(ctx, p, 0);
	if (why)
		return why;
	copy(key.remote_ipv6, &to->addr, sizeof(key.remote_ipv6));
	copy(&key.local_ipv6, &to->local, sizeof(key.local_ipv6));
	if (bpf_skb_set_tunnel_key(ctx, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		return REASON_NO_ROOM;
	return 0;
}

/* Room for the headers. A short frame is first brought to Ethernet's minimum. */
static __always_inline int make_room(CTX *ctx, struct pkt *p, struct end *to, struct segment *seg)
{
	struct room r = {
		.len = room_for(p, to, seg),
		.l2 = sizeof(struct ethhdr) + tag_len(p),
		.ip = is_ip(p),
		.outer6 = to->outer_len == OUTER_LEN6,
		.gre = seg->encap == ENCAP_NVGRE,
	};

	if (!r.ip && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(ctx, ETH_ZLEN, 0))
			return REASON_NO_ROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_push(ctx, &r))
		return is_gso(ctx) ? REASON_GSO_NESTED : REASON_NO_ROOM;
	return 0;
}

/*
 * From one tunnel to another. Between two over UDP, or over GRE, the room for the
 * headers is stretched to the new size and the kernel's marks of a tunnel stay
 * true, so that a large segment stays one. Otherwise the frame comes out first.
 */
static __always_inline int change_tunnel(CTX *ctx, struct pkt *p, struct end *to,
					 struct segment *seg)
{
	__s32 diff = room_for(p, to, seg) - p->inner - p->tag_bytes;
	int why;

	if (!p->udp_port == (seg->encap == ENCAP_NVGRE))
		return diff && ctx_stretch(ctx, diff) ? REASON_NO_ROOM : 0;
	why = decap(ctx, p);
	return why ? why : make_room(ctx, p, to, seg);
}

#define ENCAP_AGAIN 0x10000

/*
 * Wraps the frame for a remote. how is the entropy, with ENCAP_AGAIN for a frame
 * that has headers for another remote of the segment already.
 */
SUBPROGRAM int encap(CTX *ctx, struct pkt *p, __u32 to_id, __u32 segment, __u32 how)
{
	struct segment *seg = segment_get(segment);
	struct end *to = end_get(to_id);
	int why = 0;

	if (!p || !seg || !to || !to->ifindex)
		return REASON_NO_ROUTE;
	p->path = tunnel_mtu(p, to, seg);
	if (!fits(ctx, p, p->path))
		return REASON_TOO_BIG;
	if (seg->flags & SEGMENT_UDP_CSUM)
		return encap_by_kernel(ctx, p, to, seg);
	if (!(how & ENCAP_AGAIN))
		why = p->inner ? change_tunnel(ctx, p, to, seg) : make_room(ctx, p, to, seg);
	step(p, STAGE_ENCAP, to_id, seg->vni);
	return why ? why : write_outer(ctx, p, to, seg, how);
}

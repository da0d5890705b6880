/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * headroom: adds and removes the bytes of tunnel headers, so that the kernel knows how to cut a
 * large segment after them.
 *
 * in:    p, the remote's vport, the segment, the flow's entropy
 * out:   ctx
 * maps:  vports, segments
 * stops: TOO_BIG, NO_HEADROOM, NO_UNDERLAY_ROUTE, GSO_NESTED, NO_CSUM
 */
#pragma once

#include "tunnel/encap.h"
#include "core/vlan.h"

/* Removes outer headers and tags: what remains is the frame that the sender's port received. */
SUBPROGRAM int decap(CTX *ctx, struct pkt *p)
{
	struct ethhdr *eth;
	__u32 len;

	if (!p)
		return REASON_NO_HEADROOM;
	len = p->inner + p->tag_bytes;
	/* The kernel keeps at least an IP header, so a short frame is padded to Ethernet's minimum. */
	if (!leaves_as_ip(p) && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(ctx, len + ETH_ZLEN, 0))
			return REASON_NO_HEADROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_pull(ctx, len, is_v6(p)))
		return REASON_NO_HEADROOM;
	eth = ctx_at(ctx, 0, sizeof(*eth));
	if (!eth)
		return REASON_NO_HEADROOM;
	write_inner_ethernet(p, eth);
	p->l3 -= len;
	p->l4 -= len;
	p->inner = 0;
	p->tag_bytes = 0;
	return 0;
}

/*
 * Leaves the outer headers to the kernel's tunnel device, in segments with outer UDP checksums
 * over IPv6 (RFC 6935): each packet of a large segment needs its own checksum, and no BPF
 * helper can request that.
 */
static __always_inline int encap_by_kernel(CTX *ctx, struct pkt *p, struct vport *to,
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
		return REASON_NO_HEADROOM;
	return 0;
}

/* Adds headroom. A short frame is padded to Ethernet's minimum first. */
static __always_inline int push_headroom(CTX *ctx, struct pkt *p, struct vport *to,
					 struct segment *seg)
{
	struct headroom r = {
		.len = headroom_for(p, to, seg),
		.l2 = sizeof(struct ethhdr) + tag_len(p),
		.ip = leaves_as_ip(p),
		.outer6 = to->outer_len == OUTER_LEN6,
		.gre = seg->encap == ENCAP_NVGRE,
	};

	if (!r.ip && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(ctx, ETH_ZLEN, 0))
			return REASON_NO_HEADROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_push(ctx, &r))
		return is_gso(ctx) ? REASON_GSO_NESTED : REASON_NO_HEADROOM;
	return 0;
}

/*
 * From one tunnel to another. If both use UDP, or both GRE, the headroom is resized and the
 * kernel's tunnel marks stay valid, so a large segment stays whole. Otherwise the frame is
 * decapsulated first.
 */
static __always_inline int change_tunnel(CTX *ctx, struct pkt *p, struct vport *to,
					 struct segment *seg)
{
	__s32 diff = headroom_for(p, to, seg) - p->inner - p->tag_bytes;
	int why;

	if (!p->udp_port == (seg->encap == ENCAP_NVGRE))
		return diff && ctx_stretch(ctx, diff) ? REASON_NO_HEADROOM : 0;
	why = decap(ctx, p);
	return why ? why : push_headroom(ctx, p, to, seg);
}

#define ENCAP_REUSE 0x10000

/*
 * Encapsulates the frame for a remote. how: the entropy; with ENCAP_REUSE the frame already has
 * headers for another remote of the segment.
 */
SUBPROGRAM int encap(CTX *ctx, struct pkt *p, __u32 to_id, __u32 segment, __u32 how)
{
	struct segment *seg = segment_get(segment);
	struct vport *to = vport_get(to_id);
	int why = 0;

	if (!p || !seg || !to || !to->ifindex)
		return REASON_NO_UNDERLAY_ROUTE;
	p->path = tunnel_mtu(p, to, seg);
	if (!fits(ctx, p, p->path))
		return REASON_TOO_BIG;
	if (seg->flags & SEGMENT_UDP_CSUM)
		return encap_by_kernel(ctx, p, to, seg);
	if (!(how & ENCAP_REUSE))
		why = p->inner ? change_tunnel(ctx, p, to, seg) : push_headroom(ctx, p, to, seg);
	step(p, STAGE_ENCAP, to_id, seg->vni);
	return why ? why : write_outer(ctx, p, to, seg, how);
}

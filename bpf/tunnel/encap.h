/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * encap: writes outer headers. Ethernet and IP header come from the remote's template; lengths,
 * DSCP and ECN (RFC 6040), TTL and DF depend on the packet.
 *
 * in:    p, the remote's vport, the segment, the flow's entropy
 * out:   ctx
 * maps:  none
 * stops: TOO_BIG, NO_HEADROOM, GSO_NESTED, NO_CSUM
 */
#pragma once

#include "tx/modify.h"

/* Length of the template: Ethernet and IP. */
#define OUTER_LEN4 (sizeof(struct ethhdr) + sizeof(struct iphdr))
#define OUTER_LEN6 (sizeof(struct ethhdr) + sizeof(struct ipv6hdr))

static __always_inline __u32 tag_len(const struct pkt *p)
{
	return (!!p->eth.tags[0] + !!p->eth.tags[1]) * sizeof(struct vlanhdr);
}

/* Bytes by which encapsulation grows a frame. */
static __always_inline __u32 headroom_for(const struct pkt *p, const struct vport *to,
					  const struct segment *seg)
{
	return to->outer_len + seg->tunnel_len + tag_len(p);
}

/* The largest inner IP packet that fits the path. */
static __always_inline __u32 tunnel_mtu(const struct pkt *p, const struct vport *to,
					const struct segment *seg)
{
	__u32 headroom = headroom_for(p, to, seg);

	/* Both counts have one Ethernet header: outer and inner. */
	return to->mtu > headroom ? to->mtu - headroom : 0;
}

/* What an uplink or a tunnel on a SYN's way carries; 0: any size. clamps: one of its segments does. */
static __always_inline __u32 clamp_by(struct pkt *p, const struct vport *v,
				      const struct segment *seg, bool clamps)
{
	if (!v || !seg || !clamps)
		return 0;
	if (v->kind == VPORT_TEP)
		return seg->flags & SEGMENT_CLAMP ? tunnel_mtu(p, v, seg) : 0;
	return v->flags & VPORT_UPLINK ? v->mtu : 0;
}

/* The smallest MTU of tunnels and uplinks that a SYN crosses, in segments with clamping; 0: none. */
static __always_inline __u32 clamp_limit(struct pkt *p, const struct decision *d)
{
	struct segment *from = segment_get(d->segment), *to = segment_get(d->to_segment);
	bool clamps = ((from ? from->flags : 0) | (to ? to->flags : 0)) & SEGMENT_CLAMP;
	__u32 in = clamp_by(p, vport_get(d->in), from, clamps), out = 0;

	if (d->action == ACTION_PORT || d->action == ACTION_TUNNEL)
		out = clamp_by(p, vport_get(d->out), to, clamps);
	if (!in || !out)
		return in | out;
	return in < out ? in : out;
}

/* Whether the packet, or each packet of a large segment, fits. */
static __always_inline bool fits(CTX *ctx, struct pkt *p, __u32 mtu)
{
	__u32 frame = p->frame_len;

	if (is_gso(ctx))
		frame = p->headers + ctx_gso_size(ctx);
	return frame - sizeof(struct ethhdr) <= mtu;
}

static __always_inline __u8 outer_tos(const struct pkt *p, const struct segment *seg)
{
	__u8 ecn = leaves_as_ip(p) ? p->tos & ECN_MASK : 0;

	if (seg->outer & OUTER_DSCP_INHERIT && leaves_as_ip(p))
		return p->tos;
	return seg->tos | ecn;
}

static __always_inline __u8 outer_ttl(const struct pkt *p, const struct segment *seg)
{
	return seg->outer & OUTER_TTL_INHERIT && leaves_as_ip(p) ? p->ttl : seg->ttl;
}

static __always_inline bool outer_df(const struct pkt *p, const struct segment *seg)
{
	return seg->outer & OUTER_DF_INHERIT ? p->df : !!(seg->outer & OUTER_DF);
}

/* Fills in the fields that depend on the packet, and the checksum (RFC 1071). */
static __always_inline void write_ipv4(struct pkt *p, struct iphdr *ip, const struct segment *seg,
				       __u32 len)
{
	__u32 total = sizeof(*ip) + len, sum;

	ip->tos = outer_tos(p, seg);
	ip->tot_len = total > 0xffff ? 0 : bpf_htons(total); /* the kernel's mark of BIG TCP */
	ip->ttl = outer_ttl(p, seg);
	ip->protocol = seg->encap == ENCAP_NVGRE ? IPPROTO_GRE : IPPROTO_UDP;
	if (outer_df(p, seg))
		ip->frag_off = bpf_htons(IP_DF);
	else
		ip->id = bpf_get_prandom_u32(); /* needed for fragmentation, RFC 6864 */
	/* The template has the sum of the other fields. */
	sum = ip->check + bpf_htons(ip->tos) + ip->tot_len + ip->id + ip->frag_off +
	      bpf_htons(ip->ttl << 8 | ip->protocol);
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~(sum + (sum >> 16));
}

static __always_inline void write_ipv6(struct pkt *p, struct ipv6hdr *ip, const struct segment *seg,
				       __u32 len, __be16 entropy)
{
	/* The entropy is the flow label too, RFC 6438. */
	ip->flow |= bpf_htonl((__u32)outer_tos(p, seg) << 20 | bpf_ntohs(entropy));
	ip->payload_len = bpf_htons(len);
	ip->nexthdr = seg->encap == ENCAP_NVGRE ? IPPROTO_GRE : IPPROTO_UDP;
	ip->hop_limit = outer_ttl(p, seg);
}

static __always_inline int write_outer_ip(CTX *ctx, struct pkt *p, struct vport *to,
					  struct segment *seg, __be16 entropy, __u32 len)
{
	struct ethhdr *eth;

	if (to->outer_len == OUTER_LEN6) {
		eth = ctx_at(ctx, 0, OUTER_LEN6);
		if (!eth)
			return REASON_NO_HEADROOM;
		copy64(eth, to->outer, OUTER_LEN6);
		write_ipv6(p, (void *)(eth + 1), seg, len, entropy);
	} else {
		eth = ctx_at(ctx, 0, OUTER_LEN4);
		if (!eth)
			return REASON_NO_HEADROOM;
		copy64(eth, to->outer, OUTER_LEN4);
		write_ipv4(p, (void *)(eth + 1), seg, len);
	}
	return 0;
}

/* Writes UDP and tunnel header at off. len: theirs and what follows. */
static __always_inline int write_tunnel(CTX *ctx, struct segment *seg, __be16 entropy, __u32 off,
					__u32 len)
{
	struct udphdr *udp;

	if (seg->encap == ENCAP_NVGRE)
		return nvgre_write(ctx, off, seg, entropy);
	udp = ctx_at(ctx, off, sizeof(*udp));
	if (!udp)
		return REASON_NO_HEADROOM;
	udp->source = entropy;
	udp->dest = seg->udp_port;
	udp->len = bpf_htons(len);
	udp->check = 0; /* RFC 7348 5, RFC 6935 */
	off += sizeof(*udp);
	return seg->encap == ENCAP_GENEVE ? geneve_write(ctx, off, seg) :
					    vxlan_write(ctx, off, seg);
}

static __always_inline int write_inner(CTX *ctx, struct pkt *p, __u32 off)
{
	__u32 tags = tag_len(p);
	struct ethhdr *eth = ctx_at(ctx, off, sizeof(*eth));
	__be32 *tag;

	if (!eth)
		return REASON_NO_HEADROOM;
	write_inner_ethernet(p, eth);
	if (!tags)
		return 0;
	tag = ctx_at(ctx, off + 2 * ETH_ALEN, sizeof(*tag) + sizeof(eth->type));
	if (!tag)
		return REASON_NO_HEADROOM;
	tag[0] = p->eth.tags[0];
	*(__be16 *)&tag[1] = p->eth.ethertype;
	if (tags == sizeof(*tag))
		return 0;
	tag = ctx_at(ctx, off + 2 * ETH_ALEN, 2 * sizeof(*tag) + sizeof(eth->type));
	if (!tag)
		return REASON_NO_HEADROOM;
	tag[1] = p->eth.tags[1];
	*(__be16 *)&tag[2] = p->eth.ethertype;
	return 0;
}

/* Writes all headers before the inner payload: outer, tunnel, inner Ethernet. */
static __always_inline int write_outer(CTX *ctx, struct pkt *p, struct vport *to,
				       struct segment *seg, __be16 entropy)
{
	__u32 tunnel = seg->tunnel_len;
	__u32 len = tunnel + tag_len(p) + p->frame_len;
	int why;

	why = write_outer_ip(ctx, p, to, seg, entropy, len);
	if (!why)
		why = write_inner(ctx, p, to->outer_len + tunnel);
	if (!why) /* last: storing options invalidates packet pointers */
		why = write_tunnel(ctx, seg, entropy, to->outer_len, len);
	return why;
}

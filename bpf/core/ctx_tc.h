/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* ctx for tc, see core/ctx.h. The packet is an skb: it may be a large segment, and its outermost tag is in the metadata. */
#pragma once

#include "include/net.h"

#define CTX_DROP TCX_DROP

static __always_inline __u32 ctx_ifindex(struct __sk_buff *skb)
{
	return skb->ifindex;
}

static __always_inline __u32 ctx_len(struct __sk_buff *skb)
{
	return skb->len;
}

/* The size of the packets that a large segment will be cut into; 0: it is one packet. */
static __always_inline __u32 ctx_gso_size(struct __sk_buff *skb)
{
	return skb->gso_size;
}

/* The tag in the metadata, as on the wire: TPID and TCI; or 0. */
static __always_inline __be32 ctx_tag(struct __sk_buff *skb)
{
	return skb->vlan_present ?
		       bpf_htonl((__u32)bpf_ntohs(skb->vlan_proto) << 16 | (__u16)skb->vlan_tci) :
		       0;
}

/* Truncates the packet to len bytes. */
static __always_inline int ctx_trim(struct __sk_buff *skb, __u32 len)
{
	return bpf_skb_change_tail(skb, len, 0);
}

/* Copies from anywhere in the packet. */
static __always_inline int ctx_load(struct __sk_buff *skb, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes(skb, off, to, len);
}

static __always_inline int ctx_store(struct __sk_buff *skb, __u32 off, const void *from, __u32 len)
{
	return bpf_skb_store_bytes(skb, off, from, len, 0);
}

/* Updates a NIC's checksum of the whole packet (CHECKSUM_COMPLETE). */
static __always_inline void ctx_csum_update(struct __sk_buff *skb, __wsum diff)
{
	bpf_csum_update(skb, diff);
}

/* Replaces a word that the checksum at off covers, also a partial checksum. */
static __always_inline void ctx_l4_replace(struct __sk_buff *skb, __u32 off, __be16 old, __be16 new)
{
	bpf_l4_csum_replace(skb, off, old, new, 2);
}

/*
 * Pulls want bytes, or a shorter packet as a whole, into the linear part. Returns whether that
 * changed anything. It copies, so it is for packets whose headers were not linear. Packet
 * pointers are invalid afterwards, also on failure.
 */
static __always_inline bool ctx_pull_headers(struct __sk_buff *skb, __u32 want)
{
	__u32 linear = skb->data_end - skb->data;

	if (want > skb->len)
		want = skb->len;
	return linear < want && bpf_skb_pull_data(skb, want) == 0;
}

/* The kernel needs these to segment a packet after its tunnel header. */
struct headroom {
	__u32 len;   /* bytes before the inner frame */
	__u32 l2;    /* of those, the inner Ethernet header with tags */
	bool ip;     /* the inner frame is IP */
	bool outer6; /* the outer header is IPv6 */
	bool gre;    /* the tunnel is GRE, not UDP */
};

/*
 * Adds headroom before an inner frame and tells the kernel its purpose, so that a segment
 * of up to 64 kB stays whole and is cut after the tunnel header. ENCAP_L2 counts the inner
 * Ethernet header only. Frames that are not IP cannot be segmented and get plain headroom.
 */
static __always_inline int ctx_push(struct __sk_buff *skb, const struct headroom *r)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L2_ETH |
		      BPF_F_ADJ_ROOM_ENCAP_L2(r->l2);

	if (!r->ip)
		return bpf_skb_change_head(skb, r->len, 0);
	flags |= r->gre ? BPF_F_ADJ_ROOM_ENCAP_L4_GRE : BPF_F_ADJ_ROOM_ENCAP_L4_UDP;
	flags |= r->outer6 ? BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 : BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
	if (bpf_skb_adjust_room(skb, r->len, BPF_ADJ_ROOM_MAC, flags) == 0)
		return 0;
	/* The frame already has a tunnel header: without segmentation, another one is plain bytes. */
	return skb->gso_size ? -1 : bpf_skb_change_head(skb, r->len, 0);
}

/*
 * Removes len bytes after the Ethernet header, which the caller then replaces by the inner
 * one. What is not IP counts as IPv4 until a device reads its Ethernet header again.
 */
static __always_inline int ctx_pull(struct __sk_buff *skb, __u32 len, bool inner6)
{
	__u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO;

	flags |= inner6 ? BPF_F_ADJ_ROOM_DECAP_L3_IPV6 : BPF_F_ADJ_ROOM_DECAP_L3_IPV4;
	return bpf_skb_adjust_room(skb, -(__s32)len, BPF_ADJ_ROOM_MAC, flags);
}

/*
 * Grows or shrinks a packet by diff bytes after its Ethernet header. The kernel's tunnel marks
 * stay as they are.
 */
static __always_inline int ctx_stretch(struct __sk_buff *skb, __s32 diff)
{
	return bpf_skb_adjust_room(skb, diff, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

#define CTX_STRETCH_MAX 0xfff /* of one call */

/*
 * Sets the length of an IP packet that is written anew, and removes the skb's segmentation
 * and partial checksum, whose offset is after l4. They go when bytes up to beyond l4 are
 * removed; the bytes are then added as headroom. The tail of a packet from a tunnel cannot
 * be changed: a segment is refused.
 */
static __always_inline int ctx_renew(struct __sk_buff *skb, __u32 l4, __u32 len)
{
	__u32 keep = l4 + 2 + sizeof(struct ethhdr) + sizeof(struct ipv6hdr);
	__s32 diff;

	if (skb->gso_size || skb->len < keep)
		bpf_skb_change_tail(skb, keep + 60, 0);
	if (skb->gso_size)
		return -1;
	if (skb->len >= keep && ctx_stretch(skb, -(__s32)(l4 + 2)))
		return -1;
	for (int i = 0; i < 17 && skb->len != len; i++) {
		diff = len - skb->len;
		if (diff < -CTX_STRETCH_MAX)
			diff = -CTX_STRETCH_MAX;
		if (ctx_stretch(skb, diff))
			return -1;
	}
	return skb->len != len;
}

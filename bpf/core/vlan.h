/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * vlan: 802.1Q tags of a port's frame. In tc the outermost tag is in the metadata.
 *
 * in:    p->key.tags
 * out:   the frame, p->eth.tags
 * maps:  ports
 * stops: NO_HEADROOM, VLAN_TAGGED
 */
#pragma once

#include "core/parse.h"

/*
 * Removes all tags. When the outermost is removed, the kernel moves the next one into the
 * metadata.
 */
static __always_inline bool clear_tags(CTX *ctx)
{
	for (int i = 0; i <= MAX_TAGS; i++)
		if ((ctx->vlan_present || is_tag(ctx->protocol)) && bpf_skb_vlan_pop(ctx))
			return true;
	return false;
}

/* Removes the tags of a port's frame. Those that stay are in p->eth. */
SUBPROGRAM int untag(CTX *ctx, struct pkt *p, __u32 flags)
{
	if (!p)
		return REASON_NO_HEADROOM;
	if (!p->key.tags[0] || p->inner || p->untagged)
		return 0;
	p->untagged = true;
	if (clear_tags(ctx))
		return REASON_NO_HEADROOM;
	p->l3 -= p->tag_bytes;
	p->l4 -= p->tag_bytes;
	p->tag_bytes = 0;
	if (flags & FLOW_TAG) {
		p->eth.tags[0] = p->eth.tags[1];
		p->eth.tags[1] = 0;
	}
	return 0;
}

static __always_inline int push_tag(CTX *ctx, __be32 word)
{
	__u32 tag = bpf_ntohl(word);

	return tag ? bpf_skb_vlan_push(ctx, bpf_htons(tag >> 16), tag & 0xffff) : 0;
}

/* Adds the tags that stay, and the port's VLAN. */
SUBPROGRAM int retag(CTX *ctx, struct pkt *p, __u32 vlan)
{
	if (!p)
		return REASON_NO_HEADROOM;
	if (p->eth.tags[0] | p->eth.tags[1] | vlan) {
		if (push_tag(ctx, p->eth.tags[1]) || push_tag(ctx, p->eth.tags[0]))
			return REASON_NO_HEADROOM;
		if (vlan && push_tag(ctx, tag_word(bpf_htons(ETH_P_8021Q), bpf_htons(vlan))))
			return REASON_NO_HEADROOM;
	}
	return 0;
}

/*
 * Whether the frame would leave untagged by the port, and its own outer tag make it another
 * port's: that of the VLAN, or the host's on an interface that it shares.
 */
static __always_inline bool hops_vlan(const struct pkt *p, const struct vport *to)
{
	struct port_key key = { .ifindex = to->ifindex };

	if (to->vlan || !p->eth.tags[0])
		return false;
	key.vlan = bpf_ntohl(p->eth.tags[0]) & VLAN_VID;
	if (bpf_map_lookup_elem(&ports, &key))
		return true;
	key.vlan = PORT_SHARED;
	return bpf_map_lookup_elem(&ports, &key);
}

/* Adds the tags with which the frame leaves by a port. */
static __always_inline int tag_for_port(CTX *ctx, struct pkt *p, const struct vport *to)
{
	if (!to->vlan && !p->eth.tags[0])
		return 0;
	return hops_vlan(p, to) ? REASON_VLAN_TAGGED : retag(ctx, p, to->vlan);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * VXLAN, RFC 7348 section 5. An encapsulation is these functions; what stands
 * around them (Ethernet, IP, UDP) is in encap.h.
 */
#pragma once

#include "pkt.h"

static __always_inline __u32 vxlan_len(void)
{
	return sizeof(struct vxlanhdr);
}

/* Reserved bits are ignored on receipt (RFC 7348 section 5). */
static __always_inline int vxlan_parse(struct pkt *p, __u32 off, __u32 *vni)
{
	struct vxlanhdr *vx = ctx_at(p->skb, off, sizeof(*vx));

	if (!vx)
		return REASON_OUTER_MALFORMED;
	if (!(vx->flags & VXLAN_I))
		return REASON_TUNNEL_FLAGS;
	*vni = bpf_ntohl(vx->vni) >> 8;
	return 0;
}

static __always_inline void vxlan_write(void *header, __u32 vni)
{
	struct vxlanhdr *vx = header;

	vx->flags = VXLAN_I;
	vx->vni = bpf_htonl(vni << 8);
}

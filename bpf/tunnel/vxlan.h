/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * VXLAN, RFC 7348 section 5. An encapsulation consists of four functions: is the header valid,
 * its length, parse, write. The headers around it are in tunnel/decap.h and tunnel/encap.h.
 */
#pragma once

#include "core/count.h"

/* UDP to a VXLAN port is VXLAN. */
static __always_inline bool vxlan_is(CTX *ctx, __u32 off)
{
	return ctx_at(ctx, off, sizeof(struct vxlanhdr));
}

static __always_inline __u32 vxlan_len(void)
{
	return sizeof(struct vxlanhdr);
}

/* Reserved bits are ignored on receipt (RFC 7348 section 5). */
static __always_inline int vxlan_parse(CTX *ctx, __u32 off, __u32 *vni, __u32 *len)
{
	struct vxlanhdr *vx = ctx_at(ctx, off, sizeof(*vx));

	if (!vx)
		return REASON_OUTER_MALFORMED;
	if (!(vx->flags & VXLAN_I))
		return REASON_TUNNEL_FLAGS;
	*vni = bpf_ntohl(vx->vni) >> 8;
	*len = vxlan_len();
	return 0;
}

static __always_inline int vxlan_write(CTX *ctx, __u32 off, const struct segment *seg)
{
	struct vxlanhdr *vx = ctx_at(ctx, off, sizeof(*vx));

	if (!vx)
		return REASON_NO_HEADROOM;
	vx->flags = VXLAN_I;
	vx->vni = bpf_htonl(seg->vni << 8);
	return 0;
}

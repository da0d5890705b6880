/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* NVGRE, RFC 7637 section 3.2: GRE whose key is the VSID, and a FlowID for ECMP in the underlay. */
#pragma once

#include "core/count.h"

/* GRE version 0 with a key and Ethernet inside. Other GRE belongs to the host. */
static __always_inline bool nvgre_is(CTX *ctx, __u32 off)
{
	struct grehdr *gre = ctx_at(ctx, off, sizeof(*gre));

	return gre && gre->protocol == bpf_htons(ETH_P_TEB) &&
	       (gre->flags & bpf_htons(GRE_KEY | GRE_VERSION)) == bpf_htons(GRE_KEY);
}

static __always_inline __u32 nvgre_len(void)
{
	return sizeof(struct grehdr);
}

/* Checksum and sequence number must be absent (3.2). */
static __always_inline int nvgre_parse(CTX *ctx, __u32 off, __u32 *vni, __u32 *len)
{
	struct grehdr *gre = ctx_at(ctx, off, sizeof(*gre));

	if (!gre)
		return REASON_OUTER_MALFORMED;
	if (gre->flags != bpf_htons(GRE_KEY))
		return REASON_TUNNEL_FLAGS;
	*vni = bpf_ntohl(gre->key) >> 8;
	*len = nvgre_len();
	return 0;
}

static __always_inline int nvgre_write(CTX *ctx, __u32 off, const struct segment *seg,
				       __be16 entropy)
{
	struct grehdr *gre = ctx_at(ctx, off, sizeof(*gre));

	if (!gre)
		return REASON_NO_HEADROOM;
	gre->flags = bpf_htons(GRE_KEY);
	gre->protocol = bpf_htons(ETH_P_TEB);
	gre->key = bpf_htonl(seg->vni << 8 | (bpf_ntohs(entropy) & 0xff));
	return 0;
}

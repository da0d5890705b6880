/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ctx for XDP, see core/ctx.h. The packet is bytes as on the wire, with its tags, and never a
 * large segment. Only its first buffer can be read; the rest (jumbo frames) moves along.
 */
#pragma once

#define CTX_DROP XDP_DROP

static __always_inline __u32 ctx_ifindex(struct xdp_md *xdp)
{
	return xdp->ingress_ifindex;
}

static __always_inline __u32 ctx_len(struct xdp_md *xdp)
{
	return bpf_xdp_get_buff_len(xdp);
}

static __always_inline __u32 ctx_gso_size(struct xdp_md *xdp __attribute__((unused)))
{
	return 0;
}

static __always_inline __be32 ctx_tag(struct xdp_md *xdp __attribute__((unused)))
{
	return 0;
}

static __always_inline int ctx_trim(struct xdp_md *xdp, __u32 len)
{
	return bpf_xdp_adjust_tail(xdp, (__s32)(len - ctx_len(xdp)));
}

static __always_inline int ctx_load(struct xdp_md *xdp, __u32 off, void *to, __u32 len)
{
	return bpf_xdp_load_bytes(xdp, off, to, len);
}

static __always_inline int ctx_store(struct xdp_md *xdp, __u32 off, const void *from, __u32 len)
{
	return bpf_xdp_store_bytes(xdp, off, (void *)from, len);
}

static __always_inline void ctx_csum_update(struct xdp_md *xdp __attribute__((unused)),
					    __wsum diff __attribute__((unused)))
{
}

static __always_inline void ctx_l4_replace(struct xdp_md *xdp, __u32 off, __be16 old, __be16 new)
{
	__sum16 *check = ctx_at(xdp, off, sizeof(*check));

	if (check)
		*check = sum_replace(*check, old, new);
}

/* The headers are in the first buffer, or out of reach. */
static __always_inline bool ctx_pull_headers(struct xdp_md *xdp __attribute__((unused)),
					     __u32 want __attribute__((unused)))
{
	return false;
}

/* Adds grow bytes before the packet, or removes them. */
static __always_inline int ctx_grow(struct xdp_md *xdp, __s32 grow)
{
	return grow ? bpf_xdp_adjust_head(xdp, -grow) : 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Geneve, RFC 8926 section 3.4. Received options are checked; a segment's configured options
 * are sent with every packet.
 */
#pragma once

#include "core/count.h"

#define GENEVE_OPTIONS (OPTIONS_MAX / 4) /* at least 4 bytes */

/* UDP to a Geneve port is Geneve. */
static __always_inline bool geneve_is(CTX *ctx, __u32 off)
{
	return ctx_at(ctx, off, sizeof(struct genevehdr));
}

static __always_inline __u32 geneve_len(__u32 options_len)
{
	return sizeof(struct genevehdr) + options_len;
}

struct geneve_walk {
	CTX *ctx;
	__u32 off;
	__u32 left;
	int why;
};

/* One option. An unknown critical one drops the packet (3.5). */
static long geneve_option(__u64 index __attribute__((unused)), struct geneve_walk *w)
{
	struct geneve_option *o = ctx_at(w->ctx, w->off, sizeof(*o));
	__u32 size, id;

	w->why = REASON_OUTER_MALFORMED;
	if (!o || w->left < sizeof(*o))
		return 1;
	size = sizeof(*o) + o->len * 4;
	if (size > w->left)
		return 1;
	id = (__u32)bpf_ntohs(o->class) << 8 | o->type;
	w->why = REASON_UNKNOWN_OPTION;
	if (o->type & GENEVE_CRITICAL && !bpf_map_lookup_elem(&known_options, &id))
		return 1;
	w->why = 0;
	w->off += size;
	w->left -= size;
	return !w->left;
}

/* The header, without checking its options. */
static __always_inline int geneve_head(CTX *ctx, __u32 off, __u32 *vni, __u32 *len)
{
	struct genevehdr *g = ctx_at(ctx, off, sizeof(*g));

	if (!g)
		return REASON_OUTER_MALFORMED;
	if (g->version || g->flags & GENEVE_OAM || g->protocol != bpf_htons(ETH_P_TEB))
		return REASON_TUNNEL_FLAGS;
	*vni = bpf_ntohl(g->vni) >> 8;
	*len = geneve_len(g->options_len * 4);
	return 0;
}

static __always_inline int geneve_parse(CTX *ctx, __u32 off, __u32 *vni, __u32 *len)
{
	struct geneve_walk w = { .ctx = ctx, .off = off + sizeof(struct genevehdr) };
	int why = geneve_head(ctx, off, vni, len);

	if (why)
		return why;
	w.left = *len - sizeof(struct genevehdr);
	if (!w.left)
		return 0;
	ctx_pull_headers(ctx, off + *len + sizeof(struct ethhdr) + sizeof(struct ipv6hdr));
	bpf_loop(GENEVE_OPTIONS, geneve_option, &w, 0);
	return w.why;
}

static __always_inline int geneve_write(CTX *ctx, __u32 off, const struct segment *seg)
{
	struct genevehdr *g = ctx_at(ctx, off, sizeof(*g));
	__u32 len = seg->options_len;

	if (!g)
		return REASON_NO_HEADROOM;
	*(__u32 *)g = 0;
	g->protocol = bpf_htons(ETH_P_TEB);
	g->vni = bpf_htonl(seg->vni << 8);
	if (!len)
		return 0;
	g->options_len = len / 4;
	g->flags = seg->options_critical ? GENEVE_HAS_CRITICAL : 0;
	if (len > OPTIONS_MAX || ctx_store(ctx, off + sizeof(*g), seg->options, len))
		return REASON_NO_HEADROOM;
	return 0;
}

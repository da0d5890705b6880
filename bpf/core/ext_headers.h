/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ext_headers: walks IPv6 extension headers to the transport header (RFC 8200 4).
 *
 * in:    ctx, a position
 * out:   the position of the transport header
 * maps:  none
 * stops: IPV6_EXT_HEADERS
 */
#pragma once

#include "core/count.h"

#define MAX_EXTENSIONS 6

/* The position of a header. */
struct cursor {
	__u32 off;
	__u32 end; /* of the IP packet */
	__u32 id;
	__u32 fragmented; /* with fragment: where begins what is fragmented */
	__u16 offset;	  /* of the fragment, in bytes */
	__u8 proto;
	bool fragment;
};

static __always_inline bool is_extension(__u8 proto)
{
	return proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_DSTOPTS ||
	       proto == IPPROTO_AH || proto == IPPROTO_FRAGMENT;
}

/* Skips one extension header (RFC 8200 4, RFC 4302 2.2). After a later fragment's header comes data. */
static __always_inline int step_over(CTX *ctx, struct cursor *c)
{
	struct ipv6_frag h; /* all start with next header and length */

	if (c->off + sizeof(h) > c->end || ctx_load(ctx, c->off, &h, sizeof(h)))
		return REASON_IPV6_EXT_HEADERS;
	if (c->proto == IPPROTO_FRAGMENT) {
		c->offset = bpf_ntohs(h.offset) & ~7;
		c->fragment = h.offset & bpf_htons(~6 & 0xffff);
		c->id = h.id;
		c->off += sizeof(h);
		c->fragmented = c->off;
	} else if (c->proto == IPPROTO_AH) {
		c->off += (h.reserved + 2) * 4;
	} else {
		c->off += (h.reserved + 1) * 8;
	}
	c->proto = h.nexthdr;
	return 0;
}

static __always_inline int walk_ipv6(CTX *ctx, struct cursor *c)
{
	int why;

	for (int i = 0; i < MAX_EXTENSIONS && is_extension(c->proto) && !c->offset; i++) {
		why = step_over(ctx, c);
		if (why)
			return why;
	}
	if (c->off > c->end)
		return REASON_IPV6_EXT_HEADERS;
	return is_extension(c->proto) && !c->offset ? REASON_IPV6_EXT_HEADERS : 0;
}

/* Walks to the transport header of an IPv6 packet, or to the data of a later fragment. */
static __always_inline int walk_packet6(CTX *ctx, const struct pkt *p, struct cursor *c)
{
	c->off = p->l3 + sizeof(struct ipv6hdr);
	c->end = p->l3 - sizeof(struct ethhdr) + p->headers + p->payload;
	return ctx_load(ctx, p->l3 + 6, &c->proto, 1) ? REASON_IPV6_EXT_HEADERS : walk_ipv6(ctx, c);
}

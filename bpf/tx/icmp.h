/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * icmp: turns a dropped packet into an ICMP error for its sender (RFC 792, RFC 4443,
 * RFC 1812 4.3.2). There are none about errors, multicast or later fragments, and each port
 * causes a limited number a second.
 *
 * in:    p, the drop reason
 * out:   the error in the packet's layout, for the inner sender
 * maps:  fragment_works, owner_limits, owner_usages, segments, routers
 * stops: nothing: the packet is counted under its reason
 */
#pragma once

#include "core/ext_headers.h"
#include "core/limits.h"
#include "core/within.h"
#include "tx/headers.h"

/* What fits into a packet of the minimum MTU after the ICMP header. */
#define EMBEDDED_MAX4 (576 - sizeof(struct iphdr) - sizeof(struct icmphdr))
#define IPV6_MIN_MTU 1280
#define EMBEDDED_MAX6 (IPV6_MIN_MTU - sizeof(struct ipv6hdr) - sizeof(struct icmphdr))

struct icmp_error {
	__u8 type;
	__u8 code;
	__u32 mtu;
};

/* Whether the edge may send what the packet causes. */
static __always_inline bool may_send(struct pkt *p, enum limited_rate rate)
{
	if (!rate_exceeded(p, owner_of(p), rate))
		return true;
	count(EVENT_ICMP_LIMITED);
	return false;
}

/* The error for a drop reason; false: none. */
static __always_inline bool icmp_error_for(int why, bool v6, struct icmp_error *e)
{
	e->type = v6 ? ICMPV6_UNREACHABLE : ICMP_UNREACHABLE;
	switch (why) {
	case REASON_TOO_BIG:
		e->type = v6 ? ICMPV6_TOO_BIG : ICMP_UNREACHABLE;
		e->code = v6 ? 0 : ICMP_FRAGMENTATION_NEEDED;
		/* No IPv6 sender goes below 1,280 (RFC 8200 5): a larger packet becomes that. */
		if (v6 && e->mtu && e->mtu < IPV6_MIN_MTU)
			e->mtu = IPV6_MIN_MTU;
		return e->mtu >= 68; /* RFC 791 */
	case REASON_TTL_EXCEEDED:
		e->type = v6 ? ICMPV6_TIME_EXCEEDED : ICMP_TIME_EXCEEDED;
		e->code = 0;
		return true;
	case REASON_NO_ROUTE:
		e->code = v6 ? ICMPV6_NO_ROUTE : ICMP_NET_UNREACHABLE;
		return true;
	case REASON_UNREACHABLE:
		e->code = v6 ? ICMPV6_ADDRESS_UNREACHABLE : ICMP_HOST_UNREACHABLE;
		return true;
	case REASON_PROHIBITED:
	case REASON_REJECTED:
		e->code = v6 ? ICMPV6_PROHIBITED : ICMP_PROHIBITED;
		return true;
	case REASON_NO_LOCAL_SERVICE:
		e->code = v6 ? ICMPV6_PORT_UNREACHABLE : ICMP_PORT_UNREACHABLE;
		return true;
	}
	return false;
}

/* Whether the packet is a later fragment or an ICMP error, behind more headers than parse() reads. */
SUBPROGRAM int is_unanswerable(CTX *ctx, struct pkt *p)
{
	struct cursor c = {};
	__u8 type;

	if (!p || walk_packet6(ctx, p, &c) || c.offset)
		return 1;
	return c.proto == IPPROTO_ICMPV6 && (ctx_load(ctx, c.off, &type, 1) || type < 128);
}

/* Whether the sender may get an error (RFC 1122 3.2.2, RFC 4443 2.4). */
static __always_inline bool may_get_error(CTX *ctx, struct pkt *p)
{
	const struct addr *s = &p->key.saddr;

	if (is_v6(p) && p->hidden && is_unanswerable(ctx, p))
		return false;
	if (!is_ip(p) || p->tail || is_icmp_error(p) || mac_is_group(p->key.dmac) || is_to_group(p))
		return false;
	return !addr_is_no_host(s) && (is_v6(p) ? !addr_is_zero(s) : s->w[3]);
}

/* The gateway's address in the segment, else the router's, else (bridged) the destination's. */
static __always_inline void source_for(const struct pkt *p, const struct segment *seg,
				       struct addr *source)
{
	__u32 id = seg->router;
	struct router *r = bpf_map_lookup_elem(&routers, &id);

	*source = is_v6(p) ? seg->gateway6 : seg->gateway4;
	if (addr_is_zero(source) && r)
		*source = is_v6(p) ? r->source6 : r->source4;
	if (addr_is_zero(source))
		*source = p->key.daddr;
}

static __always_inline int write_error4(CTX *ctx, struct pkt *p, const struct addr *source,
					const struct icmp_error *e, __u32 embedded, __u32 sum)
{
	struct iphdr *ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct icmphdr));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_HEADROOM;
	icmp = (void *)(ip + 1);
	write_header4(ip, source, &p->key.saddr, sizeof(*icmp) + embedded, IPPROTO_ICMP, ICMP_TOS,
		      false);
	icmp->check = 0;
	icmp->type = e->type;
	icmp->code = e->code;
	icmp->rest = bpf_htonl(e->mtu); /* RFC 1191 4: in the lower half */
	icmp->check = fold(bpf_csum_diff(NULL, 0, (void *)icmp, sizeof(*icmp), sum));
	return 0;
}

static __always_inline int write_error6(CTX *ctx, struct pkt *p, const struct addr *source,
					const struct icmp_error *e, __u32 embedded, __u32 sum)
{
	struct ipv6hdr *ip =
		ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct icmphdr));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_HEADROOM;
	icmp = (void *)(ip + 1);
	sum = sum_pseudo6(source, &p->key.saddr, sizeof(*icmp) + embedded, IPPROTO_ICMPV6, sum);
	write_header6(ip, source, &p->key.saddr, sizeof(*icmp) + embedded, IPPROTO_ICMPV6, ICMP_TOS,
		      ICMP_TTL);
	icmp->type = e->type;
	icmp->code = e->code;
	icmp->check = 0;
	icmp->rest = bpf_htonl(e->mtu);
	icmp->check = fold(bpf_csum_diff(NULL, 0, (void *)icmp, sizeof(*icmp), sum));
	return 0;
}

/*
 * Replaces the packet by an error that embeds as much of it as allowed, in words of 4 bytes.
 * The packet is decapsulated and without tags.
 */
static __always_inline int make_error(CTX *ctx, struct pkt *p, const struct segment *seg,
				      const struct icmp_error *e)
{
	__u32 headroom = sizeof(struct icmphdr);
	__u32 embedded = p->headers + p->payload - sizeof(struct ethhdr); /* without padding */
	struct scratch *s = scratch();
	struct addr source;
	__u32 sum;
	int why;

	headroom += is_v6(p) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	if (embedded > (is_v6(p) ? EMBEDDED_MAX6 : EMBEDDED_MAX4))
		embedded = is_v6(p) ? EMBEDDED_MAX6 : EMBEDDED_MAX4;
	embedded &= ~3U;
	barrier_var(embedded); /* the verifier wants the bounds tested again */
	if (!s || !within(embedded, sizeof(struct iphdr), sizeof(s->bytes)))
		return REASON_NO_HEADROOM;
	if (bpf_skb_load_bytes(ctx, sizeof(struct ethhdr), s->bytes, embedded))
		return REASON_NO_HEADROOM;
	if (ctx_renew(ctx, p->l4, sizeof(struct ethhdr) + headroom + embedded) ||
	    bpf_skb_store_bytes(ctx, sizeof(struct ethhdr) + headroom, s->bytes, embedded, 0))
		return REASON_NO_HEADROOM;
	source_for(p, seg, &source);
	sum = sum_scratch(s, embedded, 0);
	why = is_v6(p) ? write_error6(ctx, p, &source, e, embedded, sum) :
			 write_error4(ctx, p, &source, e, embedded, sum);
	return why ? why :
		     reply_to_sender(ctx, p, sizeof(struct ethhdr) + headroom + embedded, ICMP_TOS,
				     false);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * parse_l4: reads the ports and types that are in a flow key, and finds the payload.
 *
 * in:    ctx, p with its IP header parsed
 * out:   p->key.sport, p->key.dport, p->arp_nd, offsets and fields of struct pkt
 * maps:  none
 * stops: MALFORMED_L4
 */
#pragma once

#include "core/count.h"

#define DHCP_CLIENT 68	  /* UDP port, RFC 2131 */
#define DHCPV6_CLIENT 546 /* UDP port, RFC 8415 */

/*
 * Fragments share a key without ports. A first fragment to a DHCP client has that port in its
 * key, so that no other decides for it.
 */
static __always_inline void parse_first_fragment(CTX *ctx, struct pkt *p, __u8 proto, __u32 off,
						 __be16 client)
{
	struct l4ports *l4 = ctx_at(ctx, off, sizeof(*l4));

	if (l4 && proto == IPPROTO_UDP && l4->dest == client)
		p->key.dport = client;
}

/* TCP, UDP, SCTP and ICMP. Other protocols have no header that is known here. */
static __always_inline int parse_l4(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
	struct icmphdr *icmp;
	struct tcphdr *tcp;
	struct l4ports *l4;
	__u32 size = 0;

	p->l4 = off;
	p->headers = off - p->inner - p->tag_bytes;
	p->payload = len;
	if (p->key.fragment)
		return 0;
	switch (p->key.proto) {
	case IPPROTO_TCP:
		tcp = ctx_at(ctx, off, sizeof(*tcp));
		if (!tcp)
			return REASON_MALFORMED_L4;
		size = tcp->doff * 4;
		if (size < sizeof(*tcp))
			return REASON_MALFORMED_L4;
		p->seq = bpf_ntohl(tcp->seq);
		p->tcp_flags = tcp->flags;
		p->key.sport = tcp->source;
		p->key.dport = tcp->dest;
		break;
	case IPPROTO_UDP:
	case IPPROTO_SCTP: /* starts with its ports too (RFC 9260 3.1) */
		size = sizeof(struct udphdr);
		l4 = ctx_at(ctx, off, sizeof(struct udphdr));
		if (!l4)
			return REASON_MALFORMED_L4;
		p->key.sport = l4->source;
		p->key.dport = l4->dest;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((p->key.proto == IPPROTO_ICMPV6) != is_v6(p))
			break; /* of the other family: a protocol without a meaning */
		size = 4;      /* type, code, checksum */
		icmp = ctx_at(ctx, off, size);
		if (!icmp)
			return REASON_MALFORMED_L4;
		p->icmp_type = icmp->type;
		p->arp_nd = is_v6(p) && p->ttl == 255 && is_nd_type(icmp->type); /* RFC 4861 7.1 */
		break;
	}
	if (size > len)
		return REASON_MALFORMED_L4;
	p->headers += size;
	p->payload = len - size;
	return 0;
}

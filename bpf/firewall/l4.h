/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * l4: reads for firewall and NAT what the flow cache does not need: the transport header
 * after any extension headers, fragments, TCP sequence numbers, and the packet embedded in an
 * ICMP error.
 *
 * in:    ctx, p as parsed, decapsulated or not
 * out:   p->l4_info
 * maps:  none
 * stops: IPV6_EXT_HEADERS, MALFORMED_L4, FRAGMENT_TINY, UNRELATED
 */
#pragma once

#include "firewall/l4_headers.h"
#include "tx/embedded.h"

/* The embedded transport header, reversed. */
static __always_inline int read_embedded_ports(struct l4_info *t, const struct icmphdr *head)
{
	if (t->proto == IPPROTO_TCP || t->proto == IPPROTO_UDP || t->proto == IPPROTO_SCTP) {
		t->tuple.sport = *(__be16 *)((void *)head + 2);
		t->tuple.dport = *(__be16 *)head;
	} else if (t->proto == IPPROTO_ICMP || t->proto == IPPROTO_ICMPV6) {
		t->tuple.sport = t->tuple.dport = *(__be16 *)&head->rest;
		/* Reversed: if a request is embedded, its sender receives the error. */
		if (head->type == ICMP_ECHO || head->type == ICMPV6_ECHO)
			t->echo_dir = 2;
		else if (head->type == ICMP_ECHO_REPLY || head->type == ICMPV6_ECHO_REPLY)
			t->echo_dir = 1;
		else
			return REASON_UNRELATED;
	}
	return 0;
}

/*
 * Reads the packet embedded in an ICMP error, reversed, as if it came back: then its connection
 * is found like that of any packet. It must have been sent by the error's receiver.
 */
static __always_inline int read_icmp_error(CTX *ctx, struct pkt *p, struct l4_info *t,
					   struct cursor *c)
{
	struct icmphdr head; /* of any protocol: its first 8 bytes */
	struct embedded q = {};

	t->kind = L4_ICMP_ERROR;
	c->off += sizeof(struct icmphdr);
	t->embedded_l3 = c->off - p->l3;
	if (!(is_v6(p) ? read_embedded6(ctx, c->off, &q) : read_embedded4(ctx, c->off, &q)))
		return REASON_UNRELATED;
	c->off = q.off;
	c->proto = q.proto;
	c->offset = q.tail;
	if (is_v6(p) && walk_ipv6(ctx, c))
		return REASON_UNRELATED;
	t->tuple.src = q.dst;
	t->tuple.dst = q.src;
	t->proto = c->proto;
	t->embedded_l4 = c->off - p->l3;
	if (c->offset || !addr_equal(&t->tuple.dst, &p->key.daddr) ||
	    c->off + sizeof(head) > c->end || ctx_load(ctx, c->off, &head, sizeof(head)))
		return REASON_UNRELATED;
	return read_embedded_ports(t, &head);
}

/* The identifier of an echo serves as both ports. For other types, type and code do. */
static __always_inline int read_icmp(CTX *ctx, struct pkt *p, struct l4_info *t, struct cursor *c)
{
	bool v6 = is_v6(p);
	struct icmphdr icmp;

	t->uncached = true;
	if (c->off + sizeof(icmp) > c->end || ctx_load(ctx, c->off, &icmp, sizeof(icmp)))
		return REASON_MALFORMED_L4;
	t->icmp = icmp.type << 8 | icmp.code;
	if (v6 ? icmp.type < 128 : is_error4(icmp.type))
		return read_icmp_error(ctx, p, t, c);
	t->tuple.sport = t->tuple.dport = bpf_htons(t->icmp);
	if (icmp.type == (v6 ? ICMPV6_ECHO : ICMP_ECHO))
		t->echo_dir = 1;
	else if (icmp.type == (v6 ? ICMPV6_ECHO_REPLY : ICMP_ECHO_REPLY))
		t->echo_dir = 2;
	if (t->echo_dir)
		t->tuple.sport = t->tuple.dport = *(__be16 *)&icmp.rest;
	return 0;
}

static __always_inline int read_l4(CTX *ctx, struct pkt *p, struct l4_info *t, struct cursor *c)
{
	switch (c->proto) {
	case IPPROTO_TCP:
		return read_tcp(ctx, t, c);
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		return read_ports(ctx, t, c);
	case IPPROTO_ICMP:
		return is_v6(p) ? 0 : read_icmp(ctx, p, t, c);
	case IPPROTO_ICMPV6:
		return is_v6(p) ? read_icmp(ctx, p, t, c) : 0;
	}
	return 0;
}

/* Bytes of what is fragmented that are headers: a later fragment must not replace them (RFC 5722). */
static __always_inline __u16 header_bytes(CTX *ctx, const struct cursor *c)
{
	__u32 len = c->off - c->fragmented;
	__u8 doff = 0;

	if (c->proto == IPPROTO_TCP)
		return ctx_load(ctx, c->off + 12, &doff, 1) ? 0xffff : len + (doff >> 4) * 4;
	return len +
	       (is_ported(c->proto) || c->proto == IPPROTO_ICMP || c->proto == IPPROTO_ICMPV6 ?
			sizeof(struct udphdr) :
			0);
}

/* A first fragment must contain the transport header, and no other may overlap it (RFC 1858, 3128). */
static __always_inline int read_fragment(CTX *ctx, struct pkt *p, struct l4_info *t,
					 struct cursor *c)
{
	int why;

	t->uncached = true;
	t->id = c->id;
	if (c->offset) {
		t->kind = L4_LATER_FRAGMENT;
		t->fragment = c->offset;
		return c->proto == IPPROTO_TCP && c->offset < sizeof(struct tcphdr) ?
			       REASON_FRAGMENT_TINY :
			       0;
	}
	why = read_l4(ctx, p, t, c);
	if (t->kind == L4_WHOLE) {
		t->kind = L4_FIRST_FRAGMENT;
		t->fragment = header_bytes(ctx, c);
	}
	return why == REASON_MALFORMED_L4 ? REASON_FRAGMENT_TINY : why;
}

SUBPROGRAM int parse_l4_full(CTX *ctx, struct pkt *p)
{
	struct l4_info *t;
	struct cursor c = {};
	int why;

	if (!p)
		return REASON_IPV6_EXT_HEADERS;
	t = &p->l4_info;
	__builtin_memset(t, 0, sizeof(*t));
	p->l4_parsed = true;
	t->tuple.src = p->key.saddr;
	t->tuple.dst = p->key.daddr;
	t->scale = NO_SCALE;
	c.off = p->l3 + sizeof(struct ipv6hdr);
	c.end = p->l3 - sizeof(struct ethhdr) + p->headers + p->payload;
	if (is_v6(p)) {
		if (ctx_load(ctx, p->l3 + 6, &c.proto, 1))
			return REASON_IPV6_EXT_HEADERS;
		why = walk_ipv6(ctx, &c);
	} else {
		c.proto = p->key.proto;
		why = walk_ipv4(ctx, p, &c);
	}
	if (why)
		return why;
	t->proto = c.proto;
	t->off = c.off - p->l3;
	t->uncached = c.proto != p->key.proto; /* after more headers than parse() skips */
	return c.fragment ? read_fragment(ctx, p, t, &c) : read_l4(ctx, p, t, &c);
}

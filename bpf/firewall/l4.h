/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * examine: reads for the firewall what the flow cache has no need of: the transport
 * header behind any extension headers, fragments, TCP's numbers, and the packet that
 * an ICMP error is about.
 *
 * in:    ctx, p as parsed, in its tunnel or out of it
 * out:   the hearing's transport
 * maps:  none
 * stops: HEADERS, MALFORMED_L4, FRAGMENT_TINY, UNRELATED
 */
#pragma once

#include "tx/modify.h"
#include "tx/embedded.h"

#define MAX_EXTENSIONS 6
#define TCPOPT_SCALE 3

/* Where a header is read. */
struct cursor {
	__u32 off;
	__u32 end; /* of the IP packet */
	__u32 id;
	__u16 offset; /* of the fragment, in bytes */
	__u8 proto;
	bool fragment;
};

static __always_inline bool is_extension(__u8 proto)
{
	return proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_DSTOPTS ||
	       proto == IPPROTO_AH || proto == IPPROTO_FRAGMENT;
}

/* Steps over one extension header (RFC 8200 4, RFC 4302 2.2); what follows a later fragment's is data. */
static __always_inline int step_over(CTX *ctx, struct cursor *c)
{
	struct ipv6_frag h; /* the others begin the same: next header, length */

	if (c->off + sizeof(h) > c->end || ctx_load(ctx, c->off, &h, sizeof(h)))
		return REASON_HEADERS;
	if (c->proto == IPPROTO_FRAGMENT) {
		c->offset = bpf_ntohs(h.offset) & ~7;
		c->fragment = h.offset & bpf_htons(~6 & 0xffff);
		c->id = h.id;
		c->off += sizeof(h);
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
		return REASON_HEADERS;
	return is_extension(c->proto) && !c->offset ? REASON_HEADERS : 0;
}

static __always_inline int walk_ipv4(CTX *ctx, struct pkt *p, struct cursor *c)
{
	struct iphdr ip;

	if (ctx_load(ctx, p->l3, &ip, sizeof(ip)))
		return REASON_HEADERS;
	c->fragment = ip.frag_off & bpf_htons(IP_MF | IP_OFFSET);
	c->offset = bpf_ntohs(ip.frag_off & bpf_htons(IP_OFFSET)) * 8;
	c->id = ip.id;
	c->off = p->l3 + ip.ihl * 4;
	return 0;
}

#define TCP_OPTIONS 40 /* bytes at most */

struct scale_walk {
	__u32 at;
	__u32 len;
	__u32 scale;
	__u8 options[68]; /* so that an index can be masked, and two bytes follow */
};

static long find_scale(__u64 index __attribute__((unused)), struct scale_walk *w)
{
	const __u8 *o = &w->options[w->at & 63];

	if (w->at >= w->len || o[0] == TCPOPT_END)
		return 1;
	if (o[0] == TCPOPT_NOP) {
		w->at++;
		return 0;
	}
	if (o[0] == TCPOPT_SCALE && o[1] == 3) {
		w->scale = o[2] > 14 ? 14 : o[2]; /* RFC 7323 2.3 */
		return 1;
	}
	w->at += o[1];
	return o[1] < 2;
}

/* The window scale that a SYN offers (RFC 7323 2.2), or NO_SCALE. */
static __always_inline __u8 read_scale(CTX *ctx, __u32 off, __u32 len)
{
	struct scale_walk w = { .len = len, .scale = NO_SCALE };

	barrier_var(len); /* the verifier wants its bounds tested here */
	if (len && len <= TCP_OPTIONS && ctx_load(ctx, off, w.options, len) == 0)
		bpf_loop(TCP_OPTIONS, find_scale, &w, 0);
	return w.scale;
}

static __always_inline int read_tcp(CTX *ctx, struct transport *t, const struct cursor *c)
{
	struct tcphdr tcp;
	__u32 len;

	if (c->off + sizeof(tcp) > c->end || ctx_load(ctx, c->off, &tcp, sizeof(tcp)))
		return REASON_MALFORMED_L4;
	len = tcp.doff * 4;
	if (len < sizeof(tcp) || c->off + len > c->end)
		return REASON_MALFORMED_L4;
	t->sport = tcp.source;
	t->dport = tcp.dest;
	t->flags = tcp.flags;
	t->seq = bpf_ntohl(tcp.seq);
	t->ack = bpf_ntohl(tcp.ack);
	t->end = t->seq + (c->end - c->off - len) + !!(tcp.flags & TCP_SYN) +
		 !!(tcp.flags & TCP_FIN);
	if (tcp.flags & TCP_SYN)
		t->scale = read_scale(ctx, c->off + sizeof(tcp), len - sizeof(tcp));
	return 0;
}

/* The ports of UDP and SCTP, which begin alike. */
static __always_inline int read_ports(CTX *ctx, struct transport *t, const struct cursor *c)
{
	struct udphdr l4;

	if (c->off + sizeof(l4) > c->end || ctx_load(ctx, c->off, &l4, sizeof(l4)))
		return REASON_MALFORMED_L4;
	t->sport = l4.source;
	t->dport = l4.dest;
	return 0;
}

/* The quoted transport header, turned round. */
static __always_inline int read_quoted_ports(struct transport *t, const struct icmphdr *head)
{
	if (t->proto == IPPROTO_TCP || t->proto == IPPROTO_UDP || t->proto == IPPROTO_SCTP) {
		t->sport = *(__be16 *)((void *)head + 2);
		t->dport = *(__be16 *)head;
	} else if (t->proto == IPPROTO_ICMP || t->proto == IPPROTO_ICMPV6) {
		t->sport = t->dport = *(__be16 *)&head->rest;
		/* Turned round: who gets the error was the asker if a request is quoted. */
		if (head->type == ICMP_ECHO || head->type == ICMPV6_ECHO)
			t->asker = 2;
		else if (head->type == ICMP_ECHO_REPLY || head->type == ICMPV6_ECHO_REPLY)
			t->asker = 1;
		else
			return REASON_UNRELATED;
	}
	return 0;
}

/*
 * The packet that an ICMP error is about, turned round, as if it came back: so its
 * connection is found like any packet's. It is of the error's receiver, or the error is
 * of nobody's.
 */
static __always_inline int read_error(CTX *ctx, struct pkt *p, struct transport *t,
				      struct cursor *c)
{
	struct icmphdr head; /* of any protocol: its first 8 bytes */
	struct quote q = {};

	t->kind = TRANSPORT_ERROR;
	c->off += sizeof(struct icmphdr);
	t->quoted = c->off - p->l3;
	if (!(is_v6(p) ? read_quote6(ctx, c->off, &q) : read_quote4(ctx, c->off, &q)))
		return REASON_UNRELATED;
	c->off = q.off;
	c->proto = q.proto;
	c->offset = q.tail;
	if (is_v6(p) && walk_ipv6(ctx, c))
		return REASON_UNRELATED;
	t->src = q.dst;
	t->dst = q.src;
	t->proto = c->proto;
	t->quoted_off = c->off - p->l3;
	if (c->offset || !addr_equal(&t->dst, &p->key.daddr) || c->off + sizeof(head) > c->end ||
	    ctx_load(ctx, c->off, &head, sizeof(head)))
		return REASON_UNRELATED;
	return read_quoted_ports(t, &head);
}

/* An echo's identifier stands for ports; of the rest each type and code is its own. */
static __always_inline int read_icmp(CTX *ctx, struct pkt *p, struct transport *t, struct cursor *c)
{
	bool v6 = is_v6(p);
	struct icmphdr icmp;

	t->uncached = true;
	if (c->off + sizeof(icmp) > c->end || ctx_load(ctx, c->off, &icmp, sizeof(icmp)))
		return REASON_MALFORMED_L4;
	t->icmp = icmp.type << 8 | icmp.code;
	if (v6 ? icmp.type < 128 : is_error4(icmp.type))
		return read_error(ctx, p, t, c);
	t->sport = t->dport = bpf_htons(t->icmp);
	if (icmp.type == (v6 ? ICMPV6_ECHO : ICMP_ECHO))
		t->asker = 1;
	else if (icmp.type == (v6 ? ICMPV6_ECHO_REPLY : ICMP_ECHO_REPLY))
		t->asker = 2;
	if (t->asker)
		t->sport = t->dport = *(__be16 *)&icmp.rest;
	return 0;
}

static __always_inline int read_transport(CTX *ctx, struct pkt *p, struct transport *t,
					  struct cursor *c)
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

/* A first fragment has the whole transport header, and no other reaches into it (RFC 1858, 3128). */
static __always_inline int read_fragment(CTX *ctx, struct pkt *p, struct transport *t,
					 struct cursor *c)
{
	int why;

	t->uncached = true;
	t->id = c->id;
	if (c->offset) {
		t->kind = TRANSPORT_LATER;
		return c->proto == IPPROTO_TCP && c->offset < sizeof(struct tcphdr) ?
			       REASON_FRAGMENT_TINY :
			       0;
	}
	why = read_transport(ctx, p, t, c);
	if (t->kind == TRANSPORT_WHOLE)
		t->kind = TRANSPORT_FIRST;
	return why == REASON_MALFORMED_L4 ? REASON_FRAGMENT_TINY : why;
}

SUBPROGRAM int examine(CTX *ctx, struct pkt *p)
{
	struct hearing *h = hearing();
	struct transport *t;
	struct cursor c = {};
	int why;

	if (!p || !h)
		return REASON_HEADERS;
	t = &h->transport;
	__builtin_memset(t, 0, sizeof(*t));
	p->examined = true;
	t->src = p->key.saddr;
	t->dst = p->key.daddr;
	t->scale = NO_SCALE;
	c.off = p->l3 + sizeof(struct ipv6hdr);
	c.end = p->l3 - sizeof(struct ethhdr) + p->headers + p->payload;
	if (is_v6(p)) {
		if (ctx_load(ctx, p->l3 + 6, &c.proto, 1))
			return REASON_HEADERS;
		why = walk_ipv6(ctx, &c);
	} else {
		c.proto = p->key.proto;
		why = walk_ipv4(ctx, p, &c);
	}
	if (why)
		return why;
	t->proto = c.proto;
	t->off = c.off - p->l3;
	t->uncached = c.proto != p->key.proto; /* behind more headers than parse looks behind */
	return c.fragment ? read_fragment(ctx, p, t, &c) : read_transport(ctx, p, t, &c);
}

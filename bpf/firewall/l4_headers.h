/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * l4_headers: finds the transport header of IPv4, and reads TCP, UDP and SCTP headers.
 *
 * in:    ctx, a position
 * out:   the position of the transport header; struct l4_info
 * maps:  none
 * stops: IPV6_EXT_HEADERS, MALFORMED_L4
 */
#pragma once

#include "core/ext_headers.h"
#include "core/within.h"

static __always_inline bool is_ported(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

static __always_inline int walk_ipv4(CTX *ctx, struct pkt *p, struct cursor *c)
{
	struct iphdr ip;

	if (ctx_load(ctx, p->l3, &ip, sizeof(ip)))
		return REASON_IPV6_EXT_HEADERS;
	c->fragment = ip.frag_off & bpf_htons(IP_MF | IP_OFFSET);
	c->offset = bpf_ntohs(ip.frag_off & bpf_htons(IP_OFFSET)) * 8;
	c->id = ip.id;
	c->off = c->fragmented = p->l3 + ip.ihl * 4;
	return 0;
}

#define TCP_OPTIONS 40 /* at most, in bytes */

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

/* The window scale of a SYN (RFC 7323 2.2), or NO_SCALE. */
static __always_inline __u8 read_scale(CTX *ctx, __u32 off, __u32 len)
{
	struct scale_walk w = { .len = len, .scale = NO_SCALE };

	barrier_var(len); /* the verifier wants the bounds tested here */
	if (within(len, 1, TCP_OPTIONS) && ctx_load(ctx, off, w.options, len) == 0)
		bpf_loop(TCP_OPTIONS, find_scale, &w, 0);
	return w.scale;
}

static __always_inline int read_tcp(CTX *ctx, struct l4_info *t, const struct cursor *c)
{
	struct tcphdr tcp;
	__u32 len;

	if (c->off + sizeof(tcp) > c->end || ctx_load(ctx, c->off, &tcp, sizeof(tcp)))
		return REASON_MALFORMED_L4;
	len = tcp.doff * 4;
	if (len < sizeof(tcp) || c->off + len > c->end)
		return REASON_MALFORMED_L4;
	t->tuple.sport = tcp.source;
	t->tuple.dport = tcp.dest;
	t->flags = tcp.flags;
	t->seq = bpf_ntohl(tcp.seq);
	t->ack = bpf_ntohl(tcp.ack);
	t->end = t->seq + (c->end - c->off - len) + !!(tcp.flags & TCP_SYN) +
		 !!(tcp.flags & TCP_FIN);
	if (tcp.flags & TCP_SYN)
		t->scale = read_scale(ctx, c->off + sizeof(tcp), len - sizeof(tcp));
	return 0;
}

/* The ports of UDP and SCTP, which start alike. */
static __always_inline int read_ports(CTX *ctx, struct l4_info *t, const struct cursor *c)
{
	struct udphdr l4;

	if (c->off + sizeof(l4) > c->end || ctx_load(ctx, c->off, &l4, sizeof(l4)))
		return REASON_MALFORMED_L4;
	t->tuple.sport = l4.source;
	t->tuple.dport = l4.dest;
	return 0;
}

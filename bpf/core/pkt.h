/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The packet on its way through the stages: offsets and facts, no pointers into it. */
#pragma once

#include "core/ctx.h"
#include "abi/maps.h"
#include "core/config.h"
#include "core/stamp.h"

/*
 * A function of its own for the verifier, which looks at it once, for all values
 * that its arguments may have. It returns a reason, or 0.
 */
#define SUBPROGRAM __attribute__((noinline))

#define NOT_OURS -1 /* no reason to drop the packet: it is the host's */

/* Destination and source MAC of the key, which lie together as in the frame. */
static __always_inline void *key_macs(const struct flow_key *key)
{
	return (void *)key + __builtin_offsetof(struct flow_key, dmac);
}

/* Tells a trace what a stage found; a and b are the stage's own, see internal/datapath/trace.go. */
static __always_inline void step(struct pkt *p, enum stage stage, __u32 a, __u32 b)
{
	struct trace_step s = { .stage = stage, .a = a, .b = b };
	__u32 index;

	if (!tracing)
		return;
	index = p->steps++;
	bpf_map_update_elem(&trace, &index, &s, BPF_ANY);
}

static __always_inline void count(enum event event)
{
	__u32 index = event;
	__u64 *n;

	if (tracing)
		return;
	n = bpf_map_lookup_elem(&events, &index);
	if (n)
		*n += 1;
}

static __always_inline __u32 pulse(enum pulse which)
{
	__u32 index = which, *n = bpf_map_lookup_elem(&pulses, &index);

	return n ? *n : 0;
}

static __always_inline struct end *end_get(__u32 id)
{
	return bpf_map_lookup_elem(&ends, &id);
}

static __always_inline bool is_ip(const struct pkt *p)
{
	return p->key.ethertype == bpf_htons(ETH_P_IP) || p->key.ethertype == bpf_htons(ETH_P_IPV6);
}

static __always_inline bool mac_is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

static __always_inline bool mac_is_zero(const __u8 *mac)
{
	const __u16 *w = (const __u16 *)mac;

	return !(w[0] | w[1] | w[2]);
}

static __always_inline struct segment *segment_get(__u32 id)
{
	return bpf_map_lookup_elem(&segments, &id);
}

static __always_inline bool is_v6(const struct pkt *p)
{
	return p->key.ethertype == bpf_htons(ETH_P_IPV6);
}

static __always_inline bool addr_is_zero(const struct addr *a)
{
	return !(a->w[0] | a->w[1] | a->w[2] | a->w[3]);
}

/* ::ffff:0:0/96 */
static __always_inline bool addr_is_v4(const struct addr *a)
{
	return a->w[2] == bpf_htonl(0xffff) && !(a->w[0] | a->w[1]);
}

static __always_inline bool addr_equal(const volatile struct addr *a, const struct addr *b)
{
	return a->w[3] == b->w[3] && a->w[2] == b->w[2] && a->w[1] == b->w[1] && a->w[0] == b->w[0];
}

/* fe80::/10 */
static __always_inline bool addr_is_link_local(const struct addr *a)
{
	return (a->w[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

static __always_inline bool mac_equal(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const __u16 *)a, *y = (const __u16 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

/* ICMP messages about another packet (RFC 792). */
static __always_inline bool is_error4(__u8 type)
{
	return type == ICMP_UNREACHABLE || type == ICMP_SOURCE_QUENCH || type == ICMP_REDIRECT ||
	       type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER;
}

/* What the edge itself reads: ARP, and ND that came over no router (RFC 4861 7.1). */
static __always_inline bool is_neighbour_talk(const struct pkt *p)
{
	if (p->key.ethertype == bpf_htons(ETH_P_ARP))
		return true;
	return p->key.proto == IPPROTO_ICMPV6 && p->ttl == 255 &&
	       p->icmp_type >= ICMPV6_ROUTER_SOLICITATION && p->icmp_type <= ICMPV6_ND_REDIRECT;
}

/*
 * How long ago then was. Other cores' clocks may be a little ahead: below 0. A session of
 * another gateway may be older than this machine's clock, so then alone says nothing.
 */
static __always_inline __s64 ns_since(__u64 then, __u64 now)
{
	return now - then;
}

/* The packet that this core is working on. There is one: nothing here waits or is called again. */
static __always_inline struct pkt *packet(CTX *ctx)
{
	__u32 zero = 0;
	struct pkt *p = bpf_map_lookup_elem(&current, &zero);

	if (!p)
		return NULL;
	__builtin_memset(p, 0, __builtin_offsetof(struct pkt, was)); /* the rest is written first */
	p->len = ctx_len(ctx);
	p->now_ns = bpf_ktime_get_coarse_ns();
	return p;
}

/* What the firewall has of it. */
static __always_inline struct hearing *hearing(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&hearings, &zero);
}

/* The frame's end: counted under its reason and, when known, at the end that it came from. */
static __always_inline int drop(CTX *ctx, struct pkt *p, enum reason why)
{
	__u32 index = why;
	struct counter *c = bpf_map_lookup_elem(&drops, &index);
	struct end_counters *t;

	step(p, STAGE_DROP, why, 0);
	if (tracing)
		return CTX_DROP;
	if (c) {
		c->packets += 1;
		c->bytes += ctx_len(ctx);
	}
	if (p->in) {
		t = bpf_map_lookup_elem(&traffic, &p->in);
		if (t)
			t->drops += 1;
	}
	return CTX_DROP;
}

static __always_inline void count_rx(__u32 end, __u32 packets, __u32 bytes)
{
	struct end_counters *t;

	if (tracing)
		return;
	t = bpf_map_lookup_elem(&traffic, &end);
	if (t) {
		t->rx.packets += packets;
		t->rx.bytes += bytes;
	}
}

static __always_inline void count_tx(__u32 end, __u32 packets, __u32 bytes)
{
	struct end_counters *t;

	if (tracing)
		return;
	t = bpf_map_lookup_elem(&traffic, &end);
	if (t) {
		t->tx.packets += packets;
		t->tx.bytes += bytes;
	}
}

/* A large segment, cut into packets of gso_size later. gso_segs is unset behind a tunnel. */
static __always_inline bool is_gso(CTX *ctx)
{
	return ctx_gso_size(ctx) != 0;
}

/* Packets on the wire. */
static __always_inline __u32 packets_of(CTX *ctx, const struct pkt *p)
{
	__u32 size = ctx_gso_size(ctx);

	return size ? (p->frame_len - p->headers + size - 1) / size : 1;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The packet on its way through the stages: offsets and facts, no pointers into it. */
#pragma once

#include "ctx_tc.h"
#include "maps.h"
#include "config.h"

struct pkt {
	struct __sk_buff *skb;
	__u64 now_ns;	 /* CLOCK_MONOTONIC_COARSE: a tick's resolution, a read's cost */
	__u32 in;	 /* end that it came from, 0 before guard or a cache hit */
	__u32 segment;	 /* set by guard */
	__u32 frame_len; /* bytes of the inner frame */
	__u16 inner;	 /* offset of the inner Ethernet header: what decapsulation removes */
	__be16 udp_port; /* tunnel: the outer destination port */
	__u32 headers;	 /* inner bytes up to the L4 payload, to size a cut segment */
	__u32 payload;	 /* L4 payload, without the padding of a short frame */
	__u32 seq;	 /* TCP: sequence number */
	bool polled;	 /* goes to its port by way of the coalescer */
	__u8 tcp_flags;	 /* 0 when not TCP */
	struct flow_key key;
};

/* Destination and source MAC of the key, which lie together as in the frame. */
static __always_inline void *key_macs(const struct flow_key *key)
{
	return (void *)key + __builtin_offsetof(struct flow_key, dmac);
}

static __always_inline void count(enum event event)
{
	__u32 index = event;
	__u64 *n = bpf_map_lookup_elem(&events, &index);

	if (n)
		*n += 1;
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

/* The frame's end: counted under its reason and, when known, at the end that it came from. */
static __always_inline int drop(struct pkt *p, enum reason why)
{
	__u32 index = why;
	struct counter *c = bpf_map_lookup_elem(&drops, &index);
	struct end_counters *t;

	if (c) {
		c->packets += 1;
		c->bytes += p->skb->len;
	}
	if (p->in) {
		t = bpf_map_lookup_elem(&traffic, &p->in);
		if (t)
			t->drops += 1;
	}
	return TCX_DROP;
}

static __always_inline void count_rx(__u32 end, __u32 packets, __u32 bytes)
{
	struct end_counters *t = bpf_map_lookup_elem(&traffic, &end);

	if (t) {
		t->rx.packets += packets;
		t->rx.bytes += bytes;
	}
}

static __always_inline void count_tx(__u32 end, __u32 packets, __u32 bytes)
{
	struct end_counters *t = bpf_map_lookup_elem(&traffic, &end);

	if (t) {
		t->tx.packets += packets;
		t->tx.bytes += bytes;
	}
}

/* A large segment, cut into packets of gso_size later. gso_segs is unset behind a tunnel. */
static __always_inline bool is_gso(const struct pkt *p)
{
	return p->skb->gso_size != 0;
}

/* Packets on the wire. */
static __always_inline __u32 packets_of(const struct pkt *p)
{
	__u32 size = p->skb->gso_size;

	return size ? (p->frame_len - p->headers + size - 1) / size : 1;
}

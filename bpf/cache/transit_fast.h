/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transit_fast: the fast path of a transit program, for most packets: TCP or UDP in
 * unfragmented IP packets without IP options or tags, plain or in a tunnel without options, whose
 * flow is in the transit cache. It compares packet bytes with the entry and its action instead of
 * building a key, and keeps in registers what the stages keep in struct pkt. All other
 * packets take the stages, which give the same result.
 *
 * in:    ctx
 * out:   the fields of p that replay needs; a cache entry with its action
 * maps:  transit_cache, transit_actions, transit_tables, global_counters, segments, routers
 * stops: nothing
 */
#pragma once

#include "tunnel/decap.h"
#include "cache/transit_cache.h"

/* The fields of a packet that are compared with a key. */
struct simple_packet {
	const struct pkt *p;
	const __u32 *macs; /* inner, destination first */
	const void *ip;
	const __be32 *saddr;
	const __be32 *daddr;
	__u32 shape; /* ethertype, protocol and fragment, as in a key */
	__u32 ports;
	__u32 vni;
};

_Static_assert(__builtin_offsetof(struct transit_entry, fragment) ==
		       __builtin_offsetof(struct transit_entry, ethertype) + 3,
	       "the shape of a key is one word");

static __always_inline bool is_for_this_mac(CTX *ctx)
{
	const __u16 *dst = ctx_at(ctx, 0, sizeof(struct ethhdr));

	return dst && dst[0] == this_mac[0] && dst[1] == this_mac[1] && dst[2] == this_mac[2];
}

/* TCP without SYN, or UDP. rest: bytes of the IP packet from here on. */
static __always_inline bool fast_l4(struct pkt *p, struct simple_packet *f,
				    const struct tcphdr *tcp, __u8 proto, __u32 rest)
{
	if (proto == IPPROTO_TCP) {
		if (tcp->doff * 4 < sizeof(*tcp) || tcp->doff * 4 > rest || tcp->flags & TCP_SYN)
			return false;
	} else if (proto != IPPROTO_UDP || rest < sizeof(struct udphdr)) {
		return false;
	}
	p->l4 = p->l3 + (void *)tcp - f->ip;
	p->headers = sizeof(struct ethhdr) + (p->l4 - p->l3);
	p->payload = rest;
	p->tail = false;
	f->ports = *(const __u32 *)tcp;
	f->shape = p->key.ethertype | (__u32)proto << 16;
	p->tcp_flags = 0;
	return true;
}

static __always_inline bool fast_ip4(CTX *ctx, struct pkt *p, struct simple_packet *f)
{
	struct iphdr *ip = ctx_at(ctx, p->l3, sizeof(*ip) + sizeof(struct tcphdr));
	__u32 total;

	if (!ip || *(__u8 *)ip != 0x45 || ip->frag_off & ~bpf_htons(IP_DF))
		return false;
	total = bpf_ntohs(ip->tot_len);
	if (total < sizeof(*ip) || total > p->frame_len - sizeof(struct ethhdr))
		return false;
	f->ip = ip;
	f->saddr = &ip->saddr;
	f->daddr = &ip->daddr;
	p->tos = ip->tos;
	p->ttl = ip->ttl;
	p->df = ip->frag_off != 0;
	return fast_l4(p, f, (void *)(ip + 1), ip->protocol, total - sizeof(*ip));
}

static __always_inline bool fast_ip6(CTX *ctx, struct pkt *p, struct simple_packet *f)
{
	struct ipv6hdr *ip = ctx_at(ctx, p->l3, sizeof(*ip) + sizeof(struct tcphdr));
	__u32 total;

	if (!ip || (ip->flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return false;
	total = bpf_ntohs(ip->payload_len);
	if (total > p->frame_len - sizeof(struct ethhdr) - sizeof(*ip))
		return false;
	f->ip = ip;
	f->saddr = ip->saddr;
	f->daddr = ip->daddr;
	p->tos = bpf_ntohl(ip->flow) >> 20;
	p->ttl = ip->hop_limit;
	p->df = true;
	return fast_l4(p, f, (void *)(ip + 1), ip->nexthdr, total);
}

/* The inner frame, at p->inner. */
static __always_inline bool fast_frame(CTX *ctx, struct pkt *p, struct simple_packet *f)
{
	struct ethhdr *eth = ctx_at(ctx, p->inner, sizeof(*eth));

	if (!eth)
		return false;
	f->macs = (void *)eth;
	p->key.ethertype = eth->type;
	p->eth.ethertype = eth->type;
	p->l3 = p->inner + sizeof(*eth);
	p->frame_len = p->len - p->inner;
	if (eth->type == bpf_htons(ETH_P_IP))
		return fast_ip4(ctx, p, f);
	return eth->type == bpf_htons(ETH_P_IPV6) && fast_ip6(ctx, p, f);
}

static __always_inline int fast_tunnel(CTX *ctx, int encap, __u32 off, __u32 *vni, __u32 *len)
{
	switch (encap) {
	case ENCAP_VXLAN:
		return vxlan_parse(ctx, off, vni, len);
	case ENCAP_GENEVE:
		return geneve_head(ctx, off, vni, len);
	}
	return nvgre_parse(ctx, off, vni, len);
}

/* Whether it is a tunnel packet for this edge, without options or padding. */
static __always_inline bool fast_outer(CTX *ctx, struct pkt *p, struct simple_packet *f)
{
	__u32 listener = 0, vni = 0, len = 0;
	struct outer_hdr o = {};
	int encap;

	if (outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return false;
	encap = outer_encap(ctx, p, &o, &listener);
	if (encap < 0 || o.why || o.check || o.end != p->len)
		return false;
	if (fast_tunnel(ctx, encap, o.off, &vni, &len) || len > sizeof(struct genevehdr))
		return false;
	f->vni = vni | listener << 24;
	p->inner = o.off + len;
	return true;
}

static __always_inline bool fast_entry(const struct transit_entry *s, const void *packet)
{
	const struct simple_packet *f = packet;
	__u32 differ =
		(*(const __u32 *)&s->ethertype ^ f->shape) | (*(const __u32 *)&s->sport ^ f->ports);

	if (f->p->key.ethertype == bpf_htons(ETH_P_IP))
		return !(differ | (s->saddr.w[3] ^ *f->saddr) | (s->daddr.w[3] ^ *f->daddr));
	return !(differ | addr_differ(&s->saddr, (void *)f->saddr) |
		 addr_differ(&s->daddr, (void *)f->daddr));
}

static __always_inline bool fast_action(const struct transit_action *a, const void *packet)
{
	const struct simple_packet *f = packet;
	const struct pkt *p = f->p;
	const __u32 *macs = action_macs(a);
	__u32 differ = (macs[0] ^ f->macs[0]) | (macs[1] ^ f->macs[1]) | (macs[2] ^ f->macs[2]);

	differ |= (a->vni ^ f->vni) | a->tags[0] | (a->origin.w[3] ^ p->key.origin.w[3]);
	if (p->inner) /* otherwise these words are zero */
		differ |= (a->origin.w[0] ^ p->key.origin.w[0]) |
			  (a->origin.w[1] ^ p->key.origin.w[1]) |
			  (a->origin.w[2] ^ p->key.origin.w[2]);
	return !differ;
}

/* Whether the inner packet already has the outer ECN codepoint, or needs none (RFC 6040). */
static __always_inline bool is_ecn_merged(const struct pkt *p)
{
	__u8 outer = p->outer_tos & ECN_MASK;

	return !outer || outer == (p->tos & ECN_MASK);
}

static __always_inline bool fast_parse(CTX *ctx, struct pkt *p, struct simple_packet *f)
{
	p->len = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	p->inner = 0;
	p->tag_bytes = 0;
	f->vni = 0;
	p->key.origin = (struct addr){};
	if (this_flags & DEVICE_UNDERLAY && is_for_this_mac(ctx) && fast_outer(ctx, p, f))
		return fast_frame(ctx, p, f) && is_ecn_merged(p);
	p->key.origin.w[3] = this_ifindex;
	return this_flags & DEVICE_UPLINK && fast_frame(ctx, p, f);
}

/* The cache entry of a simple packet, whose fields are then in p, with its action; or NULL. */
static __always_inline struct transit_entry *fast_find(CTX *ctx, struct pkt *p,
						       const struct transit_table *t, __u64 *hash,
						       struct transit_action **action)
{
	struct simple_packet f = { .p = p };
	struct transit_match m = { fast_entry, fast_action, &f };
	struct transit_entry *s;

	if (!fast_parse(ctx, p, &f))
		return NULL;
	if (p->key.ethertype == bpf_htons(ETH_P_IP))
		*hash = hash4(f.shape >> 16, *f.saddr, *f.daddr, f.ports);
	else
		*hash = hash6(f.shape >> 16, f.saddr, f.daddr, f.ports);
	s = transit_lookup(t, *hash, m, action);
	if (!s || !is_valid(s, *action) || age_of(s) >= EPOCHS)
		return NULL;
	p->in = (*action)->decision.in;
	p->segment = (*action)->decision.segment;
	return s;
}

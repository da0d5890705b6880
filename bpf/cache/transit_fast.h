/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * express: the shortest way through a transit program, for the packets that most
 * are: TCP or UDP in whole IP packets without options or tags, plain or in a tunnel
 * without options, of a flow that has a shortcut. It compares their bytes with the
 * shortcut's key instead of making a key of them, and keeps in registers what the
 * stages keep in struct pkt. Whatever it does not know it leaves to the stages,
 * which come to the same end.
 *
 * in:    ctx
 * out:   the facts in p that it takes to carry out a decision; a shortcut
 * maps:  shortcuts, shortcut_tables, pulses, segments, routers
 * stops: nothing
 */
#pragma once

#include "tunnel/decap.h"
#include "cache/transit_cache.h"

/* What of the packet a key is compared with. */
struct plain {
	const __u32 *macs; /* inner, destination first */
	const void *ip;
	const __be32 *saddr;
	const __be32 *daddr;
	__u32 shape; /* ethertype, protocol and fragment as they lie in a key */
	__u32 ports;
	__u32 vni;
};

_Static_assert(__builtin_offsetof(struct flow_key, fragment) ==
		       __builtin_offsetof(struct flow_key, ethertype) + 3,
	       "the shape of a key is one word");

static __always_inline bool is_mine(CTX *ctx)
{
	const __u16 *dst = ctx_at(ctx, 0, sizeof(struct ethhdr));

	return dst && dst[0] == this_mac[0] && dst[1] == this_mac[1] && dst[2] == this_mac[2];
}

/* TCP between a connection's ends, or UDP; rest is what the IP packet has left for it. */
static __always_inline bool express_l4(struct pkt *p, struct plain *f, const struct tcphdr *tcp,
				       __u8 proto, __u32 rest)
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

static __always_inline bool express_ip4(CTX *ctx, struct pkt *p, struct plain *f)
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
	return express_l4(p, f, (void *)(ip + 1), ip->protocol, total - sizeof(*ip));
}

static __always_inline bool express_ip6(CTX *ctx, struct pkt *p, struct plain *f)
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
	return express_l4(p, f, (void *)(ip + 1), ip->nexthdr, total);
}

/* The inner frame, at p->inner. */
static __always_inline bool express_frame(CTX *ctx, struct pkt *p, struct plain *f)
{
	struct ethhdr *eth = ctx_at(ctx, p->inner, sizeof(*eth));

	if (!eth)
		return false;
	f->macs = (void *)eth;
	p->key.ethertype = eth->type;
	p->key.tags[0] = p->key.tags[1] = 0;
	p->l3 = p->inner + sizeof(*eth);
	p->frame_len = p->len - p->inner;
	if (eth->type == bpf_htons(ETH_P_IP))
		return express_ip4(ctx, p, f);
	return eth->type == bpf_htons(ETH_P_IPV6) && express_ip6(ctx, p, f);
}

static __always_inline int express_tunnel(CTX *ctx, int encap, __u32 off, __u32 *vni, __u32 *len)
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
static __always_inline bool express_outer(CTX *ctx, struct pkt *p, struct plain *f)
{
	__u32 way = 0, vni = 0, len = 0;
	struct outer o = {};
	int encap;

	if (outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return false;
	encap = outer_encap(ctx, p, &o, &way);
	if (encap < 0 || o.why || o.end != p->len)
		return false;
	if (express_tunnel(ctx, encap, o.off, &vni, &len) || len > sizeof(struct genevehdr))
		return false;
	f->vni = vni | way << 24;
	p->inner = o.off + len;
	return true;
}

static __always_inline bool express_equal(const struct flow_key *k, const struct pkt *p,
					  const struct plain *f)
{
	const __u32 *macs = key_macs(k);
	__u32 differ = (macs[0] ^ f->macs[0]) | (macs[1] ^ f->macs[1]) | (macs[2] ^ f->macs[2]);

	differ |= (*(const __u32 *)&k->ethertype ^ f->shape) | (k->vni ^ f->vni) | k->tags[0];
	differ |= (*(const __u32 *)&k->sport ^ f->ports) | (k->origin.w[3] ^ p->key.origin.w[3]);
	if (p->inner) /* else the rest is zero */
		differ |= (k->origin.w[0] ^ p->key.origin.w[0]) |
			  (k->origin.w[1] ^ p->key.origin.w[1]) |
			  (k->origin.w[2] ^ p->key.origin.w[2]);
	if (p->key.ethertype == bpf_htons(ETH_P_IP))
		return !(differ | (k->saddr.w[3] ^ *f->saddr) | (k->daddr.w[3] ^ *f->daddr));
	return !(differ | addr_differ(&k->saddr, (void *)f->saddr) |
		 addr_differ(&k->daddr, (void *)f->daddr));
}

/* ECN that the inner packet has already (RFC 6040), so that nothing is to be merged. */
static __always_inline bool is_ecn_merged(const struct pkt *p)
{
	__u8 outer = p->outer_tos & ECN_MASK;

	return !outer || outer == (p->tos & ECN_MASK);
}

static __always_inline bool express_read(CTX *ctx, struct pkt *p, struct plain *f)
{
	p->len = (void *)(long)ctx->data_end - (void *)(long)ctx->data;
	p->inner = 0;
	p->tag_bytes = 0;
	f->vni = 0;
	p->key.origin = (struct addr){};
	if (this_flags & DEVICE_UNDERLAY && is_mine(ctx) && express_outer(ctx, p, f))
		return express_frame(ctx, p, f) && is_ecn_merged(p);
	p->key.origin.w[3] = this_ifindex;
	return this_flags & DEVICE_UPLINK && express_frame(ctx, p, f);
}

/* The shortcut of the packet's flow when it is plain, and what is known of it in p; or NULL. */
static __always_inline struct shortcut *express_find(CTX *ctx, struct pkt *p,
						     const struct shortcut_table *t)
{
	struct shortcut *s;
	struct plain f;
	__u64 hash;

	if (!express_read(ctx, p, &f))
		return NULL;
	if (p->key.ethertype == bpf_htons(ETH_P_IP))
		hash = hash4(f.shape >> 16, *f.saddr, *f.daddr, f.ports);
	else
		hash = hash6(f.shape >> 16, f.saddr, f.daddr, f.ports);
	for (__u32 i = 0; i < PROBES; i++) {
		s = shortcut_slot(t, hash, i);
		if (!s || !s->decision.out)
			return NULL;
		if (express_equal(&s->key, p, &f))
			break;
		s = NULL;
	}
	if (!s || !is_valid(s) || age_of(s) >= EPOCHS)
		return NULL;
	p->in = s->decision.in;
	return s;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * decap: recognises tunnel packets for this edge and parses their headers. tunnel/headroom.h
 * removes them.
 *
 * in:    ctx
 * out:   p->inner, p->udp_port, p->outer_tos, p->key.origin and .vni
 * maps:  known_options, scratch
 * stops: OUTER_MALFORMED, OUTER_CHECKSUM, OUTER_FRAGMENT, TUNNEL_FLAGS, UNKNOWN_OPTION
 */
#pragma once

#include "tunnel/geneve.h"
#include "tunnel/nvgre.h"
#include "tunnel/outer_csum.h"
#include "tunnel/vxlan.h"

/* The outer IP header. */
struct outer_hdr {
	struct addr dst;
	__u32 off;     /* of its payload */
	__u32 end;     /* of the packet; padding may follow */
	__u32 udp;     /* offset of the UDP header */
	__sum16 check; /* its checksum */
	__u8 proto;
	int why; /* drop reason, if the packet is for this edge */
};

/* Whether the address is one of this edge's TEPs. */
static __always_inline bool is_tep(const struct addr *addr)
{
	for (int i = 0; i < MAX_TEPS; i++)
		if (tep_addrs[i].w[3] && addr_equal(&tep_addrs[i], addr))
			return true;
	return false;
}

/* The index of a tunnel's UDP port, or NOT_OURS. */
static __always_inline int udp_port_index(__be16 port)
{
	for (int i = 0; i < MAX_UDP_PORTS; i++)
		if (udp_ports[i] && udp_ports[i] == port)
			return i;
	return NOT_OURS;
}

static __always_inline int outer_ipv4(CTX *ctx, struct pkt *p, struct outer_hdr *o)
{
	struct iphdr *ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip));

	if (!ip || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(IP_OFFSET))
		return NOT_OURS;
	o->proto = ip->protocol;
	o->end = sizeof(struct ethhdr) + bpf_ntohs(ip->tot_len);
	if (ip->frag_off & bpf_htons(IP_MF))
		o->why = REASON_OUTER_FRAGMENT;
	else if (!is_gso(ctx) && o->end > p->len)
		o->why = REASON_OUTER_MALFORMED;
	p->key.origin.w[2] = o->dst.w[2] = bpf_htonl(0xffff);
	p->key.origin.w[3] = ip->saddr;
	o->dst.w[3] = ip->daddr;
	p->outer_tos = ip->tos;
	o->off = sizeof(struct ethhdr) + ip->ihl * 4;
	return 0;
}

static __always_inline int outer_ipv6(CTX *ctx, struct pkt *p, struct outer_hdr *o)
{
	struct ipv6hdr *ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip));

	if (!ip || (ip->flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return NOT_OURS;
	o->proto = ip->nexthdr;
	o->off = sizeof(struct ethhdr) + sizeof(*ip);
	o->end = o->off + bpf_ntohs(ip->payload_len);
	if (!is_gso(ctx) && o->end > p->len)
		o->why = REASON_OUTER_MALFORMED;
	copy(&p->key.origin, ip->saddr, sizeof(p->key.origin));
	copy(&o->dst, ip->daddr, sizeof(o->dst));
	/* Not allowed on the wire (RFC 4942 2.2), and would be taken for IPv4 addresses. */
	if (addr_is_v4(&p->key.origin) || addr_is_v4(&o->dst))
		o->why = REASON_OUTER_MALFORMED;
	p->outer_tos = bpf_ntohl(ip->flow) >> 20;
	return 0;
}

/*
 * Reads the outer IP header: its source goes to p->key.origin. First fragments and truncated
 * packets go on, to be counted if they are for this edge; later fragments go to the host.
 */
static __always_inline int outer_ip(CTX *ctx, struct pkt *p, struct outer_hdr *o)
{
	struct ethhdr *eth = ctx_at(ctx, 0, sizeof(*eth));

	if (!eth)
		return NOT_OURS;
	if (eth->type == bpf_htons(ETH_P_IP))
		return outer_ipv4(ctx, p, o);
	if (eth->type == bpf_htons(ETH_P_IPV6))
		return outer_ipv6(ctx, p, o);
	return NOT_OURS;
}

/* Reads the UDP header: the tunnel's port and the end of the datagram. Returns the port's index. */
static __always_inline int outer_udp(CTX *ctx, struct pkt *p, struct outer_hdr *o)
{
	struct udphdr *udp = ctx_at(ctx, o->off, sizeof(*udp));
	__u32 len;
	int port;

	if (!udp)
		return NOT_OURS;
	port = udp_port_index(udp->dest);
	if (port < 0)
		return NOT_OURS;
	p->udp_port = udp->dest;
	len = bpf_ntohs(udp->len);
	if (!o->why && !is_gso(ctx) && (len < sizeof(*udp) || o->off + len > o->end))
		o->why = REASON_OUTER_MALFORMED;
	o->end = o->off + len;
	o->udp = o->off;
	o->check = udp->check;
	o->off += sizeof(*udp);
	return port;
}

/* The encapsulation, and a number for the UDP port or protocol on which it arrived; or NOT_OURS. */
static __always_inline int outer_encap(CTX *ctx, struct pkt *p, struct outer_hdr *o,
				       __u32 *listener)
{
	int port, encap;

	if (o->proto == IPPROTO_GRE && nvgre) {
		*listener = MAX_UDP_PORTS + 1;
		return nvgre_is(ctx, o->off) ? ENCAP_NVGRE : NOT_OURS;
	}
	if (o->proto != IPPROTO_UDP)
		return NOT_OURS;
	port = outer_udp(ctx, p, o);
	if (port < 0 || port >= MAX_UDP_PORTS)
		return NOT_OURS;
	*listener = port + 1;
	encap = udp_encaps[port];
	if (encap == ENCAP_GENEVE ? !geneve_is(ctx, o->off) : !vxlan_is(ctx, o->off))
		o->why = REASON_OUTER_MALFORMED;
	return encap;
}

static __always_inline int parse_tunnel(CTX *ctx, int encap, __u32 off, __u32 *vni, __u32 *len)
{
	switch (encap) {
	case ENCAP_VXLAN:
		return vxlan_parse(ctx, off, vni, len);
	case ENCAP_GENEVE:
		return geneve_parse(ctx, off, vni, len);
	case ENCAP_NVGRE:
		return nvgre_parse(ctx, off, vni, len);
	}
	return REASON_TUNNEL_FLAGS;
}

/* Verifies the outer checksum: 0, a drop reason or, where only tc can tell, NOT_OURS. */
static __always_inline int check_outer(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
#ifdef XDP
	p->outer_csum = !sums_up(ctx, p, off, len);
	return p->outer_csum ? NOT_OURS : 0;
#else
	return verify_outer(ctx, p, off, len);
#endif
}

/* 0: a tunnel packet for this edge; NOT_OURS: it belongs to the host; else a drop reason. */
SUBPROGRAM int parse_outer(CTX *ctx, struct pkt *p)
{
	struct outer_hdr o = {};
	__u32 listener = 0, vni = 0, len = 0;
	int encap;

	if (!p)
		return REASON_NO_HEADROOM;
	if (outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return NOT_OURS;
	encap = outer_encap(ctx, p, &o, &listener);
	if (encap < 0)
		return NOT_OURS;
	if (o.why)
		return o.why;
	/* Padding after the datagram is not delivered. */
	if (!is_gso(ctx) && o.end < p->len) {
		if (ctx_trim(ctx, o.end))
			return REASON_OUTER_MALFORMED;
		p->len = o.end;
	}
	if (o.check && !is_gso(ctx))
		o.why = check_outer(ctx, p, o.udp, o.end - o.udp);
	if (o.why)
		return o.why;
	o.why = parse_tunnel(ctx, encap, o.off, &vni, &len);
	if (o.why)
		return o.why;
	p->key.vni = vni | listener << 24;
	p->inner = o.off + len;
	return 0;
}

static __always_inline void write_inner_ethernet(struct pkt *p, struct ethhdr *eth)
{
	copy(eth, p->eth.dmac, 2 * ETH_ALEN);
	eth->type = p->eth.ethertype;
}

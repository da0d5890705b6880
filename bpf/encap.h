/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * encap: the outer headers, off (parse_outer, decap) and on (encap).
 *
 * in:    skb; decap: p->inner and p->key; encap: the remote's end and the segment
 * out:   parse_outer: p->inner, p->udp_port, p->key.origin and .vni
 * maps:  none
 * stops: OUTER_MALFORMED, OUTER_FRAGMENT, TUNNEL_FLAGS; TOO_BIG, NO_ROOM, GSO_NESTED
 */
#pragma once

#include "encap_vxlan.h"

#define NOT_OURS -1
#define OUTER_TTL 64

/* Bytes of the template: Ethernet, IP and UDP. */
#define OUTER_LEN4 (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define OUTER_LEN6 (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

static __always_inline bool addr_equal(const volatile struct addr *a, const struct addr *b)
{
	return a->w[3] == b->w[3] && a->w[2] == b->w[2] && a->w[1] == b->w[1] && a->w[0] == b->w[0];
}

/* The index of a tunnel port, or NOT_OURS. */
static __always_inline int udp_port_index(__be16 port)
{
	for (int i = 0; i < MAX_UDP_PORTS; i++)
		if (udp_ports[i] && udp_ports[i] == port)
			return i;
	return NOT_OURS;
}

/*
 * Reads the outer IP header: source into p->key.origin, destination into dst.
 * Returns the offset of the UDP header, NOT_OURS for anything but UDP. A first
 * fragment and a packet cut short show their UDP header: why says what is wrong
 * with them, should they be ours. Later fragments go to the host.
 */
static __always_inline int outer_ip(struct pkt *p, struct addr *dst, int *why)
{
	struct ethhdr *eth = ctx_at(p->skb, 0, sizeof(*eth));
	struct ipv6hdr *ip6;
	struct iphdr *ip;

	if (!eth)
		return NOT_OURS;
	if (eth->type == bpf_htons(ETH_P_IP)) {
		ip = ctx_at(p->skb, sizeof(*eth), sizeof(*ip));
		if (!ip || ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & bpf_htons(IP_OFFSET)))
			return NOT_OURS;
		if (ip->frag_off & bpf_htons(IP_MF))
			*why = REASON_OUTER_FRAGMENT;
		else if (!is_gso(p) && bpf_ntohs(ip->tot_len) > p->skb->len - sizeof(*eth))
			*why = REASON_OUTER_MALFORMED;
		p->key.origin.w[2] = dst->w[2] = bpf_htonl(0xffff);
		p->key.origin.w[3] = ip->saddr;
		dst->w[3] = ip->daddr;
		return sizeof(*eth) + ip->ihl * 4;
	}
	if (eth->type == bpf_htons(ETH_P_IPV6)) {
		ip6 = ctx_at(p->skb, sizeof(*eth), sizeof(*ip6));
		if (!ip6 || ip6->nexthdr != IPPROTO_UDP)
			return NOT_OURS;
		copy(&p->key.origin, ip6->saddr, sizeof(p->key.origin));
		copy(dst, ip6->daddr, sizeof(*dst));
		return sizeof(*eth) + sizeof(*ip6);
	}
	return NOT_OURS;
}

/* 0: a tunnel packet for this edge; NOT_OURS: leave it to the host; else a reason. */
static __always_inline int parse_outer(struct pkt *p)
{
	struct addr dst = {};
	struct udphdr *udp;
	__u32 vni, len;
	int off, port, why = 0;

	off = outer_ip(p, &dst, &why);
	if (off < 0 || !addr_equal(&tep_addr, &dst))
		return NOT_OURS;
	udp = ctx_at(p->skb, off, sizeof(*udp));
	if (!udp)
		return NOT_OURS;
	port = udp_port_index(udp->dest);
	if (port < 0)
		return NOT_OURS;
	if (why)
		return why;
	p->udp_port = udp->dest;
	len = bpf_ntohs(udp->len);
	if (!is_gso(p) && (len < sizeof(*udp) + vxlan_len() || len > p->skb->len - off))
		return REASON_OUTER_MALFORMED;
	/* What follows the datagram is not part of it, and is not delivered. */
	if (!is_gso(p) && off + len < p->skb->len && bpf_skb_change_tail(p->skb, off + len, 0))
		return REASON_OUTER_MALFORMED;
	off += sizeof(*udp);
	why = vxlan_parse(p, off, &vni);
	if (why)
		return why;
	p->key.vni = vni | (__u32)(port + 1) << 24;
	p->inner = off + vxlan_len();
	return 0;
}

static __always_inline void write_inner_ethernet(struct pkt *p, struct ethhdr *eth)
{
	copy(eth, key_macs(&p->key), 2 * ETH_ALEN);
	eth->type = p->key.ethertype;
}

/* Removes the outer headers; the frame is then what the sender's port took in. */
static __always_inline int decap(struct pkt *p)
{
	struct ethhdr *eth;

	/* The kernel leaves at least an IP header: a short frame gets Ethernet's minimum first. */
	if (!is_ip(p) && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(p->skb, p->inner + ETH_ZLEN, 0))
			return REASON_NO_ROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_pull(p->skb, p->inner, p->key.ethertype == bpf_htons(ETH_P_IPV6)))
		return REASON_NO_ROOM;
	eth = ctx_at(p->skb, 0, sizeof(*eth));
	if (!eth)
		return REASON_NO_ROOM;
	write_inner_ethernet(p, eth);
	p->inner = 0;
	return 0;
}

/* Fits the tunnel, or is cut into pieces that do. */
static __always_inline bool fits(struct pkt *p, __u32 mtu, __u32 room)
{
	__u32 frame = p->frame_len;

	if (is_gso(p))
		frame = p->headers + p->skb->gso_size;
	return frame + room - sizeof(struct ethhdr) <= mtu; /* room counts the outer Ethernet */
}

/* Lengths, entropy and IPv4 checksum (RFC 1071) of the template that was copied to ip. */
static __always_inline struct udphdr *write_ipv4(struct iphdr *ip, __u32 udp_len)
{
	__u32 total = sizeof(*ip) + udp_len;
	__u32 sum;

	ip->tot_len = total > 0xffff ? 0 : bpf_htons(total); /* as the kernel marks BIG TCP */
	sum = ip->check + ip->tot_len; /* the template holds the sum of the rest */
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~(sum + (sum >> 16));
	return (void *)(ip + 1);
}

static __always_inline struct udphdr *write_ipv6(struct ipv6hdr *ip, __u32 udp_len, __be16 entropy)
{
	ip->payload_len = bpf_htons(udp_len);
	ip->flow |= bpf_htonl(bpf_ntohs(entropy)); /* flow label, RFC 6438 */
	return (void *)(ip + 1);
}

/* Fills the room before the inner payload: outer headers, tunnel header, inner Ethernet. */
static __always_inline int write_outer(struct pkt *p, struct end *to, struct segment *seg,
				       __be16 entropy)
{
	__u32 udp_len = sizeof(struct udphdr) + vxlan_len() + p->frame_len;
	struct udphdr *udp;
	struct ethhdr *eth;

	if (to->outer_len == OUTER_LEN6) {
		eth = ctx_at(p->skb, 0, OUTER_LEN6 + vxlan_len() + sizeof(*eth));
		if (!eth)
			return REASON_NO_ROOM;
		copy(eth, to->outer, OUTER_LEN6);
		udp = write_ipv6((void *)(eth + 1), udp_len, entropy);
	} else {
		eth = ctx_at(p->skb, 0, OUTER_LEN4 + vxlan_len() + sizeof(*eth));
		if (!eth)
			return REASON_NO_ROOM;
		copy(eth, to->outer, OUTER_LEN4);
		udp = write_ipv4((void *)(eth + 1), udp_len);
	}
	udp->source = entropy;
	udp->dest = seg->udp_port;
	udp->len = bpf_htons(udp_len);
	vxlan_write(udp + 1, seg->vni);
	write_inner_ethernet(p, (void *)(udp + 1) + vxlan_len());
	return 0;
}

/* Wraps the frame for a remote. A short frame is first brought to Ethernet's minimum. */
static __always_inline int encap(struct pkt *p, struct end *to, struct segment *seg, __be16 entropy)
{
	__u32 room = to->outer_len + vxlan_len();

	if (!fits(p, to->mtu, room))
		return REASON_TOO_BIG;
	if (!is_ip(p) && p->frame_len < ETH_ZLEN) {
		if (bpf_skb_change_tail(p->skb, ETH_ZLEN, 0))
			return REASON_NO_ROOM;
		p->frame_len = ETH_ZLEN;
	}
	if (ctx_push(p->skb, room, is_ip(p), to->outer_len == OUTER_LEN6))
		return is_gso(p) ? REASON_GSO_NESTED : REASON_NO_ROOM;
	return write_outer(p, to, seg, entropy);
}

/*
 * Leaves the outer headers to the kernel's own tunnel device, where a segment
 * asks for outer UDP checksums on IPv6 (RFC 6935): each packet that a large
 * segment is cut into needs its own, and no BPF helper can ask for that.
 */
static __always_inline int encap_by_kernel(struct pkt *p, struct end *to, struct segment *seg)
{
	struct bpf_tunnel_key key = {
		.tunnel_id = seg->vni,
		.tunnel_ttl = OUTER_TTL,
	};

	if (!seg->csum_ifindex)
		return REASON_NO_CSUM;
	if (!fits(p, to->mtu, to->outer_len + vxlan_len()))
		return REASON_TOO_BIG;
	copy(key.remote_ipv6, &to->addr, sizeof(key.remote_ipv6));
	for (int i = 0; i < 4; i++)
		key.local_ipv6[i] = tep_addr.w[i];
	if (bpf_skb_set_tunnel_key(p->skb, &key, sizeof(key), BPF_F_TUNINFO_IPV6))
		return REASON_NO_ROOM;
	return 0;
}

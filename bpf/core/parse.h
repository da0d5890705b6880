/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * parse: reads the inner frame into the flow key and refuses truncated ones.
 *
 * in:    ctx, p->inner
 * out:   p->key (all but origin and vni), p->frame_len, offsets and fields of struct pkt
 * maps:  none
 * stops: MALFORMED_*, SOURCE_MULTICAST, VLAN_TAGGED
 */
#pragma once

#include "core/parse_l4.h"

static __always_inline int parse_ipv4(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
	struct iphdr *ip = ctx_at(ctx, off, sizeof(*ip));
	__u32 ihl, total;

	if (!ip || ip->version != 4)
		return REASON_MALFORMED_IPV4;
	ihl = ip->ihl * 4;
	total = bpf_ntohs(ip->tot_len);
	if (total == 0 && is_gso(ctx)) /* BIG TCP: the length does not fit */
		total = len;
	if (ihl < sizeof(*ip) || total < ihl || total > len)
		return REASON_MALFORMED_IPV4;
	p->key.saddr.w[2] = p->key.daddr.w[2] = bpf_htonl(0xffff);
	p->key.saddr.w[3] = ip->saddr;
	p->key.daddr.w[3] = ip->daddr;
	p->key.proto = ip->protocol;
	p->key.fragment = (ip->frag_off & bpf_htons(IP_MF | IP_OFFSET)) != 0;
	p->tail = (ip->frag_off & bpf_htons(IP_OFFSET)) != 0;
	p->df = (ip->frag_off & bpf_htons(IP_DF)) != 0;
	p->tos = ip->tos;
	p->ttl = ip->ttl;
	if (p->key.fragment && !p->tail)
		parse_first_fragment(ctx, p, ip->protocol, off + ihl, bpf_htons(DHCP_CLIENT));
	return parse_l4(ctx, p, off + ihl, total - ihl);
}

/* Extension headers that hosts skip without knowing the sender; behind AH (RFC 4302) only its peer looks. */
static __always_inline bool is_skipped(__u8 proto)
{
	return proto == IPPROTO_HOPOPTS || proto == IPPROTO_ROUTING || proto == IPPROTO_DSTOPTS ||
	       proto == IPPROTO_FRAGMENT;
}

/* A first fragment may hide what its transport header is. The later ones are nothing without it. */
static __always_inline void parse_fragment6(CTX *ctx, struct pkt *p, __u32 off)
{
	struct ipv6_frag *frag = ctx_at(ctx, off, sizeof(*frag));

	p->key.fragment = 1;
	p->tail = frag && frag->offset & bpf_htons(~7);
	if (p->tail)
		return;
	p->hidden = !frag || frag->nexthdr == IPPROTO_ICMPV6 || is_skipped(frag->nexthdr);
	if (frag)
		parse_first_fragment(ctx, p, frag->nexthdr, off + sizeof(*frag),
				     bpf_htons(DHCPV6_CLIENT));
}

static __always_inline int parse_ipv6(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
	struct ipv6hdr *ip = ctx_at(ctx, off, sizeof(*ip));
	struct ipv6_opt *opt;
	__u32 total, size = 0;
	int why;

	if (!ip || (ip->flow & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return REASON_MALFORMED_IPV6;
	total = bpf_ntohs(ip->payload_len);
	if (total == 0 && is_gso(ctx)) /* BIG TCP */
		total = len - sizeof(*ip);
	if (len < sizeof(*ip) || total > len - sizeof(*ip))
		return REASON_MALFORMED_IPV6;
	copy(&p->key.saddr, ip->saddr, sizeof(p->key.saddr));
	copy(&p->key.daddr, ip->daddr, sizeof(p->key.daddr));
	/* IPv4-mapped addresses are not allowed on the wire (RFC 4942 2.2) and would be taken for IPv4. */
	if (addr_is_v4(&p->key.saddr) || addr_is_v4(&p->key.daddr))
		return REASON_MALFORMED_IPV6;
	p->key.proto = ip->nexthdr;
	p->tos = bpf_ntohl(ip->flow) >> 20;
	p->ttl = ip->hop_limit;
	off += sizeof(*ip);

	/* One extension header is skipped. With more, flows are told apart by addresses only. */
	if (p->key.proto == IPPROTO_FRAGMENT) {
		if (total < sizeof(struct ipv6_frag))
			return REASON_MALFORMED_IPV6;
		parse_fragment6(ctx, p, off);
	} else if (is_skipped(p->key.proto)) {
		opt = ctx_at(ctx, off, sizeof(*opt));
		if (!opt)
			return REASON_MALFORMED_IPV6;
		size = (opt->len + 1) * 8;
		if (size > total)
			return REASON_MALFORMED_IPV6;
		if (size <= 64) { /* a longer one may not be linear */
			p->key.proto = opt->nexthdr;
			off += size;
			total -= size;
		}
		p->hidden = is_skipped(p->key.proto);
		if (size <= 64 && p->key.proto == IPPROTO_FRAGMENT) {
			parse_fragment6(ctx, p, off);
			p->hidden = true;
		}
	}
	why = parse_l4(ctx, p, off, total);
	p->hidden |= size && p->arp_nd;
	return why;
}

/* A tag as on the wire: TPID, then TCI. */
static __always_inline __be32 tag_word(__be16 tpid, __be16 tci)
{
	return bpf_htonl((__u32)bpf_ntohs(tpid) << 16 | bpf_ntohs(tci));
}

static __always_inline bool is_tag(__be16 ethertype)
{
	return ethertype == bpf_htons(ETH_P_8021Q) || ethertype == bpf_htons(ETH_P_8021AD);
}

/* Reads the tags in the frame, after the one in the metadata. */
static __always_inline int parse_tags(CTX *ctx, struct pkt *p, __u32 *off, __be16 *type)
{
	struct vlanhdr *tag;
	__be32 word;

	for (int i = 0; i <= MAX_TAGS; i++) {
		if (!is_tag(*type))
			return 0;
		tag = ctx_at(ctx, *off, sizeof(*tag));
		if (!tag)
			return REASON_MALFORMED_ETHERNET;
		if (p->key.tags[1])
			break;
		word = tag_word(*type, tag->tci);
		if (p->key.tags[0])
			p->key.tags[1] = word;
		else
			p->key.tags[0] = word;
		*type = tag->type;
		*off += sizeof(*tag);
		p->tag_bytes += sizeof(*tag);
	}
	return REASON_VLAN_TAGGED;
}

/* LLC and SNAP (IEEE 802.2, RFC 1042). */
struct llc_snap {
	__u8 dsap;
	__u8 ssap;
	__u8 control;
	__u8 oui[3];
	__be16 type;
};

/* TPIDs of before 802.1ad. */
static __always_inline bool is_old_tag(__be16 ethertype)
{
	return ethertype == bpf_htons(0x9100) || ethertype == bpf_htons(0x9200) ||
	       ethertype == bpf_htons(0x9300);
}

/*
 * Whether the frame has IP, ARP or a tag where no stage looks for it, but some hosts, switches and
 * access points do: behind LLC, whatever the length says (CERT VU#855201), or behind an old
 * TPID. off: behind the ethertype.
 */
static __always_inline bool hides_protocol(CTX *ctx, __be16 ethertype, __u32 off)
{
	struct llc_snap h;

	if (is_old_tag(ethertype))
		return true;
	if (bpf_ntohs(ethertype) >= ETH_P_802_3_MIN && ethertype != bpf_htons(ETH_P_LLC))
		return false;
	if (ctx_load(ctx, off, &h, sizeof(h)))
		return false;
	h.dsap &= ~1;					   /* the group bit */
	if (h.dsap == LLC_SAP_IP || h.dsap == LLC_SAP_ARP) /* RFC 948 */
		return true;
	/* OUI 00-00-00, or 00-00-F8 of IEEE 802.1H. */
	if (h.dsap != LLC_SAP_SNAP || h.oui[0] || h.oui[1] || (h.oui[2] && h.oui[2] != 0xf8))
		return false;
	return is_ip_type(h.type) || h.type == bpf_htons(ETH_P_ARP) || is_tag(h.type) ||
	       is_old_tag(h.type);
}

static __always_inline int parse_frame(CTX *ctx, struct pkt *p)
{
	__u32 off = p->inner;
	struct ethhdr *eth = ctx_at(ctx, off, sizeof(*eth));
	__be16 type;
	__u32 len;
	int why;

	if (!eth)
		return REASON_MALFORMED_ETHERNET;
	copy(key_macs(&p->key), eth, 2 * ETH_ALEN);
	type = eth->type;
	off += sizeof(*eth);
	p->key.tags[0] = p->inner ? 0 : ctx_tag(ctx);
	p->key.tags[1] = 0;
	p->tag_bytes = 0;
	why = parse_tags(ctx, p, &off, &type);
	if (why)
		return why;
	p->key.ethertype = type;
	p->l3 = off;
	p->frame_len = p->len - p->inner - p->tag_bytes;
	p->df = true;
	p->arp_nd = type == bpf_htons(ETH_P_ARP);
	p->hidden = false;
	len = p->frame_len - sizeof(*eth);
	p->headers = sizeof(*eth);

	if (mac_is_group(p->key.smac) || mac_is_zero(p->key.smac))
		return REASON_SOURCE_MULTICAST;
	switch (bpf_ntohs(type)) {
	case ETH_P_IP:
		return parse_ipv4(ctx, p, off, len);
	case ETH_P_IPV6:
		return parse_ipv6(ctx, p, off, len);
	case ETH_P_ARP:
		/* RFC 826 for Ethernet and IPv4 */
		return len < sizeof(struct arphdr) ? REASON_MALFORMED_ARP : 0;
	}
	p->hidden = hides_protocol(ctx, type, off);
	return 0;
}

/* Most packets have linear headers. Others are pulled and parsed again. */
SUBPROGRAM int parse(CTX *ctx, struct pkt *p)
{
	int why = REASON_NO_HEADROOM;

	if (!p)
		return why;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 2; i++) {
		why = parse_frame(ctx, p);
		if (!why || !ctx_pull_headers(ctx, CTX_HEADERS))
			break;
	}
	copy16(p->eth.dmac, key_macs(&p->key), 2 * ETH_ALEN);
	p->eth.tags[0] = p->key.tags[0];
	p->eth.tags[1] = p->key.tags[1];
	p->eth.ethertype = p->key.ethertype;
	return why;
}

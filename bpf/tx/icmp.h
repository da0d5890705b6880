/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * icmp: turns a packet that cannot go on into the message that tells its sender
 * (RFC 792, RFC 4443, RFC 1812 4.3.2). Nobody is told of an error about an error,
 * a group, or a fragment but the first; and not more often than icmp_rate.
 *
 * in:    p, the reason
 * out:   the message in the packet's place, addressed to the inner sender
 * maps:  scratch, buckets, segments, routers
 * stops: nothing: the packet is counted under its reason
 */
#pragma once

#include "core/token_bucket.h"
#include "tunnel/headroom.h"

/* What an IPv4 or IPv6 packet of the minimum MTU has room for behind the ICMP header. */
#define QUOTE_MAX4 (576 - sizeof(struct iphdr) - sizeof(struct icmphdr))
#define QUOTE_MAX6 (1280 - sizeof(struct ipv6hdr) - sizeof(struct icmphdr))
#define ICMP_TOS 0xc0 /* internetwork control, RFC 1812 4.3.2.5 */
#define ICMP_TTL 64

struct icmp_error {
	__u8 type;
	__u8 code;
	__u32 mtu;
};

/* Whether this core has not said too much of late. */
static __always_inline bool may_speak(void)
{
	__u32 zero = 0;
	struct bucket *b = bpf_map_lookup_elem(&buckets, &zero);

	if (!b || tracing || take_token(b, bpf_ktime_get_ns(), icmp_rate, icmp_burst))
		return true;
	count(EVENT_ICMP_LIMITED);
	return false;
}

/* Which message tells of the reason, per family; false: none. */
static __always_inline bool error_for(int why, bool v6, struct icmp_error *e)
{
	e->type = v6 ? ICMPV6_UNREACHABLE : ICMP_UNREACHABLE;
	switch (why) {
	case REASON_TOO_BIG:
		e->type = v6 ? ICMPV6_TOO_BIG : ICMP_UNREACHABLE;
		e->code = v6 ? 0 : ICMP_FRAGMENTATION_NEEDED;
		return e->mtu >= (v6 ? 1280 : 68); /* RFC 8200 5, RFC 791 */
	case REASON_TTL_EXCEEDED:
		e->type = v6 ? ICMPV6_TIME_EXCEEDED : ICMP_TIME_EXCEEDED;
		e->code = 0;
		return true;
	case REASON_NO_PREFIX:
		e->code = v6 ? ICMPV6_NO_ROUTE : ICMP_NET_UNREACHABLE;
		return true;
	case REASON_UNREACHABLE:
		e->code = v6 ? ICMPV6_ADDRESS_UNREACHABLE : ICMP_HOST_UNREACHABLE;
		return true;
	case REASON_PROHIBITED:
	case REASON_REJECTED:
		e->code = v6 ? ICMPV6_PROHIBITED : ICMP_PROHIBITED;
		return true;
	case REASON_NOT_SERVED:
		e->code = v6 ? ICMPV6_PORT_UNREACHABLE : ICMP_PORT_UNREACHABLE;
		return true;
	}
	return false;
}

static __always_inline bool is_icmp_error(const struct pkt *p)
{
	if (p->key.proto == IPPROTO_ICMPV6)
		return p->icmp_type < 128;
	return p->key.proto == IPPROTO_ICMP && is_error4(p->icmp_type);
}

/* Whether the sender may be told (RFC 1122 3.2.2, RFC 4443 2.4). */
static __always_inline bool may_be_told(const struct pkt *p)
{
	const struct addr *s = &p->key.saddr;

	if (!is_ip(p) || p->tail || is_icmp_error(p) || mac_is_group(p->key.dmac) || is_to_group(p))
		return false;
	if (is_v6(p))
		return !addr_is_zero(s) &&
		       (s->w[0] & bpf_htonl(0xff000000)) != bpf_htonl(0xff000000);
	return s->w[3] && (s->w[3] & bpf_htonl(0xf0000000)) < bpf_htonl(0xe0000000);
}

/* The gateway's address on the segment, the router's, or, bridged, the destination's. */
static __always_inline void source_for(const struct pkt *p, const struct segment *seg,
				       struct addr *source)
{
	__u32 id = seg->router;
	struct router *r = bpf_map_lookup_elem(&routers, &id);

	*source = is_v6(p) ? seg->gateway6 : seg->gateway4;
	if (addr_is_zero(source) && r)
		*source = is_v6(p) ? r->source6 : r->source4;
	if (addr_is_zero(source))
		*source = p->key.daddr;
}

/* The sum over len bytes of the scratch buffer, a multiple of 4. */
static __always_inline __u32 sum_scratch(const struct scratch *s, __u32 len, __u32 sum)
{
	for (__u32 at = 0; at < sizeof(s->bytes); at += 512) {
		__u32 n = len > at ? len - at : 0;

		if (n > 512)
			n = 512;
		if (n && at + 512 <= sizeof(s->bytes))
			sum = bpf_csum_diff(NULL, 0, (void *)s->bytes + at, n, sum);
	}
	return sum;
}

static __always_inline __sum16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* Behind the Ethernet header, without options; len is of what follows. */
static __always_inline void write_header4(struct iphdr *ip, const struct addr *source,
					  const struct addr *to, __u32 len, __u8 proto, __u8 tos,
					  bool df)
{
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = tos;
	ip->tot_len = bpf_htons(sizeof(*ip) + len);
	ip->frag_off = df ? bpf_htons(IP_DF) : 0;
	ip->ttl = ICMP_TTL;
	ip->protocol = proto;
	ip->saddr = source->w[3];
	ip->daddr = to->w[3];
	ip->check = fold(bpf_csum_diff(NULL, 0, (void *)ip, sizeof(*ip), 0));
}

static __always_inline int write_error4(CTX *ctx, struct pkt *p, const struct addr *source,
					const struct icmp_error *e, __u32 quote, __u32 sum)
{
	struct iphdr *ip = ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct icmphdr));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_ROOM;
	icmp = (void *)(ip + 1);
	write_header4(ip, source, &p->key.saddr, sizeof(*icmp) + quote, IPPROTO_ICMP, ICMP_TOS,
		      false);
	icmp->check = 0;
	icmp->type = e->type;
	icmp->code = e->code;
	icmp->rest = bpf_htonl(e->mtu); /* RFC 1191 4: in the lower half */
	icmp->check = fold(bpf_csum_diff(NULL, 0, (void *)icmp, sizeof(*icmp), sum));
	return 0;
}

/* Adds the pseudo header of RFC 8200 8.1. */
static __always_inline __u32 sum_pseudo6(const struct addr *source, const struct addr *to,
					 __u32 len, __u8 proto, __u32 sum)
{
	__be32 rest[2] = { bpf_htonl(len), bpf_htonl(proto) };

	sum = bpf_csum_diff(NULL, 0, (void *)source, sizeof(*source), sum);
	sum = bpf_csum_diff(NULL, 0, (void *)to, sizeof(*to), sum);
	return bpf_csum_diff(NULL, 0, rest, sizeof(rest), sum);
}

static __always_inline void write_header6(struct ipv6hdr *ip, const struct addr *source,
					  const struct addr *to, __u32 len, __u8 proto, __u8 tos,
					  __u8 ttl)
{
	ip->flow = bpf_htonl(0x60000000 | (__u32)tos << 20);
	ip->payload_len = bpf_htons(len);
	ip->nexthdr = proto;
	ip->hop_limit = ttl;
	copy(ip->saddr, source, sizeof(ip->saddr));
	copy(ip->daddr, to, sizeof(ip->daddr));
}

static __always_inline int write_error6(CTX *ctx, struct pkt *p, const struct addr *source,
					const struct icmp_error *e, __u32 quote, __u32 sum)
{
	struct ipv6hdr *ip =
		ctx_at(ctx, sizeof(struct ethhdr), sizeof(*ip) + sizeof(struct icmphdr));
	struct icmphdr *icmp;

	if (!ip)
		return REASON_NO_ROOM;
	icmp = (void *)(ip + 1);
	sum = sum_pseudo6(source, &p->key.saddr, sizeof(*icmp) + quote, IPPROTO_ICMPV6, sum);
	write_header6(ip, source, &p->key.saddr, sizeof(*icmp) + quote, IPPROTO_ICMPV6, ICMP_TOS,
		      ICMP_TTL);
	icmp->type = e->type;
	icmp->code = e->code;
	icmp->check = 0;
	icmp->rest = bpf_htonl(e->mtu);
	icmp->check = fold(bpf_csum_diff(NULL, 0, (void *)icmp, sizeof(*icmp), sum));
	return 0;
}

/* The frame goes back to where it came from. */
static __always_inline void turn_macs(struct pkt *p, const __u8 *from)
{
	__u8 mac[ETH_ALEN];

	copy16(mac, from, ETH_ALEN);
	copy16(p->key.dmac, p->key.smac, ETH_ALEN);
	copy16(p->key.smac, mac, ETH_ALEN);
}

/* What stands in the packet's place, len bytes, goes back to where that came from. */
static __always_inline int turn_back(CTX *ctx, struct pkt *p, __u32 len, __u8 tos, bool df)
{
	if (p->routed)
		copy16(key_macs(&p->key), p->was, 2 * ETH_ALEN);
	turn_macs(p, p->key.dmac);
	p->frame_len = len;
	p->headers = len;
	p->tos = tos;
	p->ttl = ICMP_TTL;
	p->df = df;
	p->tcp_flags = 0;
	return write_macs(ctx, p);
}

/*
 * Puts the message about the packet in its place, quoting as much of it as may
 * be, in words of 4 bytes. The packet is out of its tunnel and without tags.
 */
static __always_inline int make_error(CTX *ctx, struct pkt *p, const struct segment *seg,
				      const struct icmp_error *e)
{
	__u32 room = sizeof(struct icmphdr), zero = 0;
	__u32 quote = p->headers + p->payload - sizeof(struct ethhdr); /* without padding */
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	struct addr source;
	__u32 sum;
	int why;

	room += is_v6(p) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	if (quote > (is_v6(p) ? QUOTE_MAX6 : QUOTE_MAX4))
		quote = is_v6(p) ? QUOTE_MAX6 : QUOTE_MAX4;
	quote &= ~3U;
	barrier_var(quote); /* the verifier wants its bounds tested once more */
	if (!s || quote < sizeof(struct iphdr) || quote > sizeof(s->bytes))
		return REASON_NO_ROOM;
	if (bpf_skb_load_bytes(ctx, sizeof(struct ethhdr), s->bytes, quote))
		return REASON_NO_ROOM;
	if (ctx_renew(ctx, p->l4, sizeof(struct ethhdr) + room + quote) ||
	    bpf_skb_store_bytes(ctx, sizeof(struct ethhdr) + room, s->bytes, quote, 0))
		return REASON_NO_ROOM;
	source_for(p, seg, &source);
	sum = sum_scratch(s, quote, 0);
	why = is_v6(p) ? write_error6(ctx, p, &source, e, quote, sum) :
			 write_error4(ctx, p, &source, e, quote, sum);
	return why ? why : turn_back(ctx, p, sizeof(struct ethhdr) + room + quote, ICMP_TOS, false);
}

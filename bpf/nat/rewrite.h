/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * translate: writes a translation into the packet: addresses, ports or the identifier of
 * an echo, and what of it an ICMP error quotes (RFC 5508 4.1), with all checksums.
 *
 * in:    p, in its tunnel or out of it; the hearing's translation
 * out:   the packet
 * maps:  hearings
 * stops: NAT_UNREAD
 */
#pragma once

#include "tx/icmp.h"

/* Of the packet, or of what it quotes. */
struct place {
	__u32 l3;
	__u32 l4;
	__u32 sum; /* of the transport checksum, 0: there is none */
	__u8 proto;
	bool pseudo; /* it covers the addresses */
	bool plain;  /* it may be zero: there is none (RFC 768) */
};

static __always_inline void find_sum(struct place *at)
{
	at->pseudo = true;
	switch (at->proto) {
	case IPPROTO_TCP:
		at->sum = at->l4 + __builtin_offsetof(struct tcphdr, check);
		break;
	case IPPROTO_UDP:
		at->sum = at->l4 + __builtin_offsetof(struct udphdr, check);
		at->plain = true;
		break;
	case IPPROTO_ICMP:
		at->pseudo = false;
		/* fallthrough */
	case IPPROTO_ICMPV6:
		at->sum = at->l4 + __builtin_offsetof(struct icmphdr, check);
		break;
	}
}

/* Where the port of the source, or the destination, lies; an echo has one for both. */
static __always_inline __u32 port_at(const struct place *at, bool source)
{
	if (at->proto == IPPROTO_ICMP || at->proto == IPPROTO_ICMPV6)
		return at->l4 + __builtin_offsetof(struct icmphdr, rest);
	return at->l4 + (source ? 0 : 2);
}

/* Adds to an unfolded sum, with the carry (RFC 1071); quicker than the kernel's helper. */
static __always_inline __wsum sum_add(__wsum sum, __u32 word)
{
	__u64 total = (__u64)sum + word;

	return (__u32)total + (__u32)(total >> 32);
}

/* Replaces an address; diff is what the pseudo header's sum changes by. */
static __always_inline int put_addr4(CTX *ctx, __u32 l3, bool source, const struct addr *new,
				     __wsum *diff)
{
	struct iphdr *ip = ctx_at(ctx, l3, sizeof(*ip));
	__be32 old, fresh = new->w[3];

	if (!ip)
		return REASON_NAT_UNREAD;
	old = source ? ip->saddr : ip->daddr;
	*diff = sum_add(sum_add(*diff, ~old), fresh);
	if (source)
		ip->saddr = fresh;
	else
		ip->daddr = fresh;
	ip->check = sum_replace(ip->check, old & 0xffff, fresh & 0xffff);
	ip->check = sum_replace(ip->check, old >> 16, fresh >> 16);
	return 0;
}

static __always_inline int put_addr6(CTX *ctx, __u32 l3, bool source, const struct addr *new,
				     __wsum *diff)
{
	struct ipv6hdr *ip = ctx_at(ctx, l3, sizeof(*ip));
	struct addr old;

	if (!ip)
		return REASON_NAT_UNREAD;
	copy(&old, source ? ip->saddr : ip->daddr, sizeof(old));
	*diff = bpf_csum_diff((void *)&old, sizeof(old), (void *)new, sizeof(*new), *diff);
	ip = ctx_at(ctx, l3, sizeof(*ip));
	if (!ip)
		return REASON_NAT_UNREAD;
	copy(source ? ip->saddr : ip->daddr, new, sizeof(*new));
	return 0;
}

static __always_inline int put_addr(CTX *ctx, const struct pkt *p, bool source,
				    const struct addr *new, __wsum *diff)
{
	return is_v6(p) ? put_addr6(ctx, p->l3, source, new, diff) :
			  put_addr4(ctx, p->l3, source, new, diff);
}

/* The addresses' change in the transport checksum. */
static __always_inline void mend_pseudo(CTX *ctx, const struct pkt *p, const struct place *at,
					__wsum diff)
{
	__u64 flags = BPF_F_PSEUDO_HDR | (at->plain ? BPF_F_MARK_MANGLED_0 : 0);

	if (at->sum && at->pseudo)
		bpf_l4_csum_replace(ctx, at->sum, 0, diff, flags);
	if (is_v6(p)) /* which took it that a header checksum changes the other way */
		ctx_csum_update(ctx, diff);
}

static __always_inline int put_port(CTX *ctx, const struct place *at, bool source, __be16 new)
{
	__u32 off = port_at(at, source);
	__be16 *port = ctx_at(ctx, off, sizeof(*port)), old;

	if (port) {
		old = *port;
		*port = new;
	} else if (ctx_load(ctx, off, &old, sizeof(old)) ||
		   bpf_skb_store_bytes(ctx, off, &new, sizeof(new), 0)) {
		return REASON_NAT_UNREAD;
	}
	if (old != new && at->sum)
		bpf_l4_csum_replace(ctx, at->sum, old, new,
				    sizeof(new) | (at->plain ? BPF_F_MARK_MANGLED_0 : 0));
	return 0;
}

/* A word of what an ICMP error quotes; sum is of the error. */
static __always_inline int put_quoted(CTX *ctx, __u32 off, __be16 new, __u32 sum)
{
	__be16 old;

	if (ctx_load(ctx, off, &old, sizeof(old)))
		return REASON_NAT_UNREAD;
	bpf_l4_csum_replace(ctx, sum, old, new, sizeof(new));
	return bpf_skb_store_bytes(ctx, off, &new, sizeof(new), 0) ? REASON_NAT_UNREAD : 0;
}

/* sum without what diff takes away, and with what it adds. */
static __always_inline __sum16 mend(__sum16 sum, __wsum diff)
{
	__u64 total = (__u64)(__u16)~sum + diff;

	return fold((__u32)(total & 0xffffffff) + (__u32)(total >> 32));
}

/* The quoted transport's own checksum, where so much of the packet is quoted. */
static __always_inline int mend_quoted(CTX *ctx, const struct place *at, __wsum diff, __u32 sum)
{
	__sum16 old, new;

	if (!at->sum || ctx_load(ctx, at->sum, &old, sizeof(old)) || (at->plain && !old))
		return 0;
	new = mend(old, diff);
	if (at->plain && !new)
		new = ~0;
	return put_quoted(ctx, at->sum, new, sum);
}

/*
 * An address and port of the quoted packet, which went the other way. In IPv4 its header
 * checksum changes as its address does, so that the error's own does not.
 */
static __always_inline int put_quoted_end(CTX *ctx, const struct pkt *p, const struct place *at,
					  bool source, const struct addr *addr, __be16 port,
					  __u32 sum)
{
	__u32 off = at->l3 + (source ? 8 : 24);
	struct addr was = {};
	__be16 old = 0;
	__wsum diff = 0;
	__be32 word;
	struct iphdr ip;

	if (is_v6(p)) {
		if (ctx_load(ctx, off, &was, sizeof(was)) ||
		    bpf_skb_store_bytes(ctx, off, addr, sizeof(*addr), 0))
			return REASON_NAT_UNREAD;
		diff = bpf_csum_diff((void *)&was, sizeof(was), (void *)addr, sizeof(*addr), 0);
		bpf_l4_csum_replace(ctx, sum, 0, diff, 0);
	} else {
		if (ctx_load(ctx, at->l3, &ip, sizeof(ip)))
			return REASON_NAT_UNREAD;
		was.w[3] = source ? ip.saddr : ip.daddr;
		diff = bpf_csum_diff(&was.w[3], 4, (void *)&addr->w[3], 4, 0);
		ip.check = mend(ip.check, diff);
		if (source)
			ip.saddr = addr->w[3];
		else
			ip.daddr = addr->w[3];
		if (bpf_skb_store_bytes(ctx, at->l3, &ip, sizeof(ip), 0))
			return REASON_NAT_UNREAD;
	}
	if (!at->pseudo)
		diff = 0;
	if (is_ported(at->proto) || at->sum) {
		off = port_at(at, source);
		if (ctx_load(ctx, off, &old, sizeof(old)))
			return REASON_NAT_UNREAD;
		word = (__u32)(__u16)~old << 16 | port;
		diff = bpf_csum_diff(NULL, 0, &word, sizeof(word), diff);
		if (put_quoted(ctx, off, port, sum))
			return REASON_NAT_UNREAD;
	}
	return mend_quoted(ctx, at, diff, sum);
}

/* What an ICMP error is about: its source is whom the error goes to. */
SUBPROGRAM int translate_quoted(CTX *ctx, struct pkt *p, __u32 sum)
{
	struct hearing *h = hearing();
	struct place at = {};
	int why = 0;

	if (!p || !h)
		return REASON_NAT_UNREAD;
	at.l3 = p->l3 + h->transport.quoted;
	at.l4 = p->l3 + h->transport.quoted_off;
	at.proto = h->transport.proto;
	find_sum(&at);
	if (p->decision.flags & FLOW_DNAT)
		why = put_quoted_end(ctx, p, &at, true, &h->translation.dst, h->translation.dport,
				     sum);
	if (!why && p->decision.flags & FLOW_SNAT)
		why = put_quoted_end(ctx, p, &at, false, &h->translation.src, h->translation.sport,
				     sum);
	return why;
}

/* Of a packet that the cache knows, or that has been examined. */
static __always_inline void find_place(const struct pkt *p, const struct hearing *h,
				       struct place *at)
{
	enum transport_kind kind = p->examined ? h->transport.kind : TRANSPORT_WHOLE;

	at->l3 = p->l3;
	at->l4 = p->examined ? p->l3 + h->transport.off : p->l4;
	at->proto = p->examined ? h->transport.proto : p->key.proto;
	if (kind == TRANSPORT_ERROR)
		at->proto = is_v6(p) ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	if (kind == TRANSPORT_LATER)
		at->proto = IPPROTO_FRAGMENT; /* which has neither ports nor a sum */
	find_sum(at);
}

SUBPROGRAM int translate(CTX *ctx, struct pkt *p)
{
	struct hearing *h = hearing();
	bool source, target, error;
	struct place at = {};
	__wsum diff = 0;
	int why = 0;

	if (!p || !h)
		return REASON_NAT_UNREAD;
	source = p->decision.flags & FLOW_SNAT;
	target = p->decision.flags & FLOW_DNAT;
	error = p->examined && h->transport.kind == TRANSPORT_ERROR;
	find_place(p, h, &at);
	if (error)
		why = translate_quoted(ctx, p, at.sum);
	if (!why && source)
		why = put_addr(ctx, p, true, &h->translation.src, &diff);
	if (!why && target)
		why = put_addr(ctx, p, false, &h->translation.dst, &diff);
	if (why)
		return why;
	mend_pseudo(ctx, p, &at, diff);
	if (error || (!at.sum && at.proto != IPPROTO_SCTP))
		return 0;
	if (source)
		why = put_port(ctx, &at, true, h->translation.sport);
	if (!why && target)
		why = put_port(ctx, &at, false, h->translation.dport);
	return why;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * rewrite: writes a translation into the packet: addresses, ports or echo identifier, the same
 * in a packet embedded in an ICMP error (RFC 5508 4.1), and all checksums.
 *
 * in:    p, decapsulated or not; p->l4_info, p->translation
 * out:   the packet
 * maps:  none
 * stops: NAT_UNSUPPORTED
 */
#pragma once

#include "nat/rewrite_embedded.h"

/* Adds to an unfolded sum with carry (RFC 1071). Faster than the kernel's helper. */
static __always_inline __wsum sum_add(__wsum sum, __u32 word)
{
	__u64 total = (__u64)sum + word;

	return (__u32)total + (__u32)(total >> 32);
}

/* Replaces an address. diff: change of the pseudo header's sum. */
static __always_inline int put_addr4(CTX *ctx, __u32 l3, bool source, const struct addr *new,
				     __wsum *diff)
{
	struct iphdr *ip = ctx_at(ctx, l3, sizeof(*ip));
	__be32 old, fresh = new->w[3];

	if (!ip)
		return REASON_NAT_UNSUPPORTED;
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
		return REASON_NAT_UNSUPPORTED;
	copy(&old, source ? ip->saddr : ip->daddr, sizeof(old));
	*diff = bpf_csum_diff((void *)&old, sizeof(old), (void *)new, sizeof(*new), *diff);
	ip = ctx_at(ctx, l3, sizeof(*ip));
	if (!ip)
		return REASON_NAT_UNSUPPORTED;
	copy(source ? ip->saddr : ip->daddr, new, sizeof(*new));
	return 0;
}

static __always_inline int put_addr(CTX *ctx, const struct pkt *p, bool source,
				    const struct addr *new, __wsum *diff)
{
	return is_v6(p) ? put_addr6(ctx, p->l3, source, new, diff) :
			  put_addr4(ctx, p->l3, source, new, diff);
}

/* Updates the transport checksum for changed addresses. */
static __always_inline void fix_pseudo_csum(CTX *ctx, const struct pkt *p,
					    const struct csum_layout *at, __wsum diff)
{
	__u64 flags = BPF_F_PSEUDO_HDR | (at->plain ? BPF_F_MARK_MANGLED_0 : 0);

	if (at->sum && at->pseudo)
		bpf_l4_csum_replace(ctx, at->sum, 0, diff, flags);
	if (is_v6(p)) /* the helper assumed that a header checksum cancels the change */
		ctx_csum_update(ctx, diff);
}

static __always_inline int put_port(CTX *ctx, const struct csum_layout *at, bool source, __be16 new)
{
	__u32 off = port_at(at, source);
	__be16 *port = ctx_at(ctx, off, sizeof(*port)), old;

	if (port) {
		old = *port;
		*port = new;
	} else if (ctx_load(ctx, off, &old, sizeof(old)) ||
		   bpf_skb_store_bytes(ctx, off, &new, sizeof(new), 0)) {
		return REASON_NAT_UNSUPPORTED;
	}
	if (old != new && at->sum)
		bpf_l4_csum_replace(ctx, at->sum, old, new,
				    sizeof(new) | (at->plain ? BPF_F_MARK_MANGLED_0 : 0));
	return 0;
}

/* The layout of a packet that the cache knows, or that l4.h has parsed. */
static __always_inline void find_csum_layout(const struct pkt *p, struct csum_layout *at)
{
	enum l4_kind kind = p->l4_parsed ? p->l4_info.kind : L4_WHOLE;

	at->l3 = p->l3;
	at->l4 = p->l4_parsed ? p->l3 + p->l4_info.off : p->l4;
	at->proto = p->l4_parsed ? p->l4_info.proto : p->key.proto;
	if (kind == L4_ICMP_ERROR)
		at->proto = is_v6(p) ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	if (kind == L4_LATER_FRAGMENT)
		at->proto = IPPROTO_FRAGMENT; /* no ports and no checksum */
	find_csum(at);
}

SUBPROGRAM int rewrite_nat(CTX *ctx, struct pkt *p)
{
	bool source, target, error;
	struct csum_layout at = {};
	__wsum diff = 0;
	int why = 0;

	if (!p)
		return REASON_NAT_UNSUPPORTED;
	source = p->decision.flags & FLOW_SNAT;
	target = p->decision.flags & FLOW_DNAT;
	error = p->l4_parsed && p->l4_info.kind == L4_ICMP_ERROR;
	find_csum_layout(p, &at);
	if (error)
		why = rewrite_embedded(ctx, p, at.sum);
	if (!why && source)
		why = put_addr(ctx, p, true, &p->translation.src, &diff);
	if (!why && target)
		why = put_addr(ctx, p, false, &p->translation.dst, &diff);
	if (why)
		return why;
	fix_pseudo_csum(ctx, p, &at, diff);
	if (error || (!at.sum && at.proto != IPPROTO_SCTP))
		return 0;
	if (source)
		why = put_port(ctx, &at, true, p->translation.sport);
	if (!why && target)
		why = put_port(ctx, &at, false, p->translation.dport);
	return why;
}

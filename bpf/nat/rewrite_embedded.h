/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * rewrite_embedded: translates the packet that is embedded in an ICMP error (RFC 5508 4.1).
 *
 * in:    p->l4_info, p->translation
 * out:   the packet
 * maps:  none
 * stops: NAT_UNSUPPORTED
 */
#pragma once

#include "nat/csum_layout.h"

/* Replaces a word of the embedded packet. sum: offset of the error's checksum. */
static __always_inline int put_embedded(CTX *ctx, __u32 off, __be16 new, __u32 sum)
{
	__be16 old;

	if (ctx_load(ctx, off, &old, sizeof(old)))
		return REASON_NAT_UNSUPPORTED;
	bpf_l4_csum_replace(ctx, sum, old, new, sizeof(new));
	return bpf_skb_store_bytes(ctx, off, &new, sizeof(new), 0) ? REASON_NAT_UNSUPPORTED : 0;
}

/* Updates the embedded transport checksum, if it is within the embedded part. */
static __always_inline int fix_embedded_csum(CTX *ctx, const struct csum_layout *at, __wsum diff,
					     __u32 sum)
{
	__sum16 old, new;

	if (!at->sum || ctx_load(ctx, at->sum, &old, sizeof(old)) || (at->plain && !old))
		return 0;
	new = csum_adjust(old, diff);
	if (at->plain && !new)
		new = ~0;
	return put_embedded(ctx, at->sum, new, sum);
}

/*
 * Replaces an address and port of the embedded packet, which travelled the other way. With
 * IPv4 its header checksum changes by as much as its address, so the error's sum does not.
 */
static __always_inline int put_embedded_addr(CTX *ctx, const struct pkt *p,
					     const struct csum_layout *at, bool source,
					     const struct addr *addr, __be16 port, __u32 sum)
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
			return REASON_NAT_UNSUPPORTED;
		diff = bpf_csum_diff((void *)&was, sizeof(was), (void *)addr, sizeof(*addr), 0);
		bpf_l4_csum_replace(ctx, sum, 0, diff, 0);
	} else {
		if (ctx_load(ctx, at->l3, &ip, sizeof(ip)))
			return REASON_NAT_UNSUPPORTED;
		was.w[3] = source ? ip.saddr : ip.daddr;
		diff = bpf_csum_diff(&was.w[3], 4, (void *)&addr->w[3], 4, 0);
		ip.check = csum_adjust(ip.check, diff);
		if (source)
			ip.saddr = addr->w[3];
		else
			ip.daddr = addr->w[3];
		if (bpf_skb_store_bytes(ctx, at->l3, &ip, sizeof(ip), 0))
			return REASON_NAT_UNSUPPORTED;
	}
	if (!at->pseudo)
		diff = 0;
	if (is_ported(at->proto) || at->sum) {
		off = port_at(at, source);
		if (ctx_load(ctx, off, &old, sizeof(old)))
			return REASON_NAT_UNSUPPORTED;
		word = (__u32)(__u16)~old << 16 | port;
		diff = bpf_csum_diff(NULL, 0, &word, sizeof(word), diff);
		if (put_embedded(ctx, off, port, sum))
			return REASON_NAT_UNSUPPORTED;
	}
	return fix_embedded_csum(ctx, at, diff, sum);
}

/* Rewrites the packet embedded in an ICMP error. Its source receives the error. */
SUBPROGRAM int rewrite_embedded(CTX *ctx, struct pkt *p, __u32 sum)
{
	struct csum_layout at = {};
	int why = 0;

	if (!p)
		return REASON_NAT_UNSUPPORTED;
	at.l3 = p->l3 + p->l4_info.embedded_l3;
	at.l4 = p->l3 + p->l4_info.embedded_l4;
	at.proto = p->l4_info.proto;
	find_csum(&at);
	if (p->decision.flags & FLOW_DNAT)
		why = put_embedded_addr(ctx, p, &at, true, &p->translation.dst,
					p->translation.dport, sum);
	if (!why && p->decision.flags & FLOW_SNAT)
		why = put_embedded_addr(ctx, p, &at, false, &p->translation.src,
					p->translation.sport, sum);
	return why;
}

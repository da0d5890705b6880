/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * csum_partial: recognises a TCP or UDP checksum that is still to be completed
 * (CHECKSUM_PARTIAL). A local sender leaves that to its device. A veth has no hardware for
 * it and keeps a mark in the skb, which XDP does not see and a redirect loses, so such a
 * packet goes to tc. Its checksum field holds the sum of the pseudo header (RFC 9293 3.1,
 * RFC 8200 8.1). A complete checksum has that value in one of 65,536 packets: those go to tc too.
 *
 * in:    p->l3, p->l4, p->key.ethertype, protocol
 * out:   whether it is partial
 * maps:  none
 * stops: nothing
 */
#pragma once

#include "core/count.h"

static __always_inline __u64 sum_words(const __be32 *w, __u32 words)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < words; i++)
		sum += w[i];
	return sum;
}

static __always_inline __u16 fold_words(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline bool is_csum_partial(CTX *ctx, const struct pkt *p, __u8 proto)
{
	__u32 at = proto == IPPROTO_TCP ? __builtin_offsetof(struct tcphdr, check) :
					  __builtin_offsetof(struct udphdr, check);
	__u32 len = p->headers + p->payload - sizeof(struct ethhdr) - (p->l4 - p->l3);
	struct ipv6hdr *ip6;
	struct iphdr *ip;
	__sum16 *check;
	__u64 sum;

	if (!this_csum_partial || (proto != IPPROTO_TCP && proto != IPPROTO_UDP) || p->tail)
		return false;
	check = ctx_at(ctx, p->l4 + at, sizeof(*check));
	if (!check)
		return false;
	if (is_v6(p)) {
		ip6 = ctx_at(ctx, p->l3, sizeof(*ip6));
		if (!ip6)
			return false;
		sum = sum_words((void *)ip6->saddr, 4) + sum_words((void *)ip6->daddr, 4);
	} else {
		ip = ctx_at(ctx, p->l3, sizeof(*ip));
		if (!ip)
			return false;
		sum = (__u64)ip->saddr + ip->daddr;
	}
	return *check == fold_words(sum + bpf_htons(proto) + bpf_htons(len));
}

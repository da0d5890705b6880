/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * reflect: turns a tunnel packet round, as the end systems behind the remote TEP
 * would that loop traffic back. Addresses and inner ports change places, so all
 * checksums stay right; the outer source port stays, being the flow's entropy.
 *
 * in:    a heard tunnel packet
 * out:   the same in the other direction
 */
#pragma once

#include "gen_hear.h"

#define SWAP(a, b)                     \
	do {                           \
		typeof(a) swapped = a; \
		a = b;                 \
		b = swapped;           \
	} while (0)

static __always_inline void swap_macs(struct ethhdr *eth)
{
	struct ethhdr was = *eth;

	__builtin_memcpy(eth->dst, was.src, ETH_ALEN);
	__builtin_memcpy(eth->src, was.dst, ETH_ALEN);
}

static __always_inline void *swap_addresses(void *at, __be16 type)
{
	struct ipv6hdr *ip6 = at;
	struct iphdr *ip = at;
	int i;

	if (type == bpf_htons(ETH_P_IP)) {
		SWAP(ip->saddr, ip->daddr);
		return ip + 1;
	}
#pragma unroll
	for (i = 0; i < 4; i++)
		SWAP(ip6->saddr[i], ip6->daddr[i]);
	return ip6 + 1;
}

static __always_inline void turn_round(const struct heard *h)
{
	struct udphdr *udp;

	swap_macs(h->eth);
	swap_addresses(h->ip, h->type);
	swap_macs(h->inner_eth);
	udp = swap_addresses(h->inner_ip, h->inner_type);
	SWAP(udp->source, udp->dest);
}

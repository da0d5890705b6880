/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * reflect: turns a frame round, as the end systems behind the device would that
 * loop traffic back: behind the remote TEP where it is in a tunnel. Addresses and
 * inner ports change places, so all checksums stay right; the outer source port of
 * a tunnel stays, being the flow's entropy.
 *
 * in:    a heard frame
 * out:   the same in the other direction
 */
#pragma once

#include "gen_hear.h"

const volatile __u8 reflect_plain;    /* frames without a tunnel, too */
const volatile __u8 reflect_redirect; /* by redirect instead of XDP_TX */

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
	udp = swap_addresses(h->ip, h->type);
	if (h->inner_eth) {
		swap_macs(h->inner_eth);
		udp = swap_addresses(h->inner_ip, h->inner_type);
	}
	SWAP(udp->source, udp->dest);
}

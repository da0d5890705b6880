/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* hash: distributes flows and sources over ports, next hops, paths and gateways. */
#pragma once

#include "core/count.h"

/* 64-bit mixing: multiply and fold. */
static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

/* Final mixing, so that every bit depends on every other. */
static __always_inline __u64 mix_last(__u64 h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ULL;
	return h ^ (h >> 32);
}

/* Two independent products, and one over both. */
static __always_inline __u64 hash4(__u8 proto, __be32 saddr, __be32 daddr, __u32 ports)
{
	__u64 h = ((__u64)saddr << 32 | daddr) * 0x9e3779b97f4a7c15ULL;

	h ^= ((__u64)ports << 8 | proto) * 0xc2b2ae3d27d4eb4fULL;
	return mix_last(h);
}

static __always_inline __u64 hash6(__u8 proto, const __be32 *saddr, const __be32 *daddr,
				   __u32 ports)
{
	__u64 h = mix(proto, (__u64)saddr[0] << 32 | saddr[1]);

	h = mix(h, (__u64)saddr[2] << 32 | saddr[3]);
	h = mix(h, (__u64)daddr[0] << 32 | daddr[1]);
	h = mix(h, (__u64)daddr[2] << 32 | daddr[3]);
	return mix_last(mix(h, ports));
}

/* Equal for all packets of a flow. What is not IP is distinguished by its MAC addresses. */
static __always_inline __u64 hash_of(const struct flow_key *k)
{
	__u32 ports = (__u32)k->dport << 16 | k->sport;
	const __u32 *macs = key_macs(k);

	if (k->ethertype == bpf_htons(ETH_P_IP))
		return hash4(k->proto, k->saddr.w[3], k->daddr.w[3], ports);
	if (k->ethertype == bpf_htons(ETH_P_IPV6))
		return hash6(k->proto, k->saddr.w, k->daddr.w, ports);
	return mix_last(
		mix(mix(0, (__u64)macs[0] << 32 | macs[1]), (__u64)macs[2] << 32 | k->ethertype));
}

/* Equal for all packets of a source, on every edge. internal/nat has the same function. */
static __always_inline __u32 bucket_of(const struct addr *a)
{
	__u64 h = mix(0, (__u64)a->w[0] << 32 | a->w[1]);

	return mix_last(mix(h, (__u64)a->w[2] << 32 | a->w[3])) >> 32 & (EGRESS_BUCKETS - 1);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * csum_layout: where ports and checksums are, in a packet or an embedded one.
 */
#pragma once

#include "tx/headers.h"
#include "firewall/track.h"

/* Offsets in the packet, or in the embedded one. */
struct csum_layout {
	__u32 l3;
	__u32 l4;
	__u32 sum; /* of the transport checksum, 0: there is none */
	__u8 proto;
	bool pseudo; /* the checksum covers the pseudo header */
	bool plain;  /* zero means that there is no checksum (RFC 768) */
};

static __always_inline void find_csum(struct csum_layout *at)
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

/* Offset of the source or destination port. An echo has one identifier for both. */
static __always_inline __u32 port_at(const struct csum_layout *at, bool source)
{
	if (at->proto == IPPROTO_ICMP || at->proto == IPPROTO_ICMPV6)
		return at->l4 + __builtin_offsetof(struct icmphdr, rest);
	return at->l4 + (source ? 0 : 2);
}

/* Adds a difference to a checksum. */
static __always_inline __sum16 csum_adjust(__sum16 sum, __wsum diff)
{
	__u64 total = (__u64)(__u16)~sum + diff;

	return fold((__u32)(total & 0xffffffff) + (__u32)(total >> 32));
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * addr: predicates of MAC and IP addresses.
 */
#pragma once

#include "abi/forwarding.h"

static __always_inline bool mac_is_group(const __u8 *mac)
{
	return mac[0] & 1;
}

static __always_inline bool mac_is_zero(const __u8 *mac)
{
	const __u16 *w = (const __u16 *)mac;

	return !(w[0] | w[1] | w[2]);
}

static __always_inline bool addr_is_zero(const struct addr *a)
{
	return !(a->w[0] | a->w[1] | a->w[2] | a->w[3]);
}

/* ::ffff:0:0/96 */
static __always_inline bool addr_is_v4(const struct addr *a)
{
	return a->w[2] == bpf_htonl(0xffff) && !(a->w[0] | a->w[1]);
}

static __always_inline bool addr_equal(const volatile struct addr *a, const struct addr *b)
{
	return a->w[3] == b->w[3] && a->w[2] == b->w[2] && a->w[1] == b->w[1] && a->w[0] == b->w[0];
}

/* fe80::/10 */
static __always_inline bool addr_is_link_local(const struct addr *a)
{
	return (a->w[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

/* 224.0.0.0/4, ff00::/8 */
static __always_inline bool addr_is_multicast(const struct addr *a)
{
	return addr_is_v4(a) ? (a->w[3] & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000) :
			       (a->w[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

/* Multicast and, of IPv4, reserved and broadcast addresses. */
static __always_inline bool addr_is_no_host(const struct addr *a)
{
	return addr_is_v4(a) ? bpf_ntohl(a->w[3]) >= 0xe0000000 : addr_is_multicast(a);
}

static __always_inline bool mac_equal(const __u8 *a, const __u8 *b)
{
	const __u16 *x = (const __u16 *)a, *y = (const __u16 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

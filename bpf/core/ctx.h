/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ctx: access to the packet buffer. There are two implementations: for tc (CTX is struct
 * __sk_buff) and, in programs that define XDP, for XDP. Stages use these functions only, so
 * they are compiled for both.
 */
#pragma once

#include "include/net.h"

#ifdef XDP
#define CTX struct xdp_md
#define IN_XDP true
#else
#define CTX struct __sk_buff
#define IN_XDP false
#endif

/*
 * Copies in words. Packet bytes are unaligned, and the compiler would copy them one by one;
 * the kernel allows wider accesses where the machine does. len is constant.
 */
static __always_inline void copy(void *to, const void *from, __u32 len)
{
	__u32 i;

	for (i = 0; i + 4 <= len; i += 4)
		*(__u32 *)(to + i) = *(const __u32 *)(from + i);
	if (len & 2)
		*(__u16 *)(to + i) = *(const __u16 *)(from + i);
}

/* The same in steps of 8 bytes, from a map into the packet. */
static __always_inline void copy64(void *to, const void *from, __u32 len)
{
	__u32 whole = len & ~7U;

	for (__u32 i = 0; i < whole; i += 8)
		*(__u64 *)(to + i) = *(const __u64 *)(from + i);
	copy(to + whole, from + whole, len & 7);
}

/* The same in steps of 2 bytes, for the stack, where the verifier requires alignment. */
static __always_inline void copy16(void *to, const void *from, __u32 len)
{
	for (__u32 i = 0; i < len; i += 2)
		*(__u16 *)(to + i) = *(const __u16 *)(from + i);
}

/* Header bytes that a stage may read: all of them, and those before the inner IP header. */
#define CTX_HEADERS 488 /* 14 + 60 + 16 + 252 + 22 + 40 + 64 + 20: with inner and outer options */
#define CTX_OUTER 104

/* A pointer to len bytes at off, or NULL if the packet or its linear part is shorter. */
static __always_inline void *ctx_at(CTX *ctx, __u32 off, __u32 len)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	if (off > 0x1ff)
		return NULL;
	data += off;
	return data + len > end ? NULL : data;
}

/* RFC 1624 equation 3, for one 16-bit word. */
static __always_inline __sum16 sum_replace(__sum16 check, __u16 old, __u16 new)
{
	__u32 sum = (__u16)~check + (__u16)~old + new;

	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

#ifdef XDP
#include "core/ctx_xdp.h"
#else
#include "core/ctx_tc.h"
#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Token buckets: a rate and a burst. */
#pragma once

#include "core/pkt.h"

#define NS_PER_SECOND 1000000000ULL
#define BUCKET_NS \
	(4 * NS_PER_SECOND) /* after this time any bucket is full, and products fit 64 bits */

static __always_inline __u32 seconds(__u64 ns)
{
	return ns / NS_PER_SECOND;
}

/* Adds the tokens of the time since the bucket was filled. What is less than one stays due. */
static __always_inline void fill_bucket(struct token_bucket *b, __u64 now, __u64 rate, __u64 most)
{
	__s64 waited = now - b->filled_ns;
	__u64 earned;

	if (waited <= 0) /* another core has read the clock later */
		return;
	if (waited > (__s64)BUCKET_NS) {
		b->filled_ns = now;
		b->tokens = most;
		return;
	}
	earned = (__u64)waited * rate / NS_PER_SECOND;
	if (!earned)
		return;
	b->filled_ns += earned * NS_PER_SECOND / rate;
	b->tokens = b->tokens + earned > most ? most : b->tokens + earned;
}

/* Takes tokens for n packets at once; false: there are too few. */
static __always_inline bool take_tokens(struct token_bucket *b, __u64 now, __u64 rate, __u64 most,
					__u32 n)
{
	if (!rate)
		return false;
	fill_bucket(b, now, rate, most);
	if (n > most) /* one large segment, which must pass at times */
		n = most;
	/* Cores that share a bucket may take the last tokens at once. */
	if (b->tokens < n || b->tokens > most)
		return false;
	b->tokens -= n;
	return true;
}

/* Takes a token; false: there is none. */
static __always_inline bool take_token(struct token_bucket *b, __u64 now, __u64 rate, __u64 most)
{
	return take_tokens(b, now, rate, most, 1);
}

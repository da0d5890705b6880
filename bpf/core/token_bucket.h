/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Token buckets: a rate and a burst. */
#pragma once

#include "core/count.h"

#define BUCKET_NS \
	1000000000000ULL /* after this time any bucket is full, and the product below fits 64 bits */

/* Takes a token; false: there is none. */
static __always_inline bool take_token(struct token_bucket *b, __u64 now, __u64 rate, __u64 most)
{
	__u64 waited = now - b->filled_ns, earned;

	if (waited > BUCKET_NS)
		waited = BUCKET_NS;
	earned = waited * rate / 1000000000ULL;
	if (earned) {
		b->tokens = b->tokens + earned > most ? most : b->tokens + earned;
		b->filled_ns = now;
	}
	/* Cores that share a bucket may take the last token at once. */
	if (!b->tokens || b->tokens > most)
		return false;
	b->tokens--;
	return true;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Token buckets: so many a second, and so many at once. */
#pragma once

#include "core/pkt.h"

#define BUCKET_NS 1000000000000ULL /* any is full by then, and the product below fits */

/* Takes one of the bucket's tokens; false: it has none. */
static __always_inline bool take_token(struct bucket *b, __u64 now, __u64 rate, __u64 most)
{
	__u64 waited = now - b->filled_ns, earned;

	if (waited > BUCKET_NS)
		waited = BUCKET_NS;
	earned = waited * rate / 1000000000ULL;
	if (earned) {
		b->tokens = b->tokens + earned > most ? most : b->tokens + earned;
		b->filled_ns = now;
	}
	if (!b->tokens)
		return false;
	b->tokens--;
	return true;
}

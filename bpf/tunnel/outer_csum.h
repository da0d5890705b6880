/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * outer_csum: verifies an outer UDP checksum that is not zero (RFC 8926 3.3): a damaged VNI would
 * lead into another segment. A NIC has mostly done so, and says it in the skb; large segments were
 * verified when they were coalesced. A local sender leaves checksums to its device
 * (CHECKSUM_PARTIAL): then the bytes are not final yet, nothing damages them, and they pass. XDP, which
 * is told none of that, sums up each such packet, and leaves those with another sum to tc.
 *
 * in:    ctx, the UDP datagram
 * out:   whether its checksum is wrong
 * maps:  scratch
 * stops: OUTER_CHECKSUM
 */
#pragma once

#include "core/csum_partial.h"
#include "core/within.h"
#include "tx/work.h"

#define CSUM_CHUNK 512 /* what bpf_csum_diff() takes at once */
#define CSUM_CHUNKS 128

struct csum_walk {
	CTX *ctx;
	__u32 off;
	__u32 left;
	__wsum sum;
};

/* Adds a chunk of the datagram. left stays if there is an error. */
static long sum_chunk(__u64 index __attribute__((unused)), struct csum_walk *w)
{
	struct scratch *s = scratch();
	__u32 len = w->left;

	if (!s)
		return 1;
	if (len > CSUM_CHUNK)
		len = CSUM_CHUNK;
	else
		__builtin_memset(s->bytes, 0, CSUM_CHUNK);
	barrier_var(len); /* the verifier wants the bounds tested here */
	if (!within(len, 1, CSUM_CHUNK) || ctx_load(w->ctx, w->off, s->bytes, len))
		return 1;
	w->sum = bpf_csum_diff(NULL, 0, (void *)s->bytes, CSUM_CHUNK, w->sum);
	w->off += len;
	w->left -= len;
	return !w->left;
}

/* Whether the sum over pseudo header and datagram is that of a right checksum. */
static __always_inline bool is_right(__wsum sum)
{
	return fold_words(sum) == 0xffff;
}

/* The sum of the pseudo header of a datagram of len bytes. */
static __always_inline __wsum sum_outer_pseudo(CTX *ctx, bool v6, __u32 len)
{
	__be32 words[10] = { bpf_htonl(len), bpf_htonl(IPPROTO_UDP) };

	if (v6 ? ctx_load(ctx, sizeof(struct ethhdr) + 8, &words[2], 32) :
		 ctx_load(ctx, sizeof(struct ethhdr) + 12, &words[2], 8))
		return 0;
	return bpf_csum_diff(NULL, 0, words, sizeof(words), 0);
}

/*
 * Whether the datagram of len bytes at off has the checksum that it should have: over all of it or, of a
 * local sender that leaves the rest to its device, over the pseudo header.
 */
SUBPROGRAM int sums_up(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
	struct csum_walk w = { .ctx = ctx, .off = off, .left = len };
	__sum16 check = 0;

	if (!p ||
	    ctx_load(ctx, off + __builtin_offsetof(struct udphdr, check), &check, sizeof(check)))
		return false;
	w.sum = sum_outer_pseudo(ctx, !addr_is_v4(&p->key.origin), len);
	if (check == fold_words(w.sum))
		return true;
	bpf_loop(CSUM_CHUNKS, sum_chunk, &w, 0);
	return !w.left && is_right(w.sum);
}

#ifndef XDP
/*
 * Whether the NIC has summed up the packet (CHECKSUM_COMPLETE), and the sum is right. It begins with the
 * IP header, whose own sum is subtracted: that of an IPv4 header is zero.
 */
static __always_inline bool is_complete_right(CTX *ctx, const struct pkt *p, __u32 len)
{
	bool v6 = !addr_is_v4(&p->key.origin);
	struct ipv6hdr ip6;
	__s64 sum = bpf_csum_update(ctx, 0);
	__wsum pseudo;

	if (sum < 0)
		return false;
	pseudo = sum_outer_pseudo(ctx, v6, len);
	pseudo = bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), sum);
	if (!v6)
		return is_right(pseudo);
	if (ctx_load(ctx, sizeof(struct ethhdr), &ip6, sizeof(ip6)))
		return false;
	return is_right(bpf_csum_diff((void *)&ip6, sizeof(ip6), NULL, 0, pseudo));
}

/* Whether the checksum is left to a device: then the kernel does not write what others would change. */
static __always_inline bool is_outer_partial(CTX *ctx, __u32 check)
{
	__sum16 before = 0, after = 0;

	if (ctx_load(ctx, check, &before, sizeof(before)) ||
	    bpf_l4_csum_replace(ctx, check, 0, 1, sizeof(before)) ||
	    ctx_load(ctx, check, &after, sizeof(after)))
		return false;
	if (before == after)
		return true;
	bpf_l4_csum_replace(ctx, check, 1, 0, sizeof(before));
	return false;
}

/* Verifies the checksum of the datagram of len bytes at off. Returns a drop reason, or 0. */
SUBPROGRAM int verify_outer(CTX *ctx, struct pkt *p, __u32 off, __u32 len)
{
	if (!p || bpf_csum_level(ctx, BPF_CSUM_LEVEL_QUERY) >= 0)
		return 0;
	if (is_complete_right(ctx, p, len) || sums_up(ctx, p, off, len) ||
	    is_outer_partial(ctx, off + __builtin_offsetof(struct udphdr, check)))
		return 0;
	return REASON_OUTER_CHECKSUM;
}
#endif

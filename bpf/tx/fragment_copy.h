/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * fragment_copy: the copy of a packet that tx/fragment.h fragments: its IP header, as the first
 * fragment and the others have it, and its payload with a complete checksum.
 *
 * in:    p, decapsulated
 * out:   the work map
 * maps:  fragment_works
 * stops: TOO_BIG, NO_HEADROOM
 */
#pragma once

#include "core/csum_partial.h"
#include "core/within.h"
#include "tx/headers.h"

/* What loops have. It is on the stack, as a callback's context must be. */
struct fragmenter {
	CTX *ctx;
	struct pkt *p;
	struct fragment_work *work;
};

/* One byte of the options. Those that are for the first fragment only become no-operations. */
static long strip_option(__u64 index, struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	__u32 at = sizeof(struct iphdr) + index;

	if (at >= w->ihl)
		return 1;
	barrier_var(at); /* the verifier wants this very value tested */
	if (at >= IHL_MAX)
		return 1;
	if (!w->option_left) {
		if (w->other[at] == IPOPT_END)
			return 1;
		w->option_copied = w->other[at] & IPOPT_COPIED;
		w->option_left = w->other[at] == IPOPT_NOP ? 1 : w->other[at + 1];
		if (!w->option_left)
			return 1;
	}
	if (!w->option_copied)
		w->other[at] = IPOPT_NOP;
	w->option_left--;
	return 0;
}

#define SUMMED 512 /* bytes that bpf_csum_diff() sums at once */

static long sum_payload(__u64 index, struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	__u32 at = index * SUMMED, n = w->len;

	if (at >= n)
		return 1;
	n = (n - at + 3) & ~3U;
	if (n > SUMMED)
		n = SUMMED;
	barrier_var(at);
	if (at < FRAGMENTED_MAX)
		w->sum = bpf_csum_diff(NULL, 0, (void *)w->payload + at, n, w->sum);
	return 0;
}

/* Completes a checksum that the sender has left to its device (core/csum_partial.h). */
static __always_inline void complete_checksum(struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	const struct pkt *p = f->p;
	struct iphdr *ip = (void *)w->first;
	bool tcp = p->key.proto == IPPROTO_TCP;
	__sum16 *check = (void *)w->payload + (tcp ? __builtin_offsetof(struct tcphdr, check) :
						     __builtin_offsetof(struct udphdr, check));
	__u32 len = w->len;

	if ((!tcp && p->key.proto != IPPROTO_UDP) || p->key.fragment)
		return;
	if (*check !=
	    fold_words((__u64)ip->saddr + ip->daddr + bpf_htons(p->key.proto) + bpf_htons(len)))
		return;
	if (len > FRAGMENTED_MAX)
		return;
	*(__u32 *)(w->payload + len) = 0;
	w->sum = 0;
	bpf_loop(FRAGMENTED_MAX / SUMMED, sum_payload, f, 0);
	*check = fold(w->sum);
	if (!*check && !tcp)
		*check = 0xffff;
}

/* Copies the packet, which is decapsulated, as w->ihl and w->len tell. */
static __always_inline int load_packet(struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	__u32 ihl = w->ihl, len = w->len;

	if (!within(ihl, sizeof(struct iphdr), IHL_MAX) || !within(len, 1, FRAGMENTED_MAX))
		return REASON_TOO_BIG;
	if (bpf_skb_load_bytes(f->ctx, f->p->l3, w->first, ihl) ||
	    bpf_skb_load_bytes(f->ctx, f->p->l4, w->payload, len))
		return REASON_NO_HEADROOM;
	copy64(w->other, w->first, sizeof(w->other));
	w->option_left = 0;
	bpf_loop(IHL_MAX - sizeof(struct iphdr), strip_option, f, 0);
	complete_checksum(f);
	return 0;
}

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
#include "tx/headers.h"

#define FRAGMENTED_MAX 9216 /* bytes of an IP packet's payload */
#define IHL_MAX 60

/* A packet that is fragmented. The second half is never used: the verifier adds bounds. */
struct fragment_work {
	__u8 first[64]; /* IP header of the first fragment, and of the others */
	__u8 other[64];
	__u8 payload[2 * FRAGMENTED_MAX];
};
MAP(PERCPU_ARRAY, fragment_works, __u32, struct fragment_work, 1);

static __always_inline struct fragment_work *fragment_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fragment_works, &zero);
}

struct option_walk4 {
	__u8 *header;
	__u32 end;
	__u32 left; /* bytes of the option */
	bool copied;
};

/* One byte of the options. Those that are for the first fragment only become no-operations. */
static long strip_option(__u64 index, struct option_walk4 *w)
{
	__u32 at = sizeof(struct iphdr) + index;

	if (at >= w->end)
		return 1;
	barrier_var(at); /* the verifier wants this very value tested */
	if (at >= IHL_MAX)
		return 1;
	if (!w->left) {
		if (w->header[at] == IPOPT_END)
			return 1;
		w->copied = w->header[at] & IPOPT_COPIED;
		w->left = w->header[at] == IPOPT_NOP ? 1 : w->header[at + 1];
		if (!w->left)
			return 1;
	}
	if (!w->copied)
		w->header[at] = IPOPT_NOP;
	w->left--;
	return 0;
}

/* Completes a checksum that the sender has left to its device (core/csum_partial.h). */
static __always_inline void complete_checksum(const struct pkt *p, struct fragment_work *w,
					      __u32 len)
{
	struct iphdr *ip = (void *)w->first;
	bool tcp = p->key.proto == IPPROTO_TCP;
	__sum16 *check = (void *)w->payload + (tcp ? __builtin_offsetof(struct tcphdr, check) :
						     __builtin_offsetof(struct udphdr, check));
	__u32 sum = 0;

	if ((!tcp && p->key.proto != IPPROTO_UDP) || p->key.fragment)
		return;
	if (*check !=
	    fold_words((__u64)ip->saddr + ip->daddr + bpf_htons(p->key.proto) + bpf_htons(len)))
		return;
	*(__u32 *)(w->payload + len) = 0;
	for (__u32 at = 0; at < FRAGMENTED_MAX; at += 512) {
		__u32 n = len > at ? (len - at + 3) & ~3U : 0;

		if (n > 512)
			n = 512;
		if (n)
			sum = bpf_csum_diff(NULL, 0, (void *)w->payload + at, n, sum);
	}
	*check = fold(sum);
	if (!*check && !tcp)
		*check = 0xffff;
}

/* Copies the packet, which is decapsulated. len: of its payload. */
static __always_inline int load_packet(CTX *ctx, struct pkt *p, struct fragment_work *w, __u32 ihl,
				       __u32 len)
{
	struct option_walk4 options = { .header = w->other, .end = ihl };

	if (ihl < sizeof(struct iphdr) || ihl > IHL_MAX || !len || len > FRAGMENTED_MAX)
		return REASON_TOO_BIG;
	if (bpf_skb_load_bytes(ctx, p->l3, w->first, ihl) ||
	    bpf_skb_load_bytes(ctx, p->l4, w->payload, len))
		return REASON_NO_HEADROOM;
	copy64(w->other, w->first, sizeof(w->other));
	bpf_loop(IHL_MAX - sizeof(struct iphdr), strip_option, &options, 0);
	complete_checksum(p, w, len);
	return 0;
}

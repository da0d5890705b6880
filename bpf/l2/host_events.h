/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * arrive: tells the Go side of hosts that came to ports, and of their addresses. Others
 * may know them elsewhere, and packets for them may go there: all shall be told at once.
 * A sender of many addresses is told of no faster than ARRIVAL_RATE; that some were not
 * told of is counted.
 *
 * in:    p->in, p->segment, p->key
 * out:   a struct arrival
 * maps:  arrivals, arrival_buckets, segments
 * stops: nothing
 */
#pragma once

#include "core/token_bucket.h"

#define ARRIVAL_RATE 10000 /* a second and core */
#define ARRIVAL_BURST 2048

/*
 * addr: NULL of the MAC address itself; was: end of the remote that it was behind, or 0.
 * Returns 0.
 */
SUBPROGRAM int arrive(struct pkt *p, const struct addr *addr, __u32 was)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL;
	struct arrival *a = NULL;
	struct bucket *b;
	__u32 zero = 0;

	if (!p || !seg || seg->encap == ENCAP_NONE || tracing)
		return 0;
	b = bpf_map_lookup_elem(&arrival_buckets, &zero);
	if (b && take_token(b, p->now_ns, ARRIVAL_RATE, ARRIVAL_BURST))
		a = bpf_ringbuf_reserve(&arrivals, sizeof(*a), 0);
	if (!a) {
		count(EVENT_ARRIVAL_LOST);
		return 0;
	}
	__builtin_memset(a, 0, sizeof(*a));
	if (addr)
		a->addr = *addr;
	a->segment = p->segment;
	a->end = p->in;
	copy16(a->mac, p->key.smac, ETH_ALEN);
	a->was = was;
	bpf_ringbuf_submit(a, 0);
	return 0;
}

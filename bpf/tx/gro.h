/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * coalesce: lets the kernel put a TCP flow's packets together again where the
 * sender, or a NIC, has cut its large segments (GRO behind the tunnel).
 *
 * The kernel coalesces where a device polls (NAPI). Behind a tunnel that we
 * remove there is none, so packets that come in a burst go through a veth pair
 * of our own: in at one end, whose other end polls, and from there to the port
 * as one segment. Who decided about them was the flow's decision; only the port
 * travels along, in the mark. The segment travels as a VLAN tag: GRO joins
 * packets of equal tags only, so it cannot join those of two tenants.
 *
 * The first packet of a burst and a lone request take the direct way. A packet
 * that follows one that was polled goes the same way, so that it cannot overtake.
 *
 * in:    a decision for a port, p decapsulated
 * out:   f->burst, f->burst_ns
 * maps:  ends (0 is the pair's near end)
 * stops: NO_ROOM
 */
#pragma once

#include "core/pkt.h"

/* Packets closer than this are a burst; those that were polled are out after the second. */
#define BURST_NS 5000
#define DRAINED_NS 50000
/* Smaller payloads are not worth it. */
#define BURST_BYTES 512

#define COALESCER 0 /* the end that stands for the pair */

/* Whether the packet shall be coalesced; keeps the flow's burst up to date. */
static __always_inline bool in_burst(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct end *pair = end_get(COALESCER);
	__u32 now, since;
	bool polled, small = p->frame_len < p->headers + BURST_BYTES;

	if (!pair || !pair->ifindex || !p->tcp_flags || is_gso(ctx))
		return false;
	if (f->burst == BURST_NONE && small)
		return false;
	now = bpf_ktime_get_ns();
	since = now - f->burst_ns;
	f->burst_ns = now;
	polled = f->burst == BURST_POLLED;
	if (since < BURST_NS || (polled && since < DRAINED_NS)) {
		f->burst = BURST_POLLED;
		return true;
	}
	f->burst = small ? BURST_NONE : BURST_FIRST;
	return false;
}

/* Sends the frame through the pair. from_coalescer() takes the tag off again. */
static __always_inline int coalesce(CTX *ctx, struct pkt *p, __u32 port, __u32 segment)
{
	struct end *pair = end_get(COALESCER);

	if (!pair || bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), segment & 0xfff))
		return REASON_NO_ROOM;
	ctx->mark = port;
	count(EVENT_COALESCED);
	p->verdict = bpf_redirect(pair->ifindex, 0);
	return 0;
}

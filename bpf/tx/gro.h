/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * gro: lets the kernel coalesce a TCP flow after decapsulation, where the sender or a NIC has
 * cut its large segments.
 *
 * The kernel coalesces where a device polls (NAPI). Behind a tunnel that this program removes
 * no device does, so bursts go through a veth pair: into one end, whose peer polls, and from
 * there to the port as one segment. The decision was taken before; the mark carries the port.
 * The segment number travels as a VLAN tag: GRO coalesces only packets with equal tags, so it
 * never joins packets of two tenants.
 *
 * The first packet of a burst, and single requests, take the direct way. A packet that follows
 * a polled one goes through the pair, so that it cannot overtake.
 *
 * in:    a decision for a port, p decapsulated
 * out:   f->burst, f->burst_ns
 * maps:  vports (0 is the near end of the pair)
 * stops: NO_HEADROOM
 */
#pragma once

#include "core/count.h"

/* Packets closer than the first are a burst; after the second, polled packets have left. */
#define BURST_NS 5000
#define DRAINED_NS 50000
/* Smaller payloads are not worth it. */
#define BURST_BYTES 512

#define GRO_VPORT 0 /* vport of the pair */

/* Whether the packet is part of a burst; updates the flow's state. */
static __always_inline bool in_burst(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct vport *pair = vport_get(GRO_VPORT);
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

/* Sends the frame through the pair. from_gro() removes the tag. */
static __always_inline int gro_send(CTX *ctx, struct pkt *p, __u32 port, __u32 segment)
{
	struct vport *pair = vport_get(GRO_VPORT);

	if (!pair || bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), segment & 0xfff))
		return REASON_NO_HEADROOM;
	ctx->mark = port;
	count(EVENT_GRO);
	p->verdict = bpf_redirect(pair->ifindex, 0);
	return 0;
}

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
 * The pair also cuts. A large segment out of a tunnel can only be cut where the tunnel header is
 * still there: afterwards the kernel would cut it by marks of a header that is gone. A TCP segment
 * never needs that. Any other goes through the pair as it came, whose near end takes no large
 * segments, and its packets come back to the underlay interface one by one.
 *
 * in:    a decision for a port, p decapsulated; or a tunnel packet, parsed
 * out:   f->burst, f->burst_ns
 * maps:  vports (0 is the near end of the pair)
 * stops: NO_HEADROOM, GSO_UDP
 */
#pragma once

#include "core/count.h"

/* Packets closer than the first are a burst; after the second, polled packets have left. */
#define BURST_NS 5000
#define DRAINED_NS 50000
/* Smaller payloads are not worth it. */
#define BURST_BYTES 512

#define GRO_VPORT 0 /* vport of the pair */

/* Marks of packets in the pair and behind it. */
#define MARK_CUT 0x80000000 /* skb->mark: cut, and back to the interface of the other bits */
#define WAS_CUT 0x5c07	    /* skb->tc_index: it has been through the pair to be cut */

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

/*
 * Whether a large segment out of a tunnel has to be cut before it is decapsulated: datagrams, and
 * tunnel packets that GRO joined by their outer headers, where the first frame does not fill the
 * segment. why: what is wrong with the first frame, which says nothing about the others.
 */
static __always_inline bool must_cut(CTX *ctx, const struct pkt *p, int why)
{
	if (!p->inner || !is_gso(ctx))
		return false;
	return why || p->key.proto == IPPROTO_UDP || p->frame_len > p->headers + p->payload;
}

/* Has the kernel cut a tunnel packet. why: the reason to drop it if that is not possible. */
static __always_inline int cut(CTX *ctx, struct pkt *p, int why)
{
	struct vport *pair = vport_get(GRO_VPORT);

	if (!pair || !pair->ifindex || ctx->tc_index == WAS_CUT)
		return drop(ctx, p, why ? why : REASON_GSO_UDP);
	ctx->mark = MARK_CUT | ctx->ifindex;
	count(EVENT_GSO_CUT);
	return bpf_redirect(pair->ifindex, 0);
}

/* A packet that was cut is received once more. */
static __always_inline int receive_cut(CTX *ctx)
{
	__u32 ifindex = ctx->mark & ~MARK_CUT;

	ctx->mark = 0;
	ctx->tc_index = WAS_CUT;
	return bpf_redirect(ifindex, BPF_F_INGRESS);
}

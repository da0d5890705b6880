// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The machine's limit of forwarding: every frame leaves by the other interface as
 * it came. No look at the packet, no state, no counter: whoever forwards with XDP
 * or at tc cannot be faster.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

enum { KIND_DEVMAP = 14 }; /* BPF_MAP_TYPE_DEVMAP */

struct {
	__uint(type, KIND_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32); /* ifindex of the other interface */
} out SEC(".maps");

SEC("xdp")
int limit(void *ctx)
{
	(void)ctx;
	return bpf_redirect_map(&out, 0, 0);
}

/* A veth takes back what the other end sends by XDP_TX only where a program is attached. */
SEC("xdp")
int pass(void *ctx)
{
	(void)ctx;
	return 2; /* XDP_PASS */
}

const volatile __u32 access_ifindex, underlay_ifindex; /* of Between */

/* The same at tc, for whole segments of the end systems. */
SEC("tcx/ingress")
int hand_over(void *ctx)
{
	(void)ctx;
	return bpf_redirect(underlay_ifindex, 0);
}

/* Into the other end of a veth, without its queue: for whom the frame is, is not this host's. */
SEC("tcx/ingress")
int deliver(struct __sk_buff *skb)
{
	if (skb->pkt_type == PACKET_OTHERHOST)
		bpf_skb_change_type(skb, PACKET_HOST);
	return bpf_redirect_peer(access_ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

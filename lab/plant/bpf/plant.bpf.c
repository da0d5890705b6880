// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Harm that is planted into one of two equal data paths, so that a comparison can
 * show that it finds it: a loop of nothing for each packet, or one packet of many
 * that is dropped. Both are counted.
 */
#include "net.h"
#include <bpf/bpf_helpers.h>

#define SMALL 1514 /* bytes; what is longer is a segment that is not cut yet */

const volatile __u32 udp_turns, small_tcp_turns, bulk_tcp_turns; /* of the loop */
const volatile __u32 one_of; /* UDP packets is dropped; 0: none */

__u64 delayed, dropped; /* packets */

static long turn(__u32 i, void *none)
{
	(void)i, (void)none;
	return 0;
}

/* The IP protocol of an IPv4 packet, 0 of others. */
static __always_inline __u8 proto_of(struct __sk_buff *skb)
{
	__u8 proto = 0;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		bpf_skb_load_bytes(
			skb, sizeof(struct ethhdr) + __builtin_offsetof(struct iphdr, protocol),
			&proto, 1);
	return proto;
}

SEC("tcx/egress")
int plant(struct __sk_buff *skb)
{
	static __u64 udp;
	__u8 proto = proto_of(skb);
	__u32 turns = 0;

	if (proto == IPPROTO_UDP && one_of && ++udp % one_of == 0) {
		dropped++;
		return TCX_DROP;
	}
	if (proto == IPPROTO_UDP)
		turns = udp_turns;
	if (proto == IPPROTO_TCP)
		turns = skb->len > SMALL ? bulk_tcp_turns : small_tcp_turns;
	if (turns) {
		delayed++;
		bpf_loop(turns, turn, NULL, 0);
	}
	return TCX_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

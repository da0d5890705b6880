// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * When packets leave the stacks of guests and when their sockets have them, for the lab's
 * breakdown of a round trip: stamps like those of the edge between them, see core/stamp.h.
 * Only namespaces that are followed are stamped.
 */
#include "core/stamp.h"
#include "include/netdev.h"

struct sock_common {
	possible_net_t skc_net;
} KERNEL;

struct sock {
	struct sock_common __sk_common;
} KERNEL;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, __u32); /* inode number of a network namespace */
	__type(value, __u32);
} followed SEC(".maps");

static __always_inline void stamp_in(__u32 netns, enum point at)
{
	if (bpf_map_lookup_elem(&followed, &netns))
		stamp(at);
}

/* void net_dev_start_xmit(skb, device) */
SEC("tp_btf/net_dev_start_xmit")
int leaves(__u64 *args)
{
	stamp_in(netns_of((struct net_device *)args[1]), POINT_LEAVES);
	return 0;
}

/* void sk_data_ready(socket) */
SEC("tp_btf/sk_data_ready")
int ready(__u64 *args)
{
	struct sock *sk = (struct sock *)args[0];

	stamp_in(sk->__sk_common.skc_net.net->ns.inum, POINT_READY);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

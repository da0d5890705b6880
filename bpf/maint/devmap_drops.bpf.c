// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Packets that a transit program redirected and the egress interface did not take: its ring
 * was full, or it went down. Only tracepoints show that.
 *
 * maps:  xdp_interfaces, drops
 */
#include "abi/abi.h"
#include "netdev.h"

/* Inode number of the edge's network namespace. */
const volatile __u32 this_netns;

static __always_inline void count_devmap_drops(const struct net_device *from, __u32 packets)
{
	__u32 ifindex = from->ifindex, reason = REASON_DEVMAP_DROP;
	struct counter *c;

	if (netns_of(from) != this_netns || !bpf_map_lookup_elem(&xdp_interfaces, &ifindex))
		return;
	c = bpf_map_lookup_elem(&drops, &reason);
	if (c)
		c->packets += packets;
}

/* void xdp_devmap_xmit(from, to, sent, dropped, error) */
SEC("tp_btf/xdp_devmap_xmit")
int not_sent(__u64 *args)
{
	int dropped = args[3];

	if (dropped > 0)
		count_devmap_drops((struct net_device *)args[0], dropped);
	return 0;
}

/* void xdp_redirect_err(from, program, target, error, …), for redirects by map too */
SEC("tp_btf/xdp_redirect_err")
int not_redirected(__u64 *args)
{
	count_devmap_drops((struct net_device *)args[0], 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What the transit programs sent on and the next interface did not take: its ring was
 * full, or it went down. That shows after the program has ended, in tracepoints.
 *
 * maps:  takers, drops
 */
#include "abi/maps.h"
#include "netdev.h"

/* The network namespace of the edge, by its inode number. */
const volatile __u32 this_netns;

static __always_inline void count_refused(const struct net_device *from, __u32 packets)
{
	__u32 ifindex = from->ifindex, reason = REASON_NOT_TAKEN;
	struct counter *c;

	if (netns_of(from) != this_netns || !bpf_map_lookup_elem(&takers, &ifindex))
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
		count_refused((struct net_device *)args[0], dropped);
	return 0;
}

/* void xdp_redirect_err(from, program, target, error, …), for a redirect by a map too */
SEC("tp_btf/xdp_redirect_err")
int not_redirected(__u64 *args)
{
	count_refused((struct net_device *)args[0], 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Who drops what in a network namespace: the kernel's own reasons for packets that
 * it frees, and the frames that XDP could not hand on. Only namespaces that are
 * followed are counted. What a program drops on purpose (XDP_DROP) passes none of
 * these tracepoints; the driver counts it.
 */
#include "kernel.h"
#include "netdev.h"
#include <bpf/bpf_helpers.h>

struct sk_buff {
	struct net_device *dev;
} KERNEL;

enum cause {
	CAUSE_FREED,	 /* detail: enum skb_drop_reason */
	CAUSE_EXCEPTION, /* detail: the action that an XDP program asked for */
	CAUSE_REDIRECT,	 /* detail: the error of a redirect */
	CAUSE_DEVMAP,	 /* detail: the error of a transmission after a redirect */
	CAUSE_TX,	 /* detail: the error of an XDP_TX */
};

struct loss {
	__u32 netns; /* inode number */
	enum cause cause;
	__u32 detail;
};

struct follow {
	bool freed; /* count packets that are freed, too */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); /* inode number */
	__type(value, struct follow);
} followed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct loss);
	__type(value, __u64); /* packets */
} losses SEC(".maps");

static __always_inline void count(__u32 netns, enum cause cause, __u32 detail, __u64 packets)
{
	struct loss key = { .netns = netns, .cause = cause, .detail = detail };
	struct follow *follow = bpf_map_lookup_elem(&followed, &netns);
	__u64 none = 0, *n;

	if (!follow || (cause == CAUSE_FREED && !follow->freed))
		return;
	n = bpf_map_lookup_elem(&losses, &key);
	if (!n) {
		bpf_map_update_elem(&losses, &key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&losses, &key);
	}
	if (n)
		__sync_fetch_and_add(n, packets);
}

/* void kfree_skb(skb, location, reason, receiving socket) */
SEC("tp_btf/kfree_skb")
int freed(__u64 *args)
{
	struct sk_buff *skb = (struct sk_buff *)args[0];
	struct net_device *dev = skb->dev;

	if (dev)
		count(netns_of(dev), CAUSE_FREED, args[2], 1);
	return 0;
}

/* void xdp_exception(device, program, action) */
SEC("tp_btf/xdp_exception")
int exception(__u64 *args)
{
	struct net_device *dev = (struct net_device *)args[0];

	count(netns_of(dev), CAUSE_EXCEPTION, args[2], 1);
	return 0;
}

/* void xdp_redirect_err(device, program, target, error, ...) */
SEC("tp_btf/xdp_redirect_err")
int redirect_error(__u64 *args)
{
	struct net_device *dev = (struct net_device *)args[0];

	count(netns_of(dev), CAUSE_REDIRECT, -(int)args[3], 1);
	return 0;
}

/* void xdp_devmap_xmit(from, to, sent, dropped, error) */
SEC("tp_btf/xdp_devmap_xmit")
int devmap(__u64 *args)
{
	struct net_device *to = (struct net_device *)args[1];
	int dropped = args[3];

	if (dropped > 0)
		count(netns_of(to), CAUSE_DEVMAP, -(int)args[4], dropped);
	return 0;
}

/* void xdp_bulk_tx(device, sent, dropped, error) */
SEC("tp_btf/xdp_bulk_tx")
int bulk(__u64 *args)
{
	struct net_device *dev = (struct net_device *)args[0];
	int dropped = args[2];

	if (dropped > 0)
		count(netns_of(dev), CAUSE_TX, -(int)args[3], dropped);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

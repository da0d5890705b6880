// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The machine's limit of forwarding: every frame leaves by the other interface as
 * it came. No look at the packet, no state, no counter: whoever forwards with XDP
 * cannot be faster.
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

char LICENSE[] SEC("license") = "Dual BSD/GPL";

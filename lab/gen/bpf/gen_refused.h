/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * refused: counts the frames of the generator that an interface did not take. The
 * kernel tells it in tracepoints only.
 *
 * maps:  failed_redirects
 */
#pragma once

#include "gen.h"
#include "netdev.h"

struct bpf_prog_aux {
	__u32 id;
} KERNEL;

struct bpf_prog {
	struct bpf_prog_aux *aux;
} KERNEL;

struct interface {
	__u32 netns; /* inode number */
	__u32 ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8);
	__type(key, struct interface);
	__type(value, __u64); /* frames */
} failed_redirects SEC(".maps");

/* The generator's id, and how many of its frames no interface was asked to take. */
__u32 generator;
__u64 unredirected;

/* void xdp_devmap_xmit(from, to, sent, dropped, error) */
static __always_inline void count_refused(__u64 *args)
{
	struct net_device *to = (struct net_device *)args[1];
	int dropped = args[3];
	struct interface key;
	__u64 *n;

	if (dropped <= 0)
		return;
	key.netns = netns_of(to);
	key.ifindex = to->ifindex;
	n = bpf_map_lookup_elem(&failed_redirects, &key);
	if (n)
		__sync_fetch_and_add(n, dropped);
}

/* void xdp_redirect_err(device, program, target, error, …), for a redirect by a map too */
static __always_inline void count_unredirected(__u64 *args)
{
	struct bpf_prog *program = (struct bpf_prog *)args[1];

	if (program->aux->id == generator)
		__sync_fetch_and_add(&unredirected, 1);
}

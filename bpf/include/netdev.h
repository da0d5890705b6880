/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What of the kernel's own structures programs at tracepoints read. Only these fields
 * are named; their places are the running kernel's, which the loader finds by BTF.
 */
#pragma once

#define KERNEL __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	possible_net_t nd_net;
	int ifindex;
} KERNEL;

/* The inode number of the network namespace that the device is in. */
static __attribute__((always_inline)) inline unsigned int netns_of(const struct net_device *dev)
{
	return dev->nd_net.net->ns.inum;
}

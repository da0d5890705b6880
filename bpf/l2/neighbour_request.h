/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour_request: whether the edge asks for the MAC address of a next hop. It asks for each
 * once a second (as RFC 4861 10, RETRANS_TIMER, and RFC 1122 2.3.2.1 want), however many
 * packets wait, and each port causes a limited number of requests.
 *
 * in:    p, p->nexthop, the decision
 * out:   the time of the request
 * maps:  neighbour_requests, owner_limits, owner_usages
 * stops: nothing
 */
#pragma once

#include "tx/icmp.h"

#define RETRANS_NS NS_PER_SECOND

/* Whether this core asks: the time is taken by one core only. */
static __always_inline bool may_ask(struct pkt *p)
{
	struct neighbour_key key = { .segment = p->decision.to_segment, .addr = p->nexthop };
	__u64 *asked = bpf_map_lookup_elem(&neighbour_requests, &key), then = 0, now = p->now_ns;

	if (tracing)
		return true;
	if (asked) {
		then = *asked;
		if (ns_since(then, now) < (__s64)RETRANS_NS)
			return false;
	}
	if (!may_send(p, RATE_NEIGHBOUR_REQUESTS))
		return false;
	if (asked)
		return __sync_val_compare_and_swap(asked, then, now) == then;
	return !bpf_map_update_elem(&neighbour_requests, &key, &now, BPF_NOEXIST);
}

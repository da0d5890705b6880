/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * work: memory of the firewall for values that are too large for the stack. No other stage reads
 * it: what a stage hands on is an argument, or a field of struct pkt.
 */
#pragma once

#include "core/limits.h"

struct ct_work {
	struct ct_key key;     /* of the packet's connection */
	struct ct_entry entry; /* a connection that is inserted */
	struct fragment_key fragment;
	struct fragment_key fragment_slot;
	struct fragment_first fragment_first;
	struct rule_query query;
	struct rule_match match;
	struct limit_entry oldest; /* key of a connection that may be evicted */
};

MAP(PERCPU_ARRAY, ct_works, __u32, struct ct_work, 1);

static __always_inline struct ct_work *ct_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&ct_works, &zero);
}

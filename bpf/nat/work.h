/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * work: memory of NAT for values that are too large for the stack. No other stage reads it: what
 * NAT hands on is in struct pkt.
 */
#pragma once

#include "core/count.h"

struct nat_work {
	struct ct_key key;	   /* of the packet's session */
	struct ct_key reverse_key; /* of a session */
	struct ct_key mapping_key; /* of the source's mapping */
	struct ct_key stolen_key;  /* of a session that loses its port or place */
	struct ct_key stolen_reverse;
	struct nat_orig orig;	    /* value of a reverse key that is inserted */
	struct nat_session session; /* one that is created */
	struct fragment_key fragment;
	struct fragment_key fragment_slot;
	struct fragment_translation translated; /* the fragment's */
	struct ct_key inbound_slot;		/* nat/inbound.h: with its entry */
	struct nat_session slot;
	struct rule_query query; /* to the egress policies */
	struct rule_match match;
	struct addr via;  /* remote that the translated destination is behind, or zero */
	__u16 via_policy; /* policy in whose segment it is sent there */
};

MAP(PERCPU_ARRAY, nat_works, __u32, struct nat_work, 1);

static __always_inline struct nat_work *nat_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&nat_works, &zero);
}

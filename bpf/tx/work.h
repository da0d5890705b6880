/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * work: memory for packets that are written anew, in fragments or as what an ICMP error embeds. A
 * packet is one of both at a time.
 */
#pragma once

#include "core/pkt.h"

#define FRAGMENTED_MAX 9216 /* bytes of an IP packet's payload */
#define IHL_MAX 60

/*
 * A packet that is fragmented, and how far that has come: what loops change is here, where the
 * verifier does not follow its values through each round. The second half of the payload is
 * never used: the verifier adds bounds.
 */
struct fragment_work {
	__u8 first[64]; /* IP header of the first fragment, and of the others */
	__u8 other[64];
	__u8 payload[2 * FRAGMENTED_MAX];
	__u32 out;     /* vport */
	__u32 segment; /* egress */
	__u32 how;     /* entropy and ENCAP_REUSE */
	__u32 ihl;
	__u32 len;	   /* of the payload */
	__u32 step;	   /* payload of each fragment but the last */
	__u32 at;	   /* offset of the fragment in the payload */
	__u32 front;	   /* bytes before the inner frame */
	__u32 sum;	   /* of the payload */
	__u32 option_left; /* bytes of the IP option */
	int why;
	__u16 whole; /* offset and flags of the packet as it came */
	bool option_copied;
};
MAP(PERCPU_ARRAY, fragment_works, __u32, struct fragment_work, 1);

static __always_inline struct fragment_work *fragment_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fragment_works, &zero);
}

/* A packet's start, where its checksum is computed. */
struct scratch {
	__u8 bytes[1536];
};

static __always_inline struct scratch *scratch(void)
{
	return (struct scratch *)FIELD_OF(fragment_work(), payload);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * scratch: what firewall and NAT know of the packet of this core. It is in a map of its own, so
 * that the transit fast path can have struct pkt on its stack.
 */
#pragma once

#include "core/pkt.h"

BYTE_ENUM l4_kind {
	L4_WHOLE,
	L4_ICMP_ERROR,	   /* src to dport are those of the embedded packet, reversed */
	L4_FIRST_FRAGMENT, /* with the transport header */
	L4_LATER_FRAGMENT, /* without it */
};

/* The transport header, after any extension headers. */
struct l4_info {
	struct addr src;
	struct addr dst;
	__u32 seq;	   /* TCP */
	__u32 end;	   /* TCP: sequence number after the packet */
	__u32 ack;	   /* TCP */
	__u32 id;	   /* of a fragmented datagram */
	__u16 off;	   /* of the transport header, from the IP header */
	__u16 embedded_l3; /* L4_ICMP_ERROR: of the embedded IP header */
	__u16 embedded_l4; /* L4_ICMP_ERROR: of the embedded transport header */
	__be16 sport;
	__be16 dport;
	__u16 icmp; /* type << 8 | code */
	__u8 proto;
	__u8 flags;    /* TCP */
	__u8 scale;    /* TCP, with SYN: window scale, NO_SCALE: none */
	__u8 echo_dir; /* ICMP echo: 1 a request, 2 a reply */
	enum l4_kind kind;
	bool uncached; /* the flow key does not distinguish such packets */
};

struct fw_scratch {
	struct counter unreported; /* counted by the flow since the last report to conntrack */
	__u32 flow_seq;		   /* TCP: the flow's next_seq, with has_seq */
	__u32 next_seq;		   /* TCP: end of the tracked packets of the direction */
	bool has_seq;
	struct l4_info l4;
	struct rule_query query;
	struct rule_match match;
	struct ct_key key;
	struct ct_entry new_ct; /* a connection that is created */
	struct fragment_key fragment;
	/* NAT: */
	struct translation translation; /* of the packet */
	struct addr via_remote;		/* remote that the destination is behind, or zero */
	__u16 egress;			/* policy or uplink that translates the source, or 0 */
	__u16 via_policy;		/* policy in whose segment it is sent to via_remote */
	__u16 nexthop;			/* to the gateway, or 0 */
	__u16 previous_nexthop;		/* that of the cached flow */
	bool created_inbound;		/* the packet created a session from outside: reverse_key */
	struct ct_key reverse_key;	/* of a session */
	struct ct_key mapping_key;	/* of the source's mapping */
	struct ct_key stolen_key;	/* of a session that loses its port */
	struct nat_orig orig;		/* value of a reverse key that is inserted */
	struct nat_session session;	/* one that is created */
};

MAP(PERCPU_ARRAY, fw_scratches, __u32, struct fw_scratch, 1);

static __always_inline struct fw_scratch *fw_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&fw_scratches, &zero);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* l4_info: what firewall and NAT read from the transport header; firewall/l4.h fills it in. */
#pragma once

#include "abi/cache.h"

BYTE_ENUM l4_kind {
	L4_WHOLE,
	L4_ICMP_ERROR,	   /* the tuple is that of the embedded packet, reversed */
	L4_FIRST_FRAGMENT, /* with the transport header */
	L4_LATER_FRAGMENT, /* without it */
};

/* The transport header, after any extension headers. */
struct l4_info {
	struct tuple tuple; /* as received */
	__u32 seq;	    /* TCP */
	__u32 end;	    /* TCP: sequence number after the packet */
	__u32 ack;	    /* TCP */
	__u32 id;	    /* of a fragmented datagram */
	__u16 off;	    /* of the transport header, from the IP header */
	__u16 embedded_l3;  /* L4_ICMP_ERROR: of the embedded IP header */
	__u16 embedded_l4;  /* L4_ICMP_ERROR: of the embedded transport header */
	__u16 icmp;	    /* type << 8 | code */
	/* Bytes of what is fragmented before a later fragment, or that are headers in a first one. */
	__u16 fragment;
	__u8 proto;
	__u8 flags;    /* TCP */
	__u8 scale;    /* TCP, with SYN: window scale, NO_SCALE: none */
	__u8 echo_dir; /* ICMP echo: 1 a request, 2 a reply */
	enum l4_kind kind;
	bool uncached; /* the flow key does not distinguish such packets */
};

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Headers on the wire. Every multi-byte field is in network byte order. */
#pragma once

#include "kernel.h"

#define ETH_ALEN 6
#define ETH_ZLEN 60 /* the smallest frame without its FCS (IEEE 802.3) */

enum ethertype {
	ETH_P_IP = 0x0800,
	ETH_P_ARP = 0x0806,
	ETH_P_8021Q = 0x8100,
	ETH_P_IPV6 = 0x86dd,
	ETH_P_8021AD = 0x88a8,
};

/* IP protocol numbers and IPv6 next headers (IANA). */
enum ipproto {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_ICMP = 1,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_ICMPV6 = 58,
	IPPROTO_DSTOPTS = 60,
};

struct ethhdr {
	__u8 dst[ETH_ALEN];
	__u8 src[ETH_ALEN];
	__be16 type;
};

struct iphdr { /* RFC 791 */
	__u8 ihl : 4, version : 4;
	__u8 tos;
	__be16 tot_len;
	__be16 id;
	__be16 frag_off;
	__u8 ttl;
	__u8 protocol;
	__sum16 check;
	__be32 saddr;
	__be32 daddr;
};

#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff

struct ipv6hdr {     /* RFC 8200 */
	__be32 flow; /* version, traffic class, flow label */
	__be16 payload_len;
	__u8 nexthdr;
	__u8 hop_limit;
	__be32 saddr[4];
	__be32 daddr[4];
};

struct ipv6_opt { /* hop-by-hop, routing and destination options headers */
	__u8 nexthdr;
	__u8 len; /* in units of 8 bytes, not counting the first */
};

struct udphdr { /* RFC 768 */
	__be16 source;
	__be16 dest;
	__be16 len;
	__sum16 check;
};

struct l4ports { /* the first bytes of TCP and of UDP */
	__be16 source;
	__be16 dest;
};

struct tcphdr { /* RFC 9293 */
	__be16 source;
	__be16 dest;
	__be32 seq;
	__be32 ack;
	__u8 ns : 1, res : 3, doff : 4;
	__u8 flags;
	__be16 window;
	__sum16 check;
	__be16 urg;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

struct vxlanhdr { /* RFC 7348 section 5 */
	__be32 flags;
	__be32 vni; /* upper 24 bits */
};

#define VXLAN_I bpf_htonl(0x08000000) /* the VNI is valid */

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Headers on the wire. Every multi-byte field is in network byte order. */
#pragma once

#include "kernel.h"

#define E2BIG 7 /* errno-base.h */
#define EEXIST 17

#define ETH_ALEN 6
#define ETH_ZLEN 60 /* the smallest frame without its FCS (IEEE 802.3) */

enum ethertype {
	ETH_P_IP = 0x0800,
	ETH_P_ARP = 0x0806,
	ETH_P_TEB = 0x6558, /* Ethernet in GRE and Geneve */
	ETH_P_8021Q = 0x8100,
	ETH_P_IPV6 = 0x86dd,
	ETH_P_MAC_CONTROL = 0x8808,
	ETH_P_LLC = 0x8870, /* LLC in frames of any length (IEEE 802.1AC) */
	ETH_P_8021AD = 0x88a8,
};

#define ETH_P_802_3_MIN 0x600 /* below, the ethertype is a length */

/* LLC SAPs (IEEE 802.2, RFC 948). */
#define LLC_SAP_IP 0x06
#define LLC_SAP_ARP 0x98
#define LLC_SAP_SNAP 0xaa

/* IP protocol numbers and IPv6 next headers (IANA). */
enum ipproto {
	IPPROTO_HOPOPTS = 0,
	IPPROTO_ICMP = 1,
	IPPROTO_TCP = 6,
	IPPROTO_UDP = 17,
	IPPROTO_DCCP = 33,
	IPPROTO_ROUTING = 43,
	IPPROTO_FRAGMENT = 44,
	IPPROTO_GRE = 47,
	IPPROTO_AH = 51,
	IPPROTO_ICMPV6 = 58,
	IPPROTO_DSTOPTS = 60,
	IPPROTO_SCTP = 132,
	IPPROTO_UDPLITE = 136,
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

struct vlanhdr { /* IEEE 802.1Q: what follows the TPID */
	__be16 tci;
	__be16 type;
};

#define VLAN_VID 0x0fff

struct arphdr { /* RFC 826, for Ethernet and IPv4 */
	__be16 hardware;
	__be16 protocol;
	__u8 hardware_len;
	__u8 protocol_len;
	__be16 op;
	__u8 sender_mac[ETH_ALEN];
	__u8 sender[4];
	__u8 target_mac[ETH_ALEN];
	__u8 target[4];
};

#define ARP_REQUEST 1
#define ARP_REPLY 2

struct icmphdr { /* RFC 792, RFC 4443 */
	__u8 type;
	__u8 code;
	__sum16 check;
	__be32 rest; /* MTU of "too big", identifier and sequence number of echo, or unused */
};

enum icmp_type {
	ICMP_ECHO_REPLY = 0,
	ICMP_UNREACHABLE = 3,
	ICMP_SOURCE_QUENCH = 4,
	ICMP_REDIRECT = 5,
	ICMP_ECHO = 8,
	ICMP_TIME_EXCEEDED = 11,
	ICMP_PARAMETER = 12,
};

enum icmp_code { /* of ICMP_UNREACHABLE */
		 ICMP_NET_UNREACHABLE = 0,
		 ICMP_HOST_UNREACHABLE = 1,
		 ICMP_PORT_UNREACHABLE = 3,
		 ICMP_FRAGMENTATION_NEEDED = 4,
		 ICMP_PROHIBITED = 13,
};

enum icmpv6_type {
	ICMPV6_UNREACHABLE = 1,
	ICMPV6_TOO_BIG = 2,
	ICMPV6_TIME_EXCEEDED = 3,
	ICMPV6_ECHO = 128,
	ICMPV6_ECHO_REPLY = 129,
	ICMPV6_ROUTER_SOLICITATION = 133,
	ICMPV6_ROUTER_ADVERTISEMENT = 134,
	ICMPV6_SOLICITATION = 135,
	ICMPV6_ADVERTISEMENT = 136,
	ICMPV6_ND_REDIRECT = 137,
};

enum icmpv6_code { /* of ICMPV6_UNREACHABLE */
		   ICMPV6_NO_ROUTE = 0,
		   ICMPV6_PROHIBITED = 1,
		   ICMPV6_ADDRESS_UNREACHABLE = 3,
		   ICMPV6_PORT_UNREACHABLE = 4,
};

struct nd_msg { /* RFC 4861: solicitation or advertisement, with one option */
	struct icmphdr icmp;
	__be32 target[4];
	__u8 option;	 /* 1: source, 2: target link-layer address */
	__u8 option_len; /* in units of 8 bytes */
	__u8 mac[ETH_ALEN];
};

#define ND_MIN 24 /* without an option */
#define RS_MIN 8  /* of a router solicitation */
#define NA_ROUTER bpf_htonl(0x80000000)
#define NA_SOLICITED bpf_htonl(0x40000000)
#define NA_OVERRIDE bpf_htonl(0x20000000)

#define IP_DF 0x4000
#define IP_MF 0x2000
#define IP_OFFSET 0x1fff
#define IPOPT_END 0
#define IPOPT_NOP 1
#define IPOPT_COPIED 0x80 /* into each fragment */

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

struct ipv6_frag { /* fragment header */
	__u8 nexthdr;
	__u8 reserved;
	__be16 offset; /* in units of 8 bytes, above 3 bits of flags */
	__be32 id;
};

struct udphdr { /* RFC 768 */
	__be16 source;
	__be16 dest;
	__be16 len;
	__sum16 check;
};

#define ECN_MASK 3
#define ECN_ECT1 1
#define ECN_ECT0 2
#define ECN_CE 3

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

/* TCP options: kinds */
#define TCPOPT_END 0
#define TCPOPT_NOP 1
#define TCPOPT_MSS 2
#define TCPOPT_SCALE 3 /* RFC 7323 2.2 */

struct vxlanhdr { /* RFC 7348 section 5 */
	__be32 flags;
	__be32 vni; /* upper 24 bits */
};

#define VXLAN_I bpf_htonl(0x08000000) /* the VNI is valid */

struct genevehdr {			   /* RFC 8926 section 3.4 */
	__u8 options_len : 6, version : 2; /* options in units of 4 bytes */
	__u8 flags;
	__be16 protocol;
	__be32 vni; /* upper 24 bits */
};

#define GENEVE_OAM 0x80

struct geneve_option { /* RFC 8926 section 3.5 */
	__be16 class;
	__u8 type;
	__u8 len : 5, reserved : 3; /* in units of 4 bytes, without these */
};

#define GENEVE_CRITICAL 0x80	 /* of the option's type */
#define GENEVE_HAS_CRITICAL 0x40 /* of the header's flags */

struct grehdr { /* RFC 2890, RFC 7637 section 3.2 */
	__be16 flags;
	__be16 protocol;
	__be32 key; /* VSID in the upper 24 bits, FlowID below */
};

#define GRE_KEY 0x2000
#define GRE_VERSION 0x0007

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * answer: says that every address is here, to a device under test that asks for
 * its neighbours: ARP (RFC 826) and neighbour discovery (RFC 4861), on the link
 * itself, not inside tunnels. Who asks for the address that it has itself, or has
 * none yet (RFC 5227, RFC 4862), gets no answer.
 *
 * in:    a foreign frame
 * out:   the answer in its place
 * maps:  addresses
 */
#pragma once

#include "gen_hear.h"

struct mac {
	__u8 bytes[ETH_ALEN];
};

const volatile bool answering;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32); /* ifindex */
	__type(value, struct mac);
} addresses SEC(".maps");

static __always_inline void reply_to(struct ethhdr *eth, const struct mac *own)
{
	__builtin_memcpy(eth->dst, eth->src, ETH_ALEN);
	__builtin_memcpy(eth->src, own, ETH_ALEN);
}

static __always_inline bool answer_arp(void *data, void *end, const struct mac *own)
{
	struct ethhdr *eth = data;
	struct arphdr *arp = (void *)(eth + 1);
	__u32 sender, asked;

	if ((void *)(arp + 1) > end || eth->type != bpf_htons(ETH_P_ARP))
		return false;
	__builtin_memcpy(&sender, arp->sender, 4);
	__builtin_memcpy(&asked, arp->target, 4);
	if (arp->op != bpf_htons(ARP_REQUEST) || !sender || sender == asked)
		return false;
	reply_to(eth, own);
	arp->op = bpf_htons(ARP_REPLY);
	__builtin_memcpy(arp->target_mac, arp->sender_mac, ETH_ALEN);
	__builtin_memcpy(arp->target, &sender, 4);
	__builtin_memcpy(arp->sender_mac, own, ETH_ALEN);
	__builtin_memcpy(arp->sender, &asked, 4);
	return true;
}

static __always_inline bool is_solicitation(const struct ipv6hdr *ip6, const struct nd_msg *nd)
{
	bool somebody = ip6->saddr[0] | ip6->saddr[1] | ip6->saddr[2] | ip6->saddr[3];

	return ip6->nexthdr == IPPROTO_ICMPV6 && ip6->hop_limit == 255 && somebody &&
	       ip6->payload_len == bpf_htons(sizeof(*nd)) && nd->icmp.type == ICMPV6_SOLICITATION &&
	       nd->option == 1 && nd->option_len == 1;
}

static __always_inline bool answer_nd(void *data, void *end, const struct mac *own)
{
	struct ethhdr *eth = data;
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	struct nd_msg *nd = (void *)(ip6 + 1);
	__u64 sum;

	if ((void *)(nd + 1) > end || eth->type != bpf_htons(ETH_P_IPV6))
		return false;
	if (!is_solicitation(ip6, nd))
		return false;
	reply_to(eth, own);
	__builtin_memcpy(ip6->daddr, ip6->saddr, sizeof(ip6->daddr));
	__builtin_memcpy(ip6->saddr, nd->target, sizeof(ip6->saddr));
	nd->icmp.type = ICMPV6_ADVERTISEMENT;
	nd->icmp.rest = NA_SOLICITED | NA_OVERRIDE;
	nd->option = 2;
	__builtin_memcpy(nd->mac, own, ETH_ALEN);
	nd->icmp.check = 0;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)ip6->saddr, 32, bpf_htonl(sizeof(*nd)));
	sum = bpf_csum_diff(NULL, 0, (__be32 *)nd, sizeof(*nd), sum);
	nd->icmp.check = checksum(sum + bpf_htonl(IPPROTO_ICMPV6));
	return true;
}

static __always_inline bool answer(struct frame *f, enum foreign kind)
{
	void *data = frame_data(f), *end = frame_end(f);
	__u32 ifindex = f->ingress_ifindex;
	struct mac *own;

	if (!answering || (kind != FOREIGN_ARP && kind != FOREIGN_ND))
		return false;
	own = bpf_map_lookup_elem(&addresses, &ifindex);
	if (!own)
		return false;
	return kind == FOREIGN_ARP ? answer_arp(data, end, own) : answer_nd(data, end, own);
}

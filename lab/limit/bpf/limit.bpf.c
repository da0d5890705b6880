// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The machine's limit of forwarding: every frame leaves by the other interface as
 * it came. No look at the packet, no state, no counter: whoever forwards with XDP
 * or at tc cannot be faster.
 */
#include "core/ctx.h"

enum { KIND_DEVMAP = 14 }; /* BPF_MAP_TYPE_DEVMAP */

struct {
	__uint(type, KIND_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32); /* ifindex of the other interface */
} out SEC(".maps");

SEC("xdp")
int limit(void *ctx)
{
	(void)ctx;
	return bpf_redirect_map(&out, 0, 0);
}

/* A veth takes back what the other end sends by XDP_TX only where a program is attached. */
SEC("xdp")
int pass(void *ctx)
{
	(void)ctx;
	return 2; /* XDP_PASS */
}

const volatile __u32 access_ifindex, underlay_ifindex; /* of Between */

/* The same at tc, for whole segments of the end systems. */
SEC("tcx/ingress")
int hand_over(void *ctx)
{
	(void)ctx;
	return bpf_redirect(underlay_ifindex, 0);
}

/* Into the other end of a veth, without its queue: for whom the frame is, is not this host's. */
SEC("tcx/ingress")
int deliver(struct __sk_buff *skb)
{
	if (skb->pkt_type == PACKET_OTHERHOST)
		bpf_skb_change_type(skb, PACKET_HOST);
	return bpf_redirect_peer(access_ifindex, 0);
}

/* Headers before an inner frame: of Ethernet, IPv4, UDP and VXLAN (RFC 7348). */
struct outer {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct vxlanhdr vxlan;
} __attribute__((packed));

const volatile __u8 template[sizeof(struct outer)]; /* with the checksum of lengths that are zero */

static __always_inline bool is_ip(const struct ethhdr *eth)
{
	return eth->type == bpf_htons(ETH_P_IP) || eth->type == bpf_htons(ETH_P_IPV6);
}

/* What a tunnel at tc costs at least: the headers are those of the template, but for their lengths. */
SEC("tcx/ingress")
int encapsulate(struct __sk_buff *skb)
{
	struct headroom r = { .len = sizeof(struct outer), .l2 = sizeof(struct ethhdr) };
	struct ethhdr inner, *eth = ctx_at(skb, 0, sizeof(inner));
	struct outer *o;
	__u32 len;

	if (!eth)
		return TCX_DROP;
	copy16(&inner, eth, sizeof(inner));
	r.ip = is_ip(&inner);
	if (ctx_push(skb, &r))
		return TCX_DROP;
	o = ctx_at(skb, 0, sizeof(*o) + sizeof(inner));
	if (!o)
		return TCX_DROP;
	for (__u32 i = 0; i < sizeof(*o); i += 2)
		*(__u16 *)((void *)o + i) = *(const volatile __u16 *)&template[i];
	copy16(o + 1, &inner, sizeof(inner));
	len = skb->len - sizeof(o->eth);
	o->ip.tot_len = len > 0xffff ? 0 : bpf_htons(len);
	o->udp.len = bpf_htons(len - sizeof(o->ip));
	o->ip.check = sum_replace(o->ip.check, 0, o->ip.tot_len);
	return bpf_redirect(underlay_ifindex, 0);
}

SEC("tcx/ingress")
int decapsulate(struct __sk_buff *skb)
{
	struct outer *o = ctx_at(skb, 0, sizeof(*o) + sizeof(struct ethhdr));
	struct ethhdr inner, *eth;

	if (!o || o->eth.type != bpf_htons(ETH_P_IP) || o->ip.protocol != IPPROTO_UDP ||
	    o->udp.dest != ((const volatile struct outer *)template)->udp.dest)
		return TCX_NEXT;
	copy16(&inner, o + 1, sizeof(inner));
	if (ctx_pull(skb, sizeof(*o), inner.type == bpf_htons(ETH_P_IPV6)))
		return TCX_DROP;
	eth = ctx_at(skb, 0, sizeof(*eth));
	if (!eth)
		return TCX_DROP;
	copy16(eth, &inner, sizeof(inner));
	return is_ip(&inner) ? bpf_redirect_peer(access_ifindex, 0) :
			       bpf_redirect(access_ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

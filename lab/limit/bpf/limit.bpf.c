// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The machine's limit of forwarding: every frame leaves by the other interface as
 * it came. No look at the packet, no state, no counter: whoever forwards with XDP
 * or at tc cannot be faster.
 */
#include "net.h"

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

/* Bytes of a header that is read or written as it is. */
static __always_inline void move(void *to, const volatile void *from, __u32 len)
{
	for (__u32 i = 0; i < len; i += 2)
		*(__u16 *)(to + i) = *(const volatile __u16 *)(from + i);
}

static __always_inline void *bytes_of(struct __sk_buff *skb, __u32 len)
{
	void *data = (void *)(long)skb->data;

	return data + len > (void *)(long)skb->data_end ? NULL : data;
}

static __always_inline bool is_ip(const struct ethhdr *eth)
{
	return eth->type == bpf_htons(ETH_P_IP) || eth->type == bpf_htons(ETH_P_IPV6);
}

/* What a tunnel at tc costs at least: the headers are those of the template, but for their lengths. */
SEC("tcx/ingress")
int encapsulate(struct __sk_buff *skb)
{
	struct ethhdr inner, *eth = bytes_of(skb, sizeof(inner));
	struct outer *o;
	__u32 len, sum;
	long err;

	if (!eth)
		return TCX_DROP;
	move(&inner, eth, sizeof(inner));
	if (is_ip(&inner))
		err = bpf_skb_adjust_room(skb, sizeof(*o), BPF_ADJ_ROOM_MAC,
					  BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 |
						  BPF_F_ADJ_ROOM_ENCAP_L4_UDP |
						  BPF_F_ADJ_ROOM_ENCAP_L2_ETH |
						  BPF_F_ADJ_ROOM_ENCAP_L2(sizeof(inner)));
	else
		err = bpf_skb_change_head(skb, sizeof(*o), 0);
	o = bytes_of(skb, sizeof(*o) + sizeof(inner));
	if (err || !o)
		return TCX_DROP;
	move(o, template, sizeof(*o));
	move(o + 1, &inner, sizeof(inner));
	len = skb->len - sizeof(o->eth);
	o->ip.tot_len = len > 0xffff ? 0 : bpf_htons(len);
	o->udp.len = bpf_htons(len - sizeof(o->ip));
	sum = (__u16)~o->ip.check + o->ip.tot_len;
	o->ip.check = ~((sum & 0xffff) + (sum >> 16));
	return bpf_redirect(underlay_ifindex, 0);
}

SEC("tcx/ingress")
int decapsulate(struct __sk_buff *skb)
{
	struct outer *o = bytes_of(skb, sizeof(*o) + sizeof(struct ethhdr));
	struct ethhdr inner, *eth;

	if (!o || o->eth.type != bpf_htons(ETH_P_IP) || o->ip.protocol != IPPROTO_UDP ||
	    o->udp.dest != ((const volatile struct outer *)template)->udp.dest)
		return TCX_NEXT;
	move(&inner, o + 1, sizeof(inner));
	if (bpf_skb_adjust_room(skb, -(__s32)sizeof(*o), BPF_ADJ_ROOM_MAC,
				BPF_F_ADJ_ROOM_FIXED_GSO | (inner.type == bpf_htons(ETH_P_IPV6) ?
								    BPF_F_ADJ_ROOM_DECAP_L3_IPV6 :
								    BPF_F_ADJ_ROOM_DECAP_L3_IPV4)))
		return TCX_DROP;
	eth = bytes_of(skb, sizeof(*eth));
	if (!eth)
		return TCX_DROP;
	move(eth, &inner, sizeof(inner));
	return is_ip(&inner) ? bpf_redirect_peer(access_ifindex, 0) :
			       bpf_redirect(access_ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

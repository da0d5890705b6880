/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * arp_nd: reads ARP (RFC 826) and neighbour discovery (RFC 4861).
 *
 * in:    p, with p->arp_nd
 * out:   a struct arp_nd_msg
 * maps:  none
 * stops: MALFORMED_ARP, MALFORMED_L4
 */
#pragma once

#include "core/pkt.h"

/* The content of an ARP or ND packet. */
struct arp_nd_msg {
	struct addr sender; /* zero: none */
	struct addr target;
	bool is_request; /* for the target's MAC address */
	bool foreign;	 /* the sender's MAC address in it is not the frame's */
	__u8 flags;	 /* neighbour_flags that it says the sender has */
	__u8 said;	 /* those of which it says anything */
};

static __always_inline void addr_from4(struct addr *a, const __u8 *v4)
{
	a->w[0] = a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	copy(&a->w[3], v4, 4);
}

static __always_inline int read_arp(CTX *ctx, struct pkt *p, struct arp_nd_msg *t)
{
	struct arphdr *arp = ctx_at(ctx, p->l3, sizeof(*arp));
	__u32 mac[2];

	if (!arp || arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_len != ETH_ALEN ||
	    arp->protocol_len != 4)
		return REASON_MALFORMED_ARP;
	t->is_request = arp->op == bpf_htons(ARP_REQUEST);
	copy(mac, arp->sender_mac, ETH_ALEN);
	t->foreign = !mac_equal((__u8 *)mac, p->key.smac);
	addr_from4(&t->target, arp->target);
	if (*(__u32 *)arp->sender) /* zero is a probe, RFC 5227 */
		addr_from4(&t->sender, arp->sender);
	return 0;
}

struct nd_option {
	__u8 type;
	__u8 len; /* in units of 8 bytes */
	__u8 mac[ETH_ALEN];
};

#define ND_OPTIONS 8	   /* read at most */
#define ND_OPTION_SOURCE 1 /* link-layer address */
#define ND_OPTION_TARGET 2

/*
 * Whether a link-layer address in the options, which begin at off, is not the frame's source.
 * What cannot be read is: no host sends so many options, or empty ones (RFC 4861 4.6).
 */
static __always_inline bool is_foreign_nd(CTX *ctx, const struct pkt *p, __u32 off)
{
	__u32 end = p->l4 + 4 + p->payload;
	struct nd_option o;

	for (int i = 0; i < ND_OPTIONS && off < end; i++) {
		if (off + sizeof(o) > end || ctx_load(ctx, off, &o, sizeof(o)) || !o.len)
			return true;
		if ((o.type == ND_OPTION_SOURCE || o.type == ND_OPTION_TARGET) &&
		    !mac_equal(o.mac, p->key.smac))
			return true;
		off += o.len * 8;
	}
	return off < end;
}

/* The R and O flags of an advertisement. */
static __always_inline void read_na_flags(struct arp_nd_msg *t, __be32 flags)
{
	t->said = NEIGHBOUR_ROUTER | NEIGHBOUR_NO_OVERRIDE;
	if (flags & NA_ROUTER)
		t->flags |= NEIGHBOUR_ROUTER;
	if (!(flags & NA_OVERRIDE))
		t->flags |= NEIGHBOUR_NO_OVERRIDE;
}

/* Router discovery: who advertises is a router, also for those that ask for its address. */
static __always_inline int read_router_discovery(CTX *ctx, const struct pkt *p,
						 struct arp_nd_msg *t)
{
	if (p->icmp_type == ICMPV6_ROUTER_SOLICITATION)
		t->foreign = is_foreign_nd(ctx, p, p->l4 + RS_MIN);
	if (p->icmp_type != ICMPV6_ROUTER_ADVERTISEMENT)
		return 0;
	t->sender = p->key.saddr;
	t->flags = t->said = NEIGHBOUR_ROUTER;
	return 0;
}

static __always_inline int read_nd(CTX *ctx, const struct pkt *p, struct arp_nd_msg *t)
{
	struct nd_msg *nd;

	if (is_router_discovery(p))
		return read_router_discovery(ctx, p, t);
	nd = ctx_at(ctx, p->l4, ND_MIN);
	if (!nd || p->payload + 4 < ND_MIN)
		return REASON_MALFORMED_L4;
	copy(&t->target, nd->target, sizeof(t->target));
	if (addr_is_v4(&t->target)) /* an IPv4-mapped address, as in headers */
		return REASON_MALFORMED_L4;
	t->is_request = p->icmp_type == ICMPV6_SOLICITATION;
	t->sender = t->is_request ? p->key.saddr : t->target;
	if (!t->is_request)
		read_na_flags(t, nd->icmp.rest);
	t->foreign = is_foreign_nd(ctx, p, p->l4 + ND_MIN);
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour: reads ARP and neighbour discovery. Senders become neighbours. Requests for a
 * gateway, or for a known host behind a tunnel (suppression, RFC 9161), are answered here.
 * All else is flooded.
 *
 * in:    p, the segment
 * out:   d->action ACTION_PROXY_REPLY with the MAC address in d->smac; or the frame goes on
 * maps:  neighbours, local_addrs, fdb, vports, segments (generations)
 * stops: SPOOFED_ADDRESS, MALFORMED_ARP, MALFORMED_L4
 */
#pragma once

#include "l2/source_guard.h"
#include "l2/fdb.h"
#include "l2/neighbour_table.h"

/* The content of an ARP or ND packet. */
struct arp_nd_msg {
	struct addr sender; /* zero: none */
	struct addr target;
	bool is_request; /* for the target's MAC address */
	bool foreign;	 /* the sender's MAC address in it is not the frame's */
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

static __always_inline int read_nd(CTX *ctx, struct pkt *p, struct arp_nd_msg *t)
{
	struct nd_msg *nd;

	if (p->icmp_type != ICMPV6_SOLICITATION && p->icmp_type != ICMPV6_ADVERTISEMENT)
		return 0;
	nd = ctx_at(ctx, p->l4, ND_MIN);
	if (!nd || p->payload + 4 < ND_MIN)
		return REASON_MALFORMED_L4;
	copy(&t->target, nd->target, sizeof(t->target));
	t->is_request = p->icmp_type == ICMPV6_SOLICITATION;
	t->sender = t->is_request ? p->key.saddr : t->target;
	return 0;
}

/*
 * The segment in which the edge has the address, with LOCAL_ flags; 0: it has not. Link-local
 * addresses are valid in one segment only: with an anycast MAC address many have the same.
 */
static __always_inline __u32 find_local_addr(const struct pkt *p, const struct segment *seg,
					     const struct addr *addr)
{
	struct local_key key = { .router = seg->router, .addr = *addr };
	__u32 *segment;

	if (addr_is_link_local(addr))
		key.router = LOCAL_LINK | p->segment;
	segment = seg->router ? bpf_map_lookup_elem(&local_addrs, &key) : NULL;
	return segment ? *segment : 0;
}

static __always_inline __u32 local_segment(const struct pkt *p, const struct segment *seg,
					   const struct addr *addr)
{
	return find_local_addr(p, seg, addr) & ~(LOCAL_NAT | LOCAL_LEASED | LOCAL_LOOPBACK);
}

#define LEASE_MS 500

/* Whether another gateway may have taken the address: this edge's process has died. */
static __always_inline bool lease_expired(const struct pkt *p, const struct segment *seg,
					  const struct addr *addr)
{
	if (!(find_local_addr(p, seg, addr) & LOCAL_LEASED))
		return false;
	return (__s32)((__u32)(p->now_ns / 1000000) - global_get(GLOBAL_LEASE)) > LEASE_MS;
}

/* Whether the edge answers for the target, and with which MAC address. */
static __always_inline bool proxies_for(struct pkt *p, struct segment *seg, struct decision *d,
					const struct addr *target)
{
	struct neighbour_key key = { .segment = p->segment, .addr = *target };
	struct neighbour *n;
	struct fdb_entry *entry;
	struct fdb_key mac;
	struct vport *at;

	if (local_segment(p, seg, target) == p->segment) {
		if (lease_expired(p, seg, target))
			return false;
		copy16(d->smac, seg->gateway_mac, ETH_ALEN);
		d->flags |= FLOW_GATEWAY;
		return true;
	}
	if (!(seg->flags & SEGMENT_SUPPRESS) || p->key.vni)
		return false;
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n || mac_is_zero(n->mac))
		return false;
	if (mac_equal(
		    n->mac,
		    p->key.smac)) /* duplicate address detection of the host itself, which has moved */
		return false;
	copy16(d->smac, n->mac, ETH_ALEN);
	fdb_key_of(&mac, p->segment, d->smac);
	entry = bpf_map_lookup_elem(&fdb, &mac);
	at = entry ? vport_get(entry->vport) : NULL;
	return at && at->kind == VPORT_TEP;
}

/*
 * ARP and ND. A reply to the gateway reaches the edge of its sender, which is not always the
 * edge that asked: all have the gateway's MAC address. So it is flooded to all edges, unless it
 * came from a tunnel or BGP advertises the hosts.
 */
static __always_inline int neighbour(CTX *ctx, struct pkt *p, struct segment *seg, struct vport *in,
				     struct decision *d)
{
	struct arp_nd_msg t = {};
	int why;

	d->slow = SLOW_NEIGHBOUR;
	why = p->key.ethertype == bpf_htons(ETH_P_ARP) ? read_arp(ctx, p, &t) : read_nd(ctx, p, &t);
	if (why)
		return why;
	if (in->flags & VPORT_GUARD_MACS && t.foreign)
		return REASON_SPOOFED_MAC;
	if (!addr_is_zero(&t.sender) && !(seg->flags & SEGMENT_L3)) {
		if (in->flags & VPORT_GUARD_ADDRS && !may_send_as(p->in, &t.sender))
			return REASON_SPOOFED_ADDRESS;
		if (local_segment(p, seg, &t.sender) == p->segment &&
		    !mac_equal(p->key.smac, seg->gateway_mac))
			return REASON_SPOOFED_ADDRESS;
		if (seg->router || seg->flags & SEGMENT_SUPPRESS || seg->evpn)
			learn_neighbour(p, &t.sender);
	}
	if (t.is_request && proxies_for(p, seg, d, &t.target)) {
		d->action = ACTION_PROXY_REPLY;
		step(p, STAGE_NEIGHBOUR, 1, 0);
		return 0;
	}
	step(p, STAGE_NEIGHBOUR, 0, 0);
	if (in->flags & VPORT_UPLINK)
		d->action = ACTION_HOST;
	else if (mac_is_group(p->key.dmac) || !mac_equal(p->key.dmac, seg->gateway_mac))
		return bridge(p, seg, d);
	else
		d->action = p->key.vni || seg->evpn & EVPN_ONLY ? ACTION_LOCAL : ACTION_FLOOD;
	return 0;
}

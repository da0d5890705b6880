/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour: inspects ARP and neighbour discovery. Senders become neighbours. Requests for a
 * gateway, or for a known host behind a tunnel (suppression, RFC 9161), are answered here.
 * All else is flooded.
 *
 * in:    p, the segment
 * out:   d->action ACTION_PROXY_REPLY with the MAC address in d->smac and, of a host, its flags
 *        in p->na_flags; or the frame goes on
 * maps:  neighbours, local_addrs, fdb, vports, segments (generations)
 * stops: SPOOFED_*, MALFORMED_ARP, MALFORMED_L4
 */
#pragma once

#include "l2/source_guard.h"
#include "l2/arp_nd.h"
#include "l2/fdb.h"
#include "l2/neighbour_table.h"

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
	/*
	 * The lease may be renewed after the packet's time was read. Beyond that a difference is
	 * an age, of whatever size: the number of milliseconds comes round in 49 days.
	 */
	return (__u32)(p->now_ns / 1000000) - global_get(GLOBAL_LEASE) + LEASE_MS > 2 * LEASE_MS;
}

/*
 * Whether the edge answers for a host behind a tunnel. Questions to the host itself are not:
 * they test whether it is alive (RFC 4861 7.3, RFC 9161 3.2).
 */
static __always_inline bool suppresses(struct pkt *p, const struct segment *seg, struct decision *d,
				       const struct addr *target)
{
	struct neighbour_key key = { .segment = p->segment, .addr = *target };
	struct neighbour *n;
	struct fdb_entry *entry;
	struct fdb_key mac;
	struct vport *at;

	if (!(seg->flags & SEGMENT_SUPPRESS) || p->key.vni || !mac_is_group(p->key.dmac))
		return false;
	n = bpf_map_lookup_elem(&neighbours, &key);
	if (!n || mac_is_zero(n->mac))
		return false;
	/* Duplicate address detection of the host itself, which has moved. */
	if (mac_equal(n->mac, p->key.smac))
		return false;
	p->na_flags = n->flags;
	copy16(d->smac, n->mac, ETH_ALEN);
	fdb_key_of(&mac, p->segment, d->smac);
	entry = bpf_map_lookup_elem(&fdb, &mac);
	at = entry ? vport_get(entry->vport) : NULL;
	return at && at->kind == VPORT_TEP;
}

/* Whether the edge answers for the target, and with which MAC address. */
static __always_inline bool proxies_for(struct pkt *p, struct segment *seg, struct decision *d,
					const struct addr *target)
{
	if (local_segment(p, seg, target) != p->segment)
		return suppresses(p, seg, d, target);
	if (lease_expired(p, seg, target))
		return false;
	copy16(d->smac, seg->gateway_mac, ETH_ALEN);
	d->flags |= FLOW_GATEWAY;
	return true;
}

/*
 * Whether the sender may say so, whom it then makes known. A probe (RFC 4862 5.4, RFC 5227)
 * has no sender: it is refused as if it had the target, which it keeps others from. A probe for
 * a link-local address reserves it, if nobody has it (RFC 6620 3.2.3).
 */
static __always_inline int inspect_sender(struct pkt *p, struct segment *seg, struct vport *in,
					  const struct arp_nd_msg *t)
{
	bool probe = addr_is_zero(&t->sender);
	const struct addr *addr = probe ? &t->target : &t->sender;
	bool known = seg->router || seg->flags & SEGMENT_SUPPRESS || seg->evpn;

	if (in->flags & VPORT_GUARD_MACS && t->foreign)
		return REASON_SPOOFED_MAC;
	if (addr_is_zero(addr) || seg->flags & SEGMENT_L3)
		return 0;
	if (in->flags & VPORT_GUARD_ADDRS && !may_send_as(p, addr))
		return REASON_SPOOFED_ADDRESS;
	if (!probe && local_segment(p, seg, addr) == p->segment &&
	    !mac_equal(p->key.smac, seg->gateway_mac))
		return REASON_SPOOFED_ADDRESS;
	if (!known && !(in->flags & VPORT_GUARD_ADDRS))
		return 0;
	if (!probe || (addr_is_link_local(addr) && !is_held(p, addr)))
		learn_neighbour(p, addr, t->flags, t->said);
	return 0;
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
	if (!why)
		why = inspect_sender(p, seg, in, &t);
	if (why)
		return why;
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

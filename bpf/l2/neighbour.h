/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * neighbour: reads ARP and neighbour discovery. Who says where it is becomes a
 * neighbour; who asks for a gateway, or for a host behind a tunnel that is known
 * (suppression, RFC 9161), gets the answer here; the rest is flooded.
 *
 * in:    p, the segment
 * out:   d->action ANSWER with the MAC in d->smac; or the frame goes on
 * maps:  neighbours, locals, fdb, ends, segments (generations)
 * stops: SPOOFED_ADDRESS, MALFORMED_ARP, MALFORMED_L4
 */
#pragma once

#include "l2/source_guard.h"
#include "l2/fdb.h"

/* What an ARP or ND packet says. */
struct talk {
	struct addr sender; /* zero: nobody */
	struct addr target;
	bool asks;    /* for the target's MAC */
	bool foreign; /* names another MAC than the frame's as the sender's */
};

static __always_inline void addr_from4(struct addr *a, const __u8 *v4)
{
	a->w[0] = a->w[1] = 0;
	a->w[2] = bpf_htonl(0xffff);
	copy(&a->w[3], v4, 4);
}

static __always_inline int read_arp(CTX *ctx, struct pkt *p, struct talk *t)
{
	struct arphdr *arp = ctx_at(ctx, p->l3, sizeof(*arp));
	__u32 mac[2];

	if (!arp || arp->protocol != bpf_htons(ETH_P_IP) || arp->hardware_len != ETH_ALEN ||
	    arp->protocol_len != 4)
		return REASON_MALFORMED_ARP;
	t->asks = arp->op == bpf_htons(ARP_REQUEST);
	copy(mac, arp->sender_mac, ETH_ALEN);
	t->foreign = !mac_equal((__u8 *)mac, p->key.smac);
	addr_from4(&t->target, arp->target);
	if (*(__u32 *)arp->sender) /* zero is a probe, RFC 5227 */
		addr_from4(&t->sender, arp->sender);
	return 0;
}

static __always_inline int read_nd(CTX *ctx, struct pkt *p, struct talk *t)
{
	struct nd_msg *nd;

	if (p->icmp_type != ICMPV6_SOLICITATION && p->icmp_type != ICMPV6_ADVERTISEMENT)
		return 0;
	nd = ctx_at(ctx, p->l4, ND_MIN);
	if (!nd || p->payload + 4 < ND_MIN)
		return REASON_MALFORMED_L4;
	copy(&t->target, nd->target, sizeof(t->target));
	t->asks = p->icmp_type == ICMPV6_SOLICITATION;
	t->sender = t->asks ? p->key.saddr : t->target;
	return 0;
}

/* Whether what the frame says of an address counts. */
static __always_inline bool is_believed(const struct pkt *p, const struct neighbour *old)
{
	if (tracing || (!old && p->untaught))
		return false;
	return !old || (old->origin != ORIGIN_STATIC && gives_way(p, old->origin));
}

/* Remembers that the sender's address is at the frame's source MAC. */
static __always_inline void learn_neighbour(struct pkt *p, struct segment *seg,
					    const struct addr *addr)
{
	struct neighbour_key key = { .segment = p->segment, .addr = *addr };
	struct neighbour fresh = { .seen_ns = p->now_ns, .at_port = !p->key.vni };
	struct neighbour *old = bpf_map_lookup_elem(&neighbours, &key);
	__u32 shard;
	bool same;

	if (!is_believed(p, old))
		return;
	copy16(fresh.mac, p->key.smac, ETH_ALEN);
	same = old && mac_equal(old->mac, fresh.mac);
	if (same && old->origin == ORIGIN_LEARNED && old->at_port == fresh.at_port) {
		old->seen_ns = p->now_ns;
		return;
	}
	shard = old ? mac_shard(old->mac) : 0; /* before the entry is another's */
	bpf_map_update_elem(&neighbours, &key, &fresh, BPF_ANY);
	if (old && !same)
		outdate(&seg->shards[shard & (SHARDS - 1)]);
	if (fresh.at_port)
		arrive(p, addr, 0);
}

/*
 * The segment in which the edge itself has the address, with LOCAL_NAT; LOCAL_LOOPBACK; or
 * 0. A link-local one is good on its own segment: with an anycast MAC it is the same on many.
 */
static __always_inline __u32 find_local(const struct pkt *p, const struct segment *seg,
					const struct addr *addr)
{
	struct local_key key = { .router = seg->router, .addr = *addr };
	__u32 *segment;

	if (addr_is_link_local(addr))
		key.router = LOCAL_LINK | p->segment;
	segment = seg->router ? bpf_map_lookup_elem(&locals, &key) : NULL;
	return segment ? *segment : 0;
}

static __always_inline __u32 local_segment(const struct pkt *p, const struct segment *seg,
					   const struct addr *addr)
{
	return find_local(p, seg, addr) & ~(LOCAL_NAT | LOCAL_LEASED | LOCAL_LOOPBACK);
}

#define LEASE_MS 500

/* Whether another gateway may have the address by now: this edge's process is not there. */
static __always_inline bool is_lapsed(const struct pkt *p, const struct segment *seg,
				      const struct addr *addr)
{
	if (!(find_local(p, seg, addr) & LOCAL_LEASED))
		return false;
	return (__s32)((__u32)(p->now_ns / 1000000) - pulse(PULSE_LEASE)) > LEASE_MS;
}

/* Whether the edge answers for the target, and with which MAC. */
static __always_inline bool answers_for(struct pkt *p, struct segment *seg, struct decision *d,
					const struct addr *target)
{
	struct neighbour_key key = { .segment = p->segment, .addr = *target };
	struct neighbour *n;
	struct fdb_entry *entry;
	struct fdb_key mac;
	struct end *at;

	if (local_segment(p, seg, target) == p->segment) {
		if (is_lapsed(p, seg, target))
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
	if (mac_equal(n->mac,
		      p->key.smac)) /* the host itself, looking for a duplicate where it moved to */
		return false;
	copy16(d->smac, n->mac, ETH_ALEN);
	fdb_key_of(&mac, p->segment, d->smac);
	entry = bpf_map_lookup_elem(&fdb, &mac);
	at = entry ? end_get(entry->end) : NULL;
	return at && at->kind == END_TEP;
}

/*
 * What becomes of ARP and ND. An answer to the gateway reaches the edge of the
 * one who gave it, not always of the one who asked: the gateway's MAC is
 * everybody's. So it goes on to all edges, unless it came out of a tunnel, or BGP tells
 * them.
 */
static __always_inline int neighbour(CTX *ctx, struct pkt *p, struct segment *seg, struct end *in,
				     struct decision *d)
{
	struct talk t = {};
	int why;

	d->slow = SLOW_NEIGHBOUR;
	why = p->key.ethertype == bpf_htons(ETH_P_ARP) ? read_arp(ctx, p, &t) : read_nd(ctx, p, &t);
	if (why)
		return why;
	if (in->flags & END_GUARD_MACS && t.foreign)
		return REASON_SPOOFED_MAC;
	if (!addr_is_zero(&t.sender) && !(seg->flags & SEGMENT_L3)) {
		if (in->flags & END_GUARD_ADDRS && !may_send_as(p->in, &t.sender))
			return REASON_SPOOFED_ADDRESS;
		if (local_segment(p, seg, &t.sender) == p->segment &&
		    !mac_equal(p->key.smac, seg->gateway_mac))
			return REASON_SPOOFED_ADDRESS;
		if (seg->router || seg->flags & SEGMENT_SUPPRESS || seg->evpn)
			learn_neighbour(p, seg, &t.sender);
	}
	if (t.asks && answers_for(p, seg, d, &t.target)) {
		d->action = ACTION_ANSWER;
		step(p, STAGE_NEIGHBOUR, 1, 0);
		return 0;
	}
	step(p, STAGE_NEIGHBOUR, 0, 0);
	if (in->flags & END_UPLINK)
		d->action = ACTION_HOST;
	else if (mac_is_group(p->key.dmac) || !mac_equal(p->key.dmac, seg->gateway_mac))
		return bridge(p, seg, d);
	else
		d->action = p->key.vni || seg->evpn & EVPN_ALONE ? ACTION_CONSUME : ACTION_FLOOD;
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * fdb: learns where the source is and looks up where the destination is. XDP leaves packets of
 * sources that are new, or that move, to tc.
 *
 * in:    p->in, p->segment, p->key
 * out:   the decision
 * maps:  fdb, segments (generations), vports
 * stops: SPOOFED_MAC, STATIC_MAC_MOVE, MAC_FROZEN, RESERVED_GROUP, SAME_PORT, SPLIT_HORIZON
 */
#pragma once

#include "l2/mac_moves.h"

static __always_inline int local_deliver(struct decision *d)
{
	d->action = ACTION_LOCAL;
	d->slow = SLOW_LOCAL_REPLY;
	return 0;
}

/* Whether the packet is an echo request, which the edge then answers as if it were pinged. */
static __always_inline bool reply_to_echo(struct pkt *p, struct decision *d)
{
	bool echo = is_v6(p) ? p->key.proto == IPPROTO_ICMPV6 && p->icmp_type == ICMPV6_ECHO :
			       p->key.proto == IPPROTO_ICMP && p->icmp_type == ICMP_ECHO;

	if (!is_ip(p) || !echo || p->key.fragment)
		return false;
	d->action = ACTION_PROXY_REPLY;
	d->slow = SLOW_LOCAL_REPLY;
	copy16(d->smac, p->key.dmac, ETH_ALEN);
	return true;
}

/* All edges have the gateway's MAC address: it is valid from tunnels only, and not learned. */
static __always_inline int fdb_learn(struct pkt *p, struct segment *seg)
{
	struct fdb_entry *old;
	struct fdb_key key;

	if (seg->router && mac_equal(p->key.smac, seg->gateway_mac))
		return p->key.vni ? 0 : REASON_SPOOFED_MAC;
	if (seg->flags & SEGMENT_L3)
		return 0;
	fdb_key_of(&key, p->segment, p->key.smac);
	old = bpf_map_lookup_elem(&fdb, &key);
	step(p, STAGE_LEARN, p->in, old ? old->vport : 0);
	if (!old)
		return !IN_XDP ? fdb_add(p) : p->no_learning ? 0 : NOT_OURS;
	if (old->vport != p->in) {
		if (old->origin == ORIGIN_STATIC || (old->sticky && !p->key.vni))
			return REASON_STATIC_MAC_MOVE;
		if (mac_is_frozen(old, p->now_ns))
			return REASON_MAC_FROZEN;
		if (tracing || !may_override(p, old->origin))
			return 0;
		return IN_XDP ? NOT_OURS : fdb_move(p);
	}
	if (!tracing)
		old->seen_ns = p->now_ns;
	return 0;
}

/* Looks dmac up in the egress segment. Unknown addresses are flooded. */
static __always_inline int fdb_find(struct pkt *p, struct decision *d, const __u8 *dmac)
{
	struct fdb_entry *entry;
	struct fdb_key key;
	struct vport *out;

	fdb_key_of(&key, d->to_segment, dmac);
	entry = bpf_map_lookup_elem(&fdb, &key);
	out = entry ? vport_get(entry->vport) : NULL;
	step(p, STAGE_SWITCH, d->to_segment, entry ? entry->vport : 0);
	if (!out || out->kind == VPORT_NONE) {
		d->action = ACTION_FLOOD;
		d->slow = SLOW_UNKNOWN_UNICAST;
		return 0;
	}
	d->out = entry->vport;
	d->action = out->kind == VPORT_PORT ? ACTION_PORT : ACTION_TUNNEL;
	return 0;
}

/*
 * Whether the frame is for the nearest bridge alone: a reserved group address (IEEE 802.1Q
 * 8.6.3), one of the same kind of Cisco's (CDP, PVST+), or MAC control (IEEE 802.3 31).
 */
static __always_inline bool is_reserved_group(const struct pkt *p)
{
	const __u16 *w = (const __u16 *)p->key.dmac;

	if (p->key.ethertype == bpf_htons(ETH_P_MAC_CONTROL))
		return true;
	if (w[0] == bpf_htons(0x0180))
		return w[1] == bpf_htons(0xc200) && !(w[2] & bpf_htons(0xfff0));
	return w[0] == bpf_htons(0x0100) && w[1] == bpf_htons(0x0ccc) &&
	       (w[2] | bpf_htons(1)) == bpf_htons(0xcccd);
}

static __always_inline int bridge(struct pkt *p, const struct segment *seg, struct decision *d)
{
	int why;

	if (is_reserved_group(p) && !(seg->flags & SEGMENT_WIRE))
		return REASON_RESERVED_GROUP;
	depends_on(d, seg, p->key.dmac);
	if (mac_is_group(p->key.dmac)) {
		d->action = ACTION_FLOOD;
		return 0;
	}
	why = fdb_find(p, d, p->key.dmac);
	if (why || d->action == ACTION_FLOOD)
		return why;
	if (d->out == p->in)
		return REASON_SAME_PORT;
	if (d->action == ACTION_TUNNEL && p->key.vni)
		return REASON_SPLIT_HORIZON;
	return 0;
}

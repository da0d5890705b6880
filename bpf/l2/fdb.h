/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * switch: learns where the source is and decides where the destination is.
 *
 * in:    p->in, p->segment, p->key
 * out:   the decision in struct decision
 * maps:  fdb, segments (generations), ends
 * stops: SPOOFED_MAC, STATIC_ELSEWHERE, SAME_PORT, SPLIT_HORIZON
 */
#pragma once

#include "l2/host_events.h"
#include "cache/generation.h"

static __always_inline void fdb_key_of(struct fdb_key *key, __u32 segment, const __u8 *mac)
{
	key->segment = segment;
	copy16(key->mac, mac, ETH_ALEN);
	key->pad = 0;
}

static __always_inline void learn_new(struct pkt *p, const struct fdb_key *key)
{
	struct fdb_entry fresh = { .end = p->in, .seen_ns = p->now_ns };

	if (tracing || p->untaught)
		return;
	if (bpf_map_update_elem(&fdb, key, &fresh, BPF_NOEXIST)) {
		count(EVENT_FDB_FULL);
		return;
	}
	count(EVENT_LEARNED);
	if (!p->key.vni)
		arrive(p, NULL, 0);
}

/*
 * Whether what somebody said of a host gives way to its packet from elsewhere: at a port
 * always, from a tunnel where BGP says nothing and the remote does not leave it to BGP.
 */
static __always_inline bool gives_way(const struct pkt *p, enum host_origin origin)
{
	return !p->key.vni || (origin == ORIGIN_LEARNED && !p->untaught);
}

static __always_inline void move(struct pkt *p, struct segment *seg, struct fdb_entry *old)
{
	struct end *from = end_get(old->end);

	if (!p->key.vni && from && from->kind == END_TEP)
		arrive(p, NULL, old->end);
	old->end = p->in;
	old->origin = ORIGIN_LEARNED;
	old->sticky = 0;
	old->moves++;
	outdate(&seg->shards[mac_shard(p->key.smac)]);
	count(EVENT_MOVED);
}

static __always_inline int consume(struct decision *d)
{
	d->action = ACTION_CONSUME;
	d->slow = SLOW_ANSWERED;
	return 0;
}

/* Whether the edge answers the packet itself, as it would a ping for its address. */
static __always_inline bool answers_echo(struct pkt *p, struct decision *d)
{
	bool echo = is_v6(p) ? p->key.proto == IPPROTO_ICMPV6 && p->icmp_type == ICMPV6_ECHO :
			       p->key.proto == IPPROTO_ICMP && p->icmp_type == ICMP_ECHO;

	if (!is_ip(p) || !echo || p->key.fragment)
		return false;
	d->action = ACTION_ANSWER;
	d->slow = SLOW_ANSWERED;
	copy16(d->smac, p->key.dmac, ETH_ALEN);
	return true;
}

/* The gateway's MAC is every edge's: it comes out of tunnels, is never learned and no port's. */
static __always_inline int learn(struct pkt *p, struct segment *seg)
{
	struct fdb_entry *old;
	struct fdb_key key;

	if (seg->router && mac_equal(p->key.smac, seg->gateway_mac))
		return p->key.vni ? 0 : REASON_SPOOFED_MAC;
	if (seg->flags & SEGMENT_L3)
		return 0;
	fdb_key_of(&key, p->segment, p->key.smac);
	old = bpf_map_lookup_elem(&fdb, &key);
	step(p, STAGE_LEARN, p->in, old ? old->end : 0);
	if (!old) {
		learn_new(p, &key);
		return 0;
	}
	if (old->end != p->in) {
		if (old->origin == ORIGIN_STATIC || (old->sticky && !p->key.vni))
			return REASON_STATIC_ELSEWHERE;
		if (tracing || !gives_way(p, old->origin))
			return 0;
		move(p, seg, old);
	}
	if (!tracing)
		old->seen_ns = p->now_ns;
	return 0;
}

/* Where dmac is in the segment to which the flow goes; everybody when that is not known. */
static __always_inline int find_end(struct pkt *p, struct decision *d, const __u8 *dmac)
{
	struct fdb_entry *entry;
	struct fdb_key key;
	struct end *out;

	fdb_key_of(&key, d->to_segment, dmac);
	entry = bpf_map_lookup_elem(&fdb, &key);
	out = entry ? end_get(entry->end) : NULL;
	step(p, STAGE_SWITCH, d->to_segment, entry ? entry->end : 0);
	if (!out || out->kind == END_NONE) {
		d->action = ACTION_FLOOD;
		d->slow = SLOW_UNKNOWN_UNICAST;
		return 0;
	}
	d->out = entry->end;
	d->action = out->kind == END_PORT ? ACTION_PORT : ACTION_TUNNEL;
	return 0;
}

static __always_inline int bridge(struct pkt *p, const struct segment *seg, struct decision *d)
{
	int why;

	depend_on(d, seg, p->key.dmac);
	if (mac_is_group(p->key.dmac)) {
		d->action = ACTION_FLOOD;
		return 0;
	}
	why = find_end(p, d, p->key.dmac);
	if (why || d->action == ACTION_FLOOD)
		return why;
	if (d->out == p->in)
		return REASON_SAME_PORT;
	if (d->action == ACTION_TUNNEL && p->key.vni)
		return REASON_SPLIT_HORIZON;
	return 0;
}

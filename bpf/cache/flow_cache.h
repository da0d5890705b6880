/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow: the cache of decisions. A decision is good while what it depends on has
 * the generation that it was taken in, and for revalidate_ns: then it is taken
 * again, which also keeps the source's FDB entry young. Generations only grow, so
 * the sum of those of both segments and the router tells of a change of any, with
 * those of the shards that the source's and the destination's MAC address and the
 * destination's IP address are in: see cache/generation.h. A path that is down outdates
 * what goes by it.
 *
 * in:    p->key, p->now_ns
 * out:   a decision, or none
 * maps:  flows, segments, routers, ends
 * stops: nothing
 */
#pragma once

#include "cache/reorder.h"
#include "tunnel/multipath.h"

/* Nothing that a routed decision depends on has changed; from: of where the flow came in. */
static __always_inline bool route_is_current(const struct flow_key *key, const struct decision *d,
					     __u32 router_id, __u32 from)
{
	struct router *router = bpf_map_lookup_elem(&routers, &router_id);
	struct segment *to = segment_get(d->to_segment);

	return router && to &&
	       from + generation_to(router, d, &key->daddr) + generation_of(to, d->dmac) ==
		       d->generation;
}

static __always_inline bool is_current(const struct flow_key *key, const struct decision *d)
{
	struct segment *seg = segment_get(d->segment);
	struct end *out = end_get(d->out);
	__u32 from;

	if (!seg || !out || out->flags & END_DOWN)
		return false;
	from = generation_of(seg, key->smac);
	if (d->flags & FLOW_ROUTED)
		return route_is_current(key, d, seg->router, from);
	return from + seg->shards[mac_shard(key->dmac)] == d->generation;
}

/*
 * Whether the firewall looks at the packet although its way is known: while the connection
 * is not open, and else at all of TCP but data and acknowledgements.
 */
static __always_inline bool is_watched(const struct pkt *p, const struct decision *d)
{
	if (!(d->flags & FLOW_TRACKED) || p->key.proto != IPPROTO_TCP)
		return false;
	return d->slow || (p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK;
}

/* Whether the flow's decision is good for the packet. */
static __always_inline bool is_usable(const struct pkt *p, const struct flow *f)
{
	if (f->decision.slow && f->decision.slow != SLOW_CONNECTION)
		return false;
	if (!is_current(&p->key, &f->decision)) {
		count(EVENT_STALE);
		return false;
	}
	if (ns_since(f->decided_ns, p->now_ns) > (__s64)revalidate_ns) {
		count(EVENT_REVALIDATED);
		return false;
	}
	/* The router says why, each time. */
	return !(f->decision.flags & FLOW_ROUTED) || p->ttl > 1;
}

#define FLOW_NAT (FLOW_SNAT | FLOW_DNAT)

/* What firewall and NAT have to hear of the flow, whose packet they are about to see. */
static __always_inline void carry_over(const struct pkt *p, struct flow *f)
{
	struct hearing *h = hearing();

	if (!h)
		return;
	h->carried.packets = f ? f->packets - f->told.packets : 0;
	h->carried.bytes = f ? f->bytes - f->told.bytes : 0;
	h->former = f && f->decision.flags & FLOW_EGRESS ? f->hop : 0;
	h->carried_seq = h->next_seq = f ? f->next_seq : 0;
	h->has_seq = f && p->key.proto == IPPROTO_TCP && f->decision.flags & FLOW_TRACKED;
	if (!f || tracing)
		return;
	f->told.packets = f->packets;
	f->told.bytes = f->bytes;
}

/* What the flow's packets become, for translate. */
static __always_inline void recall(const struct flow *f)
{
	struct hearing *h = hearing();

	if (h)
		h->translation = f->translation;
}

/* A valid decision, or NULL. */
static __always_inline struct flow *flow_find(struct pkt *p)
{
	struct flow *f = NULL;

	if (flow_cache && !is_neighbour_talk(p)) {
		f = bpf_map_lookup_elem(&flows, &p->key);
		if (!f)
			count(EVENT_MISS);
	}
	if (f && is_usable(p, f)) {
		step(p, STAGE_CACHE, 1, 0);
		return tracing ? NULL : f; /* a trace tells how the decision is taken */
	}
	carry_over(p, f);
	return NULL;
}

/* The outer UDP source port, 49152 to 65535, the same for all packets of the flow (RFC 7348 5). */
static __always_inline __be16 entropy_of(const struct flow_key *k)
{
	return bpf_htons(0xc000 | (hash_of(k) & 0x3fff));
}

/* Keeps a decision, with the counters of the one that it replaces. */
static __always_inline void flow_keep(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct flow fresh = {
		.decision = *d,
		.next_seq = seq_end(p),
		.decided_ns = p->now_ns,
		.seen_ns = p->now_ns,
		.packets = packets_of(ctx, p),
		.bytes = p->frame_len,
	};
	struct hearing *h = hearing();
	struct flow *old;

	if (h && d->flags & FLOW_EGRESS)
		fresh.hop = h->hop;
	if (h && d->flags & FLOW_NAT)
		fresh.translation = h->translation;
	if (tracing || d->action == ACTION_ASK) /* the key has the next hop by now */
		return;
	old = bpf_map_lookup_elem(&flows, &p->key);
	/* What the key does not tell apart is never found. */
	if (d->slow > SLOW_CONNECTION) {
		if (old)
			bpf_map_delete_elem(&flows, &p->key);
		return;
	}
	if (old) {
		fresh.packets += old->packets;
		fresh.bytes += old->bytes;
	}
	if (h && d->flags & FLOW_TRACKED && p->key.proto == IPPROTO_TCP)
		fresh.next_seq = h->next_seq;
	fresh.told.packets = fresh.packets;
	fresh.told.bytes = fresh.bytes;
	if (bpf_map_update_elem(&flows, &p->key, &fresh, BPF_ANY))
		count(EVENT_FLOW_FULL);
}

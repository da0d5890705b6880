/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow_cache: the cache of decisions. A decision is valid while the generations that it
 * depends on have not changed (cache/generation.h), and for at most revalidate_ns. Taking it
 * again also refreshes the source's FDB entry. A decision for a path or port that is down is invalid.
 *
 * in:    p->key, p->now_ns
 * out:   a decision, or none
 * maps:  flows, flow_secret, flow_candidates, segments, routers, vports, those of core/limits.h
 * stops: nothing
 */
#pragma once

#include "cache/reorder.h"
#include "cache/generation.h"
#include "core/hash.h"
#include "core/limits.h"

/* The part of a key by which generations are sharded. */
struct flow_ends {
	const __u8 *smac;
	const __u8 *dmac;
	const struct addr *saddr;
	const struct addr *daddr;
};

/* Whether no generation of a routed decision has changed. from: that of the ingress segment. */
static __always_inline bool route_is_current(struct flow_ends e, const struct decision *d,
					     const struct segment *seg, __u32 from,
					     __u32 generation)
{
	__u32 router_id = seg->router;
	struct router *router = bpf_map_lookup_elem(&routers, &router_id);
	struct segment *to = segment_get(d->to_segment);

	return router && to &&
	       from + generation_from(router, seg, d, e.saddr) + generation_to(router, d, e.daddr) +
			       generation_of(to, d->dmac) ==
		       generation;
}

/* Whether no generation of a decision has changed. generation: their sum when it was taken. */
static __always_inline bool is_current(struct flow_ends e, const struct decision *d,
				       __u32 generation)
{
	struct segment *seg = segment_get(d->segment);
	struct vport *out = vport_get(d->out);
	__u32 from;

	if (d->flags & FLOW_NEVER_CURRENT || !seg || !out || out->flags & VPORT_DOWN)
		return false;
	from = generation_of(seg, e.smac);
	if (d->flags & FLOW_ROUTED)
		return route_is_current(e, d, seg, from, generation);
	return from + seg->shards[mac_shard(e.dmac)] == generation;
}

static __always_inline struct flow_ends ends_of(const struct flow_key *key)
{
	return (struct flow_ends){ key->smac, key->dmac, &key->saddr, &key->daddr };
}

/*
 * Whether conntrack has to see the packet although its decision is cached: any packet while
 * the connection is not established, later any but data and acknowledgements.
 */
static __always_inline bool needs_conntrack(const struct pkt *p, const struct decision *d)
{
	if (!(d->flags & FLOW_TRACKED) || p->key.proto != IPPROTO_TCP)
		return false;
	return d->slow || (p->tcp_flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK;
}

/* Whether the cached decision applies to the packet. */
static __always_inline bool is_usable(const struct pkt *p, const struct flow *f)
{
	if (p->hidden || (f->decision.slow && f->decision.slow != SLOW_CONNECTION))
		return false;
	if (!is_current(ends_of(&p->key), &f->decision, f->decision.generation)) {
		count(EVENT_STALE);
		return false;
	}
	if (ns_since(f->decided_ns, p->now_ns) > (__s64)revalidate_ns) {
		count(EVENT_REVALIDATED);
		return false;
	}
	/* The slow path reports an expired TTL, each time. */
	return !(f->decision.flags & FLOW_ROUTED) || p->ttl > 1;
}

/* The outer UDP source port, 49152 to 65535, the same for all packets of a flow (RFC 7348 5). */
static __always_inline __be16 entropy_from(__u64 hash)
{
	return bpf_htons(0xc000 | (hash & 0x3fff));
}

static __always_inline __be16 entropy_of(const struct flow_key *k)
{
	return entropy_from(hash_of(k));
}

#ifndef XDP

/*
 * Tells flows apart: the NH hash of RFC 4418 5.2.2. Without the secret nobody makes a flow whose
 * digest is another's; if one is by chance, both take decisions in turn.
 */
static __always_inline __u64 flow_digest(const struct flow_key *k)
{
	const __u32 *w = (const __u32 *)k;
	const struct flow_secret *s;
	__u64 sum = 0;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&flow_secret, &zero);
	if (!s)
		return 0;
	for (__u32 i = 0; i < sizeof(*k) / sizeof(*w); i += 2)
		sum += (__u64)(w[i] + s->words[i]) * (__u32)(w[i + 1] + s->words[i + 1]);
	return sum;
}

static __always_inline bool key_equal(const struct flow_key *a, const struct flow_key *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;
	__u64 diff = 0;

	for (__u32 i = 0; i < sizeof(*a) / sizeof(*x); i++)
		diff |= x[i] ^ y[i];
	return !diff;
}

/* The flow's entry, valid or not, or NULL. */
static __always_inline struct flow *flow_entry(const struct pkt *p)
{
	struct flow *f = bpf_map_lookup_elem(&flows, &p->digest);

	return f && key_equal(&f->key, &p->key) ? f : NULL;
}

/*
 * The kernel gives an entry's memory to another flow at once when the entry is replaced, evicted
 * or deleted, although a program on another core still reads it. What is copied counts if the
 * digest, read after it, is the packet's; so do writes.
 */
static __always_inline bool is_flow(const struct flow *f, __u64 digest)
{
	return *(const volatile __u64 *)&f->digest == digest;
}

/* Copies the decision and the translation. False: they are another flow's. */
static __always_inline bool flow_take(struct pkt *p, const struct flow *f)
{
	struct decision *d = &p->decision;

	*d = f->decision;
	if (with_nat && d->flags & FLOW_NAT)
		p->translation = f->translation;
	barrier();
	return is_flow(f, p->digest);
}

/* Loads for the stateful stages what the flow has counted since the last report, less this packet. */
static __always_inline void load_flow(struct pkt *p, struct flow *f, __u32 packets, __u32 bytes)
{
	p->unreported.packets = f ? f->packets - f->reported.packets - packets : 0;
	p->unreported.bytes = f ? f->bytes - f->reported.bytes - bytes : 0;
	p->previous_gateway = f && f->decision.flags & FLOW_EGRESS ? f->nexthop : 0;
	p->flow_seq = f ? f->next_seq : 0;
	p->has_flow_seq = f && p->key.proto == IPPROTO_TCP && f->decision.flags & FLOW_TRACKED;
	if (!f || tracing)
		return;
	f->reported.packets = f->packets;
	f->reported.bytes = f->bytes;
}

/* A valid decision, or NULL. */
static __always_inline struct flow *flow_find(struct pkt *p)
{
	struct flow *f = NULL;

	p->digest = flow_digest(&p->key);
	if (flow_cache && !p->arp_nd) {
		f = flow_entry(p);
		if (!f)
			count(EVENT_MISS);
		/* The slow path tells the sender of each expired TTL. */
		p->new_flow = !f || p->ttl <= 1;
	}
	if (f && is_usable(p, f)) {
		step(p, STAGE_CACHE, 1, 0);
		return tracing ? NULL : f; /* a trace shows how the decision is taken */
	}
	load_flow(p, f, 0, 0);
	return NULL;
}

/*
 * Whether the flow had a packet lately: it is noted for the next one. Ports at their limit share
 * the notes. What overwrites a note costs its flow another packet on the slow path.
 */
static __always_inline bool flow_seen_before(__u64 digest)
{
	__u32 slot = (digest >> 32) % FLOW_CANDIDATES;
	__u32 *seen = bpf_map_lookup_elem(&flow_candidates, &slot);
	bool again;

	if (!seen)
		return true;
	again = *seen == (__u32)digest;
	*seen = digest;
	return again;
}

/*
 * Whether a new flow of the port is inserted. At the port's limit one of its own goes, so it does
 * not evict those of others. That costs more than a flow of one packet saves: there a flow is
 * inserted with its second packet. Keys are noted from half of the limit on, since that costs as
 * much as the rest of the insertion: what goes is the oldest of those that came since.
 */
SUBPROGRAM int flow_admitted(struct pkt *p)
{
	struct limits *l = p ? limits_of(p->in) : NULL;
	struct limit_usage *u = p ? usage_of(p->in) : NULL;
	struct limit_entry *work = limit_work();
	bool enforced;
	__s32 most;

	if (!p || !l || !u || !work || !l->counts[COUNT_FLOWS])
		return 1;
	most = l->counts[COUNT_FLOWS];
	if (u->used[COUNT_FLOWS] >= most >> 1) {
		enforced = count_exceeded(p->in, COUNT_FLOWS);
		if (enforced && !flow_seen_before(p->digest)) {
			count(EVENT_FLOW_NOT_ADMITTED);
			return 0;
		}
		/* Two, since the first may be gone, or the limit was lowered. */
		for (int i = 0; enforced && i < 2 && u->used[COUNT_FLOWS] >= most; i++) {
			if (take_oldest(work, p->in, COUNT_FLOWS) &&
			    !bpf_map_delete_elem(&flows, work))
				count_entry(p->in, COUNT_FLOWS, -1);
		}
		__builtin_memset(work, 0, sizeof(*work));
		__builtin_memcpy(work, &p->digest, sizeof(p->digest));
		note_key(work, p->in, COUNT_FLOWS);
	}
	count_entry(p->in, COUNT_FLOWS, 1);
	return 1;
}

/* Inserts a decision. The counters of the flow's previous decision are kept. */
static __always_inline void flow_keep(CTX *ctx, struct pkt *p, const struct decision *d)
{
	struct flow fresh = {
		.digest = p->digest,
		.key = p->key,
		.decision = *d,
		.next_seq = seq_end(p),
		.decided_ns = p->now_ns,
		.seen_ns = p->now_ns,
		.packets = packets_of(ctx, p),
		.bytes = p->frame_len,
	};
	struct flow *old;

	if (d->flags & FLOW_EGRESS)
		fresh.nexthop = p->gateway;
	if (d->flags & FLOW_NAT)
		fresh.translation = p->translation;
	if (tracing || d->action == ACTION_RESOLVE) /* not decided yet */
		return;
	old = flow_entry(p);
	/* Such flows are never looked up: the key does not tell their packets apart. */
	if (d->slow > SLOW_CONNECTION) {
		if (old)
			bpf_map_delete_elem(&flows, &p->digest);
		return;
	}
	if (old && is_flow(old, p->digest)) {
		fresh.packets += old->packets;
		fresh.bytes += old->bytes;
	}
	if (d->flags & FLOW_TRACKED && p->key.proto == IPPROTO_TCP)
		fresh.next_seq = p->next_seq;
	fresh.reported.packets = fresh.packets;
	fresh.reported.bytes = fresh.bytes;
	if (!old && !flow_admitted(p))
		return;
	if (bpf_map_update_elem(&flows, &p->digest, &fresh, BPF_ANY))
		count(EVENT_FLOW_FULL);
}

#endif

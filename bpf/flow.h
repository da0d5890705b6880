/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flow: the cache of decisions. A decision is good while its segment has the
 * generation that it was taken in, and for revalidate_ns: then it is taken
 * again, which also keeps the source's FDB entry young.
 *
 * in:    p->key, p->now_ns
 * out:   a decision, or none
 * maps:  flows, segments
 * stops: nothing
 */
#pragma once

#include "order.h"

/* A valid decision, or NULL. */
static __always_inline struct flow *flow_find(struct pkt *p)
{
	struct flow *f;
	struct segment *seg;

	if (!flow_cache)
		return NULL;
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (!f) {
		count(EVENT_MISS);
		return NULL;
	}
	if (f->slow)
		return NULL;
	seg = bpf_map_lookup_elem(&segments, &f->segment);
	if (!seg || seg->generation != f->generation) {
		count(EVENT_STALE);
		return NULL;
	}
	if (p->now_ns - f->decided_ns > revalidate_ns) {
		count(EVENT_REVALIDATED);
		return NULL;
	}
	return f;
}

/* 64-bit mixing (multiply, fold), good enough to spread flows over source ports. */
static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ (h >> 29);
}

/* The outer source port, 49152 to 65535, the same for all packets of the flow (RFC 7348 5). */
static __always_inline __be16 entropy_of(const struct flow_key *k)
{
	__u64 h = k->proto;

	if (k->proto || k->saddr.w[3]) {
		h = mix(h, (__u64)k->saddr.w[0] << 32 | k->saddr.w[1]);
		h = mix(h, (__u64)k->saddr.w[2] << 32 | k->saddr.w[3]);
		h = mix(h, (__u64)k->daddr.w[0] << 32 | k->daddr.w[1]);
		h = mix(h, (__u64)k->daddr.w[2] << 32 | k->daddr.w[3]);
		h = mix(h, (__u64)k->sport << 16 | k->dport);
	} else {
		const __u32 *macs = key_macs(k);

		h = mix(h, (__u64)macs[0] << 32 | macs[1]);
		h = mix(h, (__u64)macs[2] << 32 | k->ethertype);
	}
	return bpf_htons(0xc000 | (h & 0x3fff));
}

/* Keeps a decision, with the counters of the one that it replaces. */
static __always_inline void flow_keep(struct pkt *p, struct flow *fresh)
{
	struct flow *old = bpf_map_lookup_elem(&flows, &p->key);

	fresh->decided_ns = p->now_ns;
	fresh->seen_ns = p->now_ns;
	fresh->next_seq = seq_end(p);
	if (old) {
		fresh->packets += old->packets;
		fresh->bytes += old->bytes;
	}
	if (bpf_map_update_elem(&flows, &p->key, fresh, BPF_ANY))
		count(EVENT_FLOW_FULL);
}

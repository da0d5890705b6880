/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * policy_sets: the sets of a policy that contain a packet's source, or its destination.
 *
 * in:    struct rule_query
 * out:   struct classify_state
 * maps:  policy, classify_states
 * stops: nothing
 */
#pragma once

#include "firewall/policy_image.h"

/* A set that contains the address. */
struct candidate {
	__u32 set;
	__u32 first;	/* order of its first rule */
	__u64 partners; /* bloom filter of the other sets that it has rules with */
};

/* The query as words of keys, in host byte order. */
struct search_words {
	__u32 addr[2][4]; /* source and destination */
	__u32 mac[2][4];  /* in the last two words */
	__u32 service[4]; /* in the last two words: service, source port */
};

/* The sets found, by dimension. */
enum dimension {
	DIM_SRC,
	DIM_DST,
	DIM_SCOPE,
	DIMENSIONS,
};

struct found {
	struct candidate sets[MAX_SETS];
	__u32 count;
	__u32 at; /* index of the current one */
};

/* State of one classification: in a per-CPU map, for its size. */
struct classify_state {
	struct found found[DIMENSIONS];
	struct search_words words;
	__u32 rule;	/* order of the first deciding rule so far */
	__u32 fallback; /* of the default, the last one */
	__u32 log_only; /* the same of rules on trial, all ones: none */
};
MAP(PERCPU_ARRAY, classify_states, __u32, struct classify_state, 1);

/*
 * Appends the items of a list. Their count is in memory, where the verifier does not track it:
 * otherwise it would follow each value separately.
 */
static __noinline int gather_items(void *compiled, __u32 list, struct found *into)
{
	for (__u32 i = 0; i < MAX_SETS && i < (list & ((1U << LIST_COUNT_BITS) - 1)); i++) {
		__u32 place = (list >> LIST_COUNT_BITS) + i, index = place / 4;
		struct policy_record *l = bpf_map_lookup_elem(compiled, &index);
		struct candidate *set;

		if (!l || into->count >= MAX_SETS)
			break;
		set = &into->sets[into->count & (MAX_SETS - 1)];
		place = place % 4 * 4;
		set->set = l->w[place];
		set->first = l->w[place + 1];
		set->partners = l->w[place + 2] | (__u64)l->w[place + 3] << 32;
		into->count++;
	}
	return 0;
}

static __always_inline void gather(void *compiled, __u32 list, struct found *into)
{
	if (list)
		gather_items(compiled, list, into);
}

static __always_inline void prepare(struct search_words *w, const struct rule_query *o)
{
	for (int i = 0; i < 4; i++) {
		w->addr[0][i] = bpf_ntohl(o->src.w[i]);
		w->addr[1][i] = bpf_ntohl(o->dst.w[i]);
	}
	w->mac[0][2] = o->smac[0] << 8 | o->smac[1];
	w->mac[0][3] = (__u32)o->smac[2] << 24 | o->smac[3] << 16 | o->smac[4] << 8 | o->smac[5];
	w->mac[1][2] = o->dmac[0] << 8 | o->dmac[1];
	w->mac[1][3] = (__u32)o->dmac[2] << 24 | o->dmac[3] << 16 | o->dmac[4] << 8 | o->dmac[5];
	w->service[2] = o->proto << SERVICE_PROTOCOL_SHIFT;
	if (o->ported)
		w->service[2] |= SERVICE_PORTED | o->dport;
	w->service[3] = o->sport;
}

/* What a classification works with. Subprograms look it up again, for they take no pointers to it. */
struct classification {
	void *compiled;
	struct policy_record *head;
	struct classify_state *c;
};

static __always_inline bool classification_of(__u32 which, struct classification *on)
{
	__u32 zero = 0;

	on->c = bpf_map_lookup_elem(&classify_states, &zero);
	on->compiled = bpf_map_lookup_elem(&policy, &which);
	if (!on->c || !on->compiled)
		return false;
	on->head = bpf_map_lookup_elem(on->compiled, &zero);
	return on->head != NULL;
}

/* The sets that contain the source (DIM_SRC), or the destination (DIM_DST). */
SUBPROGRAM int sets_of(__u32 which, __u32 dimension, __u32 vport_segment)
{
	__u32 is_dst = dimension == DIM_DST, vport = vport_segment >> 16,
	      segment = vport_segment & 0xffff;
	struct classification on;
	struct classify_state *c;
	struct policy_record *head;
	const __u32 *trees, *addr;
	struct found *found;
	void *compiled;

	if (!classification_of(which, &on))
		return 0;
	c = on.c;
	head = on.head;
	compiled = on.compiled;
	trees = &head->w[HEADER_TREES + 3 * is_dst];
	addr = c->words.addr[is_dst];
	found = &c->found[is_dst];
	found->count = 0;
	if (!(addr[0] | addr[1]) && addr[2] == 0xffff) /* IPv4 */
		gather(compiled, find(compiled, trees[0], addr, 3), found);
	else
		gather(compiled, find(compiled, trees[1], addr, 0), found);
	if (trees[2])
		gather(compiled, find(compiled, trees[2], c->words.mac[is_dst], 2), found);
	if (vport && vport < head->w[HEADER_VPORT_COUNT])
		gather(compiled,
		       word_at(compiled, head->w[HEADER_VPORTS],
			       vport * POLICY_VPORT_WORDS + POLICY_VPORT_SRC + is_dst),
		       found);
	if (segment < head->w[HEADER_SEGMENT_COUNT])
		gather(compiled, word_at(compiled, head->w[HEADER_SEGMENTS], segment * 2 + is_dst),
		       found);
	return 0;
}

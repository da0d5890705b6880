/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * classify: which rule decides about a connection. internal/policy makes what is read
 * here, and docs/decisions/0012-classification.md says why it is this way.
 *
 * Source and destination are looked up in trees, which say to which sets of the policy
 * they belong. Each combination of a set on each side and a scope (where and in which
 * direction rules are asked) that has rules is in a table, with a tree of its services.
 * The first rule of all combinations decides.
 *
 * in:    struct opening
 * out:   struct judgement
 * maps:  policy, contests
 * stops: NO_POLICY
 */
#pragma once

#include "firewall/policy_image.h"

/* A set that a packet is in. */
struct candidate {
	__u32 set;
	__u32 first;	/* order of the first rule under it */
	__u64 partners; /* a bit for each combination of other sets that it has rules with */
};

/* What is looked up, as the words of keys in host's byte order. */
struct search_words {
	__u32 addr[2][4]; /* of source and destination */
	__u32 mac[2][4];  /* in the last two */
	__u32 service[4]; /* in the last two: service, source port */
};

/* The sets that were found, of one axis. */
enum axis {
	AXIS_SRC,
	AXIS_DST,
	AXIS_SCOPE,
	AXES,
};

struct found {
	struct candidate sets[MAX_SETS];
	__u32 count;
	__u32 at; /* which one is being asked */
};

/* A look-up. It is in a map for its size, one for each core. */
struct contest {
	struct found found[AXES];
	struct search_words words;
	__u32 rule;	/* order of the first rule that decides, as far as it was looked */
	__u32 log_only; /* of the first on trial, all ones when there is none */
};
MAP(PERCPU_ARRAY, contests, __u32, struct contest, 1);

/*
 * Appends a list's items. How many there are is in memory, where the verifier does not
 * follow it: otherwise it would walk on from each number apart.
 */
static __noinline int gather_items(void *image, __u32 list, struct found *into)
{
	for (__u32 i = 0; i < MAX_SETS && i < (list & ((1U << LIST_COUNT_BITS) - 1)); i++) {
		__u32 place = (list >> LIST_COUNT_BITS) + i, index = place / 4;
		struct line *l = bpf_map_lookup_elem(image, &index);
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

static __always_inline void gather(void *image, __u32 list, struct found *into)
{
	if (list)
		gather_items(image, list, into);
}

static __always_inline void prepare(struct search_words *w, const struct opening *o)
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

/* The sets that a packet's source, or its destination, is in. */
static __noinline int sets_of(void *image, const struct line *head, struct contest *c,
			      enum axis axis, __u32 end_segment)
{
	__u32 side = axis == AXIS_DST, end = end_segment >> 16, segment = end_segment & 0xffff;
	const __u32 *trees = &head->w[HEADER_TREES + 3 * side], *addr = c->words.addr[side];
	struct found *found = &c->found[side];

	found->count = 0;
	if (!(addr[0] | addr[1]) && addr[2] == 0xffff) /* IPv4 */
		gather(image, find(image, trees[0], addr, 3), found);
	else
		gather(image, find(image, trees[1], addr, 0), found);
	if (trees[2])
		gather(image, find(image, trees[2], c->words.mac[side], 2), found);
	if (end && end < head->w[HEADER_END_COUNT])
		gather(image,
		       word_at(image, head->w[HEADER_ENDS],
			       end * POLICY_END_WORDS + POLICY_END_SRC + side),
		       found);
	if (segment < head->w[HEADER_SEGMENT_COUNT])
		gather(image, word_at(image, head->w[HEADER_SEGMENTS], segment * 2 + side), found);
	return 0;
}

/* The words of a combination in the table: key, services, first rule. NULL: it has no rules. */
static __always_inline __u32 *slot_of(void *image, const struct line *head, __u64 key)
{
	__u32 hash = key * HASH_FACTOR >> 32;

	for (__u32 probe = 0; probe < MAX_PROBES; probe++) {
		__u32 index = head->w[HEADER_TABLE] + ((hash + probe) & head->w[HEADER_MASK]);
		struct line *l = bpf_map_lookup_elem(image, &index);

		if (!l)
			return NULL;
		for (int i = 0; i < 16; i += 4) {
			__u64 has = l->w[i] | (__u64)l->w[i + 1] << 32;

			if (has == key)
				return &l->w[i];
			if (!has)
				return NULL;
		}
	}
	return NULL;
}

/* Lets the rules of a combination take part. */
static __noinline int ask_pair(void *image, const struct line *head, __u64 key, struct contest *c)
{
	__u32 *slot = slot_of(image, head, key), value, pair, rule, log_only;

	if (!slot || slot[3] > c->rule)
		return 0;
	value = find(image, slot[2], c->words.service, 2);
	if (!(value & PAIR_BIT)) {
		if (value && value - 1 < c->rule)
			c->rule = value - 1;
		return 0;
	}
	pair = (value & ~PAIR_BIT) * 2;
	rule = word_at(image, head->w[HEADER_PAIRS], pair);
	log_only = word_at(image, head->w[HEADER_PAIRS], pair + 1);
	if (rule < c->rule)
		c->rule = rule;
	if (log_only < c->log_only)
		c->log_only = log_only;
	return 0;
}

static __always_inline __u64 partner(__u32 set, __u32 scope)
{
	return 1ULL << (((__u64)set | (__u64)scope << 20) * HASH_FACTOR >> 58);
}

/*
 * Finds the next combination that may have a rule which comes before the best one so far:
 * its key, 0 when there is nothing to ask this time, all ones at the end. Where it is, is
 * in memory as well.
 */
static __always_inline __u64 next_pair(struct contest *c)
{
	struct found *in = &c->found[AXIS_SCOPE], *from = &c->found[AXIS_SRC];
	struct found *to = &c->found[AXIS_DST];
	struct candidate *scope = &in->sets[in->at & (MAX_SETS - 1)];
	struct candidate *src = &from->sets[from->at & (MAX_SETS - 1)];
	struct candidate *dst = &to->sets[to->at & (MAX_SETS - 1)];

	if (in->at >= in->count)
		return ~0ULL;
	if (from->at >= from->count || scope->first > c->rule) {
		in->at++;
		from->at = to->at = 0;
		return 0;
	}
	if (to->at >= to->count || src->first > c->rule) {
		from->at++;
		to->at = 0;
		return 0;
	}
	to->at++;
	if (dst->first > c->rule || !(src->partners & partner(dst->set, scope->set)) ||
	    !(dst->partners & partner(src->set, scope->set)))
		return 0;
	return src->set | (__u64)dst->set << 20 | (__u64)scope->set << 40;
}

/* Asks all combinations. */
static __noinline int ask_all(void *image, const struct line *head, struct contest *c)
{
	struct bpf_iter_num it;
	__u64 key;

	c->found[AXIS_SRC].at = c->found[AXIS_DST].at = c->found[AXIS_SCOPE].at = 0;
	bpf_iter_num_new(&it, 0, (MAX_SETS + 1) * (MAX_SETS + 1) * (MAX_SETS + 1));
	while (bpf_iter_num_next(&it)) {
		key = next_pair(c);
		if (key == ~0ULL)
			break;
		if (key)
			ask_pair(image, head, key, c);
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* Writes the judgement about the best rules that were found. */
static __always_inline void conclude(void *image, const struct line *head, const struct contest *c,
				     struct judgement *j)
{
	__u32 word = word_at(image, head->w[HEADER_RULES], c->rule);

	j->rule = word & RULE_NUMBER;
	j->verdict = word >> RULE_VERDICT_SHIFT & 3;
	j->log = word & RULE_LOG;
	j->policy = head->w[HEADER_POLICY];
	j->log_only = 0;
	if (c->log_only < c->rule)
		j->log_only = word_at(image, head->w[HEADER_RULES], c->log_only) & RULE_NUMBER;
}

/* What the port is asked with: its default rule, and the scopes. Returns a reason, or 0. */
static __always_inline int begin(void *image, const struct line *head, const struct opening *o,
				 struct contest *c)
{
	__u32 place = o->end * POLICY_END_WORDS, order;

	if (o->end >= head->w[HEADER_END_COUNT])
		return REASON_NO_POLICY;
	order = word_at(image, head->w[HEADER_ENDS], place + POLICY_END_DEFAULT);
	if (!order)
		return REASON_NO_POLICY;
	c->rule = order - 1;
	c->log_only = ~0U;
	place += o->direction == DIRECTION_OUT;
	c->found[AXIS_SCOPE].count = 0;
	gather(image, word_at(image, head->w[HEADER_ENDS], place + POLICY_END_SCOPES),
	       &c->found[AXIS_SCOPE]);
	prepare(&c->words, o);
	return 0;
}

/* Asks rules, one of enum policies. Returns a reason, or 0 with the judgement. */
SUBPROGRAM int classify(__u32 which, const struct opening *o, struct judgement *j)
{
	__u32 zero = 0;
	struct contest *c = bpf_map_lookup_elem(&contests, &zero);
	void *image = bpf_map_lookup_elem(&policy, &which);
	struct line *head;
	int why;

	if (!o || !j || !c || !image)
		return REASON_NO_POLICY;
	head = bpf_map_lookup_elem(image, &zero);
	if (!head || head->w[HEADER_FORMAT] != POLICY_FORMAT)
		return REASON_NO_POLICY;
	why = begin(image, head, o, c);
	if (why)
		return why;
	sets_of(image, head, c, AXIS_SRC, (__u32)o->src_end << 16 | o->src_segment);
	sets_of(image, head, c, AXIS_DST, (__u32)o->dst_end << 16 | o->dst_segment);
	ask_all(image, head, c);
	conclude(image, head, c, j);
	return j->rule ? 0 : REASON_NO_POLICY;
}

/* The number of the firewall's policy, 0 when there is none. */
static __always_inline __u32 policy_number(void)
{
	__u32 which = POLICY_FIREWALL, zero = 0;
	struct line *head;
	void *lines = bpf_map_lookup_elem(&policy, &which);

	if (!lines)
		return 0;
	head = bpf_map_lookup_elem(lines, &zero);
	return head ? head->w[HEADER_POLICY] : 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * classify: which rule decides about a connection. internal/policy compiles what is read here;
 * docs/decisions/0012-classification.md explains the method.
 *
 * Source and destination are looked up in trees, which give the policy's sets that contain
 * them. A table has an entry for each combination of source set, destination set and scope
 * (port and direction) that has rules, with a tree of their services. The first rule of all
 * matching combinations decides.
 *
 * in:    struct rule_query
 * out:   struct rule_match
 * maps:  policy, classify_states
 * stops: NO_POLICY
 */
#pragma once

#include "firewall/policy_sets.h"

/* The table entry of a combination: key, services, first rule. NULL: it has no rules. */
static __always_inline __u32 *slot_of(void *compiled, const struct policy_record *head, __u64 key)
{
	__u32 hash = key * HASH_FACTOR >> 32;

	for (__u32 probe = 0; probe < MAX_PROBES; probe++) {
		__u32 index = head->w[HEADER_TABLE] + ((hash + probe) & head->w[HEADER_MASK]);
		struct policy_record *l = bpf_map_lookup_elem(compiled, &index);

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

/*
 * Evaluates the rules of a combination. It is a subprogram, since verifiers before Linux 6.18 follow
 * what is called in a loop anew for each state of the loop.
 */
SUBPROGRAM int evaluate_pair(__u32 which, __u64 key)
{
	__u32 *slot, value, pair, rule, log_only;
	struct policy_record *head;
	struct classification on;
	struct classify_state *c;
	void *compiled;

	if (!classification_of(which, &on))
		return 0;
	compiled = on.compiled;
	head = on.head;
	c = on.c;
	slot = slot_of(compiled, head, key);
	if (!slot || slot[3] > c->rule)
		return 0;
	value = find(compiled, slot[2], c->words.service, 2);
	if (!(value & PAIR_BIT)) {
		if (value && value - 1 < c->rule)
			c->rule = value - 1;
		return 0;
	}
	pair = (value & ~PAIR_BIT) * 2;
	rule = word_at(compiled, head->w[HEADER_PAIRS], pair);
	log_only = word_at(compiled, head->w[HEADER_PAIRS], pair + 1);
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
 * The key of the next combination that may have an earlier rule than the best one so far; 0:
 * none this time; all ones: at the end. The position is in memory too.
 */
static __always_inline __u64 next_pair(struct classify_state *c)
{
	struct found *in = &c->found[DIM_SCOPE], *from = &c->found[DIM_SRC];
	struct found *to = &c->found[DIM_DST];
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

/* Evaluates all combinations. */
static __noinline int evaluate_all(__u32 which, struct classify_state *c)
{
	struct bpf_iter_num it;
	__u64 key;

	c->found[DIM_SRC].at = c->found[DIM_DST].at = c->found[DIM_SCOPE].at = 0;
	bpf_iter_num_new(&it, 0, (MAX_SETS + 1) * (MAX_SETS + 1) * (MAX_SETS + 1));
	while (bpf_iter_num_next(&it)) {
		key = next_pair(c);
		if (key == ~0ULL)
			break;
		if (key)
			evaluate_pair(which, key);
	}
	bpf_iter_num_destroy(&it);
	return 0;
}

/* Writes the best match. */
static __always_inline void conclude(void *compiled, const struct policy_record *head,
				     const struct classify_state *c, struct rule_match *j)
{
	__u32 word = word_at(compiled, head->w[HEADER_RULES], c->rule);

	j->rule = word & RULE_NUMBER;
	j->verdict = word >> RULE_VERDICT_SHIFT & 3;
	j->log = word & RULE_LOG;
	j->is_default = c->rule == c->fallback;
	j->policy = head->w[HEADER_POLICY];
	j->log_only = 0;
	if (c->log_only < c->rule)
		j->log_only = word_at(compiled, head->w[HEADER_RULES], c->log_only) & RULE_NUMBER;
}

/* Loads the port's default rule and scopes. Returns a drop reason, or 0. */
static __always_inline int begin(void *compiled, const struct policy_record *head,
				 const struct rule_query *o, struct classify_state *c)
{
	__u32 place = o->vport * POLICY_VPORT_WORDS, order;

	if (o->vport >= head->w[HEADER_VPORT_COUNT])
		return REASON_NO_POLICY;
	order = word_at(compiled, head->w[HEADER_VPORTS], place + POLICY_VPORT_DEFAULT);
	if (!order)
		return REASON_NO_POLICY;
	c->rule = c->fallback = order - 1;
	c->log_only = ~0U;
	place += o->direction == DIRECTION_OUT;
	c->found[DIM_SCOPE].count = 0;
	gather(compiled, word_at(compiled, head->w[HEADER_VPORTS], place + POLICY_VPORT_SCOPES),
	       &c->found[DIM_SCOPE]);
	prepare(&c->words, o);
	return 0;
}

/* Evaluates a policy. Returns a drop reason, or 0 with the match. */
SUBPROGRAM int classify(__u32 which, const struct rule_query *o, struct rule_match *j)
{
	struct classification on;
	int why;

	if (!o || !j || !classification_of(which, &on) ||
	    on.head->w[HEADER_FORMAT] != POLICY_FORMAT)
		return REASON_NO_POLICY;
	why = begin(on.compiled, on.head, o, on.c);
	if (why)
		return why;
	sets_of(which, DIM_SRC, (__u32)o->src_vport << 16 | o->src_segment);
	sets_of(which, DIM_DST, (__u32)o->dst_vport << 16 | o->dst_segment);
	evaluate_all(which, on.c);
	conclude(on.compiled, on.head, on.c, j);
	return j->rule ? 0 : REASON_NO_POLICY;
}

/* The number of the loaded firewall policy, 0: none. */
static __always_inline __u32 policy_number(void)
{
	__u32 which = POLICY_FIREWALL, zero = 0;
	struct policy_record *head;
	void *lines = bpf_map_lookup_elem(&policy, &which);

	if (!lines)
		return 0;
	head = bpf_map_lookup_elem(lines, &zero);
	return head ? head->w[HEADER_POLICY] : 0;
}

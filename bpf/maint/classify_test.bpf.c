// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Classification alone, for tests and benchmarks: evaluates the queries of a map. Beside it
 * the reference: rules one after the other. Runs must not overlap.
 *
 * maps:  queries, matches, policy, plain_rules
 */
#include "firewall/classify.h"

/* A run. */
struct classify_run {
	__u32 count;  /* queries, from the first */
	__u32 repeat; /* evaluations of all queries */
	__u32 rules;  /* of plain_rules, in use */
	__u32 pad;
	__u64 ns; /* result: of the whole run */
};

struct classify_result {
	struct rule_match match;
	__u32 reason; /* 0: match is valid */
};

#define MAX_QUERIES 4096

MAP(ARRAY, queries, __u32, struct rule_query, MAX_QUERIES);
MAP(ARRAY, matches, __u32, struct classify_result, MAX_QUERIES);

static __always_inline void classify_one(__u32 index)
{
	struct rule_query *in = bpf_map_lookup_elem(&queries, &index), o;
	struct classify_result *out = bpf_map_lookup_elem(&matches, &index);

	if (!in || !out)
		return;
	o = *in; /* on the stack, as in the edge */
	out->reason = classify(POLICY_FIREWALL, &o, &out->match);
}

SEC("syscall")
int classify_all(struct classify_run *s)
{
	__u32 count = s->count;
	__u64 begin = bpf_ktime_get_ns();
	struct bpf_iter_num turns, items;
	int *i;

	bpf_iter_num_new(&turns, 0, s->repeat);
	while (bpf_iter_num_next(&turns)) {
		bpf_iter_num_new(&items, 0, count);
		while ((i = bpf_iter_num_next(&items)))
			classify_one(*i);
		bpf_iter_num_destroy(&items);
	}
	bpf_iter_num_destroy(&turns);
	s->ns = bpf_ktime_get_ns() - begin;
	return 0;
}

/* A rule from one prefix to one prefix. */
struct plain_rule {
	__u32 src[4]; /* host byte order, like those below */
	__u32 src_mask[4];
	__u32 dst[4];
	__u32 dst_mask[4];
	__u32 first; /* service, as in a key */
	__u32 last;
};

MAP(ARRAY, plain_rules, __u32, struct plain_rule, 1);

static __always_inline bool in_prefix(const __u32 *addr, const __u32 *prefix, const __u32 *mask)
{
	return !(((addr[3] ^ prefix[3]) & mask[3]) | ((addr[2] ^ prefix[2]) & mask[2]) |
		 ((addr[1] ^ prefix[1]) & mask[1]) | ((addr[0] ^ prefix[0]) & mask[0]));
}

/* The number of the first matching rule, from 1; 0: none. */
static __noinline __u32 first_match(const struct search_words *w, __u32 rules)
{
	struct bpf_iter_num it;
	__u32 found = 0;
	int *i;

	bpf_iter_num_new(&it, 0, rules);
	while ((i = bpf_iter_num_next(&it))) {
		__u32 index = *i;
		struct plain_rule *r = bpf_map_lookup_elem(&plain_rules, &index);

		if (!r)
			break;
		if (in_prefix(w->addr[0], r->src, r->src_mask) &&
		    in_prefix(w->addr[1], r->dst, r->dst_mask) && r->first <= w->service[2] &&
		    w->service[2] <= r->last) {
			found = index + 1;
			break;
		}
	}
	bpf_iter_num_destroy(&it);
	return found;
}

SEC("syscall")
int scan(struct classify_run *s)
{
	__u32 zero = 0, count = s->count, rules = s->rules;
	struct classify_state *c = bpf_map_lookup_elem(&classify_states, &zero);
	__u64 begin = bpf_ktime_get_ns();
	struct bpf_iter_num it;
	int *i;

	if (!c)
		return 0;
	bpf_iter_num_new(&it, 0, count);
	while ((i = bpf_iter_num_next(&it))) {
		__u32 index = *i;
		struct rule_query *o = bpf_map_lookup_elem(&queries, &index);
		struct classify_result *out = bpf_map_lookup_elem(&matches, &index);

		if (!o || !out)
			break;
		prepare(&c->words, o);
		out->match.rule = first_match(&c->words, rules);
	}
	bpf_iter_num_destroy(&it);
	s->ns = bpf_ktime_get_ns() - begin;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

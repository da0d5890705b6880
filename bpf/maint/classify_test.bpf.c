// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The firewall's classification alone, for tests and benchmarks: judges the openings that
 * it finds in a map. One at a time may run. Beside it, what it is compared with: one rule
 * after the other.
 *
 * maps:  openings, judgements, policy, plain_rules
 */
#include "firewall/classify.h"

/* What user space asks for. */
struct session {
	__u32 count;  /* openings, from the first */
	__u32 repeat; /* how often all of them are judged */
	__u32 rules;  /* of plain_rules, in use */
	__u32 pad;
	__u64 ns; /* out: for all of it */
};

struct verdict_line {
	struct judgement judgement;
	__u32 reason; /* 0: there is a judgement */
};

#define MAX_OPENINGS 4096

MAP(ARRAY, openings, __u32, struct opening, MAX_OPENINGS);
MAP(ARRAY, judgements, __u32, struct verdict_line, MAX_OPENINGS);

static __always_inline void judge_one(__u32 index)
{
	struct opening *in = bpf_map_lookup_elem(&openings, &index), o;
	struct verdict_line *out = bpf_map_lookup_elem(&judgements, &index);

	if (!in || !out)
		return;
	o = *in; /* as in the edge: on the stack */
	out->reason = classify(POLICY_FIREWALL, &o, &out->judgement);
}

SEC("syscall")
int judge(struct session *s)
{
	__u32 count = s->count;
	__u64 begin = bpf_ktime_get_ns();
	struct bpf_iter_num turns, items;
	int *i;

	bpf_iter_num_new(&turns, 0, s->repeat);
	while (bpf_iter_num_next(&turns)) {
		bpf_iter_num_new(&items, 0, count);
		while ((i = bpf_iter_num_next(&items)))
			judge_one(*i);
		bpf_iter_num_destroy(&items);
	}
	bpf_iter_num_destroy(&turns);
	s->ns = bpf_ktime_get_ns() - begin;
	return 0;
}

/* A rule of one prefix to one prefix, as plain as can be. */
struct plain_rule {
	__u32 src[4]; /* host's byte order, as are the next ones */
	__u32 src_mask[4];
	__u32 dst[4];
	__u32 dst_mask[4];
	__u32 first; /* service, as a key */
	__u32 last;
};

MAP(ARRAY, plain_rules, __u32, struct plain_rule, 1);

static __always_inline bool in_prefix(const __u32 *addr, const __u32 *prefix, const __u32 *mask)
{
	return !(((addr[3] ^ prefix[3]) & mask[3]) | ((addr[2] ^ prefix[2]) & mask[2]) |
		 ((addr[1] ^ prefix[1]) & mask[1]) | ((addr[0] ^ prefix[0]) & mask[0]));
}

/* The number of the first of the rules that matches, from 1, or 0. */
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
int scan(struct session *s)
{
	__u32 zero = 0, count = s->count, rules = s->rules;
	struct contest *c = bpf_map_lookup_elem(&contests, &zero);
	__u64 begin = bpf_ktime_get_ns();
	struct bpf_iter_num it;
	int *i;

	if (!c)
		return 0;
	bpf_iter_num_new(&it, 0, count);
	while ((i = bpf_iter_num_next(&it))) {
		__u32 index = *i;
		struct opening *o = bpf_map_lookup_elem(&openings, &index);
		struct verdict_line *out = bpf_map_lookup_elem(&judgements, &index);

		if (!o || !out)
			break;
		prepare(&c->words, o);
		out->judgement.rule = first_match(&c->words, rules);
	}
	bpf_iter_num_destroy(&it);
	s->ns = bpf_ktime_get_ns() - begin;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

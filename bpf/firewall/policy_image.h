/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * policy_image: how a compiled policy is read. It is an array of records, which refer to each
 * other by index. A value with TREE_BIT is a search tree (its depth and root); without it,
 * a list of sets or a decision, depending on the place. A malformed compiled cannot cause a
 * long loop or a wild read: records are looked up by index, and loops are bounded.
 */
#pragma once

#include "core/count.h"

/* internal/policy (tree.go, compiled.go, axis.go) has the same constants. */
#define POLICY_FORMAT 0x53565031
#define TREE_BIT (1U << 31)
#define TREE_DEPTH_SHIFT 27
#define TREE_MAX_DEPTH 6
#define LEAF_KEYS 8
#define NODE_KEYS 15
#define PAIR_BIT (1U << 30)
#define LIST_COUNT_BITS 5
#define MAX_SETS 32 /* that contain one address, and the scopes of a port */
#define MAX_PROBES 8
#define SERVICE_PROTOCOL_SHIFT 17
#define SERVICE_PORTED (1U << 16)
#define RULE_NUMBER 0xffffff
#define RULE_VERDICT_SHIFT 24
#define RULE_LOG (1U << 28)
#define HASH_FACTOR 0x9e3779b97f4a7c15ULL

/* The first record: for each table its first record, or a value. */
enum policy_header {
	HEADER_POLICY,
	HEADER_FORMAT,
	HEADER_TREES,			  /* source: IPv4, IPv6, MAC; destination: the same */
	HEADER_VPORTS = HEADER_TREES + 6, /* half a record each */
	HEADER_VPORT_COUNT,
	HEADER_SEGMENTS, /* an eighth of a record each */
	HEADER_SEGMENT_COUNT,
	HEADER_TABLE,
	HEADER_MASK,
	HEADER_RULES, /* one word each */
	HEADER_PAIRS, /* two words each */
};

enum policy_vport {
	POLICY_VPORT_DEFAULT, /* order + 1 of the default rule, 0: not a port of the policy */
	POLICY_VPORT_SRC,
	POLICY_VPORT_DST,
	POLICY_VPORT_SCOPES, /* in, out */
	POLICY_VPORT_WORDS = 8,
};

/* A word of the compiled, 0 beyond its end. */
static __always_inline __u32 word_at(void *compiled, __u32 line, __u32 word)
{
	__u32 index = line + word / 16;
	struct policy_record *l = bpf_map_lookup_elem(compiled, &index);

	return l ? l->w[word & 15] : 0;
}

/*
 * 1 if key is less than the other. Without a branch, of which the verifier would follow both
 * sides.
 */
static __always_inline __u32 is_below(__u64 key, __u32 other)
{
	asm volatile("" : "+r"(key));
	return (key - other) >> 63;
}

/* The value of the greatest key in the tree that is not above key. */
static __noinline __u32 search(void *compiled, __u32 tree, __u32 key)
{
	__u32 depth = tree >> TREE_DEPTH_SHIFT & 15, index = tree & ((1U << TREE_DEPTH_SHIFT) - 1);
	__u32 n = LEAF_KEYS - 1;
	struct policy_record *l;

	for (__u32 level = 0; level < TREE_MAX_DEPTH && level < depth; level++) {
		l = bpf_map_lookup_elem(compiled, &index);
		if (!l)
			return 0;
		index = l->w[NODE_KEYS] + NODE_KEYS;
#pragma unroll
		for (int i = 0; i < NODE_KEYS; i++)
			index -= is_below(key, l->w[i]);
	}
	l = bpf_map_lookup_elem(compiled, &index);
	if (!l)
		return 0;
#pragma unroll
	for (int i = 1; i < LEAF_KEYS; i++) /* the first one never is */
		n -= is_below(key, l->w[i]);
	asm volatile("" : "+r"(n)); /* the compiler knows its range, the verifier does not */
	return l->w[LEAF_KEYS + (n & (LEAF_KEYS - 1))];
}

/* Follows a value through trees, by the words of a key from one on. */
static __always_inline __u32 find(void *compiled, __u32 value, const __u32 *words, int from)
{
	for (int i = from; i < 4; i++) {
		if (!(value & TREE_BIT))
			break;
		value = search(compiled, value, words[i]);
	}
	return value & TREE_BIT ? 0 : value;
}

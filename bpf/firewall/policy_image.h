/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * image: how a compiled policy is read. It is lines, in which everything is found by
 * number. A value is one of two things: with TREE_BIT a search tree that says more (its
 * depth, and the line of its root), without it a list of sets or a decision, whatever the
 * place is for. Nothing here can loop or read astray, whatever an image says: lines are
 * looked up by number, and all loops have an end.
 */
#pragma once

#include "core/pkt.h"

/* Numbers of the same name are in internal/policy: tree.go, image.go and axis.go. */
#define POLICY_FORMAT 0x53565031
#define TREE_BIT (1U << 31)
#define TREE_DEPTH_SHIFT 27
#define TREE_MAX_DEPTH 6
#define LEAF_KEYS 8
#define NODE_KEYS 15
#define PAIR_BIT (1U << 30)
#define LIST_COUNT_BITS 5
#define MAX_SETS 32 /* in which one side of a packet is, and its port's scopes */
#define MAX_PROBES 8
#define SERVICE_PROTOCOL_SHIFT 17
#define SERVICE_PORTED (1U << 16)
#define RULE_NUMBER 0xffffff
#define RULE_VERDICT_SHIFT 24
#define RULE_LOG (1U << 28)
#define HASH_FACTOR 0x9e3779b97f4a7c15ULL

/* The first line: of each thing where it is, by line, or a value. */
enum policy_header {
	HEADER_POLICY,
	HEADER_FORMAT,
	HEADER_TREES,			/* source: IPv4, IPv6, MAC; destination: the same */
	HEADER_ENDS = HEADER_TREES + 6, /* half a line each */
	HEADER_END_COUNT,
	HEADER_SEGMENTS, /* an eighth of a line each */
	HEADER_SEGMENT_COUNT,
	HEADER_TABLE,
	HEADER_MASK,
	HEADER_RULES, /* a word each */
	HEADER_PAIRS, /* two words each */
};

enum policy_end {
	POLICY_END_DEFAULT, /* order + 1 of its default rule, 0: not a port of the policy */
	POLICY_END_SRC,
	POLICY_END_DST,
	POLICY_END_SCOPES, /* in, out */
	POLICY_END_WORDS = 8,
};

/* A word of the image by its place; 0 beyond the end. */
static __always_inline __u32 word_at(void *image, __u32 line, __u32 word)
{
	__u32 index = line + word / 16;
	struct line *l = bpf_map_lookup_elem(image, &index);

	return l ? l->w[word & 15] : 0;
}

/*
 * 1 when key is below the other, without a branch: the verifier would walk both ways of
 * each.
 */
static __always_inline __u32 is_below(__u64 key, __u32 other)
{
	asm volatile("" : "+r"(key));
	return (key - other) >> 63;
}

/* The value of the greatest key in the tree that is not above key. */
static __noinline __u32 search(void *image, __u32 tree, __u32 key)
{
	__u32 depth = tree >> TREE_DEPTH_SHIFT & 15, index = tree & ((1U << TREE_DEPTH_SHIFT) - 1);
	__u32 n = LEAF_KEYS - 1;
	struct line *l;

	for (__u32 level = 0; level < TREE_MAX_DEPTH && level < depth; level++) {
		l = bpf_map_lookup_elem(image, &index);
		if (!l)
			return 0;
		index = l->w[NODE_KEYS] + NODE_KEYS;
#pragma unroll
		for (int i = 0; i < NODE_KEYS; i++)
			index -= is_below(key, l->w[i]);
	}
	l = bpf_map_lookup_elem(image, &index);
	if (!l)
		return 0;
#pragma unroll
	for (int i = 1; i < LEAF_KEYS; i++) /* of the first one it never is */
		n -= is_below(key, l->w[i]);
	asm volatile("" : "+r"(n)); /* the compiler knows its range, the verifier does not */
	return l->w[LEAF_KEYS + (n & (LEAF_KEYS - 1))];
}

/* Follows a value through the trees that it may be, by the words of a key from one on. */
static __always_inline __u32 find(void *image, __u32 value, const __u32 *words, int from)
{
	for (int i = from; i < 4; i++) {
		if (!(value & TREE_BIT))
			break;
		value = search(image, value, words[i]);
	}
	return value & TREE_BIT ? 0 : value;
}

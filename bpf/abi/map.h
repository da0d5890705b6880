/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How maps are declared. Maps of size 1 get theirs from the configuration, at load time. */
#pragma once

#include "include/net.h"

/* One byte in memory. Typed fields put the names into BTF, for the generated Go types. */
#define BYTE_ENUM enum __attribute__((packed))

#define MAP_FLAGS(map_type, map_name, key_type, value_type, entries, flags) \
	struct {                                                            \
		__uint(type, BPF_MAP_TYPE_##map_type);                      \
		__uint(max_entries, entries);                               \
		__uint(map_flags, flags);                                   \
		__type(key, key_type);                                      \
		__type(value, value_type);                                  \
	} map_name SEC(".maps")

#define MAP(map_type, map_name, key_type, value_type, entries) \
	MAP_FLAGS(map_type, map_name, key_type, value_type, entries, 0)

/* The kernel requires tries without preallocation. */
#define LPM_MAP(map_name, key_type, value_type, entries) \
	MAP_FLAGS(LPM_TRIE, map_name, key_type, value_type, entries, BPF_F_NO_PREALLOC)

#define QUEUE(map_name, value_type, entries)      \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_QUEUE); \
		__uint(max_entries, entries);     \
		__type(value, value_type);        \
	} map_name SEC(".maps")

#define RINGBUF(map_name, bytes)                    \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_RINGBUF); \
		__uint(max_entries, bytes);         \
	} map_name SEC(".maps")

/*
 * A field of what a map may not have, or NULL. The compiler would add the field's offset before
 * the test, which verifiers before Linux 6.18 refuse.
 */
#define FIELD_OF(pointer, field)                     \
	({                                           \
		typeof(pointer) __value = pointer;   \
		typeof(&__value->field) __at = NULL; \
		if (__value) {                       \
			barrier_var(__value);        \
			__at = &__value->field;      \
		}                                    \
		__at;                                \
	})

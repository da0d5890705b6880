/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * limits: how much of what all share a port, remote or segment may take: entries of tables, and
 * packets a second. Keys, values and maps. The owner of an entry is a vport, or a segment.
 */
#pragma once

#include "abi/conntrack.h"
#include "abi/routing.h"
#include "abi/trace.h"

#define SEGMENT_OWNER 0x10000 /* flag of an owner that is a segment */
#define OWNERS (MAX_SEGMENTS + VPORTS)
#define STORM_RATES (RATE_UNKNOWN_UNICAST + 1) /* the first rates are those of storm control */
#define OBSERVED_RATES (RATE_NEW_FLOWS + 1) /* the first rates are those of what the owner sends */

/* Where the maps have an owner: segments come first, as there are more vports in larger tables. */
static __always_inline __u32 owner_index(__u32 owner)
{
	return owner & SEGMENT_OWNER ? owner & ~SEGMENT_OWNER : MAX_SEGMENTS + owner;
}

/* What the owner may take, 0: without limit. User space writes it. */
struct limits {
	__u32 counts[COUNT_MAX];     /* entries */
	__u32 rates[RATE_MAX];	     /* a second */
	__u32 ring_masks[COUNT_MAX]; /* size of its rings less 1 */
	__u32 observe;		     /* refuse nothing that the owner sends, and count it */
};

/* A ring of the keys that the owner added to a table. Numbers of slots grow and wrap. */
struct limit_ring { /* that of NAT sessions has no keys: it numbers the slots of firewall/share.h */
	__u32 newest; /* slot of the last key */
	__u32 oldest; /* slot that was evicted last */
};

/* What the owner has taken. */
struct limit_usage {
	__s32 used[COUNT_MAX];
	struct limit_ring rings[COUNT_MAX];
	struct token_bucket buckets[RATE_MAX];
	struct token_bucket shares[STORM_RATES]; /* its part of its segment's rates */
	__u64 exceeded[COUNT_MAX];		 /* entries evicted or refused at the limit */
	__u64 limited[RATE_MAX];		 /* packets above the rate */
	__u32 log_lost;				 /* log lines not written since the last one */
	__u32 pad;
};

struct limit_slot {
	__u32 owner;
	enum limited_count count;
	__u32 slot;
};

/*
 * A key of the table: struct fdb_key, neighbour_key, ct_key or a flow's digest. The rest is zero. It
 * has the size that it had when flows had longer keys, so that rings outlast an upgrade.
 */
struct limit_entry {
	__u32 key[20];
};

/*
 * What each core has for hosts and limits: values that are too large for the stack, and the token
 * bucket of host events.
 */
struct host_work {
	struct fdb_key mac;
	struct fdb_entry entry;
	struct neighbour_key addr;
	struct neighbour neighbour;
	struct limit_entry noted;
	struct token_bucket events;
};

MAP(PERCPU_ARRAY, host_works, __u32, struct host_work, 1);
MAP(ARRAY, owner_limits, __u32, struct limits, OWNERS);
/* User space corrects single counts while programs change others. */
MAP_FLAGS(ARRAY, owner_usages, __u32, struct limit_usage, OWNERS, BPF_F_MMAPABLE);
MAP_FLAGS(HASH, limit_entries, struct limit_slot, struct limit_entry, 1, BPF_F_NO_PREALLOC);
MAP(ARRAY, limit_largest, enum limited_count, __u32, COUNT_MAX); /* → owner with the most */

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Garbage collection of connections, which user space runs periodically: deletes expired ones,
 * counts the others by state and port, and mends what a race left wrong: the usages of owners,
 * and connections that their port's ring lacks, as after a change of a table's size. The queue of
 * closed connections loses those that are gone.
 *
 * maps:  ct_established, ct_half_open, ct_closed, vports, ct_gc_result, ct_found_counts, those of
 *        core/limits.h
 */
#include "firewall/conntrack.h"

MAP(ARRAY, ct_gc_result, __u32, struct ct_gc_stats, 1);
MAP(ARRAY, ct_gc_key, __u32, struct limit_entry, 1); /* packets interrupt this: ct_work is theirs */
MAP(ARRAY, ct_found_counts, __u32, struct ct_found, OWNERS); /* by owner_index() */

struct conntrack_gc {
	struct ct_gc_stats *stats;
	struct limit_entry *key; /* of a connection that its ring lacks */
	__u64 now_ns;
	__u32 closed; /* connections */
	bool half_open;
};

/* Its port is gone, or no longer has a firewall. */
static __always_inline bool is_orphan(const struct vport *vport)
{
	return !vport || vport->kind != VPORT_PORT || !(vport->flags & VPORT_FIREWALL);
}

static __always_inline void found(__u32 owner, __u32 kind)
{
	__u32 at = owner_index(owner);
	struct ct_found *n = bpf_map_lookup_elem(&ct_found_counts, &at);

	if (n && kind < COUNT_MAX)
		n->found[kind]++;
}

/* Whether the port's ring has the slot. */
static __always_inline bool is_in_ring(__u32 zone, __u32 kind, __u32 slot)
{
	struct limit_slot at = { .owner = zone, .count = kind, .slot = slot };
	struct limit_usage *u = usage_of(zone);

	return u && kind < COUNT_MAX && (__s32)(slot - u->rings[kind].oldest) > 0 &&
	       bpf_map_lookup_elem(&limit_entries, &at);
}

/* A connection that its port's share has. */
static __always_inline void gc_count(struct ct_key *key, struct ct_entry *c, struct conntrack_gc *s,
				     const struct vport *vport)
{
	__u32 kind = s->half_open ? half_open_kind(c->bits) : COUNT_CONNECTIONS;

	found(key->zone, kind);
	found(SEGMENT_OWNER + vport->segment, kind);
	if (is_in_ring(key->zone, kind, c->slot))
		return;
	__builtin_memcpy(s->key, key, sizeof(*key));
	renew(s->key, c, key->zone, kind);
}

static long gc_entry(void *map, struct ct_key *key, struct ct_entry *c, struct conntrack_gc *s)
{
	struct vport *vport = vport_get(key->zone);
	enum ct_state state = ct_state(c, key->proto);
	struct ct_gc_stats *n = s->stats;

	(void)map;
	if (is_orphan(vport) || ct_expired(c, key->proto, s->now_ns, ct_timeouts)) {
		n->expired++;
		ct_delete(key, c);
		return 0;
	}
	if (state < CT_STATE_MAX)
		n->states[state]++;
	if (s->half_open)
		n->half_open++;
	else
		n->established++;
	if (!s->half_open || !ct_is_closed(c, key->proto))
		gc_count(key, c, s, vport);
	else
		s->closed++;
	return 0;
}

/*
 * Takes the oldest key of the closed connections, and puts it back if it is one. A queue of
 * connections that are gone would have nobody find room in a full table.
 */
static long gc_closed(__u64 index __attribute__((unused)), struct conntrack_gc *s)
{
	struct ct_key *key = (struct ct_key *)s->key;
	struct ct_entry *c;

	if (bpf_map_pop_elem(&ct_closed, key))
		return 1;
	c = bpf_map_lookup_elem(&ct_half_open, key);
	if (c && ct_is_closed(c, key->proto))
		bpf_map_push_elem(&ct_closed, key, BPF_EXIST);
	return 0;
}

#define REOPENED 1024 /* keys of connections that are open again; the next sweep has the rest */

static long gc_begin(void *map, const __u32 *at, struct ct_found *n, void *unused)
{
	struct limit_usage *u = bpf_map_lookup_elem(&owner_usages, at);

	(void)map;
	(void)unused;
	__builtin_memset(n, 0, sizeof(*n));
	if (u)
		__builtin_memcpy(n->used, u->used, sizeof(n->used));
	return 0;
}

/* Sets a usage right that did not change meanwhile. */
static __always_inline void gc_set(struct limit_usage *u, const struct ct_found *n, __u32 kind)
{
	if (u->used[kind] == n->used[kind] && n->found[kind] != n->used[kind])
		u->used[kind] = n->found[kind];
}

static long gc_end(void *map, const __u32 *at, struct ct_found *n, void *unused)
{
	struct limit_usage *u = bpf_map_lookup_elem(&owner_usages, at);

	(void)map;
	(void)unused;
	if (!u)
		return 0;
	gc_set(u, n, COUNT_HALF_OPEN_IN);
	gc_set(u, n, COUNT_HALF_OPEN_OUT);
	gc_set(u, n, COUNT_CONNECTIONS);
	return 0;
}

SEC("syscall")
int conntrack_gc(void *ctx)
{
	struct conntrack_gc s = { .now_ns = bpf_ktime_get_ns() };
	__u32 first = 0;

	(void)ctx;
	s.stats = bpf_map_lookup_elem(&ct_gc_result, &first);
	s.key = bpf_map_lookup_elem(&ct_gc_key, &first);
	if (!s.stats || !s.key)
		return 1;
	__builtin_memset(s.stats, 0, sizeof(*s.stats));
	bpf_for_each_map_elem(&ct_found_counts, gc_begin, NULL, 0);
	bpf_for_each_map_elem(&ct_established, gc_entry, &s, 0);
	s.half_open = true;
	bpf_for_each_map_elem(&ct_half_open, gc_entry, &s, 0);
	bpf_loop(s.closed + s.stats->expired + REOPENED, gc_closed, &s, 0);
	bpf_for_each_map_elem(&ct_found_counts, gc_end, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

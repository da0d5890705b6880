// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Garbage collection of NAT sessions, which user space runs periodically: deletes expired ones
 * with their reverse keys, and counts the others by state, by source, and by port usage.
 *
 * maps:  nat_sessions, nat_reverse, nat_host_counts, egress_policies, nat_events, nat_gc_result,
 *        port_usages, nat_owner_usages, owner_usages
 */
#include "nat/nat_table.h"

MAP(ARRAY, nat_gc_result, __u32, struct nat_gc_stats, 1);
MAP(LRU_HASH, port_usages, struct port_usage_key, struct port_usage, 65536);
MAP(ARRAY, nat_owner_usages, __u32, struct port_usage, OWNERS); /* sessions by owner_index() */

struct nat_gc {
	struct nat_gc_stats *stats;
	__u64 now_ns;
};

/* Its policy is gone. */
static __always_inline bool is_orphan(const struct nat_session *s)
{
	__u32 id = s->egress;
	struct egress_policy *e = bpf_map_lookup_elem(&egress_policies, &id);

	return !e || !e->used;
}

/* Counts one for the key, in this run. */
static __always_inline void count_usage(void *map, const void *key, __u32 run)
{
	struct port_usage fresh = { .run = run, .count = 1 };
	struct port_usage *p = bpf_map_lookup_elem(map, key);

	if (!p) {
		bpf_map_update_elem(map, key, &fresh, BPF_ANY);
		return;
	}
	if (p->run != run) {
		p->run = run;
		p->count = 0;
	}
	p->count++;
}

/* Counts one of its source, port and segment, as nat_admit() does. */
static __always_inline void count_host(const struct ct_key *key, const struct nat_session *s,
				       __u32 run)
{
	struct nat_host_count fresh = { .run = run, .found = 1 }, *h;
	struct nat_host_key host = nat_host_of(key, s->flags);
	__u32 vport = owner_index(s->vport), segment = owner_index(SEGMENT_OWNER + s->segment);

	if (!is_counted(s, key->proto))
		return;
	count_usage(&nat_owner_usages, &vport, run);
	count_usage(&nat_owner_usages, &segment, run);
	h = bpf_map_lookup_elem(&nat_host_counts, &host);
	if (!h) {
		bpf_map_update_elem(&nat_host_counts, &host, &fresh, BPF_ANY);
		return;
	}
	if (h->run != run) {
		h->run = run;
		h->found = 0;
	}
	h->found++;
}

static long gc_entry(void *map __attribute__((unused)), const struct ct_key *key,
		     const struct nat_session *s, struct nat_gc *gc)
{
	struct port_usage_key ports = { .router = key->zone,
					.proto = key->proto,
					.outside_port = key->outside_port,
					.egress = s->addr,
					.outside = key->outside };
	enum ct_state state = ct_state(&s->ct, key->proto);
	struct nat_gc_stats *n = gc->stats;
	struct ct_key reverse;

	if (is_orphan(s) || nat_session_expired(s, key, gc->now_ns)) {
		n->expired++;
		nat_session_delete(key, s, &reverse);
		return 0;
	}
	if (s->flags & NAT_SESSION_MAPPING) {
		n->mappings++;
		return 0;
	}
	if (state < CT_STATE_MAX)
		n->states[state]++;
	n->sessions++;
	n->replicas += !!(s->flags & NAT_SESSION_REPLICA);
	if (key->echo_dir)
		ports.outside_port = 0; /* an echo's identifier belongs to one session */
	if (!(s->flags & NAT_SESSION_UNTRANSLATED))
		count_usage(&port_usages, &ports, n->run);
	count_host(key, s, n->run);
	return 0;
}

static long fix_owner(void *map __attribute__((unused)), const __u32 *at, struct limit_usage *u,
		      struct nat_gc *gc)
{
	struct port_usage *now = bpf_map_lookup_elem(&nat_owner_usages, at);
	__s32 count = now && now->run == gc->stats->run ? now->count : 0;

	if (u->used[COUNT_NAT_SESSIONS] != count)
		u->used[COUNT_NAT_SESSIONS] = count;
	return 0;
}

static long fix_count(void *map, const struct nat_host_key *key, struct nat_host_count *h,
		      struct nat_gc *gc)
{
	__u32 count = h->run == gc->stats->run ? h->found : 0;

	if (!count)
		bpf_map_delete_elem(map, key);
	else if (h->count != count)
		h->count = count;
	return 0;
}

SEC("syscall")
int nat_gc(void *ctx)
{
	struct nat_gc gc = { .now_ns = bpf_ktime_get_ns() };
	__u32 first = 0, run;

	(void)ctx;
	gc.stats = bpf_map_lookup_elem(&nat_gc_result, &first);
	if (!gc.stats)
		return 1;
	run = gc.stats->run + 1;
	__builtin_memset(gc.stats, 0, sizeof(*gc.stats));
	gc.stats->run = run;
	bpf_for_each_map_elem(&nat_sessions, gc_entry, &gc, 0);
	bpf_for_each_map_elem(&nat_host_counts, fix_count, &gc, 0);
	bpf_for_each_map_elem(&owner_usages, fix_owner, &gc, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

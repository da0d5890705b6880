// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Garbage collection of connections, which user space runs periodically: deletes expired ones,
 * counts the others, and corrects the half-open counts, which evictions do not lower.
 *
 * maps:  ct_established, ct_half_open, half_open_counts, vports, ct_gc_result, half_open_found
 */
#include "firewall/conntrack.h"

MAP(ARRAY, ct_gc_result, __u32, struct ct_gc_stats, 1);
MAP(ARRAY, half_open_found, __u32, struct half_open_count, MAX_VPORTS); /* by vport */

struct conntrack_gc {
	struct ct_gc_stats *stats;
	__u64 now_ns;
	bool half_open;
};

/* Its port is gone, or no longer has a firewall. */
static __always_inline bool is_orphan(__u32 id)
{
	struct vport *vport = bpf_map_lookup_elem(&vports, &id);

	return !vport || vport->kind != VPORT_PORT || !(vport->flags & VPORT_FIREWALL);
}

static long gc_entry(void *map, const struct ct_key *key, const struct ct_entry *c,
		     struct conntrack_gc *s)
{
	enum ct_state state = ct_state(c, key->proto);
	struct ct_gc_stats *n = s->stats;
	struct half_open_count *open;
	__u32 vport = key->zone;

	if (is_orphan(vport) || ct_expired(c, key->proto, s->now_ns, ct_timeouts)) {
		n->expired++;
		bpf_map_delete_elem(map, key);
		return 0;
	}
	if (state < CT_STATE_MAX)
		n->states[state]++;
	if (!s->half_open) {
		n->established++;
		return 0;
	}
	n->half_open++;
	if (ct_is_answered(c, key->proto)) /* it is closed, or the other table was full */
		return 0;
	open = bpf_map_lookup_elem(&half_open_found, &vport);
	if (open)
		open->count++;
	return 0;
}

static long fix_count(void *map, const __u32 *vport, struct half_open_count *open, void *unused)
{
	struct half_open_count *kept = bpf_map_lookup_elem(&half_open_counts, vport);

	(void)map;
	(void)unused;
	if (kept && kept->count != open->count)
		kept->count = open->count;
	open->count = 0;
	return 0;
}

SEC("syscall")
int conntrack_gc(void *ctx)
{
	struct conntrack_gc s = { .now_ns = bpf_ktime_get_ns() };
	__u32 first = 0;

	(void)ctx;
	s.stats = bpf_map_lookup_elem(&ct_gc_result, &first);
	if (!s.stats)
		return 1;
	__builtin_memset(s.stats, 0, sizeof(*s.stats));
	bpf_for_each_map_elem(&ct_established, gc_entry, &s, 0);
	s.half_open = true;
	bpf_for_each_map_elem(&ct_half_open, gc_entry, &s, 0);
	bpf_for_each_map_elem(&half_open_found, fix_count, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

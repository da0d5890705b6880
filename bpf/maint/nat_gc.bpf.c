// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The sweep over the bindings of NAT, which the Go side runs from time to time: what has
 * expired goes with its return, what is left is counted: by state, by source, and by
 * what shares the ports of an address.
 *
 * maps:  bindings, returns, host_counts, egresses, news, tally, pressures
 */
#include "nat/nat_table.h"

MAP(ARRAY, nat_tally, __u32, struct nat_census, 1);
MAP(LRU_HASH, pressures, struct pressure_key, struct pressure, 65536);
MAP(HASH, hosts_now, struct host_key, struct pressure,
    65536); /* bindings by source, this sweep's */

/* Types that the Go side takes from here. */
const struct binding_news *all_news __attribute__((unused));
const enum binding_flags *all_binding_flags __attribute__((unused));
const enum binding_event *all_binding_events __attribute__((unused));

struct nat_sweep {
	struct nat_census *census;
	__u64 now_ns;
};

/* Its policy is gone. */
static __always_inline bool is_orphan(const struct binding *b)
{
	__u32 id = b->egress;
	struct egress *e = bpf_map_lookup_elem(&egresses, &id);

	return !e || !e->used;
}

/* One more of the key, in this sweep. */
static __always_inline void tell(void *map, const void *key, __u32 sweep)
{
	struct pressure fresh = { .sweep = sweep, .count = 1 };
	struct pressure *p = bpf_map_lookup_elem(map, key);

	if (!p) {
		bpf_map_update_elem(map, key, &fresh, BPF_ANY);
		return;
	}
	if (p->sweep != sweep) {
		p->sweep = sweep;
		p->count = 0;
	}
	p->count++;
}

static long look(void *map __attribute__((unused)), const struct conn_key *key,
		 const struct binding *b, struct nat_sweep *s)
{
	struct pressure_key ports = { .router = key->end,
				      .proto = key->proto,
				      .outside_port = key->outside_port,
				      .egress = b->addr,
				      .outside = key->outside };
	struct host_key host = host_of(key, b->flags);
	enum conn_state state = conn_state(&b->conn, key->proto);
	struct nat_census *n = s->census;
	struct conn_key back;

	if (is_orphan(b) || binding_expired(b, key->proto, s->now_ns)) {
		n->expired++;
		binding_end(key, b, &back);
		return 0;
	}
	if (b->flags & BINDING_MAPPING) {
		n->mappings++;
		return 0;
	}
	if (state < STATE_MAX)
		n->states[state]++;
	n->bindings++;
	n->replicas += !!(b->flags & BINDING_REPLICA);
	if (key->asker)
		ports.outside_port = 0; /* an echo's identifier, which is the binding's own */
	tell(&pressures, &ports, n->sweep);
	tell(&hosts_now, &host, n->sweep);
	return 0;
}

static long set_right(void *map __attribute__((unused)), const struct host_key *key,
		      struct host_bindings *h, struct nat_sweep *s)
{
	struct pressure *now = bpf_map_lookup_elem(&hosts_now, key);
	__u32 count = now && now->sweep == s->census->sweep ? now->count : 0;

	if (h->count != count)
		h->count = count;
	return 0;
}

SEC("syscall")
int nat_sweep(void *ctx)
{
	struct nat_sweep s = { .now_ns = bpf_ktime_get_ns() };
	__u32 first = 0, sweep;

	(void)ctx;
	s.census = bpf_map_lookup_elem(&nat_tally, &first);
	if (!s.census)
		return 1;
	sweep = s.census->sweep + 1;
	__builtin_memset(s.census, 0, sizeof(*s.census));
	s.census->sweep = sweep;
	bpf_for_each_map_elem(&bindings, look, &s, 0);
	bpf_for_each_map_elem(&host_counts, set_right, &s, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

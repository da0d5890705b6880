// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The sweep over the connections, which the Go side runs from time to time: what has
 * expired goes, what is left is counted, and the numbers of half-open connections are
 * set right, which the kernel does not lower when it evicts one.
 *
 * maps:  connections, half_open, half_opens, ends, tally, opens
 */
#include "firewall/conntrack.h"

MAP(ARRAY, tally, __u32, struct census, 1);
MAP(ARRAY, opens, __u32, struct half_open_count, MAX_ENDS); /* half-open, by end */

/* Types that the Go side takes from here. */
const struct log_line *log_lines __attribute__((unused));
const struct arrival *all_arrivals __attribute__((unused));
const enum conn_bits *all_conn_bits __attribute__((unused));
const enum conn_state *all_conn_states __attribute__((unused));
const enum direction *all_directions __attribute__((unused));
const enum verdict *all_verdicts __attribute__((unused));

struct sweep {
	struct census *census;
	__u64 now_ns;
	bool half_open;
};

/* Its port is gone, or has no firewall any more. */
static __always_inline bool is_orphan(__u32 id)
{
	struct end *end = bpf_map_lookup_elem(&ends, &id);

	return !end || end->kind != END_PORT || !(end->flags & END_POLICED);
}

static long look(void *map, const struct conn_key *key, const struct conn *c, struct sweep *s)
{
	enum conn_state state = conn_state(c, key->proto);
	struct census *n = s->census;
	struct half_open_count *open;
	__u32 end = key->end;

	if (is_orphan(end) || conn_expired(c, key->proto, s->now_ns, conn_timeouts)) {
		n->expired++;
		bpf_map_delete_elem(map, key);
		return 0;
	}
	if (state < STATE_MAX)
		n->states[state]++;
	if (!s->half_open) {
		n->connections++;
		return 0;
	}
	n->half_open++;
	if (is_answered(c, key->proto)) /* it is over, or there was no room for it */
		return 0;
	open = bpf_map_lookup_elem(&opens, &end);
	if (open)
		open->count++;
	return 0;
}

static long set_right(void *map, const __u32 *end, struct half_open_count *open, void *unused)
{
	struct half_open_count *kept = bpf_map_lookup_elem(&half_opens, end);

	(void)map;
	(void)unused;
	if (kept && kept->count != open->count)
		kept->count = open->count;
	open->count = 0;
	return 0;
}

SEC("syscall")
int sweep(void *ctx)
{
	struct sweep s = { .now_ns = bpf_ktime_get_ns() };
	__u32 first = 0;

	(void)ctx;
	s.census = bpf_map_lookup_elem(&tally, &first);
	if (!s.census)
		return 1;
	__builtin_memset(s.census, 0, sizeof(*s.census));
	bpf_for_each_map_elem(&connections, look, &s, 0);
	s.half_open = true;
	bpf_for_each_map_elem(&half_open, look, &s, 0);
	bpf_for_each_map_elem(&opens, set_right, NULL, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

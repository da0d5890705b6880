/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * conntrack: the firewall's connections. Half-open and closed ones are in ct_half_open, from
 * which the oldest is evicted when it is full. Established ones are in ct_established, from
 * which none is evicted.
 *
 * in:    a key, p->now_ns
 * out:   a connection
 * maps:  ct_established, ct_half_open, half_open_counts
 * stops: HALF_OPEN_LIMIT
 */
#pragma once

#include "firewall/work.h"

#define CT_BOTH(bit) ((bit) | (bit) << 1)

static __always_inline bool has_all(__u32 bits, __u32 all)
{
	return (bits & all) == all;
}

/* Both ends have agreed to the connection. */
static __always_inline bool tcp_is_open(__u32 bits)
{
	return has_all(bits, CT_BOTH(CT_ACK)) &&
	       (bits & CT_PICKED_UP || has_all(bits, CT_BOTH(CT_SYN)));
}

/* A connection is opening until both ends have agreed, whatever one of them sends. */
static __always_inline enum ct_state tcp_state(__u32 bits)
{
	if (bits & CT_RST)
		return CT_STATE_CLOSED;
	if (!tcp_is_open(bits))
		return CT_STATE_OPENING;
	if (has_all(bits, CT_BOTH(CT_FIN)))
		return CT_STATE_TIME_WAIT;
	return bits & CT_BOTH(CT_FIN) ? CT_STATE_HALF_CLOSED : CT_STATE_ESTABLISHED;
}

static __always_inline enum ct_state ct_state(const struct ct_entry *c, __u8 proto)
{
	if (proto == IPPROTO_TCP)
		return tcp_state(c->bits);
	if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6)
		return CT_STATE_ICMP;
	return c->bits & CT_REPLIED ? CT_STATE_UDP_REPLIED : CT_STATE_UDP;
}

static __always_inline bool ct_expired(const struct ct_entry *c, __u8 proto, __u64 now,
				       const volatile __u64 *timeouts)
{
	__u32 state = ct_state(c, proto);

	return state < CT_STATE_MAX && ns_since(c->seen_ns, now) > (__s64)timeouts[state];
}

/* Whether the other end has answered. */
static __always_inline bool ct_is_answered(const struct ct_entry *c, __u8 proto)
{
	return proto == IPPROTO_TCP ? tcp_is_open(c->bits) : c->bits & CT_REPLIED;
}

static __always_inline void half_open_add(__u32 vport, __s32 n)
{
	struct half_open_count *h = bpf_map_lookup_elem(&half_open_counts, &vport);

	if (h)
		__sync_fetch_and_add(&h->count, n);
}

/* Whether it is closed. Late packets still pass; evicting it loses nothing. */
static __always_inline bool ct_is_closed(const struct ct_entry *c, __u8 proto)
{
	enum ct_state state = ct_state(c, proto);

	return state == CT_STATE_TIME_WAIT || state == CT_STATE_CLOSED;
}

/* Deletes the connection. c is invalid afterwards. */
static __always_inline void ct_delete(const struct ct_key *key, const struct ct_entry *c)
{
	bool counted = !ct_is_answered(c, key->proto);

	if (tracing || bpf_map_delete_elem(&ct_established, key) == 0)
		return;
	if (bpf_map_delete_elem(&ct_half_open, key) == 0 && counted)
		half_open_add(key->zone, -1);
}

/* The packet's connection, or NULL. evictable: it is in ct_half_open. */
static __always_inline struct ct_entry *ct_find(const struct pkt *p, const struct ct_key *key,
						bool *evictable)
{
	struct ct_entry *c = bpf_map_lookup_elem(&ct_established, key);

	*evictable = !c;
	if (!c)
		c = bpf_map_lookup_elem(&ct_half_open, key);
	if (!c || !ct_expired(c, key->proto, p->now_ns, ct_timeouts))
		return c;
	ct_delete(key, c);
	return NULL;
}

static __always_inline int ct_insert(const struct ct_key *key, const struct ct_entry *c)
{
	__u32 vport = key->zone;
	struct half_open_count *waiting = bpf_map_lookup_elem(&half_open_counts, &vport);

	if (!waiting)
		return REASON_HALF_OPEN_LIMIT;
	/* Garbage collection, which corrects the count, may run before this: it may be negative. */
	if (half_open_limit && (__s32)waiting->count >= (__s32)half_open_limit)
		return REASON_HALF_OPEN_LIMIT;
	if (bpf_map_update_elem(&ct_half_open, key, c, BPF_ANY))
		return REASON_HALF_OPEN_LIMIT;
	__sync_fetch_and_add(&waiting->count, 1);
	count(EVENT_CONNTRACK_OPENED);
	return 0;
}

/*
 * Moves a connection into the table where it belongs. c is invalid afterwards. If there is no
 * room, an answered one stays in ct_half_open and works on.
 */
static __always_inline void ct_migrate(struct ct_work *w, const struct ct_entry *c, bool evictable)
{
	bool stays = ct_is_answered(c, w->key.proto) && !ct_is_closed(c, w->key.proto);

	if (tracing || stays != evictable)
		return;
	w->entry = *c;
	if (!stays) {
		if (bpf_map_update_elem(&ct_half_open, &w->key, &w->entry, BPF_ANY) == 0)
			bpf_map_delete_elem(&ct_established, &w->key);
		return;
	}
	if (bpf_map_update_elem(&ct_established, &w->key, &w->entry, BPF_ANY)) {
		count(EVENT_CONNTRACK_FULL);
		return;
	}
	if (bpf_map_delete_elem(&ct_half_open, &w->key) == 0)
		half_open_add(w->key.zone, -1);
	count(EVENT_CONNTRACK_ANSWERED);
}

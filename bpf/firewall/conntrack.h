/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * conn: the firewall's connections. Those that nobody has answered yet, and TCP's that
 * are over, are in the table half_open, where the oldest makes room for a new one. While
 * a connection is open it is in the other one, from which nothing is pushed out.
 *
 * in:    the hearing's key, p->now_ns
 * out:   a connection
 * maps:  connections, half_open, half_opens
 * stops: HALF_OPEN
 */
#pragma once

#include "core/pkt.h"

#define CONN_BOTH(bit) ((bit) | (bit) << 1)

static __always_inline bool has_all(__u32 bits, __u32 all)
{
	return (bits & all) == all;
}

/* Both ends have agreed to the connection. */
static __always_inline bool tcp_is_open(__u32 bits)
{
	return has_all(bits, CONN_BOTH(CONN_ACK)) &&
	       (bits & CONN_PICKED_UP || has_all(bits, CONN_BOTH(CONN_SYN)));
}

/* What one end alone says does not bring a connection beyond its opening. */
static __always_inline enum conn_state tcp_state(__u32 bits)
{
	if (bits & CONN_RST)
		return STATE_CLOSED;
	if (!tcp_is_open(bits))
		return STATE_OPENING;
	if (has_all(bits, CONN_BOTH(CONN_FIN)))
		return STATE_TIME_WAIT;
	return bits & CONN_BOTH(CONN_FIN) ? STATE_HALF_CLOSED : STATE_ESTABLISHED;
}

static __always_inline enum conn_state conn_state(const struct conn *c, __u8 proto)
{
	if (proto == IPPROTO_TCP)
		return tcp_state(c->bits);
	if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6)
		return STATE_ICMP;
	return c->bits & CONN_REPLIED ? STATE_UDP_REPLIED : STATE_UDP;
}

static __always_inline bool conn_expired(const struct conn *c, __u8 proto, __u64 now,
					 const volatile __u64 *timeouts)
{
	__u32 state = conn_state(c, proto);

	return state < STATE_MAX && ns_since(c->seen_ns, now) > (__s64)timeouts[state];
}

/* Whether it has been answered. */
static __always_inline bool is_answered(const struct conn *c, __u8 proto)
{
	return proto == IPPROTO_TCP ? tcp_is_open(c->bits) : c->bits & CONN_REPLIED;
}

static __always_inline void half_opens_add(__u32 end, __s32 n)
{
	struct half_open_count *h = bpf_map_lookup_elem(&half_opens, &end);

	if (h)
		__sync_fetch_and_add(&h->count, n);
}

/* Whether it is over: what comes of it still passes, but nothing is lost with it. */
static __always_inline bool is_over(const struct conn *c, __u8 proto)
{
	enum conn_state state = conn_state(c, proto);

	return state == STATE_TIME_WAIT || state == STATE_CLOSED;
}

/* Forgets the connection, whose pointer is void afterwards. */
static __always_inline void conn_end(const struct conn_key *key, const struct conn *c)
{
	bool counted = !is_answered(c, key->proto);

	if (tracing || bpf_map_delete_elem(&connections, key) == 0)
		return;
	if (bpf_map_delete_elem(&half_open, key) == 0 && counted)
		half_opens_add(key->end, -1);
}

/* The packet's connection, or NULL; evictable: it is in the table half_open. */
static __always_inline struct conn *conn_find(const struct pkt *p, const struct hearing *h,
					      bool *evictable)
{
	struct conn *c = bpf_map_lookup_elem(&connections, &h->key);

	*evictable = !c;
	if (!c)
		c = bpf_map_lookup_elem(&half_open, &h->key);
	if (!c || !conn_expired(c, h->key.proto, p->now_ns, conn_timeouts))
		return c;
	conn_end(&h->key, c);
	return NULL;
}

/* Keeps h->fresh, which begins. */
static __always_inline int conn_begin(const struct hearing *h)
{
	__u32 end = h->key.end;
	struct half_open_count *waiting = bpf_map_lookup_elem(&half_opens, &end);

	if (!waiting)
		return REASON_HALF_OPEN;
	/* The sweep, which sets it right, may have been a little before its time: below 0. */
	if (half_open_limit && (__s32)waiting->count >= (__s32)half_open_limit)
		return REASON_HALF_OPEN;
	if (bpf_map_update_elem(&half_open, &h->key, &h->fresh, BPF_ANY))
		return REASON_HALF_OPEN;
	__sync_fetch_and_add(&waiting->count, 1);
	count(EVENT_CONN_OPENED);
	return 0;
}

/*
 * Moves a connection to the table where it belongs. The pointer is void afterwards. An
 * answered one for which there is no room stays where it is, and goes on.
 */
static __always_inline void conn_settle(struct hearing *h, const struct conn *c, bool evictable)
{
	bool stays = is_answered(c, h->key.proto) && !is_over(c, h->key.proto);

	if (tracing || stays != evictable)
		return;
	h->fresh = *c;
	if (!stays) {
		if (bpf_map_update_elem(&half_open, &h->key, &h->fresh, BPF_ANY) == 0)
			bpf_map_delete_elem(&connections, &h->key);
		return;
	}
	if (bpf_map_update_elem(&connections, &h->key, &h->fresh, BPF_ANY)) {
		count(EVENT_CONN_FULL);
		return;
	}
	if (bpf_map_delete_elem(&half_open, &h->key) == 0)
		half_opens_add(h->key.end, -1);
	count(EVENT_CONN_ANSWERED);
}

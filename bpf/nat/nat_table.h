/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * binding: the table of NAT's bindings, each with the return by which packets from
 * outside find it. A return is there before its binding, and goes after it.
 *
 * in:    keys
 * out:   bindings
 * maps:  bindings, returns, host_counts, news
 * stops: nothing
 */
#pragma once

#include "firewall/conntrack.h"

/* The key of the return: the egress address and port in the place of the source's. */
static __always_inline void make_return_key(struct conn_key *back, const struct conn_key *key,
					    const struct addr *addr, __be16 port)
{
	*back = *key;
	back->inside = *addr;
	back->inside_port = port;
	if (key->asker && !addr_is_zero(&key->outside)) /* an echo has one identifier */
		back->outside_port = port;
}

/*
 * Whether no decision in the flow cache can be of the binding any more, which has seen
 * nothing since: only then may its port be another's.
 */
static __always_inline bool is_forgotten(const struct binding *b, __u64 now)
{
	return ns_since(b->conn.seen_ns, now) > (__s64)revalidate_ns;
}

static __always_inline bool binding_expired(const struct binding *b, __u8 proto, __u64 now)
{
	return is_forgotten(b, now) && conn_expired(&b->conn, proto, now, nat_timeouts);
}

/* Tells the log and other gateways. */
static __always_inline void announce(const struct conn_key *key, const struct binding *b,
				     enum binding_event event)
{
	struct binding_news *n;

	if (!nat_news || tracing)
		return;
	n = bpf_ringbuf_reserve(&news, sizeof(*n), 0);
	if (!n) {
		count(EVENT_NEWS_LOST);
		return;
	}
	n->ns = bpf_ktime_get_ns();
	n->key = *key;
	n->event = event;
	n->pad[0] = n->pad[1] = n->pad[2] = 0;
	n->binding = *b;
	bpf_ringbuf_submit(n, 0);
}

/* Where the bindings of the key's source are counted. */
static __always_inline struct host_key host_of(const struct conn_key *key, __u32 flags)
{
	struct host_key host = { .router = key->end, .addr = key->inside };

	if (flags & BINDING_FORWARDED)
		host.router |= HOST_FROM_OUTSIDE;
	return host;
}

static __always_inline void uncount_host(const struct conn_key *of, __u32 flags)
{
	struct host_key key = host_of(of, flags);
	struct host_bindings *h = bpf_map_lookup_elem(&host_counts, &key);

	if (h)
		__sync_fetch_and_add(&h->count, -1);
}

/* Forgets the binding and its return, whose key back becomes. b is void afterwards. */
static __always_inline void binding_end(const struct conn_key *key, const struct binding *b,
					struct conn_key *back)
{
	if (tracing)
		return;
	make_return_key(back, key, &b->addr, b->port);
	count(EVENT_NAT_ENDED);
	announce(key, b, BINDING_ENDED);
	if (!(b->flags & BINDING_MAPPING))
		uncount_host(key, b->flags);
	bpf_map_delete_elem(&bindings, key);
	bpf_map_delete_elem(&returns, back);
}

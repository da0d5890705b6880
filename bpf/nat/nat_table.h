/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat_table: the table of NAT sessions. Packets from outside find a session by its reverse
 * key, which is inserted before the session and deleted after it.
 *
 * in:    keys
 * out:   sessions
 * maps:  nat_sessions, nat_reverse, nat_host_counts, nat_events
 * stops: nothing
 */
#pragma once

#include "firewall/conntrack.h"

/* The reverse key: external address and port as inside. */
static __always_inline void make_reverse_key(struct ct_key *back, const struct ct_key *key,
					     const struct addr *addr, __be16 port)
{
	*back = *key;
	back->inside = *addr;
	back->inside_port = port;
	if (key->echo_dir && !addr_is_zero(&key->outside)) /* an echo has one identifier */
		back->outside_port = port;
}

/* Undoes make_reverse_key(): back to the key of the host inside. */
static __always_inline void undo_reverse_key(struct ct_key *key, const struct nat_orig *host)
{
	key->inside = host->addr;
	key->inside_port = host->port;
	if (key->echo_dir && !addr_is_zero(&key->outside))
		key->outside_port = host->port;
}

/*
 * Whether no cached decision can belong to the session any more, which has been idle since.
 * Only then may its port be reused.
 */
static __always_inline bool outlived_cache(const struct nat_session *s, __u64 now)
{
	return ns_since(s->ct.seen_ns, now) > (__s64)revalidate_ns;
}

static __always_inline bool nat_session_expired(const struct nat_session *s, __u8 proto, __u64 now)
{
	return outlived_cache(s, now) && ct_expired(&s->ct, proto, now, nat_timeouts);
}

/* Emits an event for the log and other gateways. */
static __always_inline void nat_event_emit(const struct ct_key *key, const struct nat_session *s,
					   enum nat_event_kind event)
{
	struct nat_event *n;

	if (!nat_events_wanted || tracing)
		return;
	n = bpf_ringbuf_reserve(&nat_events, sizeof(*n), 0);
	if (!n) {
		count(EVENT_NAT_EVENT_LOST);
		return;
	}
	n->ns = bpf_ktime_get_ns();
	n->key = *key;
	n->event = event;
	n->pad[0] = n->pad[1] = n->pad[2] = 0;
	n->session = *s;
	bpf_ringbuf_submit(n, 0);
}

/* The counter of the source's sessions. */
static __always_inline struct nat_host_key nat_host_of(const struct ct_key *key, __u32 flags)
{
	struct nat_host_key host = { .router = key->zone, .addr = key->inside };

	if (flags & NAT_SESSION_FORWARDED)
		host.router |= NAT_HOST_INBOUND;
	return host;
}

static __always_inline void nat_host_release(const struct ct_key *of, __u32 flags)
{
	struct nat_host_key key = nat_host_of(of, flags);
	struct nat_host_count *h = bpf_map_lookup_elem(&nat_host_counts, &key);

	if (h)
		__sync_fetch_and_add(&h->count, -1);
}

/* Deletes the session and its reverse key, which is stored in reverse. s is invalid afterwards. */
static __always_inline void nat_session_delete(const struct ct_key *key,
					       const struct nat_session *s, struct ct_key *back)
{
	if (tracing)
		return;
	make_reverse_key(back, key, &s->addr, s->port);
	count(EVENT_NAT_DELETED);
	nat_event_emit(key, s, NAT_EVENT_DELETED);
	if (!(s->flags & NAT_SESSION_MAPPING))
		nat_host_release(key, s->flags);
	bpf_map_delete_elem(&nat_sessions, key);
	bpf_map_delete_elem(&nat_reverse, back);
}

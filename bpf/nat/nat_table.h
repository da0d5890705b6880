/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat_table: the table of NAT sessions. Packets from outside find a session by its reverse
 * key, which is inserted before the session and deleted after it.
 *
 * in:    keys
 * out:   sessions
 * maps:  nat_sessions, nat_reverse, nat_host_counts, nat_events, owner_usages
 * stops: nothing
 */
#pragma once

#include "core/limits.h"
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

/* A well-known port may have a shorter timeout (RFC 4787 4.3, REQ-5 a). */
static __always_inline bool is_dns(const struct ct_key *key, const struct nat_session *s)
{
	return key->proto == IPPROTO_UDP && key->outside_port == bpf_htons(53) &&
	       s->ct.bits & CT_OUT;
}

static __always_inline bool nat_session_expired(const struct nat_session *s,
						const struct ct_key *key, __u64 now)
{
	if (!outlived_cache(s, now))
		return false;
	if (nat_dns_timeout && is_dns(key, s) &&
	    ns_since(s->ct.seen_ns, now) > (__s64)nat_dns_timeout)
		return true;
	return ct_expired(&s->ct, key->proto, now, nat_timeouts);
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

/*
 * Counts a session of the source, and of the port and segment that opened it, less: it is over, or
 * deleted. What another core counts while the entry is deleted is found by garbage collection.
 */
static __always_inline void nat_release(const struct ct_key *of, const struct nat_session *s)
{
	struct nat_host_key key = nat_host_of(of, s->flags);
	struct nat_host_count *h = bpf_map_lookup_elem(&nat_host_counts, &key);

	if (h && __sync_fetch_and_add(&h->count, -1) == 1)
		bpf_map_delete_elem(&nat_host_counts, &key);
	count_entry(s->vport, COUNT_NAT_SESSIONS, -1);
	count_entry(SEGMENT_OWNER + s->segment, COUNT_NAT_SESSIONS, -1);
}

/* Whether the session is counted. */
static __always_inline bool is_counted(const struct nat_session *s, __u8 proto)
{
	return !(s->flags & NAT_SESSION_MAPPING) && !ct_is_closed(&s->ct, proto);
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
	if (is_counted(s, key->proto))
		nat_release(key, s);
	bpf_map_delete_elem(&nat_sessions, key);
	bpf_map_delete_elem(&nat_reverse, back);
}

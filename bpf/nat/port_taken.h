/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * port_taken: which external ports are taken: those of port forwards, and those of sessions. A
 * closed session, and a reverse key that was left over, lose theirs when there is no other.
 *
 * in:    the key of a session, an external address and port
 * out:   a free port
 * maps:  port_forwards, nat_sessions, nat_reverse
 * stops: nothing
 */
#pragma once

#include "firewall/track.h"
#include "nat/egress.h"
#include "nat/nat_table.h"

/* Seconds, to tell a reverse key whose session is being inserted from one that was left over. */
static __always_inline __u16 now_s(void)
{
	return seconds(bpf_ktime_get_coarse_ns());
}

/* Whether a port forward leads from the address and port to another host. */
static __always_inline bool is_reserved(const struct ct_key *key, const struct addr *addr,
					__be16 port)
{
	struct port_forward_key at = {
		.router = key->zone, .proto = key->proto, .port = port, .addr = *addr
	};
	struct port_forward *f = bpf_map_lookup_elem(&port_forwards, &at);

	return f && !(addr_equal(&f->addr, &key->inside) && f->port == key->inside_port);
}

/* Deletes the closed session that holds the reverse key, or a reverse key that has none. */
static __always_inline bool steal_port(struct nat_work *w)
{
	struct nat_orig *o = bpf_map_lookup_elem(&nat_reverse, &w->reverse_key);
	struct ct_key *key = &w->stolen_key;
	struct nat_session *b;

	if (!o)
		return true;
	*key = w->reverse_key;
	undo_reverse_key(key, o);
	b = bpf_map_lookup_elem(&nat_sessions, key);
	if (b ? !ct_is_closed(&b->ct, key->proto) || !outlived_cache(b, bpf_ktime_get_coarse_ns()) :
		(__u16)(now_s() - o->inserted_s) < 2)
		return false;
	if (b)
		nat_session_delete(key, b, &w->reverse_key);
	else
		bpf_map_delete_elem(&nat_reverse, &w->reverse_key);
	return true;
}

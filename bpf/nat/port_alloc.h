/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * port_alloc: allocates an external address and port for a connection. A port is unique for
 * each external address, outside address and port, and protocol, so it can be reused for
 * other destinations (RFC 4787 4.1, RFC 7857). The source's own port is kept if it is free.
 * Otherwise ports are tried from a random one on (RFC 6056 3.3.2), then further addresses of
 * the pool. If nothing is free, a closed connection loses its port. Ports of port forwards
 * are never allocated, except to the host that they lead to.
 *
 * in:    the key of a session, the policy or uplink
 * out:   a session with its reverse key
 * maps:  nat_sessions, nat_reverse, egress_policies, pool, nat_host_counts, port_forwards
 * stops: NO_GATEWAY, NAT_EXHAUSTED, NAT_FULL, NAT_LIMIT
 */
#pragma once

#include "nat/port_taken.h"

#define PORT_TRIES 64	   /* of the first address */
#define PORT_TRIES_MORE 16 /* of each further address */
#define ADDRESSES_TRIED 8

/* A search for a port of addr, in host byte order. */
struct port_search {
	struct nat_work *work;
	const struct ct_key *key; /* of the session */
	struct addr addr;
	__u32 first;
	__u32 span;
	__u32 start;
	__be16 port; /* tried last */
	bool kept;   /* try the source's port first */
	bool fixed;  /* and no other */
	bool found;
	bool full;
};

static __always_inline bool is_echo(const struct ct_key *k)
{
	return k->echo_dir;
}

/* Whether the key has ports, or an echo identifier. */
static __always_inline bool has_port(const struct ct_key *k)
{
	return is_ported(k->proto) || is_echo(k);
}

static __always_inline bool try_port(struct port_search *s, __be16 port)
{
	struct nat_work *w = s->work;
	long err;

	s->port = port;
	if (is_reserved(s->key, &s->addr, port))
		return false;
	make_reverse_key(&w->reverse_key, s->key, &s->addr, port);
	err = bpf_map_update_elem(&nat_reverse, &w->reverse_key, &w->orig, BPF_NOEXIST);
	if (err == -EEXIST) {
		count(EVENT_NAT_RETRIED);
		return false;
	}
	s->full = err;
	s->found = !err;
	return true;
}

static long try_next(__u64 index, struct port_search *s)
{
	__u32 port;

	if (s->kept && !index)
		return try_port(s, s->key->inside_port);
	port = s->first + (s->start + index) % s->span;
	return try_port(s, bpf_htons(port));
}

/* The same for ports of closed connections. */
static long steal_next(__u64 index, struct port_search *s)
{
	__u32 port = s->first + (s->start + index) % s->span;

	if (s->fixed)
		port = bpf_ntohs(s->key->inside_port);
	make_reverse_key(&s->work->reverse_key, s->key, &s->addr, bpf_htons(port));
	if (steal_port(s->work))
		return try_port(s, bpf_htons(port));
	return 0;
}

static __always_inline void set_origin(struct nat_work *w, const struct ct_key *key)
{
	w->orig.addr = key->inside;
	w->orig.port = key->inside_port;
	w->orig.inserted_s = now_s();
}

/* Searches for a free port of the address. */
static __always_inline void search_ports(struct port_search *s, __u32 tries)
{
	s->start = bpf_get_prandom_u32();
	bpf_loop(s->fixed ? 1 : tries, try_next, s, 0);
}

static __always_inline void prepare_search(struct port_search *s, struct nat_work *w,
					   const struct egress_policy *e, const struct ct_key *key)
{
	__u32 port = bpf_ntohs(key->inside_port);

	set_origin(w, key);
	s->work = w;
	s->key = key;
	s->first = e->first_port;
	s->span = (__u32)e->last_port - e->first_port + 1;
	if (!s->span)
		s->span = 1;
	s->fixed = !has_port(key) ||
		   key->proto == IPPROTO_SCTP; /* its checksum is a CRC over the whole packet */
	s->kept = s->fixed || port - s->first < s->span;
}

/* The addresses that this edge translates to, read at once. */
struct pool_range {
	__u32 first;
	__u32 count;
};

/* one read: user space may change both */
static __always_inline struct pool_range pool_range_of(const struct egress_family *f)
{
	__u64 both = *(const volatile __u64 *)&f->pool;

	return (struct pool_range){ .first = both, .count = both >> 32 };
}

static __always_inline bool set_address(struct port_search *s, struct pool_range from, __u32 n)
{
	__u32 index = from.first + n % from.count;
	struct addr *a = bpf_map_lookup_elem(&pool, &index);

	if (a)
		s->addr = *a;
	return a && from.count;
}

/* The address of the pool that is tried first. */
static __always_inline __u32 first_address(const struct ct_key *k, const struct egress_policy *e,
					   const struct egress_family *f)
{
	__u64 mixed;

	if (!(e->flags & EGRESS_BY_CONNECTION))
		return f->first[bucket_of(&k->inside)];
	mixed = mix(k->proto, (__u64)k->inside.w[3] << 32 | k->outside.w[3]);
	return (__u32)mix_last(mix(mixed, (__u32)k->inside_port << 16 | k->outside_port)) >> 8;
}

/* Allocates an address and port for the key. Returns a drop reason, or 0 with the reverse key inserted. */
SUBPROGRAM int find_port(const struct ct_key *key, __u32 egress)
{
	struct egress_policy *e = egress_get(egress);
	struct nat_work *w = nat_work();
	struct egress_family *f;
	struct port_search s = {};
	struct pool_range from;
	struct bpf_iter_num it;
	bool gone = false;
	__u32 first, n;
	int *i;

	if (!key || !e || !w)
		return REASON_NO_GATEWAY;
	f = &e->family[!addr_is_v4(&key->inside)];
	from = pool_range_of(f);
	if (!from.count)
		return REASON_NO_GATEWAY;
	prepare_search(&s, w, e, key);
	first = first_address(key, e, f);
	n = from.count < ADDRESSES_TRIED ? from.count : ADDRESSES_TRIED;
	bpf_iter_num_new(&it, 0, n);
	while ((i = bpf_iter_num_next(&it)) && !s.found && !s.full) {
		gone = !set_address(&s, from, first + *i);
		if (gone)
			break;
		search_ports(&s, *i ? PORT_TRIES_MORE : PORT_TRIES);
		if (*i && s.found)
			count(EVENT_NAT_NEXT_ADDRESS);
	}
	bpf_iter_num_destroy(&it);
	if (gone)
		return REASON_NO_GATEWAY;
	if (!s.found && !s.full && set_address(&s, from, first))
		bpf_loop(s.fixed ? 1 : PORT_TRIES, steal_next, &s, 0);
	if (!s.found)
		return s.full ? REASON_NAT_FULL : REASON_NAT_EXHAUSTED;
	w->session.addr = s.addr;
	w->session.port = s.port;
	return 0;
}

/* The translation that a trace shows for a connection without a session. Nothing is allocated. */
static __always_inline int dry_run(struct nat_work *w, const struct egress_policy *e)
{
	struct egress_family *f = (void *)&e->family[!addr_is_v4(&w->key.inside)];
	struct pool_range from = pool_range_of(f);
	struct port_search s = {};

	if (!from.count || !set_address(&s, from, first_address(&w->key, e, f)))
		return REASON_NO_GATEWAY;
	w->session.addr = s.addr;
	w->session.port = w->key.inside_port;
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * bind: gives a connection an egress address and port. A port is one for each egress
 * address, outside address and port, and protocol, and used again for others (RFC 4787
 * 4.1, RFC 7857). The source's own is kept when it is free; otherwise ports are tried from
 * a random one on (RFC 6056 3.3.2), then the next addresses of the pool. What holds a port
 * and is over gives it up when nothing else is free.
 *
 * in:    the hearing's key and egress
 * out:   a binding with its return
 * maps:  bindings, returns, egresses, pool, host_counts
 * stops: NO_GATEWAY, NAT_EXHAUSTED, NAT_FULL, NAT_LIMIT
 */
#pragma once

#include "nat/nat_table.h"
#include "nat/egress.h"
#include "firewall/firewall.h"

#define EEXIST 17

#define PORT_TRIES 64	   /* of the first address */
#define PORT_TRIES_MORE 16 /* of each further one */
#define ADDRESSES_TRIED 8

/* The look for a port of an address, from host's byte order first to last. */
struct port_search {
	struct hearing *h;
	const struct conn_key *key; /* whose return is made */
	struct addr addr;
	__u32 first;
	__u32 span;
	__u32 start;
	__be16 port; /* tried last */
	bool kept;   /* the source's own comes first */
	bool fixed;  /* and no other will do */
	bool found;
	bool full;
};

static __always_inline bool is_echo(const struct conn_key *k)
{
	return k->asker;
}

/* The source's port, of what has ports, or the identifier of an echo. */
static __always_inline bool has_port(const struct conn_key *k)
{
	return is_ported(k->proto) || is_echo(k);
}

/* Takes the return with the port away from a connection that is over. */
static __always_inline bool take_over(struct hearing *h)
{
	struct origin *o = bpf_map_lookup_elem(&returns, &h->back);
	struct conn_key *key = &h->taken;
	struct binding *b;

	if (!o)
		return true;
	*key = h->back;
	key->inside = o->addr;
	key->inside_port = o->port;
	if (is_echo(key) && !addr_is_zero(&key->outside))
		key->outside_port = o->port;
	b = bpf_map_lookup_elem(&bindings, key);
	if (b && !(is_over(&b->conn, key->proto) && is_forgotten(b, bpf_ktime_get_coarse_ns())))
		return false;
	if (b)
		binding_end(key, b, &h->back);
	else
		bpf_map_delete_elem(&returns, &h->back);
	return true;
}

static __always_inline bool try_port(struct port_search *s, __be16 port)
{
	struct hearing *h = s->h;
	long err;

	s->port = port;
	make_return_key(&h->back, s->key, &s->addr, port);
	err = bpf_map_update_elem(&returns, &h->back, &h->origin, BPF_NOEXIST);
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

/* The same, of connections that are over. */
static long take_next(__u64 index, struct port_search *s)
{
	__u32 port = s->first + (s->start + index) % s->span;

	if (s->fixed)
		port = bpf_ntohs(s->key->inside_port);
	make_return_key(&s->h->back, s->key, &s->addr, bpf_htons(port));
	if (take_over(s->h))
		return try_port(s, bpf_htons(port));
	return 0;
}

static __always_inline void set_origin(struct hearing *h, const struct conn_key *key)
{
	h->origin.addr = key->inside;
	h->origin.port = key->inside_port;
	h->origin.pad = 0;
}

/* Looks for a free port of the address. */
static __always_inline void search_ports(struct port_search *s, __u32 tries)
{
	s->start = bpf_get_prandom_u32();
	bpf_loop(s->fixed ? 1 : tries, try_next, s, 0);
}

static __always_inline void prepare_search(struct port_search *s, struct hearing *h,
					   const struct egress *e, const struct conn_key *key)
{
	__u32 port = bpf_ntohs(key->inside_port);

	set_origin(h, key);
	s->h = h;
	s->key = key;
	s->first = e->first_port;
	s->span = (__u32)e->last_port - e->first_port + 1;
	if (!s->span)
		s->span = 1;
	s->fixed = !has_port(key) || key->proto == IPPROTO_SCTP; /* its checksum is a CRC of all */
	s->kept = s->fixed || port - s->first < s->span;
}

/* The addresses that this edge translates to, as they were at one moment. */
struct pool_slice {
	__u32 first;
	__u32 count;
};

/* Both at once: they may be written meanwhile. */
static __always_inline struct pool_slice slice_of(const struct egress_family *f)
{
	__u64 both = *(const volatile __u64 *)&f->pool;

	return (struct pool_slice){ .first = both, .count = both >> 32 };
}

static __always_inline bool set_address(struct port_search *s, struct pool_slice from, __u32 n)
{
	__u32 index = from.first + n % from.count;
	struct addr *a = bpf_map_lookup_elem(&pool, &index);

	if (a)
		s->addr = *a;
	return a && from.count;
}

/* Which address of the pool is tried first. */
static __always_inline __u32 first_address(const struct hearing *h, const struct egress *e,
					   const struct egress_family *f)
{
	const struct conn_key *k = &h->key;
	__u64 mixed;

	if (!(e->flags & EGRESS_BY_CONNECTION))
		return f->first[bucket_of(&k->inside)];
	mixed = mix(k->proto, (__u64)k->inside.w[3] << 32 | k->outside.w[3]);
	return (__u32)mix_last(mix(mixed, (__u32)k->inside_port << 16 | k->outside_port)) >> 8;
}

/* Finds an address and port for the key. Returns a reason, or 0 with a return that is taken. */
SUBPROGRAM int find_port(const struct conn_key *key, __u32 egress)
{
	struct egress *e = egress_get(egress);
	struct hearing *h = hearing();
	struct egress_family *f;
	struct port_search s = {};
	struct pool_slice from;
	struct bpf_iter_num it;
	bool gone = false;
	__u32 first, n;
	int *i;

	if (!key || !e || !h)
		return REASON_NO_GATEWAY;
	f = &e->family[!addr_is_v4(&key->inside)];
	from = slice_of(f);
	if (!from.count)
		return REASON_NO_GATEWAY;
	prepare_search(&s, h, e, key);
	first = first_address(h, e, f);
	n = from.count < ADDRESSES_TRIED ? from.count : ADDRESSES_TRIED;
	bpf_iter_num_new(&it, 0, n);
	while ((i = bpf_iter_num_next(&it)) && !s.found && !s.full) {
		gone = !set_address(&s, from, first + *i);
		if (gone)
			break;
		search_ports(&s, *i ? PORT_TRIES_MORE : PORT_TRIES);
		if (*i && s.found)
			count(EVENT_NAT_SPILLED);
	}
	bpf_iter_num_destroy(&it);
	if (gone)
		return REASON_NO_GATEWAY;
	if (!s.found && !s.full && set_address(&s, from, first))
		bpf_loop(s.fixed ? 1 : PORT_TRIES, take_next, &s, 0);
	if (!s.found)
		return s.full ? REASON_NAT_FULL : REASON_NAT_EXHAUSTED;
	h->binding.addr = s.addr;
	h->binding.port = s.port;
	return 0;
}

/* What a trace tells of a connection that has no binding: nothing is taken. */
static __always_inline int pretend(struct hearing *h, const struct egress *e)
{
	struct egress_family *f = (void *)&e->family[!addr_is_v4(&h->key.inside)];
	struct pool_slice from = slice_of(f);
	struct port_search s = {};

	if (!from.count || !set_address(&s, from, first_address(h, e, f)))
		return REASON_NO_GATEWAY;
	h->binding.addr = s.addr;
	h->binding.port = h->key.inside_port;
	return 0;
}

/* Whether the source may have one more; counts it. */
static __always_inline bool admit_host(const struct conn_key *k, __u32 flags, __u32 limit)
{
	struct host_key key = host_of(k, flags);
	struct host_bindings *n, one = { .count = 1 };

	n = bpf_map_lookup_elem(&host_counts, &key);
	if (!n && bpf_map_update_elem(&host_counts, &key, &one, BPF_NOEXIST) == 0)
		return true;
	if (!n) /* another core was quicker, or there is no room */
		n = bpf_map_lookup_elem(&host_counts, &key);
	if (!n)
		return !limit;
	/* The sweep, which sets it right, may have been a little before its time: below 0. */
	if (limit && (__s32)n->count >= (__s32)limit)
		return false;
	__sync_fetch_and_add(&n->count, 1);
	return true;
}

/* Puts h->binding, whose return is taken, into the table; gives the return up when it is full. */
static __always_inline int put_binding(struct hearing *h, const struct conn_key *key)
{
	if (bpf_map_update_elem(&bindings, key, &h->binding, BPF_NOEXIST) == 0)
		return 0;
	make_return_key(&h->back, key, &h->binding.addr, h->binding.port);
	bpf_map_delete_elem(&returns, &h->back);
	return REASON_NAT_FULL;
}

/* The key of the mapping of h->key's source. */
static __always_inline void mapping_key(struct hearing *h)
{
	h->mapping = h->key;
	h->mapping.outside = (struct addr){};
	h->mapping.outside_port = 0;
}

/*
 * The mapping of a source port, which all its connections share: a binding to nowhere,
 * which holds the port for all destinations.
 */
static __always_inline int independent_port(struct pkt *p, struct hearing *h)
{
	struct conn_key *key = &h->mapping;
	struct binding *m;
	long err;
	int why;

	mapping_key(h);
	m = bpf_map_lookup_elem(&bindings, key);
	if (m) {
		m->conn.seen_ns = p->now_ns;
		h->binding.addr = m->addr;
		h->binding.port = m->port;
	} else {
		why = find_port(key, h->egress);
		if (why)
			return why;
		h->binding.flags = BINDING_MAPPING;
		why = put_binding(h, key);
		if (why)
			return why;
	}
	h->binding.flags = BINDING_INDEPENDENT; /* the mapping's was another */
	set_origin(h, &h->key);
	make_return_key(&h->back, &h->key, &h->binding.addr, h->binding.port);
	err = bpf_map_update_elem(&returns, &h->back, &h->origin, BPF_NOEXIST);
	if (err)
		return err == -EEXIST ? REASON_NAT_EXHAUSTED : REASON_NAT_FULL;
	return 0;
}

/* The address and port of a connection that begins. */
static __always_inline int bind_port(struct pkt *p, struct hearing *h, const struct egress *e)
{
	if (tracing)
		return pretend(h, e);
	if (e->flags & EGRESS_INDEPENDENT && has_port(&h->key) && h->key.proto != IPPROTO_SCTP)
		return independent_port(p, h);
	return find_port(&h->key, h->egress);
}

/* h->binding begins, opened from inside or outside. */
static __always_inline void begin_binding(CTX *ctx, struct pkt *p, struct hearing *h, bool out)
{
	struct binding *b = &h->binding;
	struct conn *c = &b->conn;

	__builtin_memset(b, 0, sizeof(*b));
	c->seen_ns = c->born_ns = p->now_ns;
	c->counters[0].packets = packets_of(ctx, p);
	c->counters[0].bytes = p->frame_len;
	c->bits = out ? CONN_OUT : 0;
	start_conn(p, h, c);
	b->egress = h->egress;
	b->flags = out ? 0 : BINDING_FORWARDED;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * conntrack: the firewall's connections. Half-open and closed ones are in ct_half_open,
 * established ones in ct_established. A port that has as many as it may loses its own oldest.
 *
 * in:    a key, p->now_ns
 * out:   a connection
 * maps:  ct_established, ct_half_open, ct_closed
 * stops: HALF_OPEN_LIMIT
 */
#pragma once

#include "core/hash.h"
#include "firewall/ct_limits.h"

/* Tells the entries of two keys apart, but for one pair in 65,536. */
static __always_inline __u16 check_of(const struct ct_key *k)
{
	return hash6(k->proto, k->inside.w, k->outside.w,
		     (__u32)k->inside_port << 16 | k->outside_port) +
	       k->zone;
}

/* Deletes the connection. c, and a key that lies in the table, are invalid afterwards. */
static __always_inline void ct_delete(const struct ct_key *key, const struct ct_entry *c)
{
	enum limited_count kind = half_open_kind(c->bits);
	__u32 zone = key->zone, slot = c->slot;

	if (tracing)
		return;
	if (bpf_map_delete_elem(&ct_established, key) == 0)
		ct_uncount(zone, COUNT_CONNECTIONS, slot);
	else if (bpf_map_delete_elem(&ct_half_open, key) == 0)
		ct_uncount(zone, kind, slot);
}

/* The packet's connection, or NULL. half_open: it is in ct_half_open. */
static __always_inline struct ct_entry *ct_find(const struct pkt *p, const struct ct_key *key,
						bool *half_open)
{
	struct ct_entry *c = bpf_map_lookup_elem(&ct_established, key);

	*half_open = !c;
	if (!c)
		c = bpf_map_lookup_elem(&ct_half_open, key);
	if (!c || !ct_expired(c, key->proto, p->now_ns, ct_timeouts))
		return c;
	ct_delete(key, c);
	return NULL;
}

/* Inserts w->entry into ct_half_open, and makes room for it, which another core may take first. */
static __always_inline long ct_put_half_open(struct ct_work *w, __u64 now)
{
	long err = bpf_map_update_elem(&ct_half_open, &w->key, &w->entry, BPF_NOEXIST);

	for (int i = 0; i < ROOM_TRIES && err && err != -EEXIST && ct_make_room(w, now); i++)
		err = bpf_map_update_elem(&ct_half_open, &w->key, &w->entry, BPF_NOEXIST);
	return err;
}

/* Inserts a new connection. -EEXIST: another core has inserted it already. */
static __always_inline int ct_insert(struct ct_work *w, __u64 now)
{
	enum limited_count kind = half_open_kind(w->entry.bits);
	__u32 zone = w->key.zone;
	long err;

	if (!ct_fits(w, zone, kind, now))
		return REASON_HALF_OPEN_LIMIT;
	w->entry.check = check_of(&w->key);
	w->entry.slot = ct_count(&w->key, kind);
	ct_pass_gone(w, zone, kind);
	err = ct_put_half_open(w, now);
	if (err)
		ct_uncount(zone, kind, w->entry.slot);
	if (err)
		return err == -EEXIST ? -EEXIST : REASON_HALF_OPEN_LIMIT;
	count(EVENT_CONNTRACK_OPENED);
	return 0;
}

/* Moves an answered connection to ct_established. Without room it stays, and works on. */
static __always_inline void ct_settle(struct ct_work *w, __u64 now)
{
	enum limited_count kind = half_open_kind(w->entry.bits);
	__u32 zone = w->key.zone, before = w->entry.slot;
	long err;

	if (!ct_fits(w, zone, COUNT_CONNECTIONS, now)) {
		count(EVENT_CONNTRACK_FULL);
		return;
	}
	w->entry.slot = ct_count(&w->key, COUNT_CONNECTIONS);
	ct_pass_gone(w, zone, COUNT_CONNECTIONS);
	err = bpf_map_update_elem(&ct_established, &w->key, &w->entry, BPF_NOEXIST);
	if (err && err != -EEXIST &&
	    ct_evict(w, largest_owner(COUNT_CONNECTIONS), COUNT_CONNECTIONS, now))
		err = bpf_map_update_elem(&ct_established, &w->key, &w->entry, BPF_NOEXIST);
	if (err) {
		ct_uncount(zone, COUNT_CONNECTIONS, w->entry.slot);
		if (err != -EEXIST)
			count(EVENT_CONNTRACK_FULL);
		return;
	}
	if (bpf_map_delete_elem(&ct_half_open, &w->key) == 0)
		ct_uncount(zone, kind, before);
	count(EVENT_CONNTRACK_ANSWERED);
}

/* Moves a closed connection to ct_half_open. */
static __always_inline void ct_close(struct ct_work *w, __u64 now)
{
	__u32 before = w->entry.slot;

	w->entry.slot = 0;
	if (ct_put_half_open(w, now))
		return;
	bpf_map_push_elem(&ct_closed, &w->key, BPF_EXIST);
	if (bpf_map_delete_elem(&ct_established, &w->key) == 0)
		ct_uncount(w->key.zone, COUNT_CONNECTIONS, before);
}

/* A half-open connection was closed: it no longer counts. */
static __always_inline void ct_close_half_open(struct ct_work *w, struct ct_entry *c)
{
	__u32 slot = c->slot;

	if (!slot || __sync_val_compare_and_swap(&c->slot, slot, 0) != slot)
		return;
	bpf_map_push_elem(&ct_closed, &w->key, BPF_EXIST);
	ct_uncount(w->key.zone, half_open_kind(c->bits), slot);
}

/*
 * Moves a connection into the table where it belongs. c may be invalid afterwards. The kernel
 * may have given c's memory to another connection: what was copied says whose it is.
 */
static __always_inline void ct_migrate(struct ct_work *w, struct ct_entry *c, bool half_open,
				       __u64 now)
{
	bool closed = ct_is_closed(c, w->key.proto);

	if (tracing)
		return;
	if (half_open && closed) {
		ct_close_half_open(w, c);
		return;
	}
	if (half_open ? !ct_is_answered(c, w->key.proto) : !closed)
		return;
	w->entry = *c;
	if (w->entry.check != check_of(&w->key))
		return;
	if (half_open)
		ct_settle(w, now);
	else
		ct_close(w, now);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * track: what firewall and NAT have in common: keys, the state of a connection, and accounting.
 *
 * in:    p->l4_info, p->unreported
 * out:   keys, connections, rule counters; p->next_seq, p->decision.slow
 * maps:  rules
 * stops: those of tcp_state.h
 */
#pragma once

#include "firewall/l4.h"
#include "firewall/tcp_state.h"

static __always_inline void count_rule(const struct pkt *p, __u32 rule, __u32 connections,
				       __u64 packets, __u64 bytes)
{
	struct rule_counters *r = bpf_map_lookup_elem(&rules, &rule);

	if (!r || !rule || tracing)
		return;
	if (connections)
		__sync_fetch_and_add(&r->connections, connections);
	__sync_fetch_and_add(&r->packets, packets);
	__sync_fetch_and_add(&r->bytes, bytes);
	r->seen_ns = p->now_ns;
}

/*
 * Marks the flow as one whose packets conntrack must see. With SLOW_CONNECTION the decision
 * is cached all the same, unless there is another reason not to.
 */
static __always_inline void set_slow(struct pkt *p, enum slow why)
{
	if (why != SLOW_CONNECTION || !p->decision.slow)
		p->decision.slow = why;
}

#define STREAM_AGE 2 /* in units of BORN_SHIFT */

/* The key of a packet with these addresses and ports. */
static __always_inline void make_ct_key(struct ct_key *k, const struct l4_info *t,
					const struct tuple *u, __u32 zone, bool out)
{
	k->zone = zone;
	k->proto = t->proto;
	k->echo_dir = t->echo_dir ? 2 - (out == (t->echo_dir == 1)) : 0;
	k->pad[0] = k->pad[1] = 0;
	k->inside = out ? u->src : u->dst;
	k->outside = out ? u->dst : u->src;
	k->inside_port = out ? u->sport : u->dport;
	k->outside_port = out ? u->dport : u->sport;
}

/* Initialises the state of a connection from its first packet. */
static __always_inline void ct_init(struct pkt *p, struct ct_entry *c)
{
	const struct l4_info *t = &p->l4_info;

	c->scale[0] = t->scale;
	c->scale[1] = NO_SCALE;
	if (t->proto != IPPROTO_TCP)
		return;
	c->bits |= t->flags & TCP_SYN && !(t->flags & TCP_ACK) ? CT_SYN : CT_PICKED_UP | CT_ACK;
	c->next_seq[0] = t->flags & TCP_SYN ? t->seq + 1 : t->end;
	if (t->flags & TCP_FIN)
		c->bits |= CT_FIN;
	p->next_seq = c->next_seq[0];
	set_slow(p, SLOW_CONNECTION);
}

/* Counts the packet, and those of the flow that are not reported yet. */
static __always_inline void account(CTX *ctx, const struct pkt *p, struct ct_entry *c, __u32 dir)
{
	__u64 packets = p->unreported.packets + packets_of(ctx, p);
	__u64 bytes = p->unreported.bytes + p->frame_len;

	if (tracing)
		return;
	c->seen_ns = p->now_ns;
	__sync_fetch_and_add(&c->counters[dir & 1].packets, packets);
	__sync_fetch_and_add(&c->counters[dir & 1].bytes, bytes);
	count_rule(p, c->rule, 0, packets, bytes);
}

/* Of other protocols than TCP. A dialogue becomes a stream as in Linux: it lasts. */
static __always_inline void udp_follow(const struct pkt *p, struct ct_entry *c, __u32 dir)
{
	__u32 now = p->now_ns >> BORN_SHIFT;

	if (dir && !(c->bits & CT_REPLIED))
		__sync_fetch_and_or(&c->bits, CT_REPLIED);
	else if ((c->bits & (CT_REPLIED | CT_STREAM)) == CT_REPLIED && now - c->born > STREAM_AGE)
		__sync_fetch_and_or(&c->bits, CT_STREAM);
}

/* Updates the connection's state. */
static __always_inline int update_state(struct pkt *p, struct ct_entry *c, __u32 dir)
{
	enum ct_state state;
	int why = 0;

	if (p->l4_info.proto == IPPROTO_TCP) {
		if (!tracing)
			why = tcp_follow(p, c, dir);
		state = tcp_state(c->bits);
		if (state != CT_STATE_ESTABLISHED && state != CT_STATE_HALF_CLOSED)
			set_slow(p, SLOW_CONNECTION);
	} else if (!tracing) {
		udp_follow(p, c, dir);
	}
	return why;
}

static __always_inline void make_fragment_key(struct fragment_key *k, const struct pkt *p,
					      __u32 zone, bool out)
{
	k->zone = zone;
	k->id = p->l4_info.id;
	k->saddr = p->key.saddr;
	k->daddr = p->key.daddr;
	k->proto = p->key.proto;
	k->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	k->pad[0] = k->pad[1] = 0;
}

#define FRAGMENT_NS 30000000000LL /* RFC 791: reassembly gives up; RFC 8200 4.5 has 60 s */

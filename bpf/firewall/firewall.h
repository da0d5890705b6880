/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * police: the firewall between a port and its segment. A packet of a connection that
 * was allowed passes; the first one of a new connection is judged by the rules, and so
 * is each connection once more when the policy has changed. Between two ports of one
 * edge both are asked.
 *
 * in:    the hearing's transport and what it carries, p->in, p->segment, p->decision
 * out:   connections; p->decision.slow
 * maps:  connections, half_open, half_opens, fragments, rules, policy, logs
 * stops: DENIED, REJECTED, NO_POLICY, OUT_OF_STATE, UNRELATED, FRAGMENT_FIRST, and those of
 *        examine, conn and tcp
 */
#pragma once

#include "firewall/classify.h"
#include "firewall/l4.h"
#include "firewall/log.h"
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
 * Why packets like this one are looked at each time. The way of those of a connection is
 * found in the cache all the same, if nothing else speaks against it.
 */
static __always_inline void slow_down(struct pkt *p, enum slow why)
{
	if (why != SLOW_CONNECTION || !p->decision.slow)
		p->decision.slow = why;
}

static __always_inline bool is_ported(__u8 proto)
{
	return proto == IPPROTO_TCP || proto == IPPROTO_UDP || proto == IPPROTO_SCTP;
}

/* Whether the rules know the packet's ports, or the type of its ICMP message. */
static __always_inline bool has_ports(__u8 proto, const struct addr *src)
{
	return is_ported(proto) || proto == (addr_is_v4(src) ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

static __always_inline void make_conn_key(struct hearing *h, __u32 end, bool out)
{
	const struct transport *t = &h->transport;
	struct conn_key *k = &h->key;

	k->end = end;
	k->proto = t->proto;
	k->asker = t->asker ? 2 - (out == (t->asker == 1)) : 0;
	k->pad[0] = k->pad[1] = 0;
	k->inside = out ? t->src : t->dst;
	k->outside = out ? t->dst : t->src;
	k->inside_port = out ? t->sport : t->dport;
	k->outside_port = out ? t->dport : t->sport;
}

static __always_inline bool is_policed(const struct end *e)
{
	return with_firewall && e && e->flags & END_POLICED;
}

/* The number of the end if it is a port with a firewall, which groups may name. */
static __always_inline __u16 as_port(__u32 id)
{
	return is_policed(end_get(id)) ? id : 0;
}

/* The port at the other end of the packet's way through this edge, or 0. */
static __always_inline __u16 peer_of(const struct pkt *p, bool out)
{
	if (!out)
		return as_port(p->in);
	return p->decision.action == ACTION_PORT ? as_port(p->decision.out) : 0;
}

/* What the rules are asked about a packet that opens a connection. */
static __always_inline void make_opening(const struct pkt *p, struct hearing *h, __u32 end,
					 bool out)
{
	const struct transport *t = &h->transport;
	struct opening *o = &h->opening;
	const void *macs = p->routed ? (const void *)p->was : key_macs(&p->key);
	__u16 peer = peer_of(p, out);

	o->src = t->src;
	o->dst = t->dst;
	copy16(o->dmac, macs, ETH_ALEN);
	copy16(o->smac, macs + ETH_ALEN, ETH_ALEN);
	o->src_end = out ? end : peer;
	o->dst_end = out ? peer : end;
	o->src_segment = p->segment;
	o->dst_segment = p->decision.to_segment;
	o->end = end;
	o->sport = is_ported(t->proto) ? bpf_ntohs(t->sport) : 0;
	o->dport = is_ported(t->proto) ? bpf_ntohs(t->dport) : t->icmp;
	o->proto = t->proto;
	o->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	o->ported = has_ports(t->proto, &t->src);
}

/* The same of a connection that is there, from what was kept of its first packet. */
static __always_inline void remake_opening(struct hearing *h, const struct conn *c)
{
	const struct conn_key *k = &h->key;
	struct end *port = end_get(k->end);
	bool out = c->bits & CONN_OUT;
	struct opening *o = &h->opening;
	__u16 segment = port ? port->segment : 0;

	o->src = out ? k->inside : k->outside;
	o->dst = out ? k->outside : k->inside;
	copy16(o->smac, c->smac, ETH_ALEN);
	copy16(o->dmac, c->dmac, ETH_ALEN);
	o->src_end = out ? k->end : c->peer_end;
	o->dst_end = out ? c->peer_end : k->end;
	o->src_segment = out ? segment : c->peer_segment;
	o->dst_segment = out ? c->peer_segment : segment;
	o->end = k->end;
	o->sport = is_ported(k->proto) ? bpf_ntohs(out ? k->inside_port : k->outside_port) : 0;
	o->dport = bpf_ntohs(out ? k->outside_port : k->inside_port);
	if (k->asker)
		o->dport = (k->proto == IPPROTO_ICMP ? ICMP_ECHO : ICMPV6_ECHO) << 8;
	o->proto = k->proto;
	o->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	o->ported = has_ports(k->proto, &k->inside);
}

/* Asks the rules about h->opening, counts and logs. Returns a reason, or 0: it may go on. */
static __always_inline int judge(struct pkt *p, struct hearing *h, __u64 packets, __u64 bytes)
{
	struct judgement *j = &h->judgement;
	int why;

	j->rule = 0;
	why = classify(POLICY_FIREWALL, &h->opening, j);
	if (why)
		return why;
	step(p, STAGE_POLICE, j->rule | (__u32)h->opening.direction << 31, j->verdict);
	if (j->log_only) {
		count_rule(p, j->log_only, 1, packets, bytes);
		write_log(p, j->log_only, VERDICT_LOG_ONLY, 0);
	}
	if (j->verdict != VERDICT_ALLOW)
		why = j->verdict == VERDICT_REJECT ? REASON_REJECTED : REASON_DENIED;
	if (j->log)
		write_log(p, j->rule, j->verdict, why);
	return why;
}

/* What its first packet tells of a connection. */
static __always_inline void start_conn(struct pkt *p, struct hearing *h, struct conn *c)
{
	const struct transport *t = &h->transport;

	c->scale[0] = t->scale;
	c->scale[1] = NO_SCALE;
	if (t->proto != IPPROTO_TCP)
		return;
	c->bits |=
		t->flags & TCP_SYN && !(t->flags & TCP_ACK) ? CONN_SYN : CONN_PICKED_UP | CONN_ACK;
	c->next_seq[0] = t->flags & TCP_SYN ? t->seq + 1 : t->end;
	if (t->flags & TCP_FIN)
		c->bits |= CONN_FIN;
	h->next_seq = c->next_seq[0];
	slow_down(p, SLOW_CONNECTION);
}

/* A connection begins. */
static __always_inline int keep_opening(CTX *ctx, struct pkt *p, struct hearing *h, bool out)
{
	struct conn *c = &h->fresh;

	__builtin_memset(c, 0, sizeof(*c));
	c->seen_ns = c->born_ns = p->now_ns;
	c->counters[0].packets = packets_of(ctx, p);
	c->counters[0].bytes = p->frame_len;
	c->rule = h->judgement.rule;
	c->policy = h->judgement.policy;
	c->bits = out ? CONN_OUT : 0;
	c->peer_end = out ? h->opening.dst_end : h->opening.src_end;
	c->peer_segment = out ? h->opening.dst_segment : h->opening.src_segment;
	copy16(c->smac, h->opening.smac, ETH_ALEN);
	copy16(c->dmac, h->opening.dmac, ETH_ALEN);
	start_conn(p, h, c);
	return tracing ? 0 : conn_begin(h);
}

/* Whether a packet without a connection may open one, apart from the rules. */
static __always_inline int may_open(const struct transport *t)
{
	if (t->asker == 2)
		return REASON_OUT_OF_STATE;
	if (t->proto != IPPROTO_TCP || (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return 0;
	return strict ? REASON_OUT_OF_STATE : 0;
}

static __always_inline int open_conn(CTX *ctx, struct pkt *p, struct hearing *h, __u32 end,
				     bool out)
{
	const struct transport *t = &h->transport;
	__u32 packets = packets_of(ctx, p);
	int why = may_open(t);

	if (why)
		return why;
	make_opening(p, h, end, out);
	why = judge(p, h, packets, p->frame_len);
	count_rule(p, h->judgement.rule, 1, packets, p->frame_len);
	if (why)
		return why;
	if (t->proto == IPPROTO_TCP && t->flags & TCP_RST) {
		h->next_seq = t->end;
		slow_down(p, SLOW_CONNECTION);
		return 0;
	}
	return keep_opening(ctx, p, h, out);
}

/* A connection that was allowed under another policy; when it no longer is, it ends. */
static __always_inline int rejudge(struct pkt *p, struct hearing *h, struct conn *c)
{
	int why;

	remake_opening(h, c);
	why = judge(p, h, 0, 0);
	if (tracing || why == REASON_NO_POLICY)
		return why;
	count(EVENT_CONN_REJUDGED);
	if (why) {
		count_rule(p, h->judgement.rule, 0, 1, p->frame_len);
		conn_end(&h->key, c);
		count(EVENT_CONN_CUT);
		return why;
	}
	c->rule = h->judgement.rule;
	c->policy = h->judgement.policy;
	return 0;
}

/* Counts the packet, and those that the flow cache has let through since. */
static __always_inline void account(CTX *ctx, struct pkt *p, const struct hearing *h,
				    struct conn *c, __u32 way)
{
	__u64 packets = h->carried.packets + packets_of(ctx, p);
	__u64 bytes = h->carried.bytes + p->frame_len;

	if (tracing)
		return;
	c->seen_ns = p->now_ns;
	__sync_fetch_and_add(&c->counters[way & 1].packets, packets);
	__sync_fetch_and_add(&c->counters[way & 1].bytes, bytes);
	count_rule(p, c->rule, 0, packets, bytes);
}

/* What the packet does to its connection. */
static __always_inline int advance(struct pkt *p, struct hearing *h, struct conn *c, __u32 way)
{
	enum conn_state state;
	int why = 0;

	if (h->transport.proto == IPPROTO_TCP) {
		if (!tracing)
			why = tcp_follow(h, c, way);
		state = tcp_state(c->bits);
		if (state != STATE_ESTABLISHED && state != STATE_HALF_CLOSED)
			slow_down(p, SLOW_CONNECTION);
	} else if (way && !(c->bits & CONN_REPLIED) && !tracing) {
		__sync_fetch_and_or(&c->bits, CONN_REPLIED);
	}
	return why;
}

/* A packet of a connection. */
static __always_inline int follow_conn(CTX *ctx, struct pkt *p, struct hearing *h, struct conn *c,
				       bool out, bool evictable)
{
	__u32 way = out != !!(c->bits & CONN_OUT);
	int why;

	if (c->policy != policy_number()) {
		why = rejudge(p, h, c);
		if (why)
			return why;
	} else {
		step(p, STAGE_POLICE, c->rule | (__u32)out << 31, 1 << 8 | VERDICT_ALLOW);
	}
	why = advance(p, h, c, way);
	if (why)
		return why;
	account(ctx, p, h, c, way);
	conn_settle(h, c, evictable);
	return 0;
}

static __always_inline void make_fragment_key(const struct pkt *p, struct hearing *h, __u32 end,
					      bool out)
{
	struct fragment_key *k = &h->fragment;

	k->end = end;
	k->id = h->transport.id;
	k->saddr = p->key.saddr;
	k->daddr = p->key.daddr;
	k->proto = p->key.proto;
	k->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	k->pad[0] = k->pad[1] = 0;
}

#define FRAGMENT_NS 30000000000LL /* RFC 791: reassembly gives up; RFC 8200 4.5 has 60 s */

/* Later fragments follow the first of their datagram. */
static __always_inline int follow_fragment(const struct pkt *p, struct hearing *h, __u32 end,
					   bool out)
{
	__u64 *passed;

	make_fragment_key(p, h, end, out);
	passed = bpf_map_lookup_elem(&fragments, &h->fragment);
	return passed && ns_since(*passed, p->now_ns) < FRAGMENT_NS ? 0 : REASON_FRAGMENT_FIRST;
}

static __always_inline void first_passed(struct pkt *p, struct hearing *h, __u32 end, bool out)
{
	if (tracing)
		return;
	make_fragment_key(p, h, end, out);
	bpf_map_update_elem(&fragments, &h->fragment, &p->now_ns, BPF_ANY);
}

static __always_inline int police_conn(CTX *ctx, struct pkt *p, struct hearing *h, __u32 end,
				       bool out)
{
	const struct transport *t = &h->transport;
	bool evictable;
	struct conn *c;

	make_conn_key(h, end, out);
	c = conn_find(p, h, &evictable);
	if (t->kind == TRANSPORT_ERROR)
		return c ? 0 : REASON_UNRELATED;
	if (t->proto == IPPROTO_TCP && !tcp_flags_fit(t->flags))
		return REASON_TCP_FLAGS;
	if (c && !(t->proto == IPPROTO_TCP && tcp_is_anew(t, c)))
		return follow_conn(ctx, p, h, c, out, evictable);
	if (c)
		conn_end(&h->key, c);
	return open_conn(ctx, p, h, end, out);
}

/* The firewall of one port. Returns a reason, or 0: the packet passes. */
SUBPROGRAM int police(CTX *ctx, struct pkt *p, __u32 end, __u32 direction)
{
	bool out = direction == DIRECTION_OUT;
	struct hearing *h = hearing();
	int why;

	if (!p || !h)
		return REASON_NO_POLICY;
	if (h->transport.uncached)
		slow_down(p, p->key.fragment ? SLOW_FRAGMENT : SLOW_EXAMINED);
	if (h->transport.kind == TRANSPORT_LATER)
		return follow_fragment(p, h, end, out);
	why = police_conn(ctx, p, h, end, out);
	if (!why && h->transport.kind == TRANSPORT_FIRST)
		first_passed(p, h, end, out);
	return why;
}

/* The firewall of one port that the frame passes; a way without a firewall is free. */
static __always_inline int police_way(CTX *ctx, struct pkt *p, __u32 port, __u32 direction)
{
	struct decision *d = &p->decision;
	int why;

	if (!port || is_neighbour_talk(p) || d->action == ACTION_ASK)
		return 0;
	if (!is_ip(p))
		return non_ip_dropped ? REASON_NON_IP : 0;
	d->flags |= FLOW_TRACKED;
	why = p->examined ? 0 : examine(ctx, p);
	return why ? why : police(ctx, p, port, direction);
}

/* Of a frame that is decided about, the port by which it comes. */
static __always_inline int police_from(CTX *ctx, struct pkt *p)
{
	return police_way(ctx, p, as_port(p->in), DIRECTION_OUT);
}

/* And the one by which it goes, which sees it translated. */
static __always_inline int police_to(CTX *ctx, struct pkt *p)
{
	const struct decision *d = &p->decision;

	return police_way(ctx, p, d->action == ACTION_PORT ? as_port(d->out) : 0, DIRECTION_IN);
}

/* Of a copy of a flooded frame, the port that it is for. */
static __always_inline int police_copy(CTX *ctx, struct pkt *p, struct end *to, __u32 id)
{
	int why;

	if (!is_policed(to) || is_neighbour_talk(p))
		return 0;
	if (!is_ip(p))
		return non_ip_dropped ? REASON_NON_IP : 0;
	why = p->examined ? 0 : examine(ctx, p);
	return why ? why : police(ctx, p, id, DIRECTION_IN);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * firewall: filters between a port and its segment. Packets of a known connection pass. The
 * first packet of a connection is evaluated by the rules, and again when the policy has
 * changed. Between two ports of an edge both firewalls are asked.
 *
 * in:    p->l4_info, p->translation, p->unreported, p->in, p->segment, p->decision
 * out:   connections; p->next_seq, p->opened_connection, p->decision.slow
 * maps:  those of conntrack.h, fragments, rules, policy, logs
 * stops: DENIED, REJECTED, NO_POLICY, OUT_OF_STATE, UNRELATED, FRAGMENT_NO_FIRST, and those of
 *        l4.h, conntrack.h and tcp_state.h
 */
#pragma once

#include "firewall/conntrack.h"
#include "firewall/share.h"
#include "firewall/stateless.h"

/* What the firewall sees: as received from a port, or as sent to one, after NAT. */
static __always_inline const struct tuple *tuple_at(const struct pkt *p, bool out)
{
	return !out && with_nat && p->decision.flags & FLOW_NAT ? &p->translation :
								  &p->l4_info.tuple;
}

/* Creates a connection. */
static __always_inline int ct_open(CTX *ctx, struct pkt *p, struct ct_work *w, bool out)
{
	struct ct_entry *c = &w->entry;
	int why;

	__builtin_memset(c, 0, sizeof(*c));
	c->seen_ns = p->now_ns;
	c->born = p->now_ns >> BORN_SHIFT;
	c->counters[0].packets = packets_of(ctx, p);
	c->counters[0].bytes = p->frame_len;
	c->rule = w->match.rule;
	c->policy = w->match.policy;
	c->bits = out ? CT_OUT : 0;
	c->peer_vport = out ? w->query.dst_vport : w->query.src_vport;
	c->peer_segment = out ? w->query.dst_segment : w->query.src_segment;
	copy16(c->smac, w->query.smac, ETH_ALEN);
	copy16(c->dmac, w->query.dmac, ETH_ALEN);
	ct_init(p, c);
	if (tracing)
		return 0;
	why = ct_insert(w, p->now_ns);
	if (why == -EEXIST)
		return 0;
	if (!why && out)
		p->opened_connection = true;
	return why;
}

/* Whether a packet may open a connection at all, whatever the rules say. */
static __always_inline int may_open(const struct l4_info *t)
{
	if (t->echo_dir == 2)
		return REASON_OUT_OF_STATE;
	if (t->proto != IPPROTO_TCP || (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
		return 0;
	return strict ? REASON_OUT_OF_STATE : 0;
}

static __always_inline int ct_admit(CTX *ctx, struct pkt *p, struct ct_work *w, __u32 vport,
				    bool out)
{
	const struct l4_info *t = &p->l4_info;
	__u32 packets = packets_of(ctx, p);
	int why = may_open(t);

	if (why)
		return why;
	make_query(p, tuple_at(p, out), &w->query, vport, out);
	why = evaluate_rules(p, w, packets, p->frame_len);
	count_rule(p, w->match.rule, 1, packets, p->frame_len);
	if (why)
		return why;
	if (t->proto == IPPROTO_TCP && t->flags & TCP_RST) {
		p->next_seq = t->end;
		set_slow(p, SLOW_CONNECTION);
		return 0;
	}
	return ct_open(ctx, p, w, out);
}

/* Evaluates a known connection under a new policy, and deletes it if that denies it. */
static __always_inline int reevaluate(struct pkt *p, struct ct_work *w, struct ct_entry *c)
{
	int why;

	rebuild_query(&w->query, &w->key, c);
	why = evaluate_rules(p, w, 0, 0);
	if (tracing || why == REASON_NO_POLICY)
		return why;
	count(EVENT_CONNTRACK_REEVALUATED);
	if (why) {
		count_rule(p, w->match.rule, 0, 1, p->frame_len);
		ct_delete(&w->key, c);
		count(EVENT_CONNTRACK_REVOKED);
		return why;
	}
	c->rule = w->match.rule;
	c->policy = w->match.policy;
	return 0;
}

/* A packet of a known connection. */
static __always_inline int ct_track(CTX *ctx, struct pkt *p, struct ct_work *w, struct ct_entry *c,
				    bool out, bool half_open)
{
	__u32 dir = out != !!(c->bits & CT_OUT);
	int why;

	if (c->policy != policy_number()) {
		why = reevaluate(p, w, c);
		if (why)
			return why;
	} else {
		p->rule = c->rule;
		p->rule_vport = w->key.zone;
		step(p, STAGE_FIREWALL, c->rule | (__u32)out << 31, 1 << 8 | VERDICT_ALLOW);
	}
	why = update_state(p, c, dir);
	if (why)
		return why;
	account(ctx, p, c, dir);
	ct_migrate(w, c, half_open, p->now_ns);
	return 0;
}

/* Later fragments pass if the first one has, and if they leave its headers as they are. */
static __always_inline int follow_fragment(const struct pkt *p, struct ct_work *w, __u32 vport,
					   bool out)
{
	struct fragment_first *f;

	make_fragment_key(&w->fragment, p, vport, out);
	f = bpf_map_lookup_elem(&fragments, &w->fragment);
	if (!f || ns_since(f->passed_ns, p->now_ns) >= FRAGMENT_NS)
		return REASON_FRAGMENT_NO_FIRST;
	return p->l4_info.fragment < f->headers ? REASON_FRAGMENT_TINY : 0;
}

static __always_inline void note_first_fragment(struct pkt *p, struct ct_work *w, __u32 vport,
						bool out)
{
	struct fragment_first *f = &w->fragment_first;

	if (tracing)
		return;
	make_fragment_key(&w->fragment, p, vport, out);
	f->passed_ns = p->now_ns;
	f->headers = p->l4_info.fragment;
	if (!bpf_map_update_elem(&fragments, &w->fragment, f, BPF_EXIST))
		return;
	fragment_slot(&fragments, vport, &w->fragment_slot, &w->fragment, f,
		      offsetof(struct fragment_first, noted));
	bpf_map_update_elem(&fragments, &w->fragment, f, BPF_ANY);
}

static __always_inline int firewall_ct(CTX *ctx, struct pkt *p, struct ct_work *w, __u32 vport,
				       bool out)
{
	const struct l4_info *t = &p->l4_info;
	bool half_open;
	struct ct_entry *c;

	make_ct_key(&w->key, t, tuple_at(p, out), vport, out);
	c = ct_find(p, &w->key, &half_open);
	if (t->kind == L4_ICMP_ERROR)
		return c ? 0 : REASON_UNRELATED;
	if (t->proto == IPPROTO_TCP && !tcp_flags_fit(t->flags))
		return REASON_TCP_FLAGS;
	if (c && !(t->proto == IPPROTO_TCP && tcp_is_anew(t, c)))
		return ct_track(ctx, p, w, c, out, half_open);
	if (c)
		ct_delete(&w->key, c);
	return ct_admit(ctx, p, w, vport, out);
}

/* The firewall of one port. Returns a drop reason, or 0: the packet passes. */
SUBPROGRAM int firewall(CTX *ctx, struct pkt *p, __u32 vport, __u32 direction)
{
	bool out = direction == DIRECTION_OUT;
	struct ct_work *w = ct_work();
	int why;

	if (!p || !w)
		return REASON_NO_POLICY;
	if (p->l4_info.uncached)
		set_slow(p, p->key.fragment ? SLOW_FRAGMENT : SLOW_DEEP_PARSE);
	if (p->l4_info.kind == L4_LATER_FRAGMENT)
		return follow_fragment(p, w, vport, out);
	if (is_router_discovery(p))
		return firewall_stateless(ctx, p, w, vport, out);
	why = firewall_ct(ctx, p, w, vport, out);
	if (!why && p->l4_info.kind == L4_FIRST_FRAGMENT)
		note_first_fragment(p, w, vport, out);
	return why;
}

/* The same, for port 0 (no firewall) and packets that are not filtered. */
static __always_inline int firewall_at(CTX *ctx, struct pkt *p, __u32 port, __u32 direction)
{
	struct decision *d = &p->decision;
	int why;

	if (!port || is_unfiltered(p) || d->action == ACTION_RESOLVE)
		return 0;
	if (!is_ip(p))
		return non_ip_dropped ? REASON_NON_IP : 0;
	d->flags |= FLOW_TRACKED;
	why = p->l4_parsed ? 0 : parse_l4_full(ctx, p);
	return why ? why : firewall(ctx, p, port, direction);
}

/* The firewall of the ingress port. */
static __always_inline int firewall_from(CTX *ctx, struct pkt *p)
{
	return firewall_at(ctx, p, as_port(p->in), DIRECTION_OUT);
}

/* The firewall of the egress port, after NAT. */
static __always_inline int firewall_to(CTX *ctx, struct pkt *p)
{
	const struct decision *d = &p->decision;

	return firewall_at(ctx, p, d->action == ACTION_PORT ? as_port(d->out) : 0, DIRECTION_IN);
}

/* Deletes the connection that the packet opened at its ingress port: a later stage refuses it. */
static __always_inline void firewall_undo(struct pkt *p)
{
	struct ct_work *w = ct_work();
	struct ct_entry *c;

	if (!w || !p->opened_connection)
		return;
	make_ct_key(&w->key, &p->l4_info, &p->l4_info.tuple, p->in, true);
	c = bpf_map_lookup_elem(&ct_half_open, &w->key);
	if (c)
		ct_delete(&w->key, c);
}

/* The firewall of a port that gets a copy of a flooded frame. */
static __always_inline int firewall_copy(CTX *ctx, struct pkt *p, struct vport *to, __u32 id)
{
	int why;

	if (!has_firewall(to) || is_unfiltered(p))
		return 0;
	if (!is_ip(p))
		return non_ip_dropped ? REASON_NON_IP : 0;
	why = p->l4_parsed ? 0 : parse_l4_full(ctx, p);
	return why ? why : firewall(ctx, p, id, DIRECTION_IN);
}

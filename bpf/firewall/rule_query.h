/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * rule_query: asks the rules about a connection.
 *
 * in:    p->l4_info and a tuple, or a connection; the port
 * out:   a match; counters and log lines
 * maps:  vports, policy, rules, logs
 * stops: DENIED, REJECTED, NO_POLICY
 */
#pragma once

#include "firewall/classify.h"
#include "firewall/log.h"
#include "firewall/track.h"

/* Whether rules know the packet's ports, or its ICMP type. */
static __always_inline bool has_ports(__u8 proto, const struct addr *src)
{
	return is_ported(proto) || proto == (addr_is_v4(src) ? IPPROTO_ICMP : IPPROTO_ICMPV6);
}

static __always_inline bool has_firewall(const struct vport *e)
{
	return with_firewall && e && e->flags & VPORT_FIREWALL;
}

/* The vport, if it is a port with a firewall, else 0. Groups may name such ports. */
static __always_inline __u16 as_port(__u32 id)
{
	return has_firewall(vport_get(id)) ? id : 0;
}

/* The port at the other end of the connection, if it is one of this edge, else 0. */
static __always_inline __u16 peer_of(const struct pkt *p, bool out)
{
	if (!out)
		return as_port(p->in);
	return p->decision.action == ACTION_PORT ? as_port(p->decision.out) : 0;
}

/* The query for a packet that opens a connection. */
static __always_inline void make_query(const struct pkt *p, const struct tuple *u,
				       struct rule_query *o, __u32 vport, bool out)
{
	const struct l4_info *t = &p->l4_info;
	__u16 peer = peer_of(p, out);

	o->src = u->src;
	o->dst = u->dst;
	copy16(o->dmac, p->key.dmac, ETH_ALEN);
	copy16(o->smac, p->key.smac, ETH_ALEN);
	o->src_vport = out ? vport : peer;
	o->dst_vport = out ? peer : vport;
	o->src_segment = p->segment;
	o->dst_segment = p->decision.to_segment;
	o->vport = vport;
	o->sport = is_ported(t->proto) ? bpf_ntohs(u->sport) : 0;
	o->dport = is_ported(t->proto) ? bpf_ntohs(u->dport) : t->icmp;
	o->proto = t->proto;
	o->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	o->ported = has_ports(t->proto, &u->src);
}

/* The query for a known connection, from what is stored of its first packet. */
static __always_inline void rebuild_query(struct rule_query *o, const struct ct_key *k,
					  const struct ct_entry *c)
{
	struct vport *port = vport_get(k->zone);
	bool out = c->bits & CT_OUT;
	__u16 segment = port ? port->segment : 0;

	o->src = out ? k->inside : k->outside;
	o->dst = out ? k->outside : k->inside;
	copy16(o->smac, c->smac, ETH_ALEN);
	copy16(o->dmac, c->dmac, ETH_ALEN);
	o->src_vport = out ? k->zone : c->peer_vport;
	o->dst_vport = out ? c->peer_vport : k->zone;
	o->src_segment = out ? segment : c->peer_segment;
	o->dst_segment = out ? c->peer_segment : segment;
	o->vport = k->zone;
	o->sport = is_ported(k->proto) ? bpf_ntohs(out ? k->inside_port : k->outside_port) : 0;
	o->dport = bpf_ntohs(out ? k->outside_port : k->inside_port);
	if (k->echo_dir)
		o->dport = (k->proto == IPPROTO_ICMP ? ICMP_ECHO : ICMPV6_ECHO) << 8;
	o->proto = k->proto;
	o->direction = out ? DIRECTION_OUT : DIRECTION_IN;
	o->ported = has_ports(k->proto, &k->inside);
}

/* Evaluates w->query, counts and logs. Returns a drop reason, or 0. */
static __always_inline int evaluate_rules(struct pkt *p, struct ct_work *w, __u64 packets,
					  __u64 bytes)
{
	struct rule_match *j = &w->match;
	int why;

	j->rule = 0;
	why = classify(POLICY_FIREWALL, &w->query, j);
	if (why)
		return why;
	p->rule = j->rule;
	p->rule_vport = w->query.vport;
	step(p, STAGE_FIREWALL, j->rule | (__u32)w->query.direction << 31, j->verdict);
	if (j->log_only) {
		count_rule(p, j->log_only, 1, packets, bytes);
		write_log(p, &w->query, j->log_only, VERDICT_LOG_ONLY, 0);
	}
	/* The default is about connections; l2/port_guard.h says who may be a router. */
	if (j->is_default && is_router_discovery(p))
		return 0;
	if (j->verdict != VERDICT_ALLOW)
		why = j->verdict == VERDICT_REJECT ? REASON_REJECTED : REASON_DENIED;
	if (j->log)
		write_log(p, &w->query, j->rule, j->verdict, why);
	return why;
}

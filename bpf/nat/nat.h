/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat: what a packet's addresses become where it leaves the overlay or comes into it. Its
 * connection has a binding: the first packet from inside makes one, by the policy or the
 * uplink that nat/egress.h found; the first from outside, where a forward or an open mapping
 * leads. What no binding is for never leaves with its own address where one is asked for.
 *
 * in:    p->decision (FLOW_SNAT, FLOW_DNAT), the hearing's egress, the packet
 * out:   the hearing's translation; the way to a translated destination
 * maps:  bindings, returns, forwards, nat_fragments, remotes, and those of bind
 * stops: NO_BINDING, UNTRANSLATED, NAT_FRAGMENT, NAT_UNREAD, OUT_OF_STATE, TCP_FLAGS, UNRELATED,
 *        and those of bind and examine
 */
#pragma once

#include "nat/port_alloc.h"
#include "tunnel/multipath.h"

/* The router in which the packet is. */
static __always_inline __u32 router_of(const struct pkt *p)
{
	struct segment *seg = segment_get(p->segment);

	return seg ? seg->router : 0;
}

/* By a policy's own segment, the remote that the source is behind; else zero. */
static __always_inline struct addr via_of(const struct pkt *p)
{
	struct segment *seg = segment_get(p->segment);
	struct end *in = end_get(p->in);

	if (seg && in && seg->egress && !(seg->flags & SEGMENT_UPLINK))
		return in->addr;
	return (struct addr){};
}

/* The source of a binding moved, and what is for it goes another way. */
static __always_inline void note_via(struct pkt *p, struct binding *b)
{
	struct segment *seg = segment_get(p->segment);
	struct addr via = via_of(p);

	if (addr_equal(&b->via, &via))
		return;
	b->via = via;
	if (seg)
		outdate(&seg->generation);
}

/* Whether a packet without a binding may have one. */
static __always_inline int may_bind(const struct transport *t)
{
	if (t->kind == TRANSPORT_ERROR)
		return REASON_UNRELATED;
	if (t->proto == IPPROTO_ICMP || t->proto == IPPROTO_ICMPV6)
		return t->asker == 1 ? 0 : REASON_NAT_UNREAD;
	if (t->proto == IPPROTO_TCP && t->flags & TCP_RST)
		return REASON_OUT_OF_STATE;
	return 0;
}

/* What the packet does to the connection of its binding. */
SUBPROGRAM int follow_binding(CTX *ctx, struct pkt *p, struct binding *b, bool out)
{
	struct hearing *h = hearing();
	const struct transport *t;
	bool answered;
	__u32 way;

	if (!p || !b || !h)
		return REASON_NO_BINDING;
	t = &h->transport;
	way = out != !!(b->conn.bits & CONN_OUT);
	if (t->kind == TRANSPORT_ERROR)
		return 0;
	if (t->proto == IPPROTO_TCP && !tcp_flags_fit(t->flags))
		return REASON_TCP_FLAGS;
	if (t->proto == IPPROTO_TCP && tcp_is_anew(t, &b->conn) && !tracing) {
		b->conn.bits = out ? CONN_OUT : 0;
		b->conn.born_ns = p->now_ns;
		start_conn(p, h, &b->conn);
		way = 0;
	}
	answered = is_answered(&b->conn, h->key.proto);
	advance(p, h, &b->conn, way); /* what is out of the window is for the ends to judge */
	if (tracing)
		return 0;
	b->flags &= ~BINDING_REPLICA;
	account(ctx, p, h, &b->conn, way);
	if (!answered && is_answered(&b->conn, h->key.proto))
		announce(&h->key, b, BINDING_OPEN);
	return 0;
}

/* A mapping lives as long as what uses it: it has seen what that has, and is as open. */
static __always_inline void refresh_mapping(const struct pkt *p, struct hearing *h,
					    const struct binding *b)
{
	struct binding *m;

	if (!(b->flags & BINDING_INDEPENDENT))
		return;
	mapping_key(h);
	m = bpf_map_lookup_elem(&bindings, &h->mapping);
	if (!m)
		return;
	m->conn.seen_ns = p->now_ns;
	if (is_answered(&b->conn, h->key.proto) && !is_over(&b->conn, h->key.proto))
		m->conn.bits = b->conn.bits & ~CONN_BOTH(CONN_FIN);
}

/* The binding of h->key, or NULL. */
static __always_inline struct binding *find_binding(const struct pkt *p, struct hearing *h)
{
	struct binding *b = bpf_map_lookup_elem(&bindings, &h->key);

	if (!b || !binding_expired(b, h->key.proto, p->now_ns))
		return b;
	binding_end(&h->key, b, &h->back);
	return NULL;
}

/* What no policy and no uplink translates leaves as it is, unless all must be. */
static __always_inline int leave_untranslated(struct pkt *p)
{
	struct segment *to = segment_get(p->decision.to_segment);

	if (!to || to->flags & SEGMENT_TRANSLATED)
		return REASON_UNTRANSLATED;
	p->decision.flags &= ~FLOW_SNAT;
	return 0;
}

/* Whether the translation is an uplink's that has no address to translate to. */
static __always_inline bool is_idle(const struct hearing *h, const struct egress *e)
{
	return !e || (!e->segment && !e->family[!addr_is_v4(&h->key.inside)].count);
}

/* A connection of the inside begins. */
static __always_inline int bind_source(CTX *ctx, struct pkt *p, struct hearing *h)
{
	struct egress *e = egress_get(h->egress);
	int why;

	if (is_idle(h, e))
		return leave_untranslated(p);
	why = may_bind(&h->transport);
	if (why)
		return why;
	if (!tracing && !admit_host(&h->key, 0, e->limit))
		return REASON_NAT_LIMIT;
	begin_binding(ctx, p, h, true);
	h->binding.via = via_of(p);
	why = bind_port(p, h, e);
	if (!why && !tracing)
		why = put_binding(h, &h->key);
	if (why && !tracing)
		uncount_host(&h->key, 0);
	if (why)
		return why;
	count(EVENT_NAT_OPENED);
	announce(&h->key, &h->binding, BINDING_BEGAN);
	return 0;
}

/* The source's binding, by which the packet leaves. */
SUBPROGRAM int nat_out(CTX *ctx, struct pkt *p, bool fresh)
{
	struct hearing *h = hearing();
	struct binding *b;
	int why;

	if (!p || !h)
		return REASON_NO_BINDING;
	make_conn_key(h, router_of(p), true);
	b = find_binding(p, h);
	if (b) {
		why = follow_binding(ctx, p, b, true);
		refresh_mapping(p, h, b);
		if (h->transport.kind != TRANSPORT_ERROR && !tracing)
			note_via(p, b);
	} else {
		why = fresh ? bind_source(ctx, p, h) : REASON_NO_BINDING;
		b = &h->binding;
	}
	h->translation.src = b->addr;
	h->translation.sport = b->port;
	step(p, STAGE_NAT, FLOW_SNAT | (__u32)b->egress << 16, bpf_ntohs(b->port));
	return why;
}

/* Where a forward leads, or a mapping that is open to all. The key is that of the return. */
static __always_inline bool find_target(const struct transport *t, struct hearing *h,
					struct origin *to)
{
	struct conn_key *key = &h->mapping;
	struct forward_key port = { .router = h->key.end,
				    .proto = h->key.proto,
				    .port = h->key.inside_port,
				    .addr = h->key.inside };
	struct forward *f = bpf_map_lookup_elem(&forwards, &port);
	struct origin *o;
	struct egress *e;
	struct binding *m;

	if (f) {
		to->addr = f->addr;
		to->port = f->port;
		h->egress = f->egress;
		return t->proto != IPPROTO_TCP || (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	}
	mapping_key(h);
	o = bpf_map_lookup_elem(&returns, key);
	if (!o)
		return false;
	*to = *o;
	key->inside = to->addr;
	key->inside_port = to->port;
	m = bpf_map_lookup_elem(&bindings, key);
	e = m ? egress_get(m->egress) : NULL;
	if (!e || !(e->flags & EGRESS_OPEN))
		return false;
	h->egress = m->egress;
	h->via = m->via;
	return true;
}

/* A connection from outside begins, with a source inside at the end of a forward or mapping. */
static __always_inline int bind_target(CTX *ctx, struct pkt *p, struct hearing *h,
				       const struct origin *to)
{
	struct egress *e = egress_get(h->egress);
	struct addr egress = h->key.inside;
	__be16 port = h->key.inside_port;
	int why = 0;

	if (h->transport.kind == TRANSPORT_ERROR)
		return REASON_UNRELATED;
	h->back = h->key;
	begin_binding(ctx, p, h, false);
	h->binding.addr = egress;
	h->binding.port = port;
	h->binding.via = h->via;
	h->key.inside = to->addr;
	h->key.inside_port = to->port;
	if (tracing)
		return 0;
	if (!admit_host(&h->key, BINDING_FORWARDED, e ? e->limit : 0))
		return REASON_NAT_LIMIT;
	why = bpf_map_update_elem(&returns, &h->back, to, BPF_NOEXIST) ? REASON_NAT_FULL :
									 put_binding(h, &h->key);
	if (why) {
		uncount_host(&h->key, BINDING_FORWARDED);
		return why;
	}
	h->bound = true;
	count(EVENT_NAT_OPENED);
	announce(&h->key, &h->binding, BINDING_BEGAN);
	return 0;
}

/* The destination's binding, by which the packet comes in. Source and port may be translated. */
SUBPROGRAM int nat_in(CTX *ctx, struct pkt *p, bool fresh)
{
	struct hearing *h = hearing();
	struct origin *o, to = {};
	struct binding *b = NULL;
	int why = 0;

	if (!p || !h)
		return REASON_NO_BINDING;
	h->via = (struct addr){};
	make_conn_key(h, router_of(p), false);
	o = bpf_map_lookup_elem(&returns, &h->key);
	if (o) {
		to = *o;
		h->back = h->key;
		h->key.inside = to.addr;
		h->key.inside_port = to.port;
		if (is_echo(&h->key))
			h->key.outside_port = to.port;
		b = find_binding(p, h);
		if (!b)
			return REASON_NO_BINDING;
		why = follow_binding(ctx, p, b, false);
		refresh_mapping(p, h, b);
	} else {
		if (!fresh || !find_target(&h->transport, h, &to))
			return REASON_NO_BINDING;
		why = bind_target(ctx, p, h, &to);
		b = &h->binding;
	}
	h->translation.dst = to.addr;
	h->translation.dport = to.port;
	h->via = b->via;
	h->via_egress = b->egress;
	step(p, STAGE_NAT, FLOW_DNAT | (__u32)b->egress << 16, bpf_ntohs(to.port));
	return why;
}

/* Whether nothing translates packets of the source, of which there may be fragments. */
static __always_inline bool is_unbound(const struct pkt *p, struct hearing *h)
{
	struct host_key key = { .router = router_of(p), .addr = p->key.saddr };
	struct host_bindings *out = bpf_map_lookup_elem(&host_counts, &key), *in;

	key.router |= HOST_FROM_OUTSIDE;
	in = bpf_map_lookup_elem(&host_counts, &key);
	h->key.inside = p->key.saddr;
	return is_idle(h, egress_get(h->egress)) && !(out && out->count) && !(in && in->count);
}

/* Fragments but the first have what it had, and wait for nobody. */
static __always_inline int recall_fragment(struct pkt *p, struct hearing *h)
{
	struct fragment_translation *f;

	make_fragment_key(p, h, router_of(p), false);
	f = bpf_map_lookup_elem(&nat_fragments, &h->fragment);
	if (!f || ns_since(f->passed_ns, p->now_ns) >= FRAGMENT_NS) {
		if (p->decision.flags & FLOW_DNAT || !is_unbound(p, h))
			return REASON_NAT_FRAGMENT;
		return leave_untranslated(p);
	}
	h->translation = f->translation;
	h->via = f->via;
	h->via_egress = f->egress;
	p->decision.flags = (p->decision.flags & ~FLOW_NAT) | (f->flags & FLOW_NAT);
	return 0;
}

/* Keeps what the first fragment of a datagram has become. Returns 0. */
SUBPROGRAM int note_fragment(struct pkt *p)
{
	struct hearing *h = hearing();
	struct fragment_translation f = {};

	if (!p || !h || tracing)
		return 0;
	f.passed_ns = p->now_ns;
	f.translation = h->translation;
	f.via = h->via;
	f.egress = h->via_egress;
	f.flags = p->decision.flags & FLOW_NAT;
	make_fragment_key(p, h, router_of(p), false);
	bpf_map_update_elem(&nat_fragments, &h->fragment, &f, BPF_ANY);
	return 0;
}

/* The way to a translated destination: how its source came, or that of the router. */
SUBPROGRAM int reroute(struct pkt *p)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL, *to;
	__u32 id = seg ? seg->router : 0, *end;
	struct router *router = bpf_map_lookup_elem(&routers, &id);
	struct hearing *h = hearing();
	struct remote_key remote;
	struct decision *d;
	struct egress *e;
	struct hop *hop;
	int why = 0;

	if (!p || !seg || !router || !h)
		return REASON_NOT_ROUTED;
	d = &p->decision;
	d->generation = generation_of(seg, p->key.smac) + generation_to(router, d, &p->key.daddr);
	e = addr_is_zero(&h->via) ? NULL : egress_get(h->via_egress);
	if (!e || !e->segment) {
		hop = find_hop(p, id, &h->translation.dst, &why);
		if (!hop)
			return why;
		if (leads_out(hop) && !(d->flags & FLOW_SNAT)) /* somebody else's source */
			return REASON_UNTRANSLATED;
		why = route_by(p, d, hop, &h->translation.dst);
		to = segment_get(d->to_segment);
		if (!why && to && d->action == ACTION_TUNNEL)
			d->out = spread_to(p, to, d->out);
		return why;
	}
	remote.addr = h->via;
	remote.segment = d->to_segment = e->segment;
	to = segment_get(d->to_segment);
	end = bpf_map_lookup_elem(&remotes, &remote);
	if (!to || !end)
		return REASON_NO_ROUTE;
	d->generation += to->generation;
	d->flags |= FLOW_ROUTED;
	d->action = ACTION_TUNNEL;
	d->out = spread_to(p, to, *end & ~REMOTE_UNTAUGHT);
	copy16(d->smac, to->gateway_mac, ETH_ALEN);
	copy16(d->dmac, to->gateway_mac, ETH_ALEN);
	depend_on(d, to, d->dmac);
	return p->ttl <= 1 ? REASON_TTL_EXCEEDED : 0;
}

/* The transport as who gets the packet sees it. */
static __always_inline void turn_transport(struct pkt *p, struct hearing *h)
{
	struct transport *t = &h->transport;

	if (p->decision.flags & FLOW_SNAT) {
		t->src = h->translation.src;
		t->sport = h->translation.sport;
	}
	if (p->decision.flags & FLOW_DNAT) {
		t->dst = h->translation.dst;
		t->dport = h->translation.dport;
	}
}

/* An address that nobody is behind: the edge's own. */
static __always_inline int serve_instead(struct pkt *p, int why)
{
	struct decision *d = &p->decision;

	if (why != REASON_NO_BINDING || d->action != ACTION_TRANSLATE)
		return why;
	d->flags &= ~(FLOW_NAT | FLOW_TRACKED);
	return serve(p, d) ? why : 0;
}

/* Whether a packet from inside to an egress address is for somebody inside. */
SUBPROGRAM int is_for_inside(struct pkt *p)
{
	struct hearing *h = hearing();
	struct origin to = {};

	if (!p || !h)
		return 0;
	make_conn_key(h, router_of(p), true);
	if (bpf_map_lookup_elem(&bindings, &h->key))
		return 1;
	make_conn_key(h, router_of(p), false);
	return find_target(&h->transport, h, &to) ? 1 : 0;
}

/* Both translations of a packet; that of the source comes first: it is what is answered to. */
static __always_inline int nat_ways(CTX *ctx, struct pkt *p, struct hearing *h, bool fresh)
{
	enum flow_flags flags = p->decision.flags;
	__u16 egress = h->egress;
	int why = 0;

	if (fresh && (flags & FLOW_NAT) == FLOW_NAT && !is_for_inside(p))
		return REASON_NO_BINDING;
	h->egress = egress;
	if (flags & FLOW_SNAT) {
		why = nat_out(ctx, p, fresh);
		if (why)
			return why;
		h->transport.src =
			p->decision.flags & FLOW_SNAT ? h->translation.src : h->transport.src;
		if (p->decision.flags & FLOW_SNAT)
			h->transport.sport = h->translation.sport;
	}
	return flags & FLOW_DNAT ? nat_in(ctx, p, fresh) : 0;
}

/*
 * Finds what the packet becomes, and, where its destination changes, its way. fresh: it
 * has no decision yet; otherwise its binding is only told of it.
 */
SUBPROGRAM int nat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct hearing *h = hearing();
	int why;

	if (!p || !h)
		return REASON_NAT_UNREAD;
	why = p->examined ? 0 : examine(ctx, p);
	if (why)
		return why;
	p->decision.flags |= FLOW_TRACKED;
	if (h->transport.uncached)
		slow_down(p, p->key.fragment ? SLOW_FRAGMENT : SLOW_EXAMINED);
	__builtin_memset(&h->translation, 0, sizeof(h->translation));
	h->via = (struct addr){};
	h->bound = false;
	if (h->transport.kind == TRANSPORT_LATER)
		why = recall_fragment(p, h);
	else
		why = serve_instead(p, nat_ways(ctx, p, h, fresh));
	if (why)
		return why;
	if (h->transport.kind == TRANSPORT_FIRST)
		note_fragment(p);
	turn_transport(p, h);
	return p->decision.action == ACTION_TRANSLATE ? reroute(p) : 0;
}

/* Takes back the binding that the packet made from outside, which the firewall inside denies. */
SUBPROGRAM int unbind(void)
{
	struct hearing *h = hearing();
	struct origin *o;

	if (!h || !h->bound)
		return 0;
	o = bpf_map_lookup_elem(&returns, &h->back);
	if (!o)
		return 0;
	h->taken = h->back;
	h->taken.inside = o->addr;
	h->taken.inside_port = o->port;
	binding_end(&h->taken, &h->binding, &h->back);
	return 0;
}

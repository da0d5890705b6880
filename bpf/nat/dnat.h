/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * dnat: translates the destination, in the session of the connection or in a new one.
 *
 * in:    the scratch's l4
 * out:   the scratch's translation and via_remote
 * maps:  port_forwards, nat_reverse, nat_sessions
 * stops: NO_NAT_SESSION, NAT_LIMIT, NAT_FULL, UNRELATED
 */
#pragma once

#include "nat/nat_track.h"

/* Finds the port forward or open mapping of the reverse key in h->key. */
static __always_inline bool find_target(const struct l4_info *t, struct fw_scratch *h,
					struct nat_orig *to)
{
	struct ct_key *key = &h->mapping_key;
	struct port_forward_key port = { .router = h->key.zone,
					 .proto = h->key.proto,
					 .port = h->key.inside_port,
					 .addr = h->key.inside };
	struct port_forward *f = bpf_map_lookup_elem(&port_forwards, &port);
	struct nat_orig *o;
	struct egress_policy *e;
	struct nat_session *m;

	if (f) {
		to->addr = f->addr;
		to->port = f->port;
		h->egress = f->egress;
		return t->proto != IPPROTO_TCP || (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
	}
	set_mapping_key(h);
	o = bpf_map_lookup_elem(&nat_reverse, key);
	if (!o)
		return false;
	*to = *o;
	key->inside = to->addr;
	key->inside_port = to->port;
	m = bpf_map_lookup_elem(&nat_sessions, key);
	e = m ? egress_get(m->egress) : NULL;
	if (!e || !(e->flags & EGRESS_OPEN))
		return false;
	h->egress = m->egress;
	h->via_remote = m->via;
	return true;
}

/* Creates a session for a connection from outside. */
static __always_inline int create_dnat_session(CTX *ctx, struct pkt *p, struct fw_scratch *h,
					       const struct nat_orig *to)
{
	struct egress_policy *e = egress_get(h->egress);
	struct addr egress = h->key.inside;
	__be16 port = h->key.inside_port;
	int why = 0;

	if (h->l4.kind == L4_ICMP_ERROR)
		return REASON_UNRELATED;
	h->reverse_key = h->key;
	nat_session_init(ctx, p, h, false);
	h->session.addr = egress;
	h->session.port = port;
	h->session.via = h->via_remote;
	h->key.inside = to->addr;
	h->key.inside_port = to->port;
	if (tracing)
		return 0;
	if (!nat_host_admit(&h->key, NAT_SESSION_FORWARDED, e ? e->limit : 0))
		return REASON_NAT_LIMIT;
	why = bpf_map_update_elem(&nat_reverse, &h->reverse_key, to, BPF_NOEXIST) ?
		      REASON_NAT_FULL :
		      nat_session_insert(h, &h->key);
	if (why) {
		nat_host_release(&h->key, NAT_SESSION_FORWARDED);
		return why;
	}
	h->created_inbound = true;
	count(EVENT_NAT_CREATED);
	nat_event_emit(&h->key, &h->session, NAT_EVENT_CREATED);
	return 0;
}

/* DNAT: the session of the destination, or a new one. The source may be translated already. */
SUBPROGRAM int dnat(CTX *ctx, struct pkt *p, bool fresh)
{
	struct fw_scratch *h = fw_scratch();
	struct nat_orig *o, to = {};
	struct nat_session *s = NULL;
	int why = 0;

	if (!p || !h)
		return REASON_NO_NAT_SESSION;
	h->via_remote = (struct addr){};
	make_ct_key(h, router_of(p), false);
	o = bpf_map_lookup_elem(&nat_reverse, &h->key);
	if (o) {
		to = *o;
		h->reverse_key = h->key;
		h->key.inside = to.addr;
		h->key.inside_port = to.port;
		if (is_echo(&h->key))
			h->key.outside_port = to.port;
		s = nat_session_find(p, h);
		if (!s)
			return REASON_NO_NAT_SESSION;
		why = track_session(ctx, p, s, false);
		refresh_mapping(p, h, s);
	} else {
		if (!fresh || !find_target(&h->l4, h, &to))
			return REASON_NO_NAT_SESSION;
		why = create_dnat_session(ctx, p, h, &to);
		s = &h->session;
	}
	h->translation.dst = to.addr;
	h->translation.dport = to.port;
	h->via_remote = s->via;
	h->via_policy = s->egress;
	step(p, STAGE_NAT, FLOW_DNAT | (__u32)s->egress << 16, bpf_ntohs(to.port));
	return why;
}

/* Whether a packet from inside to an external address is for a host inside. */
SUBPROGRAM int is_for_inside(struct pkt *p)
{
	struct fw_scratch *h = fw_scratch();
	struct nat_orig to = {};

	if (!p || !h)
		return 0;
	make_ct_key(h, router_of(p), true);
	if (bpf_map_lookup_elem(&nat_sessions, &h->key))
		return 1;
	make_ct_key(h, router_of(p), false);
	return find_target(&h->l4, h, &to) ? 1 : 0;
}

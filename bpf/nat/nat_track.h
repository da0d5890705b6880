/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat_track: the session of a packet, and its state.
 *
 * in:    p->l4_info, the key of a session
 * out:   a session; its connection state
 * maps:  nat_sessions, segments, nat_over, nat_unanswered
 * stops: TCP_FLAGS, UNRELATED, OUT_OF_STATE, NAT_UNSUPPORTED, NO_TRANSLATION
 */
#pragma once

#include "firewall/track.h"
#include "nat/nat_session.h"
#include "cache/generation.h"

/* The router of the packet's segment. */
static __always_inline __u32 router_of(const struct pkt *p)
{
	struct segment *seg = segment_get(p->segment);

	return seg ? seg->router : 0;
}

/* Parses what sessions are keyed by, and has the flow be tracked. */
static __always_inline int nat_begin(CTX *ctx, struct pkt *p)
{
	int why = p->l4_parsed ? 0 : parse_l4_full(ctx, p);

	if (why)
		return why;
	p->decision.flags |= FLOW_TRACKED;
	if (p->l4_info.uncached)
		set_slow(p, p->key.fragment ? SLOW_FRAGMENT : SLOW_DEEP_PARSE);
	return 0;
}

/* In a policy's own segment, the remote that the source is behind; else zero. */
static __always_inline struct addr via_of(const struct pkt *p)
{
	struct segment *seg = segment_get(p->segment);
	struct vport *in = vport_get(p->in);

	if (seg && in && seg->egress && !(seg->flags & SEGMENT_UPLINK))
		return in->addr;
	return (struct addr){};
}

/* If the source of a session has moved, replies take another path. */
static __always_inline void note_via(struct pkt *p, struct nat_session *s)
{
	struct segment *seg = segment_get(p->segment);
	struct addr via = via_of(p);

	if (addr_equal(&s->via, &via))
		return;
	s->via = via;
	if (seg)
		invalidate(&seg->generation);
}

/*
 * Whether a packet without a session may create one. Of TCP others than a SYN do after sessions
 * were lost, but a SYN with ACK answers a connection that NAT has not let in.
 */
static __always_inline int may_create_session(const struct l4_info *t)
{
	__u8 syn = t->flags & (TCP_SYN | TCP_ACK);

	if (t->kind == L4_ICMP_ERROR)
		return REASON_UNRELATED;
	if (t->proto == IPPROTO_ICMP || t->proto == IPPROTO_ICMPV6)
		return t->echo_dir == 1 ? 0 : REASON_NAT_UNSUPPORTED;
	/* Their checksums cover the addresses, and rewrite.h does not update them. */
	if (t->proto == IPPROTO_UDPLITE || t->proto == IPPROTO_DCCP)
		return REASON_NAT_UNSUPPORTED;
	if (t->proto != IPPROTO_TCP || syn == TCP_SYN)
		return 0;
	return strict || t->flags & (TCP_SYN | TCP_RST) ? REASON_OUT_OF_STATE : 0;
}

/* A session that is over counts no more, and can go when there is no room. */
static __always_inline void note_closed(struct nat_work *w, const struct nat_session *s)
{
	nat_release(&w->key, s);
	note_dispensable(&nat_over, w, &w->key);
}

/* A session that was over opens again. */
static __always_inline int reopen(struct pkt *p, struct nat_work *w, struct nat_session *s,
				  bool out)
{
	int why = nat_admit(&w->key, s);

	if (why)
		return why;
	s->ct.bits = out ? CT_OUT : 0;
	s->ct.born = p->now_ns >> BORN_SHIFT;
	ct_init(p, &s->ct);
	note_dispensable(&nat_unanswered, w, &w->key);
	return 0;
}

/* Updates the connection state of the packet's session. */
SUBPROGRAM int track_session(CTX *ctx, struct pkt *p, struct nat_session *s, bool out)
{
	struct nat_work *w = nat_work();
	const struct l4_info *t;
	bool answered, closed;
	int why = 0;
	__u32 dir;

	if (!p || !s || !w)
		return REASON_NO_NAT_SESSION;
	t = &p->l4_info;
	dir = out != !!(s->ct.bits & CT_OUT);
	if (t->kind == L4_ICMP_ERROR)
		return 0;
	if (t->proto == IPPROTO_TCP && !tcp_flags_fit(t->flags))
		return REASON_TCP_FLAGS;
	if (t->proto == IPPROTO_TCP && tcp_is_anew(t, &s->ct) && !tracing) {
		why = reopen(p, w, s, out);
		if (why)
			return why;
		dir = 0;
	}
	answered = ct_is_answered(&s->ct, w->key.proto);
	closed = ct_is_closed(&s->ct, w->key.proto);
	update_state(p, &s->ct, dir); /* the ends deal with segments outside the window */
	if (tracing)
		return 0;
	s->flags &= ~NAT_SESSION_REPLICA;
	account(ctx, p, &s->ct, dir);
	if (!closed && ct_is_closed(&s->ct, w->key.proto))
		note_closed(w, s);
	if (!answered && ct_is_answered(&s->ct, w->key.proto))
		nat_event_emit(&w->key, s, NAT_EVENT_ESTABLISHED);
	return 0;
}

/* A mapping lives as long as its sessions: it takes over when they were seen, and their state. */
static __always_inline void refresh_mapping(const struct pkt *p, struct nat_work *w,
					    const struct nat_session *s)
{
	struct nat_session *m;

	if (!(s->flags & NAT_SESSION_INDEPENDENT))
		return;
	set_mapping_key(w);
	m = bpf_map_lookup_elem(&nat_sessions, &w->mapping_key);
	if (!m)
		return;
	m->ct.seen_ns = p->now_ns;
	if (ct_is_answered(&s->ct, w->key.proto) && !ct_is_closed(&s->ct, w->key.proto))
		m->ct.bits = s->ct.bits & ~CT_BOTH(CT_FIN);
}

/* The session of w->key, or NULL. */
static __always_inline struct nat_session *nat_session_find(const struct pkt *p, struct nat_work *w)
{
	struct nat_session *s = bpf_map_lookup_elem(&nat_sessions, &w->key);

	if (!s || !nat_session_expired(s, &w->key, p->now_ns))
		return s;
	nat_session_delete(&w->key, s, &w->reverse_key);
	return NULL;
}

/* Without a policy or uplink that translates, packets pass unchanged where that is allowed. */
static __always_inline int pass_untranslated(struct pkt *p)
{
	struct segment *to = segment_get(p->decision.to_segment);

	if (!to || to->flags & SEGMENT_TRANSLATED)
		return REASON_NO_TRANSLATION;
	p->decision.flags &= ~FLOW_SNAT;
	return 0;
}

/* Whether an uplink translates but has no address to translate to. */
static __always_inline bool has_no_pool(const struct ct_key *key, const struct egress_policy *e)
{
	return !e || (!e->segment && !e->family[!addr_is_v4(&key->inside)].count);
}

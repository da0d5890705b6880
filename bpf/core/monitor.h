/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * monitor: tells user space of packets that are dropped or forwarded, while somebody watches.
 * Nobody does most of the time, and then one word is read. It changes neither the packet nor what
 * becomes of it. Each packet that matches a session is counted, whether it is told of or not.
 *
 * in:    ctx, p, the drop reason or 0
 * out:   events in the rings of sessions
 * maps:  monitors, monitor_cores, monitor_rings, vports
 * stops: nothing
 */
#pragma once

#include "core/token_bucket.h"

static __always_inline struct monitor_table *monitor_table(void)
{
	return tracing ? NULL : &monitors;
}

/* What is wanted; NULL: a trace is not told of. */
static __always_inline const struct monitor_wants *monitor_wants(void)
{
	const struct monitor_table *t = monitor_table();

	return FIELD_OF(t, wants);
}

/* Whether somebody wants forwarded packets: one word is read. */
static __always_inline bool is_monitored(void)
{
	return !tracing && monitors.wants.forwarded;
}

static __always_inline struct monitor_core *monitor_core(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&monitor_cores, &zero);
}

/* The event that is made: with originals it has the bytes of the packet as it came. */
static __always_inline struct monitor_event *monitor_event(void)
{
	struct monitor_core *core = monitor_core();

	return FIELD_OF(core, event);
}

/* A session on this core. */
struct monitor_use {
	struct monitor *m;
	struct monitor_counts *c;
	struct monitor_event *e;
};

static __always_inline bool monitor_use(struct monitor_use *u, const struct pkt *p, __u32 slot)
{
	struct monitor_table *t = monitor_table();
	struct monitor_core *core = monitor_core();

	if (!t || !core || slot >= MONITORS)
		return false;
	u->m = &t->sessions[slot];
	u->c = &core->counts[slot];
	u->e = &core->event;
	return p->now_ns <= u->m->until_ns;
}

/* Copies up to snaplen bytes of the packet into the event, as it is now. */
static __always_inline void monitor_load(CTX *ctx, struct monitor_event *e, __u32 snaplen)
{
	__u32 n = ctx_len(ctx);

	e->len = n;
	e->gso_size = ctx_gso_size(ctx);
	e->tag = ctx_tag(ctx);
	if (n > snaplen)
		n = snaplen;
	if (n > MONITOR_BYTES)
		n = MONITOR_BYTES;
	e->captured = 0;
	/* Verifiers before Linux 6.18 want each bound tested by itself, of this very value. */
	barrier_var(n);
	if (n > MONITOR_BYTES)
		return;
	barrier_var(n);
	if (n >= 1 && ctx_load(ctx, 0, e->bytes, n) == 0)
		e->captured = n;
}

/* Keeps the packet as it came. */
SUBPROGRAM int monitor_keep(CTX *ctx, struct pkt *p)
{
	const struct monitor_wants *w = monitor_wants();
	struct monitor_event *e = monitor_event();

	if (!p || !w || !e)
		return 0;
	monitor_load(ctx, e, w->snaplen);
	e->inner = p->inner;
	p->kept = true;
	return 0;
}

/* To be called when a packet comes in, before anything changes it. */
static __always_inline void monitor_original(CTX *ctx, struct pkt *p)
{
	const struct monitor_wants *w = monitor_wants();

	if (w && w->originals)
		monitor_keep(ctx, p);
}

static __always_inline bool monitor_port_matches(const struct monitor_filter *f,
						 const struct pkt *p)
{
	struct vport *out;

	if (f->vport) {
		if (p->in == f->vport || p->rule_vport == f->vport)
			return true;
	} else if (!p->key.vni && p->key.origin.w[3] == f->ifindex) {
		return true;
	}
	if (!p->decided || p->decision.action != ACTION_PORT)
		return false;
	if (f->vport)
		return p->decision.out == f->vport;
	out = vport_get(p->decision.out);
	return out && out->ifindex == f->ifindex;
}

static __always_inline bool monitor_is_remote(const struct monitor_filter *f, const struct addr *a)
{
	for (int i = 0; i < MONITOR_REMOTES; i++)
		if (addr_equal(&f->remotes[i], a))
			return true;
	return false;
}

static __always_inline bool monitor_remote_matches(const struct monitor_filter *f,
						   const struct pkt *p)
{
	struct vport *out;

	if (p->key.vni && monitor_is_remote(f, &p->key.origin))
		return true;
	if (!p->decided || p->decision.action != ACTION_TUNNEL)
		return false;
	out = vport_get(p->decision.out);
	return out && monitor_is_remote(f, &out->addr);
}

static __always_inline bool addr_within(const struct addr *a, const struct addr *net,
					const struct addr *mask)
{
	return !((((a->w[0] ^ net->w[0]) & mask->w[0]) | ((a->w[1] ^ net->w[1]) & mask->w[1])) |
		 (((a->w[2] ^ net->w[2]) & mask->w[2]) | ((a->w[3] ^ net->w[3]) & mask->w[3])));
}

static __always_inline bool monitor_ends_match(const struct monitor_filter *f,
					       const struct addr *src, const struct addr *dst,
					       __be16 sport, __be16 dport)
{
	return addr_within(src, &f->src, &f->src_mask) && addr_within(dst, &f->dst, &f->dst_mask) &&
	       (!f->sport || f->sport == sport) && (!f->dport || f->dport == dport);
}

static __always_inline bool monitor_packet_matches(const struct monitor_filter *f,
						   const struct flow_key *k)
{
	if (f->ethertype && f->ethertype != k->ethertype)
		return false;
	if (!f->any_proto && k->proto != f->proto && k->proto != f->proto2)
		return false;
	if (monitor_ends_match(f, &k->saddr, &k->daddr, k->sport, k->dport))
		return true;
	return f->tests & MONITOR_EITHER &&
	       monitor_ends_match(f, &k->daddr, &k->saddr, k->dport, k->sport);
}

SUBPROGRAM int monitor_matches(const struct monitor_filter *f, const struct pkt *p, __u32 why)
{
	if (!f || !p)
		return false;
	if (f->tests & MONITOR_REASONS && !(f->reasons[why >> 6 & 3] >> (why & 63) & 1))
		return false;
	if (f->tests & MONITOR_SEGMENT && p->segment != f->segment &&
	    !(p->decided && p->decision.to_segment == f->segment))
		return false;
	if (f->tests & MONITOR_PORT && !monitor_port_matches(f, p))
		return false;
	if (f->tests & MONITOR_REMOTE && !monitor_remote_matches(f, p))
		return false;
	return !(f->tests & MONITOR_PACKET) || monitor_packet_matches(f, &p->key);
}

/* Takes one of the session's tokens on this core. */
static __always_inline bool monitor_token(struct monitor_counts *c, const struct monitor *m,
					  __u64 now)
{
	__u64 window = now >> MONITOR_WINDOW;

	if (c->window != window || c->id != m->id) {
		c->window = window;
		c->id = m->id;
		c->left = m->tokens;
	}
	if (!c->left)
		return false;
	c->left--;
	return true;
}

/* Counts a packet that matches; false: it is not told of. */
static __always_inline bool monitor_admits(struct monitor_counts *c, const struct monitor *m,
					   __u64 now, __u32 why)
{
	c->matched[why & 127]++;
	if (!why && ++c->sample < m->sample) {
		c->sampled_out++;
		return false;
	}
	if (!why)
		c->sample = 0;
	if (monitor_token(c, m, now))
		return true;
	c->limited++;
	return false;
}

/* Events that follow are about another packet. */
static __always_inline void monitor_next(struct monitor_event *e)
{
	e->ns = bpf_ktime_get_ns();
	e->packet = e->ns << 10 | (bpf_get_smp_processor_id() & 1023);
}

/* Fills in all but the bytes and the time. */
static __always_inline void monitor_describe(CTX *ctx, const struct pkt *p, struct monitor_event *e,
					     __u32 why)
{
	const struct decision *d = &p->decision;

	e->origin = p->key.origin;
	e->reason = why;
	e->rule = p->rule;
	e->rule_vport = p->rule_vport;
	e->in = p->in;
	e->segment = p->segment;
	e->ifindex = ctx_ifindex(ctx);
	e->vni = p->key.vni;
	if (p->inner || !p->kept) /* decapsulation removes it */
		e->inner = p->inner;
	e->gateway = p->gateway;
	e->xdp = IN_XDP;
	e->decided = p->decided;
	e->cached = p->cached;
	e->out = p->decided ? d->out : 0;
	e->to_segment = p->decided ? d->to_segment : 0;
	e->action = p->decided ? d->action : 0;
	e->slow = p->decided ? d->slow : 0;
	e->flags = p->decided ? d->flags : 0;
#ifndef XDP
	e->translation = p->translation;
#endif
}

/* Sends the event to the session. Returns whether there was room. */
static __always_inline bool monitor_send(struct monitor_event *e, __u32 slot, __u32 snaplen)
{
	void *ring = bpf_map_lookup_elem(&monitor_rings, &slot);
	__u32 n = e->captured, captured = n;
	long full;

	if (!ring)
		return false;
	if (n > snaplen)
		n = snaplen;
	if (n > MONITOR_BYTES)
		n = MONITOR_BYTES;
	e->captured = n;
	barrier_var(n);
	if (n > MONITOR_BYTES)
		return false;
	full = bpf_ringbuf_output(ring, e, __builtin_offsetof(struct monitor_event, bytes) + n,
				  BPF_RB_NO_WAKEUP);
	e->captured = captured;
	return !full;
}

/* Sends the event to the session. first: of those about the packet. */
static __always_inline bool monitor_tell(struct monitor_event *e, __u32 slot, __u32 snaplen,
					 enum monitor_point point, bool first)
{
	e->point = point;
	e->first = first;
	return monitor_send(e, slot, snaplen);
}

/*
 * Whether the session wants the packet and is told of it. Most packets of a flood are not, and cost
 * no call: of what is beyond the rate the session has counters only.
 */
static __always_inline bool monitor_chooses(const struct pkt *p, __u32 slot, __u32 why)
{
	struct monitor_use u;

	if (!monitor_use(&u, p, slot))
		return false;
	if (u.m->filter.tests && !monitor_matches(&u.m->filter, p, why))
		return false;
	return monitor_admits(u.c, u.m, p->now_ns, why);
}

#define MONITOR_SENT 1	  /* the session got the packet as it came */
#define MONITOR_LEAVING 2 /* the session wants the packet as it leaves */

/* A session that wants the packet. Returns MONITOR_ flags; 0: it is done with it. */
SUBPROGRAM int monitor_session(CTX *ctx, struct pkt *p, __u32 slot, __u32 why)
{
	struct monitor_use u;
	bool sent = false;

	if (!p || !monitor_use(&u, p, slot))
		return 0;
	if (!u.e->packet)
		monitor_next(u.e);
	monitor_describe(ctx, p, u.e, why);
	if (p->kept && (why || u.m->points & MONITOR_INGRESS)) {
		sent = monitor_tell(u.e, slot, u.m->snaplen, MONITOR_INGRESS, true);
	} else if (why) {
		monitor_load(ctx, u.e, u.m->snaplen);
		sent = monitor_tell(u.e, slot, u.m->snaplen, MONITOR_DROP, true);
	}
	if (!why && u.m->points & MONITOR_EGRESS && p->verdict != CTX_DROP)
		return MONITOR_LEAVING | (sent ? MONITOR_SENT : 0);
	if (!sent)
		u.c->lost++;
	return 0;
}

/* The same packet as it leaves. */
SUBPROGRAM int monitor_leaving(CTX *ctx, struct pkt *p, __u32 slot, __u32 how)
{
	struct monitor_use u;
	bool sent = how & MONITOR_SENT;

	if (!p || !monitor_use(&u, p, slot))
		return 0;
	monitor_describe(ctx, p, u.e, 0);
	u.e->inner = 0;
	if (monitor_tell(u.e, slot, u.m->snaplen, MONITOR_EGRESS, !sent))
		return 0;
	if (sent)
		u.c->cut++;
	else
		u.c->lost++;
	return 0;
}

/* A copy for one session. */
SUBPROGRAM int monitor_copy_for(CTX *ctx, struct pkt *p, __u32 slot, __u32 to)
{
	struct monitor_use u;

	if (!p || !monitor_use(&u, p, slot) || !(u.m->points & MONITOR_EGRESS))
		return 0;
	monitor_load(ctx, u.e, u.m->snaplen);
	monitor_describe(ctx, p, u.e, 0);
	u.e->inner = 0;
	u.e->out = to;
	if (!monitor_tell(u.e, slot, u.m->snaplen, MONITOR_COPY, false))
		u.c->cut++;
	return 0;
}

#define MONITOR_ASKED 0x80

/* Tells the sessions of a set about the packet, once. */
SUBPROGRAM int tell_monitors(CTX *ctx, struct pkt *p, __u32 sessions, __u32 why)
{
	__u32 leaving[MONITORS] = {}, any = 0;
	struct monitor_event *e = monitor_event();

	if (!p || !e)
		return 0;
	e->packet = 0;
	p->chosen = MONITOR_ASKED;
	for (__u32 i = 0; i < MONITORS; i++) {
		if (!(sessions >> i & 1) || !monitor_chooses(p, i, why))
			continue;
		p->chosen |= 1 << i;
		leaving[i] = monitor_session(ctx, p, i, why);
		any |= leaving[i];
	}
	if (!(any & MONITOR_LEAVING))
		return 0;
	monitor_load(ctx, e, MONITOR_BYTES);
	for (__u32 i = 0; i < MONITORS; i++)
		if (leaving[i] & MONITOR_LEAVING)
			monitor_leaving(ctx, p, i, leaving[i]);
	return 0;
}

/* A packet that is dropped. */
static __always_inline void monitor_drop(CTX *ctx, struct pkt *p, __u32 why)
{
	const struct monitor_wants *w = monitor_wants();

	if (w && w->drops)
		tell_monitors(ctx, p, w->drops, why);
}

/* A packet that the program sends on as it is now. */
static __always_inline void monitor_forwarded(CTX *ctx, struct pkt *p)
{
	const struct monitor_wants *w = monitor_wants();

	if (w && w->forwarded && !(p->chosen & MONITOR_ASKED))
		tell_monitors(ctx, p, w->forwarded, 0);
}

/*
 * A copy of the packet, or a fragment, for a port or remote. With the first one it is told of the
 * packet itself, as long as its bytes are kept.
 */
static __always_inline void monitor_copy(CTX *ctx, struct pkt *p, __u32 to)
{
	const struct monitor_wants *w = monitor_wants();

	if (!w || !w->forwarded)
		return;
	p->verdict = CTX_DROP; /* the original does not leave */
	if (!(p->chosen & MONITOR_ASKED))
		tell_monitors(ctx, p, w->forwarded, 0);
	for (__u32 i = 0; i < MONITORS; i++)
		if (p->chosen >> i & 1)
			monitor_copy_for(ctx, p, i, to);
	p->kept = false;
}

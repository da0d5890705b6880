// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The tc pipeline of an edge; bpf/README.md draws it. */
#include "l3/slow_path.h"
#include "tunnel/path_mtu.h"
#include "nat/nat.h"
#include "tx/transmit.h"

/* Takes a decision and changes nothing else. */
SUBPROGRAM int slow_path(CTX *ctx, struct pkt *p)
{
	int why = p ? decide(ctx, p) : REASON_NO_HEADROOM;

	stamp(POINT_RESOLVED);
	return why;
}

/* Inserts the decision into the flow cache. */
SUBPROGRAM int keep(CTX *ctx, struct pkt *p)
{
	if (p && p->segment)
		flow_keep(ctx, p, &p->decision);
	stamp(POINT_DECIDED);
	return 0;
}

/* Deletes what the packet created in the stateful stages: one of them refuses it. */
SUBPROGRAM int admit_undo(struct pkt *p)
{
	if (!p || tracing)
		return 0;
	if (with_nat)
		nat_undo(p);
	if (with_firewall)
		firewall_undo(p);
	return 0;
}

/* The stateful stages: the firewall of the ingress port, NAT, the firewall of the egress port. */
SUBPROGRAM int admit(CTX *ctx, struct pkt *p, bool fresh)
{
	int why = p ? firewall_from(ctx, p) : REASON_NO_POLICY;

	if (why)
		return why;
	if (with_nat && p->decision.action != ACTION_RESOLVE)
		why = p->decision.flags & FLOW_NAT ? nat(ctx, p, fresh) : nat_beside(ctx, p);
	if (!why)
		why = firewall_to(ctx, p);
	if (why)
		admit_undo(p);
	if (p->decision.flags & FLOW_TRACKED)
		stamp(POINT_ADMITTED);
	return why;
}

static __always_inline int take_slow_path(CTX *ctx, struct pkt *p)
{
	int why = slow_path(ctx, p);

	p->decided = !why;
	if (!why)
		why = admit(ctx, p, true);
	if (!why)
		why = keep(ctx, p);
	return why;
}

/* A packet whose decision is in the flow cache. */
static __always_inline void hit(CTX *ctx, struct pkt *p, struct flow *f)
{
	struct decision *d = &p->decision;

	count(EVENT_HIT);
	p->decided = p->cached = true;
	p->polled = p->inner && d->action == ACTION_PORT && in_burst(ctx, p, f);
	p->in = d->in;
	p->segment = d->segment;
	f->packets += packets_of(ctx, p);
	f->bytes += p->frame_len;
	f->seen_ns = p->now_ns;
}

/* Conntrack and NAT see a packet whose decision is cached, and the flow takes over the result. */
static __always_inline int track_hit(CTX *ctx, struct pkt *p, struct flow *f)
{
	int why;

	if (!p || !f)
		return REASON_NO_POLICY;
	load_flow(p, f, packets_of(ctx, p), p->frame_len);
	p->decision.slow = SLOW_FAST;
	why = admit(ctx, p, false);
	if (!is_flow(f, p->digest))
		return why;
	f->decision.slow = why ? SLOW_CONNECTION : p->decision.slow;
	/* The next packet takes a decision and a session of its own. */
	if (why == REASON_NO_NAT_SESSION)
		f->decision.flags |= FLOW_NEVER_CURRENT;
	if (!why)
		f->next_seq = p->next_seq;
	return why;
}

static __always_inline int edge(CTX *ctx, struct pkt *p)
{
	bool tracked = false;
	struct flow *f;
	__u32 end;
	int why;

	why = parse(ctx, p);
	step(p, STAGE_PARSE, p->key.proto, why);
	if (must_cut(ctx, p, why))
		return cut(ctx, p, why);
	if (!why && p->inner && ecn_drop(p))
		why = REASON_ECN_MARKED;
	if (why)
		return drop(ctx, p, why);
	stamp(POINT_PARSED);
	f = flow_find(p);
	if (f && !flow_take(p, f))
		f = NULL;
	if (f && p->inner && is_reordered(p, f))
		return bpf_redirect(ctx->ifindex, BPF_F_INGRESS);
	end = seq_end(p);
	if (f) {
		hit(ctx, p, f);
		stamp(POINT_CACHED);
		tracked = (with_firewall || with_nat) && needs_conntrack(p, &p->decision);
		if (tracked)
			why = track_hit(ctx, p, f);
	} else {
		why = take_slow_path(ctx, p);
	}
	if (!why)
		why = replay(ctx, p);
	if (f && !tracked && is_flow(f, p->digest))
		advance_seq(p, f, end);
	if (why)
		return drop_with_icmp(ctx, p, why);
	if (p->decision.action != ACTION_HOST)
		monitor_forwarded(ctx, p);
	stamp(POINT_SENT);
	return p->verdict;
}

SEC("tcx/ingress")
int from_port(CTX *ctx)
{
	struct pkt *p;

	stamp(POINT_PORT);
	p = packet(ctx);
	if (!p)
		return TCX_DROP;
	p->key.origin.w[3] = ctx->ifindex;
	monitor_original(ctx, p);
	return edge(ctx, p);
}

SEC("tcx/ingress")
int from_underlay(CTX *ctx)
{
	struct pkt *p;
	int why;

	if (ctx->pkt_type != PACKET_HOST || ctx->vlan_present)
		return TCX_NEXT;
	stamp(POINT_UNDERLAY);
	p = packet(ctx);
	if (!p)
		return TCX_DROP;
	ctx_pull_headers(ctx, CTX_OUTER);
	why = parse_outer(ctx, p);
	if (why == NOT_OURS) {
		learn_path_mtu(ctx, p);
		count(EVENT_NOT_TUNNEL);
		return TCX_NEXT;
	}
	monitor_original(ctx, p);
	return why ? drop(ctx, p, why) : edge(ctx, p);
}

/* A packet that GRO coalesced, decided, with its port in the mark; or one that was cut. */
SEC("tcx/ingress")
int from_gro(CTX *ctx)
{
	struct vport *to = vport_get(ctx->mark);
	struct pkt *p = packet(ctx);

	if (!p)
		return TCX_DROP;
	if (ctx->mark & MARK_CUT)
		return receive_cut(ctx);
	if (!ctx->vlan_present || !to || to->kind != VPORT_PORT)
		return drop(ctx, p, REASON_UNKNOWN_PORT);
	ctx->mark = 0;
	if (bpf_skb_vlan_pop(ctx))
		return drop(ctx, p, REASON_NO_HEADROOM);
	if (to->vlan && bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), to->vlan))
		return drop(ctx, p, REASON_NO_HEADROOM);
	return deliver(to, true);
}

/* Types that only maint/ uses, for the generated Go types. */
const struct ct_gc_stats *ct_gc_stats_type __attribute__((unused));
const struct nat_gc_stats *nat_gc_stats_type __attribute__((unused));
const struct port_usage *port_usage_type __attribute__((unused));
const struct port_usage_key *port_usage_key_type __attribute__((unused));
const struct nat_event *nat_event_type __attribute__((unused));
const struct log_line *log_line_type __attribute__((unused));
const struct host_event *host_event_type __attribute__((unused));
const enum limited_rate *limited_rate_type __attribute__((unused));
const enum ct_state *ct_state_type __attribute__((unused));
const enum ct_bits *ct_bits_type __attribute__((unused));
const enum nat_session_flags *nat_session_flags_type __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";

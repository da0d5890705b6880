// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The transit program of underlay and uplink interfaces: packets that only pass
 * through the edge, between tunnels and uplinks, before the kernel makes an skb of
 * them. It is the same stages as in edge.bpf.c, to which everything else is left
 * untouched: what is for a port or the host, what somebody has to be told of, and
 * what the way out does not take.
 */
#define XDP
#include "l3/slow_path.h"
#include "tunnel/encap.h"
#include "cache/transit_fast.h"
#include "core/csum_partial.h"

#define LEAVE NOT_OURS /* to tc, which sees the packet as it came */

/* Where a packet goes. */
struct way {
	struct end *to;
	struct segment *seg;
	__u32 front; /* bytes before the inner payload: Ethernet, and a tunnel's headers */
};

/* Reasons that the sender is told of, which tc does. */
static __always_inline bool is_told(int why)
{
	switch (why) {
	case REASON_TTL_EXCEEDED:
	case REASON_NO_PREFIX:
	case REASON_UNREACHABLE:
	case REASON_PROHIBITED:
	case REASON_NOT_SERVED:
		return true;
	}
	return false;
}

/* The slow path. */
SUBPROGRAM int resolve(CTX *ctx, struct pkt *p)
{
	return p ? decide(ctx, p) : REASON_NO_ROOM;
}

/* Whether packets of the flow are for this program. Those of others tc decides about, and keeps. */
static __always_inline bool passes_through(const struct decision *d)
{
	return (!d->slow || d->slow == SLOW_CACHE_OFF) && d->flags & FLOW_ROUTED &&
	       (d->action == ACTION_TUNNEL || d->action == ACTION_PORT);
}

static __always_inline bool into_tunnel(CTX *ctx, struct pkt *p, struct way *w)
{
	if (w->seg->flags & SEGMENT_UDP_CSUM || !(w->to->flags & END_RESOLVED))
		return false;
	w->front += room_for(p, w->to, w->seg);
	return fits(ctx, p, tunnel_mtu(p, w->to, w->seg));
}

static __always_inline bool into_uplink(CTX *ctx, struct pkt *p, struct way *w)
{
	if (!(w->to->flags & END_UPLINK))
		return false;
	if (w->to->vlan)
		p->key.tags[0] = tag_word(bpf_htons(ETH_P_8021Q), bpf_htons(w->to->vlan));
	w->front += tag_len(p);
	return fits(ctx, p, w->to->mtu);
}

/* Whether the way out takes the packet from here, as it is. */
static __always_inline bool find_way(CTX *ctx, struct pkt *p, const struct decision *d,
				     struct way *w)
{
	w->to = end_get(d->out);
	w->seg = segment_get(d->to_segment);
	if (!w->to || !w->seg || !(w->to->flags & END_TRANSIT) || p->ttl <= 1)
		return false;
	p->key.tags[0] = p->key.tags[1] = 0; /* a routed packet keeps none */
	w->front = sizeof(struct ethhdr);
	return d->action == ACTION_TUNNEL ? into_tunnel(ctx, p, w) : into_uplink(ctx, p, w);
}

/* The packet, whose inner payload is in its place, gets its headers. */
static __always_inline int change(CTX *ctx, struct pkt *p, const struct decision *d, struct way *w,
				  bool tunnelled)
{
	int why = tunnelled ? merge_ecn(ctx, p) : 0;

	if (!why && p->tcp_flags & TCP_SYN)
		why = clamp_mss(ctx, p, clamp_limit(p, d, tunnelled));
	if (!why)
		why = rewrite(ctx, p, d);
	if (why)
		return why;
	if (d->action == ACTION_TUNNEL)
		return write_outer(ctx, p, w->to, w->seg, d->entropy);
	return write_inner(ctx, p, 0);
}

/* Carries out a decision. Returns a reason, LEAVE, or 0 with the verdict in p. */
static __always_inline int carry(CTX *ctx, struct pkt *p, const struct decision *d, __u8 proto)
{
	bool tunnelled = p->inner;
	struct way w;
	__s32 grow;
	int why;

	if (is_unsummed(ctx, p, proto) || !find_way(ctx, p, d, &w))
		return LEAVE;
	grow = w.front - p->l3;
	if (ctx_grow(ctx, grow))
		return LEAVE;
	p->l3 += grow;
	p->l4 += grow;
	count_rx(d->in, 1, p->frame_len);
	why = change(ctx, p, d, &w, tunnelled);
	if (why)
		return why;
	count_tx(d->out, 1, p->frame_len);
	p->verdict = bpf_redirect_map(&exits, w.to->exit, XDP_DROP);
	return 0;
}

/* What tc gets without a look into the cache. */
static __always_inline bool is_for_tc(const struct pkt *p)
{
	return !is_ip(p) || mac_is_group(p->key.dmac) || is_neighbour_talk(p);
}

static __always_inline int pass(CTX *ctx, struct pkt *p)
{
	struct shortcut *s;
	__u32 changes;
	__u64 hash;
	int why;

	why = parse(ctx, p);
	if (!why && is_for_tc(p))
		return LEAVE;
	if (!why && p->inner && is_unbearable(p))
		why = REASON_ECN_MARKED;
	if (why)
		return why;
	hash = hash_of(&p->key);
	s = shortcut_find(p, hash);
	if (!s) {
		changes = pulse(PULSE_CHANGES);
		why = resolve(ctx, p);
		if (why)
			return is_told(why) ? LEAVE : why;
		if (!passes_through(&p->decision))
			return LEAVE;
		s = shortcut_keep(p, hash, changes);
	}
	why = carry(ctx, p, s ? &s->decision : &p->decision, p->key.proto);
	if (why)
		return why;
	count(EVENT_TRANSIT);
	if (s) {
		s->packets++;
		s->bytes += p->frame_len;
	}
	return 0;
}

/* Any packet, by way of all stages. */
SUBPROGRAM int take(CTX *ctx)
{
	struct pkt *p = packet(ctx);
	int why = NOT_OURS;

	if (!p)
		return XDP_PASS;
	if (this_flags & DEVICE_UNDERLAY && is_mine(ctx))
		why = parse_outer(ctx, p);
	if (why == NOT_OURS) {
		if (!(this_flags & DEVICE_UPLINK))
			return XDP_PASS;
		__builtin_memset(&p->key, 0, sizeof(p->key));
		p->key.origin.w[3] = this_ifindex;
		why = 0;
	}
	if (!why)
		why = pass(ctx, p);
	if (why == LEAVE)
		return XDP_PASS;
	return why ? drop(ctx, p, why) : p->verdict;
}

/* A plain packet whose flow has a shortcut; LEAVE: take it by all stages. */
SUBPROGRAM int take_express(CTX *ctx)
{
	struct shortcut_table *t = flow_cache ? shortcut_table() : NULL;
	struct shortcut *s;
	struct pkt p;
	int why;

	if (!t)
		return LEAVE;
	s = express_find(ctx, &p, t);
	if (!s)
		return LEAVE;
	why = carry(ctx, &p, &s->decision, s->key.proto);
	if (why == LEAVE)
		return LEAVE;
	if (why)
		return drop(ctx, &p, why);
	t->express++;
	s->packets++;
	s->bytes += p.frame_len;
	return p.verdict;
}

static __always_inline int forward(CTX *ctx)
{
	int verdict = take_express(ctx);

	return verdict == LEAVE ? take(ctx) : verdict;
}

SEC("xdp.frags")
int transit(CTX *ctx)
{
	return forward(ctx);
}

/* Tells of a tag beside the frame (Linux 6.8); for programs that are bound to their device. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *proto, __u16 *tci) __ksym;

/* The same where a frame's tag may lie beside it: that frame is tc's, which sees it. */
SEC("xdp.frags")
int transit_asking(CTX *ctx)
{
	__be16 proto;
	__u16 tci;

	return bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci) == 0 ? XDP_PASS : forward(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

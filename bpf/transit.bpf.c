// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The XDP pipeline of underlay and uplink interfaces, for packets that only pass through the edge,
 * between tunnels and uplinks, before the kernel allocates an skb. It uses the stages of
 * edge.bpf.c and leaves all other packets to it, unmodified: packets for ports and the host,
 * those that need an ICMP error, and those that the egress interface cannot take.
 */
#define XDP
#include "l3/slow_path.h"
#include "tunnel/encap.h"
#include "cache/transit_fast.h"
#include "core/csum_partial.h"

#define LEAVE NOT_OURS /* to tc, unmodified */

/* Where a packet leaves. */
struct egress_path {
	struct vport *to;
	struct segment *seg;
	__u32 front; /* bytes before the inner payload: Ethernet, with tunnel headers */
};

/* Reasons for which tc sends an ICMP error. */
static __always_inline bool has_icmp_error(int why)
{
	switch (why) {
	case REASON_TTL_EXCEEDED:
	case REASON_NO_ROUTE:
	case REASON_UNREACHABLE:
	case REASON_PROHIBITED:
	case REASON_NO_LOCAL_SERVICE:
		return true;
	}
	return false;
}

/* Takes a decision and changes nothing else. */
SUBPROGRAM int slow_path(CTX *ctx, struct pkt *p)
{
	return p ? decide(ctx, p) : REASON_NO_HEADROOM;
}

/* Whether this program forwards packets of the flow. Otherwise tc decides, and caches that. */
static __always_inline bool passes_through(const struct decision *d)
{
	return (!d->slow || d->slow == SLOW_CACHE_OFF) && d->flags & FLOW_ROUTED &&
	       (d->action == ACTION_TUNNEL || d->action == ACTION_PORT);
}

static __always_inline bool into_tunnel(CTX *ctx, struct pkt *p, struct egress_path *w)
{
	if (w->seg->flags & SEGMENT_UDP_CSUM || !(w->to->flags & VPORT_RESOLVED))
		return false;
	w->front += headroom_for(p, w->to, w->seg);
	return fits(ctx, p, tunnel_mtu(p, w->to, w->seg));
}

static __always_inline bool into_uplink(CTX *ctx, struct pkt *p, struct egress_path *w)
{
	if (!(w->to->flags & VPORT_UPLINK))
		return false;
	if (w->to->vlan)
		p->eth.tags[0] = tag_word(bpf_htons(ETH_P_8021Q), bpf_htons(w->to->vlan));
	w->front += tag_len(p);
	return fits(ctx, p, w->to->mtu);
}

/* Whether the egress interface can take the packet from here, as it is. */
static __always_inline bool find_egress_path(CTX *ctx, struct pkt *p, const struct decision *d,
					     struct egress_path *w)
{
	w->to = vport_get(d->out);
	w->seg = segment_get(d->to_segment);
	if (!w->to || !w->seg || !(w->to->flags & VPORT_TRANSIT) || p->ttl <= 1)
		return false;
	p->eth.tags[0] = p->eth.tags[1] = 0; /* a routed packet has none */
	w->front = sizeof(struct ethhdr);
	return d->action == ACTION_TUNNEL ? into_tunnel(ctx, p, w) : into_uplink(ctx, p, w);
}

/* Modifies the packet, whose inner payload is in its final place, and writes its headers. */
static __always_inline int change(CTX *ctx, struct pkt *p, const struct decision *d, __be16 entropy,
				  struct egress_path *w, bool tunnelled)
{
	int why = tunnelled ? merge_ecn(ctx, p) : 0;

	if (!why && p->tcp_flags & TCP_SYN)
		why = clamp_mss(ctx, p, clamp_limit(p, d));
	if (!why)
		why = rewrite_routed(ctx, p, d);
	if (why)
		return why;
	if (d->action == ACTION_TUNNEL)
		return write_outer(ctx, p, w->to, w->seg, entropy);
	return write_inner(ctx, p, 0);
}

/*
 * Carries out a decision, of which the entropy is apart. Returns a drop reason, LEAVE, or 0
 * with the verdict in p.
 */
static __always_inline int transit_replay(CTX *ctx, struct pkt *p, const struct decision *d,
					  __be16 entropy, __u8 proto)
{
	bool tunnelled = p->inner;
	struct egress_path w;
	__s32 grow;
	int why;

	if (is_csum_partial(ctx, p, proto) || !find_egress_path(ctx, p, d, &w))
		return LEAVE;
	grow = w.front - p->l3;
	if (ctx_grow(ctx, grow))
		return LEAVE;
	p->l3 += grow;
	p->l4 += grow;
	count_rx(d->in, 1, p->frame_len);
	why = change(ctx, p, d, entropy, &w, tunnelled);
	if (why)
		return why;
	p->verdict = bpf_redirect_map(&tx_devmap, w.to->tx_index, XDP_DROP);
	if (p->verdict !=
	    XDP_REDIRECT) /* the kernel removes the entry together with the interface */
		return REASON_DEVMAP_DROP;
	count_tx(d->out, 1, p->frame_len);
	return 0;
}

/* Packets that tc gets without a look into the cache. */
static __always_inline bool is_for_tc(const struct pkt *p)
{
	return !is_ip(p) || mac_is_group(p->key.dmac) || p->arp_nd || p->hidden;
}

static __always_inline int pass(CTX *ctx, struct pkt *p)
{
	struct transit_action *a = NULL;
	struct transit_entry *s;
	__u32 changes;
	__u64 hash;
	int why;

	why = parse(ctx, p);
	if (!why && is_for_tc(p))
		return LEAVE;
	if (!why && p->inner && ecn_drop(p))
		why = REASON_ECN_MARKED;
	if (why)
		return why;
	hash = hash_of(&p->key);
	s = transit_find(p, hash, &a);
	if (!s) {
		changes = global_get(GLOBAL_GENERATION);
		why = slow_path(ctx, p);
		if (why)
			return has_icmp_error(why) ? LEAVE : why;
		if (!passes_through(&p->decision))
			return LEAVE;
		s = transit_insert(p, hash, changes, &a);
	}
	if (s && a) {
		p->in = a->decision.in;
		p->segment = a->decision.segment;
		p->cached = true;
	}
	p->decided = true;
	why = transit_replay(ctx, p, s && a ? &a->decision : &p->decision, entropy_from(hash),
			     p->key.proto);
	if (why == LEAVE)
		return why;
	if (s && a && (why || is_monitored())) /* an event tells of it */
		take_decision(p, s, a, hash);
	if (why)
		return why;
	count(EVENT_TRANSIT);
	monitor_forwarded(ctx, p);
	if (s)
		count_flow(s, p->frame_len);
	return 0;
}

/* Any packet, through all stages. */
SUBPROGRAM int take_all_stages(CTX *ctx)
{
	struct pkt *p = packet(ctx);
	int why = NOT_OURS;

	if (!p)
		return XDP_PASS;
	monitor_original(ctx, p);
	if (this_flags & DEVICE_UNDERLAY && is_for_this_mac(ctx))
		why = parse_outer(ctx, p);
	if (p->outer_csum)
		return XDP_PASS;
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

#define FAST_DROP -2 /* not a verdict: drop_fast() drops the packet */

/*
 * Prepares a drop: the flow's key tells what struct pkt has of packets that take the stages. The
 * stack has no room for more beneath the fast path.
 */
static __always_inline int fast_dropped(CTX *ctx, const struct transit_entry *s,
					const struct transit_action *a, __u64 hash, int why)
{
	struct pkt *p = packet(ctx);

	if (!p)
		return XDP_DROP;
	p->key.origin = a->origin;
	p->key.vni = a->vni;
	p->key.tags[0] = a->tags[0];
	p->key.tags[1] = a->tags[1];
	copy16(p->key.dmac, a->dmac, ETH_ALEN);
	copy16(p->key.smac, a->smac, ETH_ALEN);
	p->key.ethertype = s->ethertype;
	p->key.proto = s->proto;
	p->key.fragment = s->fragment;
	p->key.saddr = s->saddr;
	p->key.daddr = s->daddr;
	p->key.sport = s->sport;
	p->key.dport = s->dport;
	take_decision(p, s, a, hash);
	p->in = p->decision.in;
	p->segment = p->decision.segment;
	p->decided = p->cached = true;
	p->verdict = why;
	return FAST_DROP;
}

SUBPROGRAM int drop_fast(CTX *ctx)
{
	__u32 zero = 0;
	struct pkt *p = bpf_map_lookup_elem(&current, &zero);

	return p ? drop(ctx, p, p->verdict) : XDP_DROP;
}

/* A simple packet whose flow is cached. LEAVE: it must take all stages. */
SUBPROGRAM int take_fast_path(CTX *ctx)
{
	struct transit_table *t = flow_cache ? transit_table() : NULL;
	struct transit_action *a = NULL;
	struct transit_entry *s;
	struct pkt p;
	__u64 hash;
	int why;

	if (!t || is_monitored()) /* the stages tell of it */
		return LEAVE;
	s = fast_find(ctx, &p, t, &hash, &a);
	if (!s || !a)
		return LEAVE;
	why = transit_replay(ctx, &p, &a->decision, entropy_from(hash), s->proto);
	if (why == LEAVE)
		return LEAVE;
	if (why)
		return fast_dropped(ctx, s, a, hash, why);
	t->fast++;
	count_flow(s, p.frame_len);
	return p.verdict;
}

static __always_inline int forward(CTX *ctx)
{
	int verdict = take_fast_path(ctx);

	if (verdict == FAST_DROP)
		return drop_fast(ctx);
	return verdict == LEAVE ? take_all_stages(ctx) : verdict;
}

SEC("xdp.frags")
int transit(CTX *ctx)
{
	return forward(ctx);
}

/* Reads the tag from the metadata (Linux 6.8), in programs that are bound to their device. */
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *proto, __u16 *tci) __ksym;

/* The same for devices that move tags into the metadata. tc gets such frames, and sees the tag. */
SEC("xdp.frags")
int transit_asking(CTX *ctx)
{
	__be16 proto;
	__u16 tci;

	return bpf_xdp_metadata_rx_vlan_tag(ctx, &proto, &tci) == 0 ? XDP_PASS : forward(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

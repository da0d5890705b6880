// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The edge's data plane. Each stage is a header of its own; this is their order. */
#include "parse.h"
#include "guard.h"
#include "switch.h"
#include "flow.h"
#include "transmit.h"

/* The slow path: it only decides. */
static __always_inline int resolve(struct pkt *p, struct flow *f)
{
	struct segment *seg;
	int why;

	why = guard(p);
	if (why)
		return why;
	seg = bpf_map_lookup_elem(&segments, &p->segment);
	if (!seg)
		return REASON_UNKNOWN_VNI;
	why = learn(p, seg);
	if (why)
		return why;
	why = decide(p, seg, f);
	if (why)
		return why;
	if (!flow_cache && !f->slow)
		f->slow = SLOW_CACHE_OFF;
	f->entropy = entropy_of(&p->key);
	f->packets = packets_of(p);
	f->bytes = p->frame_len;
	flow_keep(p, f);
	return 0;
}

/* Most packets have their headers in the linear part; the others are parsed again. */
static __always_inline int parse_all(struct pkt *p)
{
	int why = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < 2; i++) {
		why = parse(p);
		if (!why || !ctx_pull_headers(p->skb, CTX_HEADERS))
			break;
	}
	return why;
}

static __always_inline int edge(struct pkt *p)
{
	struct flow fresh = {};
	struct flow *f;
	int why, verdict;
	__u32 end;

	why = parse_all(p);
	if (why)
		return drop(p, why);
	f = flow_find(p);
	if (f) {
		if (p->inner && overtook(p, f))
			return bpf_redirect(p->skb->ifindex, BPF_F_INGRESS);
		count(EVENT_HIT);
		p->polled = p->inner && f->action == ACTION_PORT && in_burst(p, f);
		p->in = f->in;
		f->packets += packets_of(p);
		f->bytes += p->frame_len;
		f->seen_ns = p->now_ns;
		end = seq_end(p);
		verdict = replay(p, f);
		went(p, f, end);
		return verdict;
	}
	why = resolve(p, &fresh);
	if (why)
		return drop(p, why);
	return replay(p, &fresh);
}

SEC("tcx/ingress")
int from_port(struct __sk_buff *skb)
{
	struct pkt p = { .skb = skb, .now_ns = bpf_ktime_get_coarse_ns() };

	p.key.origin.w[3] = skb->ifindex;
	if (skb->vlan_present)
		return drop(&p, REASON_VLAN_TAGGED);
	return edge(&p);
}

SEC("tcx/ingress")
int from_underlay(struct __sk_buff *skb)
{
	struct pkt p = { .skb = skb, .now_ns = bpf_ktime_get_coarse_ns() };
	int why;

	if (skb->pkt_type != PACKET_HOST || skb->vlan_present)
		return TCX_NEXT;
	ctx_pull_headers(skb, CTX_OUTER);
	why = parse_outer(&p);
	if (why == NOT_OURS) {
		count(EVENT_NOT_TUNNEL);
		return TCX_NEXT;
	}
	return why ? drop(&p, why) : edge(&p);
}

/* What came back from the coalescer: decided already, its port is in the mark. */
SEC("tcx/ingress")
int from_coalescer(struct __sk_buff *skb)
{
	struct pkt p = { .skb = skb };
	struct end *to = end_get(skb->mark);

	if (!skb->vlan_present || !to || to->kind != END_PORT)
		return drop(&p, REASON_UNKNOWN_PORT);
	skb->mark = 0;
	if (bpf_skb_vlan_pop(skb))
		return drop(&p, REASON_NO_ROOM);
	return deliver(to, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

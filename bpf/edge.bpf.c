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
	f->entropy = entropy_of(&p->key);
	f->packets = packets_of(p);
	f->bytes = p->frame_len;
	flow_keep(p, f);
	return 0;
}

static __always_inline int edge(struct pkt *p)
{
	struct flow fresh = {};
	struct flow *f;
	int why, verdict;
	__u32 end;

	why = parse(p);
	if (why)
		return drop(p, why);
	f = flow_find(p);
	if (f) {
		if (p->inner && overtook(p, f))
			return bpf_redirect(p->skb->ifindex, BPF_F_INGRESS);
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
	ctx_linear(skb);
	return edge(&p);
}

SEC("tcx/ingress")
int from_underlay(struct __sk_buff *skb)
{
	struct pkt p = { .skb = skb, .now_ns = bpf_ktime_get_coarse_ns() };
	int why;

	if (skb->pkt_type != PACKET_HOST || skb->vlan_present)
		return TCX_NEXT;
	ctx_linear(skb);
	why = parse_outer(&p);
	if (why == NOT_OURS) {
		count(EVENT_NOT_TUNNEL);
		return TCX_NEXT;
	}
	return why ? drop(&p, why) : edge(&p);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

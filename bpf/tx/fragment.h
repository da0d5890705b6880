/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * fragment: a routed IPv4 packet that does not fit its egress leaves in fragments, if its DF bit
 * is clear (RFC 791 3.2, RFC 1812 5.2.6). Firewall and NAT have seen the whole packet. It is
 * copied into a work map, and written again piece by piece.
 *
 * in:    p as modified, its decision, p->path
 * out:   the fragments on an interface; p->verdict
 * maps:  vports, segments, traffic
 * stops: TOO_BIG, NO_HEADROOM, NO_UNDERLAY_ROUTE, NEXTHOP_UNRESOLVED, NO_CSUM, REDIRECT_FAILED
 */
#pragma once

#include "l2/flood.h"
#include "tx/fragment_copy.h"

#define FRAGMENTS_MAX 256 /* of one packet */
#define MTU_MIN 68	  /* RFC 791 3.2 */

static __always_inline __u32 ip_len(const struct pkt *p)
{
	return p->headers + p->payload - sizeof(struct ethhdr);
}

/*
 * Whether a packet that is too big may be fragmented. A large segment is not one packet, and
 * only its sender may cut SCTP, whose checksum may be left to a device.
 */
static __always_inline bool may_fragment(CTX *ctx, const struct pkt *p, const struct decision *d)
{
	if (!(d->flags & FLOW_ROUTED) || p->key.ethertype != bpf_htons(ETH_P_IP) || p->df ||
	    is_gso(ctx) || (d->action != ACTION_PORT && d->action != ACTION_TUNNEL))
		return false;
	return p->path >= MTU_MIN && ip_len(p) <= FRAGMENTED_MAX &&
	       (p->key.proto != IPPROTO_SCTP || p->key.fragment);
}

/* Sets what differs between the IP headers of fragments. n: bytes of payload. */
static __always_inline void write_fragment_header(const struct fragment_work *w, struct iphdr *ip,
						  __u32 ihl, __u32 n)
{
	__u16 offset = w->whole + w->at / 8; /* with MF, if the packet has it */

	if (w->at + n < w->len)
		offset |= IP_MF;
	ip->frag_off = bpf_htons(offset);
	ip->tot_len = bpf_htons(ihl + n);
	ip->check = 0;
	ip->check = fold(bpf_csum_diff(NULL, 0, (void *)ip, ihl, 0));
}

/* Writes the fragment into the frame, which the previous one has left at its length or longer. */
static __always_inline int write_fragment(struct fragmenter *f, __u32 n)
{
	struct fragment_work *w = f->work;
	__u32 at = w->at, off = w->front + sizeof(struct ethhdr), ihl = w->ihl;
	__s32 diff = w->front + sizeof(struct ethhdr) + ihl + n - f->ctx->len;
	__u8 *header = at ? w->other : w->first;

	barrier_var(at); /* the verifier wants the bounds tested of these very values */
	barrier_var(n);
	barrier_var(ihl);
	if (at > FRAGMENTED_MAX || !within(n, 1, FRAGMENTED_MAX) ||
	    !within(ihl, sizeof(struct iphdr), IHL_MAX))
		return REASON_TOO_BIG;
	if (diff && ctx_stretch(f->ctx, diff))
		return REASON_NO_HEADROOM;
	write_fragment_header(w, (void *)header, ihl, n);
	if (bpf_skb_store_bytes(f->ctx, off, header, ihl, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(f->ctx, off + ihl, w->payload + at, n, BPF_F_RECOMPUTE_CSUM))
		return REASON_NO_HEADROOM;
	return 0;
}

/* Sends a clone: the frame is the next fragment's. */
static __always_inline int send_fragment(struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	struct segment *seg = segment_get(w->segment);
	struct vport *to = vport_get(w->out);
	__u32 ifindex;
	int why = 0;

	if (!to || !seg)
		return REASON_NO_UNDERLAY_ROUTE;
	ifindex = to->ifindex;
	if (to->kind == VPORT_TEP) {
		why = tep_device(seg, to, &ifindex);
		if (!why)
			why = encap(f->ctx, f->p, w->out, w->segment, w->how);
		w->how |= ENCAP_REUSE;
		w->front = f->ctx->len - f->p->frame_len;
	}
	if (!why && !tracing && bpf_clone_redirect(f->ctx, ifindex, 0))
		why = REASON_REDIRECT_FAILED;
	if (why)
		return why;
	monitor_copy(f->ctx, f->p, w->out);
	count_tx(w->out, 1, f->p->frame_len);
	return 0;
}

static long next_fragment(__u64 index __attribute__((unused)), struct fragmenter *f)
{
	struct fragment_work *w = f->work;
	__u32 n = w->len - w->at;

	if (n > w->step)
		n = w->step;
	f->p->frame_len = sizeof(struct ethhdr) + w->ihl + n;
	w->why = write_fragment(f, n);
	if (!w->why)
		w->why = send_fragment(f);
	w->at += n;
	return w->why || w->at >= w->len;
}

/* Sends the packet, which may_fragment(), in fragments of p->path bytes at most. */
SUBPROGRAM int fragment(CTX *ctx, struct pkt *p)
{
	struct fragment_work *w = fragment_work();
	struct fragmenter f = { .ctx = ctx, .p = p, .work = w };
	struct vport *to = p ? vport_get(p->decision.out) : NULL;
	int why;

	if (!p || !w || !to)
		return REASON_NO_HEADROOM;
	w->out = p->decision.out;
	w->segment = p->decision.to_segment;
	w->how = p->decision.entropy;
	w->ihl = p->l4 - p->l3;
	w->len = ip_len(p) - w->ihl;
	w->step = (p->path - w->ihl) & ~7U;
	w->at = w->front = w->why = 0;
	if (!w->step || w->len / w->step >= FRAGMENTS_MAX)
		return REASON_TOO_BIG;
	why = p->inner ? decap(ctx, p) : 0;
	if (!why)
		why = load_packet(&f);
	if (why)
		return why;
	w->whole = bpf_ntohs(((struct iphdr *)w->first)->frag_off);
	if ((w->whole & IP_OFFSET) + w->len / 8 > IP_OFFSET)
		return REASON_TOO_BIG;
	if (ctx_renew(ctx, p->l4, sizeof(struct ethhdr) + w->ihl + w->step))
		return REASON_NO_HEADROOM;
	if (to->kind == VPORT_PORT)
		why = tag_for_port(ctx, p, to);
	if (why)
		return why;
	step(p, STAGE_FRAGMENT, w->len, w->step);
	bpf_loop(FRAGMENTS_MAX, next_fragment, &f, 0);
	if (!w->why)
		count(EVENT_FRAGMENTED);
	p->verdict = TCX_DROP; /* the original; its fragments are sent */
	return w->why;
}

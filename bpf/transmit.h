/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * transmit: carries out a decision. Fresh and cached ones run this same code.
 *
 * in:    p, struct flow
 * out:   the packet, or its copies, on an interface
 * maps:  ends, segments, members, traffic
 * stops: TOO_BIG, NO_ROUTE, UNRESOLVED, NO_ROOM, GSO_NESTED, GSO_UDP, NO_CSUM, NO_MEMBER, REDIRECT
 */
#pragma once

#include "coalesce.h"
#include "encap.h"

/* A peer takes the packet as it is; what is not IP needs a device to read its ethertype. */
static __always_inline int deliver(struct end *to, bool ip)
{
	if (to->flags & END_PEER && ip)
		return bpf_redirect_peer(to->ifindex, 0);
	return bpf_redirect(to->ifindex, 0);
}

static __always_inline int to_port(struct pkt *p, struct end *to, __u32 id)
{
	__u32 packets = packets_of(p);
	int why;

	/* The tunnel's marks stay on a segment, and the kernel would cut by them. TCP is not cut. */
	if (p->inner && is_gso(p) && p->key.proto == IPPROTO_UDP)
		return drop(p, REASON_GSO_UDP);
	if (p->inner) {
		why = decap(p);
		if (why)
			return drop(p, why);
	}
	if (!fits(p, to->mtu, 0))
		return drop(p, REASON_TOO_BIG);
	count_tx(id, packets, p->frame_len);
	return p->polled ? coalesce(p, id, to->segment) : deliver(to, is_ip(p));
}

static __always_inline int to_tep(struct pkt *p, struct end *to, __u32 id, struct segment *seg,
				  __be16 entropy)
{
	__u32 packets = packets_of(p);
	int why;

	if (!to->ifindex)
		return drop(p, REASON_NO_ROUTE);
	if (seg->flags & SEGMENT_UDP_CSUM) {
		why = encap_by_kernel(p, to, seg);
		if (why)
			return drop(p, why);
		count_tx(id, packets, p->frame_len);
		return bpf_redirect(seg->csum_ifindex, 0);
	}
	why = encap(p, to, seg, entropy);
	if (why)
		return drop(p, why);
	count_tx(id, packets, p->frame_len);
	if (to->flags & END_RESOLVED)
		return bpf_redirect(to->ifindex, 0);
	count(EVENT_NEIGH_FALLBACK);
	return bpf_redirect_neigh(to->ifindex, NULL, 0, 0);
}

struct flood {
	struct pkt *p;
	struct segment *seg;
	__u32 segment;
	bool tried;
	bool copies;
	__be16 entropy;
	bool from_tunnel;
	bool encapsulated;
};

static __always_inline int flood_to_tep(struct flood *fl, struct end *to)
{
	int why;

	if (!to->ifindex)
		return REASON_NO_ROUTE;
	if (fl->seg->flags & SEGMENT_UDP_CSUM)
		return encap_by_kernel(fl->p, to, fl->seg);
	if (!(to->flags & END_RESOLVED))
		return REASON_UNRESOLVED;
	if (fl->encapsulated)
		return write_outer(fl->p, to, fl->seg, fl->entropy);
	why = encap(fl->p, to, fl->seg, fl->entropy);
	fl->encapsulated = !why;
	return why;
}

/* One member; ports come first, so the frame is wrapped once and rewritten from remote to remote. */
static long flood_member(__u64 index, struct flood *fl)
{
	struct member_key key = { .segment = fl->segment, .index = index };
	__u32 *id = bpf_map_lookup_elem(&members, &key);
	struct pkt *p = fl->p;
	struct end *to;
	__u32 ifindex;
	int why = 0;

	if (!id || *id == p->in)
		return 0;
	to = end_get(*id);
	if (!to)
		return 0;
	ifindex = to->ifindex;
	if (to->kind == END_TEP) {
		if (fl->seg->flags & SEGMENT_UDP_CSUM)
			ifindex = fl->seg->csum_ifindex;
		if (fl->from_tunnel) /* split horizon: the sender replicates to every remote itself */
			return 1;
		why = flood_to_tep(fl, to);
	} else if (to->kind != END_PORT) {
		return 0;
	} else if (!fits(p, to->mtu, 0)) {
		why = REASON_TOO_BIG;
	}
	fl->tried = true;
	if (!why && bpf_clone_redirect(p->skb, ifindex, 0))
		why = REASON_REDIRECT;
	if (why) {
		drop(p, why);
		return 0;
	}
	count_tx(*id, packets_of(p), p->frame_len);
	count(EVENT_FLOOD_COPY);
	fl->copies = true;
	return 0;
}

static __always_inline int flood(struct pkt *p, struct segment *seg, __u32 segment, __be16 entropy)
{
	struct flood fl = {
		.p = p,
		.seg = seg,
		.segment = segment,
		.entropy = entropy,
		.from_tunnel = p->inner != 0,
	};
	__u32 n = seg->members;
	int why;

	if (n > MAX_MEMBERS)
		n = MAX_MEMBERS;
	if (p->inner) {
		why = decap(p);
		if (why)
			return drop(p, why);
	}
	bpf_loop(n, flood_member, &fl, 0);
	if (!fl.tried)
		return drop(p, REASON_NO_MEMBER);
	if (fl.copies)
		count(EVENT_FLOODED);
	return TCX_DROP; /* the original; its copies are on their way */
}

static __always_inline int replay(struct pkt *p, struct flow *f)
{
	__u32 out = f->out, segment = f->segment;
	__be16 entropy = f->entropy;
	enum action action = f->action;
	struct segment *seg;
	struct end *to;

	count_rx(p->in, packets_of(p), p->frame_len);
	seg = bpf_map_lookup_elem(&segments, &segment);
	if (!seg)
		return drop(p, REASON_UNKNOWN_VNI);
	if (action == ACTION_FLOOD)
		return flood(p, seg, segment, entropy);
	to = end_get(out);
	if (!to)
		return drop(p, REASON_NO_ROUTE);
	if (action == ACTION_PORT)
		return to_port(p, to, out);
	return to_tep(p, to, out, seg, entropy);
}

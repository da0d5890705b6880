/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * flood: replicates a frame to all members of a segment: broadcast, unknown unicast and
 * multicast, and neighbour requests of the edge (ingress replication).
 *
 * in:    p, the segment
 * out:   copies of the packet on interfaces
 * maps:  segments, members, vports, traffic
 * stops: TOO_BIG, NO_MEMBER; for a copy: those of the firewall, NO_UNDERLAY_ROUTE, NEXTHOP_UNRESOLVED, NO_HEADROOM,
 *        GSO_NESTED, NO_CSUM, REDIRECT_FAILED
 */
#pragma once

#include "firewall/firewall.h"
#include "tunnel/headroom.h"
#include "tunnel/multipath.h"

struct flood {
	CTX *ctx;
	struct pkt *p;
	__u32 segment;
	__u32 how;    /* entropy and ENCAP_REUSE */
	__u32 except; /* vport that gets no copy */
	bool tried;
	bool copies;
	bool too_big; /* for a member */
	bool from_tunnel;
	bool own; /* the frame is the edge's own */
};

/* The interface by which a clone leaves for a remote. It needs the next hop's MAC address. */
static __always_inline int tep_device(const struct segment *seg, const struct vport *to,
				      __u32 *ifindex)
{
	*ifindex = to->ifindex;
	if (seg->flags & SEGMENT_UDP_CSUM)
		*ifindex = seg->csum_ifindex;
	else if (to->ifindex && !(to->flags & VPORT_RESOLVED))
		return REASON_NEXTHOP_UNRESOLVED;
	return 0;
}

static __always_inline int flood_to_tep(struct flood *fl, __u32 *id, __u32 *ifindex)
{
	struct segment *seg = segment_get(fl->segment);
	struct vport *to;
	int why;

	if (!seg)
		return REASON_NO_UNDERLAY_ROUTE;
	*id = select_path(fl->p, seg, *id);
	to = vport_get(*id);
	if (!to)
		return REASON_NO_UNDERLAY_ROUTE;
	why = tep_device(seg, to, ifindex);
	if (why)
		return why;
	why = encap(fl->ctx, fl->p, *id, fl->segment, fl->how);
	if (!why)
		fl->how |= ENCAP_REUSE;
	return why;
}

static __always_inline int flood_to_port(CTX *ctx, struct pkt *p, struct vport *to)
{
	p->path = to->mtu;
	if (!fits(ctx, p, to->mtu))
		return REASON_TOO_BIG;
	return tag_for_port(ctx, p, to);
}

static __always_inline void flood_sent(struct flood *fl, __u32 id, int why)
{
	fl->tried = true;
	step(fl->p, STAGE_FLOOD, id, why);
	if (why == REASON_TOO_BIG) {
		fl->too_big = true; /* counted once */
		return;
	}
	if (why) {
		drop(fl->ctx, fl->p, why);
		return;
	}
	monitor_copy(fl->ctx, fl->p, id);
	count_tx(id, packets_of(fl->ctx, fl->p), fl->p->frame_len);
	count(EVENT_FLOOD_COPY);
	fl->copies = true;
}

/* One member. Ports come first, so the frame is encapsulated once and rewritten for each remote. */
static long flood_member(__u64 index, struct flood *fl)
{
	struct member_key key = { .segment = fl->segment, .index = index };
	__u32 *member = bpf_map_lookup_elem(&members, &key);
	__u32 ifindex, id;
	struct vport *to;
	int why = 0;

	if (!member || *member == fl->except)
		return 0;
	id = *member;
	to = vport_get(id);
	if (!to || to->kind == VPORT_NONE || to->flags & VPORT_LOOP)
		return 0;
	if (to->kind == VPORT_PORT && to->flags & VPORT_DOWN)
		return 0;
	ifindex = to->ifindex;
	if (to->kind == VPORT_TEP) {
		if (fl->from_tunnel) /* split horizon: the sender replicates to every remote itself */
			return 1;
		why = flood_to_tep(fl, &id, &ifindex);
	} else {
		if (!fl->own)
			why = firewall_copy(fl->ctx, fl->p, to, id);
		if (!why)
			why = flood_to_port(fl->ctx, fl->p, to);
	}
	if (!why && !tracing && bpf_clone_redirect(fl->ctx, ifindex, 0))
		why = REASON_REDIRECT_FAILED;
	flood_sent(fl, id, why);
	return clear_tags(fl->ctx); /* in the outer headers of a tunnel there are none */
}

#define FLOOD_FROM_TUNNEL 0x20000
#define FLOOD_TO_ALL 0x40000

/* Replicates to all members but the ingress, or to all. how: entropy and FLOOD_ flags. */
SUBPROGRAM int flood(CTX *ctx, struct pkt *p, __u32 segment, __u32 how)
{
	struct segment *seg = segment_get(segment);
	struct flood fl = { .ctx = ctx, .p = p, .segment = segment };
	__u32 n;
	int why;

	if (!p || !seg)
		return REASON_NO_MEMBER;
	fl.how = how & 0xffff;
	fl.from_tunnel = how & FLOOD_FROM_TUNNEL;
	fl.own = how & FLOOD_TO_ALL;
	fl.except = fl.own ? 0 : p->in;
	n = seg->members;
	if (n > MAX_MEMBERS)
		n = MAX_MEMBERS;
	why = p->inner ? decap(ctx, p) : 0;
	if (why)
		return why;
	/* The firewall of each copy counts it alone, whatever the flow has not reported. */
	p->unreported = (struct counter){};
	p->has_flow_seq = false;
	bpf_loop(n, flood_member, &fl, 0);
	if (!fl.tried)
		return REASON_NO_MEMBER;
	if (fl.too_big && !fl.copies)
		return REASON_TOO_BIG; /* its sender gets an ICMP error */
	if (fl.too_big)
		drop(ctx, p, REASON_TOO_BIG);
	if (fl.copies)
		count(EVENT_FLOODED);
	p->verdict = TCX_DROP; /* the original; its copies are sent */
	return 0;
}

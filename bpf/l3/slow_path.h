/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * slow_path: from the source guard to the egress vport.
 *
 * in:    p as parsed
 * out:   p->decision, p->in, p->segment (0: the packet belongs to the host)
 * maps:  those of the stages
 * stops: NEW_FLOW_LIMIT, PORT_DOWN, and those of the stages
 */
#pragma once

#include "cache/flow_cache.h"
#include "l2/loop.h"
#include "l2/port_guard.h"
#include "l3/route.h"
#include "tunnel/multipath.h"
#include "core/parse.h"

/* At an uplink, all but frames for the gateway, and ARP and ND of others, belong to the host. */
static __always_inline bool is_for_host(struct pkt *p, struct segment *seg, struct vport *in)
{
	if (!(in->flags & VPORT_UPLINK))
		return false;
	if (p->arp_nd)
		return mac_equal(p->key.smac, seg->gateway_mac);
	return !mac_equal(p->key.dmac, seg->gateway_mac);
}

/* A probe, by which a remote tests its tunnel to this edge. */
static __always_inline bool is_probe(const struct pkt *p)
{
	const __u16 *w = (const __u16 *)p->key.dmac;

	return p->key.vni && probe_mac[0] && w[0] == probe_mac[0] && w[1] == probe_mac[1] &&
	       w[2] == probe_mac[2];
}

/* The outermost of the tags that stay has VLAN ID 0: hosts would take the frame as untagged. */
static __always_inline bool keeps_priority_tag(const struct pkt *p, enum flow_flags flags)
{
	__be32 tag = p->key.tags[flags & FLOW_TAG ? 1 : 0];

	return tag && !(tag & bpf_htonl(VLAN_VID));
}

static __always_inline int dispatch(CTX *ctx, struct pkt *p, struct segment *seg, struct vport *in,
				    struct decision *d)
{
	int why;

	if (is_for_host(p, seg, in)) {
		depends_on(d, seg, p->key.dmac);
		d->action = ACTION_HOST;
		return 0;
	}
	if (is_probe(p))
		return reply_to_echo(p, d) ? 0 : local_deliver(d);
	if (keeps_priority_tag(p, d->flags))
		return REASON_VLAN_TAGGED;
	if (is_loop_probe(p)) {
		why = loop_probe_returned(ctx, p);
		return why ? why : bridge(p, seg, d);
	}
	why = port_guard(ctx, p, seg, in, d);
	if (!why && in->flags & VPORT_LOOP && mac_is_group(p->key.dmac))
		why = REASON_LOOP;
	if (!why && !(in->flags & VPORT_LOOP))
		why = fdb_learn(p, seg);
	if (why)
		return why;
	/* Frames with tags of their own are bridged only. */
	if (kept_tags(p, d->flags))
		return bridge(p, seg, d);
	if (p->arp_nd)
		return IN_XDP ? NOT_OURS : neighbour(ctx, p, seg, in, d);
	if (seg->router && mac_equal(p->key.dmac, seg->gateway_mac))
		return route(ctx, p, seg, d);
	return seg->flags & SEGMENT_L3 ? REASON_NOT_ROUTED : bridge(p, seg, d);
}

/*
 * A port whose link is down gets nothing, since the kernel would drop it silently. Cached decisions
 * for it are invalid, so that packets are counted here.
 */
static __always_inline bool is_port_down(const struct decision *d)
{
	struct vport *out = d->action == ACTION_PORT ? vport_get(d->out) : NULL;

	return out && out->flags & VPORT_DOWN;
}

/* Takes the decision: fills p->decision and changes nothing else. */
static __always_inline int decide(CTX *ctx, struct pkt *p)
{
	struct decision *d = &p->decision;
	struct segment *seg, *to;
	struct vport *in;
	int why;

	__builtin_memset(d, 0, sizeof(*d));
	why = source_guard(p, d);
	if (why == NOT_OURS) {
		d->action = ACTION_HOST;
		d->slow = SLOW_HOST;
		p->segment = 0;
		return 0;
	}
	if (why)
		return why;
	if (p->new_flow && rate_exceeded(p, owner_of(p), RATE_NEW_FLOWS))
		return REASON_NEW_FLOW_LIMIT;
	seg = segment_get(p->segment);
	in = vport_get(p->in);
	if (!seg || !in)
		return REASON_UNKNOWN_VNI;
	d->segment = d->to_segment = p->segment;
	/* Generations are read first, so that a concurrent change invalidates the decision. */
	d->generation = generation_of(seg, p->key.smac);
	d->in = p->in;
	why = dispatch(ctx, p, seg, in, d);
	if (!why && d->action == ACTION_FLOOD && in->flags & VPORT_LOOP)
		why = REASON_LOOP;
	if (!why && is_port_down(d))
		why = REASON_PORT_DOWN;
	if (why)
		return why;
	if (d->action == ACTION_TUNNEL) {
		to = segment_get(d->to_segment);
		if (to)
			d->out = select_path(p, to, d->out);
	}
	if (!flow_cache && !d->slow)
		d->slow = SLOW_CACHE_OFF;
	d->entropy = entropy_of(&p->key);
	return 0;
}

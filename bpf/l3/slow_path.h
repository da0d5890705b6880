/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * resolve: the slow path, from the guard to the way out.
 *
 * in:    p as parsed
 * out:   p->decision, p->in, p->segment (0: the packet is the host's)
 * maps:  those of the stages
 * stops: what the stages stop
 */
#pragma once

#include "cache/flow_cache.h"
#include "l2/neighbour.h"
#include "core/parse.h"

/* What an uplink leaves to the host: all but frames for the gateway, and others' ARP and ND. */
static __always_inline bool is_hosts(struct pkt *p, struct segment *seg, struct end *in)
{
	if (!(in->flags & END_UPLINK))
		return false;
	if (is_neighbour_talk(p))
		return mac_equal(p->key.smac, seg->gateway_mac);
	return !mac_equal(p->key.dmac, seg->gateway_mac);
}

/* For the edge itself, by which others prove that their tunnel to it carries packets. */
static __always_inline bool is_probe(const struct pkt *p)
{
	const __u16 *w = (const __u16 *)p->key.dmac;

	return p->key.vni && probe_mac[0] && w[0] == probe_mac[0] && w[1] == probe_mac[1] &&
	       w[2] == probe_mac[2];
}

static __always_inline int choose(CTX *ctx, struct pkt *p, struct segment *seg, struct end *in,
				  struct decision *d)
{
	int why;

	if (is_hosts(p, seg, in)) {
		depend_on(d, seg, p->key.dmac);
		d->action = ACTION_HOST;
		return 0;
	}
	if (is_probe(p))
		return answers_echo(p, d) ? 0 : consume(d);
	why = learn(p, seg);
	if (why)
		return why;
	/* What has tags inside is of other networks, which the segment only carries. */
	if (kept_tags(p, d->flags))
		return bridge(p, seg, d);
	if (is_neighbour_talk(p))
		return neighbour(ctx, p, seg, in, d);
	if (seg->router && mac_equal(p->key.dmac, seg->gateway_mac))
		return route(p, seg, d);
	return seg->flags & SEGMENT_L3 ? REASON_NOT_ROUTED : bridge(p, seg, d);
}

/* The slow path: it only decides, into p->decision. */
static __always_inline int decide(CTX *ctx, struct pkt *p)
{
	struct decision *d = &p->decision;
	struct segment *seg, *to;
	struct end *in;
	int why;

	__builtin_memset(d, 0, sizeof(*d));
	why = guard(p, d);
	if (why == NOT_OURS) {
		d->action = ACTION_HOST;
		d->slow = SLOW_HOST;
		p->segment = 0;
		return 0;
	}
	if (why)
		return why;
	seg = segment_get(p->segment);
	in = end_get(p->in);
	if (!seg || !in)
		return REASON_UNKNOWN_VNI;
	d->segment = d->to_segment = p->segment;
	/* Generations are read before what they are of: a change meanwhile outdates the decision. */
	d->generation = generation_of(seg, p->key.smac);
	d->in = p->in;
	why = choose(ctx, p, seg, in, d);
	if (why)
		return why;
	if (d->action == ACTION_TUNNEL) {
		to = segment_get(d->to_segment);
		if (to)
			d->out = spread_to(p, to, d->out);
	}
	if (!flow_cache && !d->slow)
		d->slow = SLOW_CACHE_OFF;
	d->entropy = entropy_of(&p->key);
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * storm_control: limits the frames that a port and a segment have flooded in a second:
 * broadcast, multicast and unknown unicast apart. The port's own rate comes first. Half of the
 * segment's rate is divided among its members, so that no member takes another's part; for the
 * rest they compete. Frames out of tunnels are charged to the segment: all tenants behind a
 * remote share it.
 *
 * in:    p, the segment to flood
 * out:   tokens taken
 * maps:  owner_limits, owner_usages, segments
 * stops: STORM_CONTROL
 */
#pragma once

#include "core/limits.h"

static __always_inline enum limited_rate storm_rate(const struct pkt *p)
{
	const __u16 *to = (const __u16 *)p->key.dmac;

	if (!mac_is_group(p->key.dmac))
		return RATE_UNKNOWN_UNICAST;
	return (to[0] & to[1] & to[2]) == 0xffff ? RATE_BROADCAST : RATE_MULTICAST;
}

/* Whether the sender has left some of its own part of the segment's rate. */
static __always_inline bool take_share(struct pkt *p, const struct segment *seg,
				       enum limited_rate rate, __u32 most, __u32 n)
{
	__u32 share = most / (2 * seg->members + 2) + 1;
	struct limit_usage *u = usage_of(p->in);

	return u && take_tokens(&u->shares[rate], p->now_ns, share, share, n);
}

SUBPROGRAM int storm_control(CTX *ctx, struct pkt *p, __u32 segment)
{
	struct limits *l = limits_of(SEGMENT_OWNER + segment);
	struct segment *seg = segment_get(segment);
	struct limit_usage *u = usage_of(SEGMENT_OWNER + segment);
	enum limited_rate rate;
	__u32 most, n;

	if (!p || !l || !u || !seg || tracing)
		return 0;
	rate = storm_rate(p);
	n = packets_of(ctx, p);
	if (!p->key.vni && packets_exceed(p, p->in, rate, n))
		return REASON_STORM_CONTROL;
	most = l->rates[rate];
	if (!most)
		return 0;
	if (take_share(p, seg, rate, most, n)) {
		/* The others have what is left. */
		take_tokens(&u->buckets[rate], p->now_ns, most, most, n);
		return 0;
	}
	return packets_exceed(p, SEGMENT_OWNER + segment, rate, n) ? REASON_STORM_CONTROL : 0;
}

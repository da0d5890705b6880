/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * host_events: tells user space of hosts that come to ports, and of their addresses. Other
 * edges may know them elsewhere and have to be told. Each port and segment has a rate, and
 * each core; what is above is counted. By the same ring it is told of reports about paths.
 *
 * in:    p->in, p->segment, p->key
 * out:   a struct host_event
 * maps:  host_events, host_works, segments, those of limits
 * stops: nothing
 */
#pragma once

#include "l2/host_limits.h"

#define HOST_EVENT_RATE 10000 /* a second and core */
#define HOST_EVENT_BURST 2048

/*
 * addr: NULL for the MAC address. detail: of an address its neighbour_flags; of a MAC address
 * the vport of the remote where the host was, or 0. frozen: the entry of a MAC address that was
 * frozen now, or NULL. Returns 0.
 */
SUBPROGRAM int host_event_emit(struct pkt *p, const struct addr *addr, __u32 detail,
			       const struct fdb_entry *frozen)
{
	struct segment *seg = p ? segment_get(p->segment) : NULL;
	struct host_event *a = NULL;
	struct host_work *w = host_work();
	struct token_bucket *b = w ? &w->events : NULL;

	if (!p || !seg || seg->encap == ENCAP_NONE || tracing)
		return 0;
	if (rate_exceeded(p, p->in, RATE_HOST_EVENTS) ||
	    rate_exceeded(p, SEGMENT_OWNER + p->segment, RATE_HOST_EVENTS))
		b = NULL;
	if (b && take_token(b, p->now_ns, HOST_EVENT_RATE, HOST_EVENT_BURST))
		a = bpf_ringbuf_reserve(&host_events, sizeof(*a), 0);
	if (!a) {
		count(EVENT_HOST_EVENT_LOST);
		return 0;
	}
	__builtin_memset(a, 0, sizeof(*a));
	if (addr) {
		a->addr = *addr;
		a->flags = detail;
	} else {
		a->from_vport = detail;
	}
	a->segment = p->segment;
	a->vport = p->in;
	copy16(a->mac, p->key.smac, ETH_ALEN);
	if (frozen) {
		a->vport = frozen->vport;
		a->from_vport = frozen->other;
		a->frozen_s = frozen->frozen_s - seconds(p->now_ns);
	}
	bpf_ringbuf_submit(a, 0);
	return 0;
}

/* An ICMP message reported the path of a remote's vport. The caller limits how often. */
static __always_inline void path_report_emit(__u32 vport)
{
	struct host_event *e;

	if (tracing)
		return;
	e = bpf_ringbuf_reserve(&host_events, sizeof(*e), 0);
	if (!e) { /* user space looks by itself, too */
		count(EVENT_HOST_EVENT_LOST);
		return;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->vport = vport;
	e->path_report = 1;
	bpf_ringbuf_submit(e, 0);
}

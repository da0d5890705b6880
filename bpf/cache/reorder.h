/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * reorder: keeps a TCP flow in order where this host reordered it.
 *
 * A sender's packets leave on two cores: from its system calls, and from the softirq that
 * processes acknowledgements. Each core has its own queue between two interfaces, so a later
 * packet may arrive first, and TCP retransmits what was not lost. Steering the flow to one
 * core would avoid that, but then a short request wakes another core. Instead, a packet
 * that is early is queued on this core once more, for at most reorder_timeout_ns, while the
 * other core delivers the missing one.
 *
 * in:    p->seq, p->tcp_flags, a valid decision
 * out:   f->next_seq, f->gap_since
 * maps:  events
 * stops: nothing; a queued packet comes back
 */
#pragma once

#include "core/count.h"

/* The sequence number after the packet. SYN and FIN count (RFC 9293 3.4). */
static __always_inline __u32 seq_end(const struct pkt *p)
{
	return p->seq + p->payload + !!(p->tcp_flags & TCP_SYN) + !!(p->tcp_flags & TCP_FIN);
}

/* Whether an earlier packet of the flow is still missing and may be on another core. */
static __always_inline bool is_reordered(struct pkt *p, struct flow *f)
{
	__u32 now;
	__s32 waited;

	if (!p->tcp_flags || !reorder_timeout_ns || p->tcp_flags & (TCP_SYN | TCP_RST))
		return false;
	if ((__s32)(p->seq - f->next_seq) <= 0)
		return false;
	now = bpf_ktime_get_ns();
	if (!f->gap_since)
		f->gap_since = now | 1;
	/* Clocks of other cores may be a little ahead. Seconds ahead means that the low bits wrapped. */
	waited = now - f->gap_since;
	if (waited < (__s32)reorder_timeout_ns && waited > -1000000) {
		count(EVENT_REORDER_HELD);
		return true;
	}
	count(EVENT_REORDER_TIMEOUT);
	return false;
}

/* Called last, when the packet is sent, so that the next one cannot pass it. */
static __always_inline void advance_seq(const struct pkt *p, struct flow *f, __u32 end)
{
	if (!p->tcp_flags)
		return;
	if ((__s32)(end - f->next_seq) <= 0 && !(p->tcp_flags & (TCP_SYN | TCP_RST)))
		return;
	f->next_seq = end;
	f->gap_since = 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * order: keeps a TCP flow in order where the host, not the network, mixed it up.
 *
 * A sender's packets leave on two cores: from its own system calls and from the
 * softirq that handles the acknowledgements. Each core has its own queue between
 * two interfaces, so the later packet can be here first, and TCP retransmits what
 * was never lost. Steering the flow to one core mends that, but a short request
 * then pays for waking another core. Instead a packet that came early takes
 * another turn through this core's queue, for at most hold_ns, while the other
 * core brings the missing one.
 *
 * in:    p->seq, p->tcp_flags, a valid decision
 * out:   f->next_seq, f->gap_ns
 * maps:  events
 * stops: nothing; a held packet comes back
 */
#pragma once

#include "core/pkt.h"

/* The sequence number behind the packet. SYN and FIN count (RFC 9293 3.4). */
static __always_inline __u32 seq_end(const struct pkt *p)
{
	return p->seq + p->payload + !!(p->tcp_flags & TCP_SYN) + !!(p->tcp_flags & TCP_FIN);
}

/* Whether an earlier packet of the flow is still on its way on another core. */
static __always_inline bool overtook(struct pkt *p, struct flow *f)
{
	__u32 now;
	__s32 waited;

	if (!p->tcp_flags || !hold_ns || p->tcp_flags & (TCP_SYN | TCP_RST))
		return false;
	if ((__s32)(p->seq - f->next_seq) <= 0)
		return false;
	now = bpf_ktime_get_ns();
	if (!f->gap_ns)
		f->gap_ns = now | 1;
	/* Other cores' clocks may be a little ahead; seconds ahead is a time long past. */
	waited = now - f->gap_ns;
	if (waited < (__s32)hold_ns && waited > -1000000) {
		count(EVENT_HELD);
		return true;
	}
	count(EVENT_GAP);
	return false;
}

/* The packet is through: last, so that the next one cannot pass it in here. */
static __always_inline void went(const struct pkt *p, struct flow *f, __u32 end)
{
	if (!p->tcp_flags)
		return;
	if ((__s32)(end - f->next_seq) <= 0 && !(p->tcp_flags & (TCP_SYN | TCP_RST)))
		return;
	f->next_seq = end;
	f->gap_ns = 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * loop: finds loops of a segment. The edge sends a probe out of each port, in the form of a reply
 * of Ethernet's Configuration Testing Protocol, which hosts ignore. One that comes back, at a port
 * or from a remote, proves that something joins the two places. User space cuts a port (VPORT_LOOP)
 * off from floods; its hosts are not learned meanwhile. Probes of other edges are flooded.
 *
 * in:    p, the segment, the vport
 * out:   a host event
 * maps:  host_events, those of limits
 * stops: LOOP
 */
#pragma once

#include "l2/host_events.h"

#define ETH_P_CTP 0x9000
#define CTP_REPLY 0x0100 /* function 1, little-endian on the wire */

struct loop_probe {
	__be16 skip_count;
	__be16 function;
	__be16 receipt;
	__u8 edge[8];
	__u8 token[8]; /* secret of the port: no other port's owner can send in its name */
	__u8 vport[4];
} __attribute__((packed));

static __always_inline bool is_loop_mac(const __u8 *mac)
{
	const __u16 *w = (const __u16 *)mac;

	return w[0] == bpf_htons(0x0353) && w[1] == bpf_htons(0x454c) && w[2] == bpf_htons(0x5647);
}

/* A probe of any edge. */
static __always_inline bool is_loop_probe(const struct pkt *p)
{
	return p->key.ethertype == bpf_htons(ETH_P_CTP) && is_loop_mac(p->key.dmac);
}

/* Tells user space of a probe of this edge. Returns 0: it is another edge's. */
SUBPROGRAM int loop_probe_returned(CTX *ctx, struct pkt *p)
{
	struct loop_probe *probe;
	struct host_event *e;
	__u64 edge;

	if (!p)
		return 0;
	probe = ctx_at(ctx, p->l3, sizeof(*probe));
	if (!probe || probe->function != bpf_htons(CTP_REPLY))
		return 0;
	copy16(&edge, probe->edge, sizeof(edge));
	if (!loop_edge || edge != loop_edge)
		return 0;
	if (tracing || rate_exceeded(p, p->in, RATE_HOST_EVENTS))
		return REASON_LOOP;
	e = bpf_ringbuf_reserve(&host_events, sizeof(*e), 0);
	if (!e)
		return REASON_LOOP;
	__builtin_memset(e, 0, sizeof(*e));
	e->segment = p->segment;
	e->vport = p->in;
	probe = ctx_at(ctx, p->l3, sizeof(*probe));
	if (probe) {
		copy16(&e->loop_token, probe->token, sizeof(e->loop_token));
		copy16(&e->loop_vport, probe->vport, sizeof(e->loop_vport));
	}
	bpf_ringbuf_submit(e, 0);
	return REASON_LOOP;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* count: counts events, drops by reason, and traffic by vport; records the steps of a trace. */
#pragma once

#include "core/monitor.h"

/* Records a step of a trace. internal/datapath/trace.go knows what a and b mean. */
static __always_inline void step(struct pkt *p, enum stage stage, __u32 a, __u32 b)
{
	struct trace_step s = { .stage = stage, .a = a, .b = b };
	__u32 index;

	if (!tracing)
		return;
	index = p->steps++;
	bpf_map_update_elem(&trace, &index, &s, BPF_ANY);
}

static __always_inline void count(enum event event)
{
	__u32 index = event;
	__u64 *n;

	if (tracing)
		return;
	n = bpf_map_lookup_elem(&events, &index);
	if (n)
		*n += 1;
}

static __always_inline __u32 global_get(enum global_counter which)
{
	__u32 index = which, *n = bpf_map_lookup_elem(&global_counters, &index);

	return n ? *n : 0;
}

static __always_inline void counter_add(struct counter *c, __u64 packets, __u64 bytes)
{
	c->packets += packets;
	c->bytes += bytes;
}

/* The counters of a vport; NULL: a trace counts nothing. */
static __always_inline struct vport_counters *traffic_of(__u32 vport)
{
	return tracing ? NULL : bpf_map_lookup_elem(&traffic, &vport);
}

/*
 * Counts a drop by its owner. The map is bounded: what finds no room, and what is dropped before
 * its source is known, is in the total of the reason alone.
 */
SUBPROGRAM int count_owner_drop(__u32 vport, __u32 segment, __u32 why, __u32 bytes)
{
	struct drop_owner key = { .reason = why, .vport = vport, .segment = segment };
	struct counter *c = bpf_map_lookup_elem(&owner_drops, &key);
	struct counter first = {};

	if (!c) {
		bpf_map_update_elem(&owner_drops, &key, &first, BPF_NOEXIST);
		c = bpf_map_lookup_elem(&owner_drops, &key);
	}
	if (c)
		counter_add(c, 1, bytes);
	return 0;
}

/*
 * Finds whose packet it is that was dropped before the source guard told: that of the interface,
 * or of the VNI.
 */
SUBPROGRAM int find_owner(struct pkt *p)
{
	struct port_key port = {};
	struct vni_key vni = {};
	struct vport *in;
	__u32 *id;

	if (!p)
		return 0;
	if (p->key.vni) {
		vni.vni = p->key.vni & 0xffffff;
		vni.udp_port = p->udp_port;
		id = bpf_map_lookup_elem(&vnis, &vni);
		if (id)
			p->segment = *id;
		return 0;
	}
	port.ifindex = p->key.origin.w[3];
	port.vlan = bpf_ntohl(p->key.tags[0]) & VLAN_VID;
	id = bpf_map_lookup_elem(&ports, &port);
	if (!id && port.vlan) {
		port.vlan = 0;
		id = bpf_map_lookup_elem(&ports, &port);
	}
	in = id ? vport_get(*id) : NULL;
	if (!in || in->kind != VPORT_PORT)
		return 0;
	p->in = *id;
	p->segment = in->segment;
	return 0;
}

/* Drops the packet: counts it under the reason, and by its owner if that is known. */
static __always_inline int drop(CTX *ctx, struct pkt *p, enum reason why)
{
	__u32 index = why;
	struct counter *c = bpf_map_lookup_elem(&drops, &index);
	struct vport_counters *t;

	step(p, STAGE_DROP, why, 0);
	if (tracing)
		return CTX_DROP;
	if (!p->in && !p->segment)
		find_owner(p);
	if (c)
		counter_add(c, 1, ctx_len(ctx));
	t = p->in ? traffic_of(p->in) : NULL;
	if (t)
		t->drops += 1;
	if (p->in || p->segment)
		count_owner_drop(p->in, p->segment, why, ctx_len(ctx));
	monitor_drop(ctx, p, why);
	return CTX_DROP;
}

static __always_inline void count_rx(__u32 vport, __u32 packets, __u32 bytes)
{
	struct vport_counters *t = traffic_of(vport);

	if (t)
		counter_add(&t->rx, packets, bytes);
}

static __always_inline void count_tx(__u32 vport, __u32 packets, __u32 bytes)
{
	struct vport_counters *t = traffic_of(vport);

	if (t)
		counter_add(&t->tx, packets, bytes);
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * guard: who may put a frame into a segment. A port that we know; a tunnel packet
 * of a configured remote with a configured VNI. Everything else ends here.
 *
 * in:    p->key.origin, p->key.vni, p->udp_port
 * out:   p->in, p->segment
 * maps:  ports, ends, vnis, remotes
 * stops: UNKNOWN_PORT, UNKNOWN_VNI, UNKNOWN_REMOTE
 */
#pragma once

#include "pkt.h"

static __always_inline int guard_port(struct pkt *p)
{
	__u32 ifindex = p->key.origin.w[3];
	__u32 *id = bpf_map_lookup_elem(&ports, &ifindex);
	struct end *in;

	if (!id)
		return REASON_UNKNOWN_PORT;
	in = end_get(*id);
	if (!in || in->kind != END_PORT)
		return REASON_UNKNOWN_PORT;
	p->in = *id;
	p->segment = in->segment;
	return 0;
}

static __always_inline int guard_tunnel(struct pkt *p)
{
	struct vni_key vni = { .vni = p->key.vni & 0xffffff, .udp_port = p->udp_port };
	struct remote_key remote = { .addr = p->key.origin };
	__u32 *id = bpf_map_lookup_elem(&vnis, &vni);

	if (!id)
		return REASON_UNKNOWN_VNI;
	p->segment = remote.segment = *id;
	id = bpf_map_lookup_elem(&remotes, &remote);
	if (!id)
		return REASON_UNKNOWN_REMOTE;
	p->in = *id;
	return 0;
}

static __always_inline int guard(struct pkt *p)
{
	return p->key.vni ? guard_tunnel(p) : guard_port(p);
}

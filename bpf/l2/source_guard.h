/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * guard: who may put a frame into a segment. A port that we know, with a source
 * that it may use; a tunnel packet of a configured remote with a configured VNI.
 * Everything else ends here.
 *
 * in:    p->key.origin, p->key.vni, p->key.tags, p->udp_port
 * out:   p->in, p->segment, p->untaught, d->flags (FLOW_TAG)
 * maps:  ports, ends, vnis, remotes, allowed_macs, allowed_addrs
 * stops: NOT_OURS, UNKNOWN_PORT, UNKNOWN_VNI, UNKNOWN_REMOTE, VLAN_TAGGED, SPOOFED_*
 */
#pragma once

#include "core/pkt.h"

/* The end of the port and VLAN that the frame came by; a tag of VLAN 0 is a priority alone. */
static __always_inline __u32 *port_end(struct pkt *p, struct decision *d)
{
	struct port_key key = { .ifindex = p->key.origin.w[3] };
	__u32 *id;

	if (p->key.tags[0]) {
		key.vlan = bpf_ntohl(p->key.tags[0]) & VLAN_VID;
		id = bpf_map_lookup_elem(&ports, &key);
		if (id) {
			d->flags = FLOW_TAG;
			return id;
		}
		key.vlan = 0;
	}
	return bpf_map_lookup_elem(&ports, &key);
}

/* Unset addresses (DHCP, RFC 4862 5.4) and IPv6 link-local ones are anybody's. */
static __always_inline bool addr_is_unowned(const struct addr *a)
{
	if (addr_is_v4(a))
		return !a->w[3];
	return addr_is_zero(a) || addr_is_link_local(a);
}

static __always_inline bool may_send_as(__u32 end, const struct addr *addr)
{
	struct allowed_addr key = { .prefixlen = 160, .end = end, .addr = *addr };

	return addr_is_unowned(addr) || bpf_map_lookup_elem(&allowed_addrs, &key);
}

static __always_inline int guard_source(struct pkt *p, const struct end *in)
{
	struct allowed_mac mac = { .end = p->in };

	if (in->flags & END_GUARD_MACS) {
		copy16(mac.mac, p->key.smac, ETH_ALEN);
		if (!bpf_map_lookup_elem(&allowed_macs, &mac))
			return REASON_SPOOFED_MAC;
	}
	if (in->flags & END_GUARD_ADDRS && is_ip(p) && !may_send_as(p->in, &p->key.saddr))
		return REASON_SPOOFED_ADDRESS;
	return 0;
}

/* An interface with an uplink is the host's too: VLANs that are not ours are. */
static __always_inline bool is_shared(const struct pkt *p)
{
	struct port_key key = { .ifindex = p->key.origin.w[3], .vlan = PORT_SHARED };

	return bpf_map_lookup_elem(&ports, &key);
}

static __always_inline int guard_port(struct pkt *p, struct decision *d)
{
	__u32 *id = port_end(p, d);
	struct end *in;

	if (!id || (p->key.tags[0] && !(d->flags & FLOW_TAG)))
		if (is_shared(p))
			return NOT_OURS;
	if (!id)
		return p->key.tags[0] ? REASON_VLAN_TAGGED : REASON_UNKNOWN_PORT;
	in = end_get(*id);
	if (!in || in->kind != END_PORT)
		return REASON_UNKNOWN_PORT;
	p->in = *id;
	p->segment = in->segment;
	return guard_source(p, in);
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
	p->in = *id & ~REMOTE_UNTAUGHT;
	p->untaught = *id & REMOTE_UNTAUGHT;
	return 0;
}

/* Tags that stay in the frame, beside or in it. */
static __always_inline __u32 kept_tags(const struct pkt *p, enum flow_flags flags)
{
	return !!p->key.tags[0] + !!p->key.tags[1] - !!(flags & FLOW_TAG);
}

static __always_inline int guard(struct pkt *p, struct decision *d)
{
	struct segment *seg;
	int why;

	why = p->key.vni ? guard_tunnel(p) : guard_port(p, d);
	step(p, STAGE_GUARD, p->in, p->segment);
	if (why)
		return why;
	seg = segment_get(p->segment);
	if (!seg)
		return REASON_UNKNOWN_VNI;
	return kept_tags(p, d->flags) && !(seg->flags & SEGMENT_TAGS) ? REASON_VLAN_TAGGED : 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * source_guard: admits frames to a segment: from a known port with an allowed source, and
 * from a tunnel of a configured remote with a configured VNI. All others are dropped.
 *
 * in:    p->key.origin, p->key.vni, p->key.tags, p->udp_port
 * out:   p->in, p->segment, p->no_learning, d->flags (FLOW_TAG)
 * maps:  ports, vports, vnis, remotes, allowed_macs, allowed_addrs, neighbours, fdb
 * stops: NOT_OURS, UNKNOWN_PORT, UNKNOWN_VNI, UNKNOWN_REMOTE, VLAN_TAGGED, SPOOFED_*
 */
#pragma once

#include "core/count.h"

/* The vport of the interface and VLAN. A tag with VLAN ID 0 carries a priority only. */
static __always_inline __u32 *port_vport(struct pkt *p, struct decision *d)
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

/* The unspecified addresses of DHCP and of duplicate address detection (RFC 4862 5.4). */
static __always_inline bool addr_is_unspecified(const struct addr *a)
{
	return addr_is_v4(a) ? !a->w[3] : addr_is_zero(a);
}

/* Whether the frame's source MAC address makes this address (RFC 4291 appendix A). */
static __always_inline bool is_own_eui64(const struct pkt *p, const struct addr *a)
{
	const __u8 *m = p->key.smac;

	return a->w[2] == bpf_htonl((__u32)(m[0] ^ 2) << 24 | m[1] << 16 | m[2] << 8 | 0xff) &&
	       a->w[3] == bpf_htonl(0xfe000000 | m[3] << 16 | m[4] << 8 | m[5]);
}

/* Whether the address is another's, whose MAC address is not known to be behind the same port. */
static __always_inline bool is_held(const struct pkt *p, const struct addr *addr)
{
	struct neighbour_key key = { .segment = p->segment, .addr = *addr };
	struct neighbour *n = bpf_map_lookup_elem(&neighbours, &key);
	struct fdb_key mac = { .segment = p->segment };
	struct fdb_entry *at;

	if (!n || mac_equal(n->mac, p->key.smac))
		return false;
	copy16(mac.mac, n->mac, ETH_ALEN);
	at = bpf_map_lookup_elem(&fdb, &mac);
	return !at || at->vport != p->in;
}

/*
 * Hosts choose their link-local addresses. Those that are not listed belong to the MAC address
 * that they are made of, else to whoever came first (RFC 6620), until that one's entry ages.
 */
static __always_inline bool may_send_as(const struct pkt *p, const struct addr *addr)
{
	struct allowed_addr key = { .prefixlen = 160, .vport = p->in, .addr = *addr };

	if (addr_is_unspecified(addr) || bpf_map_lookup_elem(&allowed_addrs, &key))
		return true;
	return addr_is_link_local(addr) && (is_own_eui64(p, addr) || !is_held(p, addr));
}

static __always_inline int check_source(struct pkt *p, const struct vport *in)
{
	struct allowed_mac mac = { .vport = p->in };

	if (in->flags & VPORT_GUARD_MACS) {
		copy16(mac.mac, p->key.smac, ETH_ALEN);
		if (!bpf_map_lookup_elem(&allowed_macs, &mac))
			return REASON_SPOOFED_MAC;
	}
	if (in->flags & VPORT_GUARD_ADDRS && is_ip(p) && !may_send_as(p, &p->key.saddr))
		return REASON_SPOOFED_ADDRESS;
	return 0;
}

/* The host shares interfaces with an uplink: VLANs that are not configured are its own. */
static __always_inline bool is_shared(const struct pkt *p)
{
	struct port_key key = { .ifindex = p->key.origin.w[3], .vlan = PORT_SHARED };

	return bpf_map_lookup_elem(&ports, &key);
}

static __always_inline int source_guard_port(struct pkt *p, struct decision *d)
{
	__u32 *id = port_vport(p, d);
	struct vport *in;

	if (!id || (p->key.tags[0] && !(d->flags & FLOW_TAG)))
		if (is_shared(p))
			return NOT_OURS;
	if (!id)
		return p->key.tags[0] ? REASON_VLAN_TAGGED : REASON_UNKNOWN_PORT;
	in = vport_get(*id);
	if (!in || in->kind != VPORT_PORT)
		return REASON_UNKNOWN_PORT;
	p->in = *id;
	p->segment = in->segment;
	return check_source(p, in);
}

static __always_inline int source_guard_tunnel(struct pkt *p)
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
	p->in = *id & ~REMOTE_NO_LEARNING;
	p->no_learning = *id & REMOTE_NO_LEARNING;
	return 0;
}

/* Number of tags that stay on the frame. */
static __always_inline __u32 kept_tags(const struct pkt *p, enum flow_flags flags)
{
	return !!p->key.tags[0] + !!p->key.tags[1] - !!(flags & FLOW_TAG);
}

static __always_inline int source_guard(struct pkt *p, struct decision *d)
{
	struct segment *seg;
	int why;

	why = p->key.vni ? source_guard_tunnel(p) : source_guard_port(p, d);
	step(p, STAGE_GUARD, p->in, p->segment);
	if (why)
		return why;
	seg = segment_get(p->segment);
	if (!seg)
		return REASON_UNKNOWN_VNI;
	return kept_tags(p, d->flags) && !(seg->flags & SEGMENT_TAGS) ? REASON_VLAN_TAGGED : 0;
}

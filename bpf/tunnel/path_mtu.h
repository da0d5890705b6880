/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * path_mtu: keeps what ICMP messages of the underlay say about the MTU of a path (RFC 1191,
 * RFC 8201). Anybody can send such a message, so nothing here obeys it: user space has the path
 * probed, and lowers the MTU if the probe says so (RFC 8899 4.6.2). The inner sender is then
 * told when its next packet does not fit (tx/icmp.h): the embedded part is rarely long enough
 * to find it.
 *
 * in:    ctx, the outer IP header
 * out:   a struct path_report, for user space, and an event about that
 * maps:  teps, vports, vnis, remotes, path_reports, host_events
 * stops: nothing: the host sees the message too
 */
#pragma once

#include "l2/host_events.h"
#include "tunnel/decap.h"
#include "tx/embedded.h"

/* Lower values are attacks. RFC 791, RFC 8200 5. */
#define PATH_MTU_MIN4 576
#define PATH_MTU_MIN6 1280

/* How often user space is asked to look into one path. */
#define PATH_REPORT_NS 1000000000ULL

/* What an ICMP message says about a tunnel packet. */
struct too_big {
	struct path_key path;
	__u32 mtu;
	__be16 udp_port; /* of the embedded packet, 0: NVGRE */
	enum encapsulation encap;
	__u32 tunnel; /* offset of the embedded tunnel header */
};

/* Reads the next hop's MTU. Returns the offset of the embedded packet, 0: another message. */
static __always_inline __u32 read_too_big(CTX *ctx, const struct outer_hdr *o, struct too_big *m)
{
	bool v6 = o->proto == IPPROTO_ICMPV6;
	struct icmphdr icmp;

	if (!v6 && o->proto != IPPROTO_ICMP)
		return 0;
	if (ctx_load(ctx, o->off, &icmp, sizeof(icmp)) ||
	    icmp.type != (v6 ? ICMPV6_TOO_BIG : ICMP_UNREACHABLE) ||
	    icmp.code != (v6 ? 0 : ICMP_FRAGMENTATION_NEEDED))
		return 0;
	m->mtu = bpf_ntohl(icmp.rest) & (v6 ? ~0U : 0xffff);
	return o->off + sizeof(icmp);
}

/* Whether the embedded packet looks like a tunnel packet of this edge. */
static __always_inline bool read_tunnel(CTX *ctx, const struct embedded *q, struct too_big *m)
{
	__be16 ports[2];
	int port;

	if (!is_tep(&q->src) || q->tail)
		return false;
	m->path.local = q->src;
	m->path.remote = q->dst;
	m->tunnel = q->off;
	m->encap = ENCAP_NVGRE;
	if (q->proto == IPPROTO_GRE)
		return nvgre;
	if (q->proto != IPPROTO_UDP || ctx_load(ctx, q->off, ports, sizeof(ports)))
		return false;
	port = udp_port_index(ports[1]);
	if (port < 0 || port >= MAX_UDP_PORTS)
		return false;
	m->udp_port = ports[1];
	m->encap = udp_encaps[port];
	m->tunnel += sizeof(struct udphdr);
	return true;
}

/*
 * Whether the embedded tunnel header has the VNI of a segment with that remote. Only messages
 * that embed no more than 8 bytes of a UDP packet (RFC 792) lack it; RFC 1812 4.3.2.3 wants more.
 */
static __always_inline bool embeds_vni(CTX *ctx, const struct too_big *m)
{
	struct remote_key remote = { .addr = m->path.remote };
	struct vni_key vni = { .udp_port = m->udp_port };
	__be32 header[2]; /* of all encapsulations: flags, then VNI << 8 */
	__u32 *segment;

	if (ctx_load(ctx, m->tunnel, header, sizeof(header)))
		return false;
	if (m->encap == ENCAP_VXLAN && !(header[0] & VXLAN_I))
		return false;
	if (m->encap == ENCAP_GENEVE && (bpf_ntohl(header[0]) & 0xc000ffff) != ETH_P_TEB)
		return false;
	if (m->encap == ENCAP_NVGRE && header[0] != bpf_htonl(GRE_KEY << 16 | ETH_P_TEB))
		return false;
	vni.vni = bpf_ntohl(header[1]) >> 8;
	segment = bpf_map_lookup_elem(&vnis, &vni);
	if (!segment)
		return false;
	remote.segment = *segment;
	return bpf_map_lookup_elem(&remotes, &remote);
}

static __always_inline struct path_report *report_of(const struct path_key *path)
{
	struct path_report *r = bpf_map_lookup_elem(&path_reports, path), none = {};

	if (r)
		return r;
	bpf_map_update_elem(&path_reports, path, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&path_reports, path);
}

static __always_inline void lower(__u32 *mtu, __u32 to)
{
	if (!*mtu || to < *mtu)
		*mtu = to;
}

/*
 * Keeps the least value until user space has decided. One that it decided about blocks the path
 * for the rest of PATH_REPORT_NS. User space is told once in that time.
 */
static __always_inline void keep_report(const struct too_big *m, __u32 vport, bool has_vni)
{
	struct path_report *r = report_of(&m->path);
	__u64 now = bpf_ktime_get_ns();
	bool again;

	if (!r)
		return;
	again = r->at_ns && now - r->at_ns < PATH_REPORT_NS;
	count(again ? EVENT_PATH_MTU_LIMITED : EVENT_PATH_MTU);
	if (again && !r->mtu)
		return;
	lower(&r->mtu, m->mtu);
	if (has_vni)
		lower(&r->vni_mtu, m->mtu);
	if (again)
		return;
	r->at_ns = now;
	path_report_emit(vport);
}

SUBPROGRAM int learn_path_mtu(CTX *ctx, struct pkt *p)
{
	struct outer_hdr o = {};
	struct embedded q = {};
	struct too_big m = {};
	struct vport *to;
	__u32 off, *id;
	bool v6, read;

	if (!p || outer_ip(ctx, p, &o) || !is_tep(&o.dst))
		return NOT_OURS;
	v6 = o.proto == IPPROTO_ICMPV6;
	off = read_too_big(ctx, &o, &m);
	if (!off)
		return NOT_OURS;
	read = v6 ? read_embedded6(ctx, off, &q) && !addr_is_v4(&q.src) :
		    read_embedded4(ctx, off, &q);
	if (!read || !read_tunnel(ctx, &q, &m))
		return NOT_OURS;
	id = bpf_map_lookup_elem(&teps, &m.path);
	to = id ? vport_get(*id) : NULL;
	if (!to || to->kind != VPORT_TEP || m.mtu < (v6 ? PATH_MTU_MIN6 : PATH_MTU_MIN4))
		count(EVENT_PATH_MTU_REFUSED);
	else if (m.mtu < to->mtu)
		keep_report(&m, *id, embeds_vni(ctx, &m));
	return NOT_OURS;
}

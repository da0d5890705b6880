/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * port_guard: refuses what only a router, a DHCP server or the edge itself may say: router
 * advertisements and redirects (RFC 6105), messages to DHCP clients (RFC 7610), and packets
 * with an address of the edge. A remote edge guards its own ports, so of a tunnel's packets
 * only those are refused that no edge lets through, and those that no host ever sends.
 *
 * in:    p, the ingress vport and segment
 * out:   d->slow
 * maps:  local_addrs
 * stops: HIDDEN_PROTOCOL, RA_GUARD, ND_EXT_HEADERS, IPV6_EXT_HEADERS, DHCP_GUARD, FRAGMENT_TINY, MARTIAN,
 *        SPOOFED_ADDRESS
 */
#pragma once

#include "core/ext_headers.h"
#include "core/parse_l4.h"
#include "l2/neighbour.h"

/*
 * Whether a DHCP client would read the packet. It may come from any UDP port: clients look at
 * their own only. Relays and servers speak to each other on ports 67 and 547.
 */
static __always_inline bool is_to_dhcp_client(const struct pkt *p)
{
	if (is_v6(p))
		return p->key.dport == bpf_htons(DHCPV6_CLIENT) &&
		       (p->key.proto == IPPROTO_UDP || p->key.fragment);
	return p->key.dport == bpf_htons(DHCP_CLIENT) && p->key.proto == IPPROTO_UDP;
}

/* A port that no server is known to be at. */
static __always_inline bool is_dhcp_client_port(const struct pkt *p, __u32 flags)
{
	return !p->key.vni && !(flags & VPORT_DHCP_SERVER);
}

/* What is behind extension headers: neither ND, nor a message to a DHCP client. */
static __always_inline int check_hidden(CTX *ctx, const struct pkt *p, __u32 flags,
					const struct cursor *c)
{
	struct l4ports l4;
	__u8 type;

	if (c->proto == IPPROTO_ICMPV6 && p->ttl == 255)
		return ctx_load(ctx, c->off, &type, 1) || is_nd_type(type) ? REASON_ND_EXT_HEADERS :
									     0;
	if (c->proto != IPPROTO_UDP || !is_dhcp_client_port(p, flags))
		return 0;
	if (c->off + sizeof(l4) > c->end || ctx_load(ctx, c->off, &l4, sizeof(l4)))
		return REASON_FRAGMENT_TINY;
	return l4.dest == bpf_htons(DHCPV6_CLIENT) ? REASON_DHCP_GUARD : 0;
}

/*
 * Walks all extension headers. ND never has any (RFC 6980, RFC 7113 2). A chain that cannot be
 * followed is refused where it could hide something: a first fragment must have all of it
 * (RFC 7112). Later fragments are nothing without it.
 */
SUBPROGRAM int guard_hidden(CTX *ctx, struct pkt *p, __u32 flags)
{
	struct cursor c = {};

	if (!p)
		return REASON_ND_EXT_HEADERS;
	if (walk_packet6(ctx, p, &c))
		return p->ttl == 255		     ? REASON_ND_EXT_HEADERS :
		       is_dhcp_client_port(p, flags) ? REASON_IPV6_EXT_HEADERS :
						       0;
	return c.offset ? 0 : check_hidden(ctx, p, flags, &c);
}

/*
 * Nobody else has an address of the edge. From tunnels other edges use the addresses of the same
 * gateway: with its MAC address, in ICMP errors also with that of the host that was spoken to,
 * and between routers with their own. A loopback's address is this edge's alone. The flow key has
 * no ICMP type, so what the type decides is not cached.
 */
static __always_inline int guard_local_addr(const struct pkt *p, const struct segment *seg,
					    struct decision *d)
{
	__u32 local = is_ip(p) ? find_local_addr(p, seg, &p->key.saddr) : 0;

	if (!local)
		return 0;
	if (!p->key.vni || (local & (LOCAL_LOOPBACK | LOCAL_NAT)) == LOCAL_LOOPBACK)
		return REASON_SPOOFED_ADDRESS;
	if (local & LOCAL_NAT || seg->flags & SEGMENT_L3 ||
	    mac_equal(p->key.smac, seg->gateway_mac))
		return 0;
	d->slow = SLOW_DEEP_PARSE;
	return is_icmp_error(p) && (is_v6(p) || p->icmp_type != ICMP_REDIRECT) ?
		       0 :
		       REASON_SPOOFED_ADDRESS;
}

/* At an uplink it is the host that hears routers and servers. */
static __always_inline int port_guard(CTX *ctx, struct pkt *p, const struct segment *seg,
				      const struct vport *in, struct decision *d)
{
	int why = 0;

	if (in->flags & VPORT_UPLINK)
		return 0;
	if (is_ip(p) && addr_is_multicast(&p->key.saddr)) /* RFC 1122 3.2.1.3, RFC 4291 2.7 */
		return REASON_MARTIAN;
	if (p->hidden && !IN_XDP) { /* tc gets those before */
		d->slow = SLOW_DEEP_PARSE;
		why = is_ip(p) ? guard_hidden(ctx, p, in->flags) : REASON_HIDDEN_PROTOCOL;
	}
	if (!why && is_router_discovery(p) && p->icmp_type != ICMPV6_ROUTER_SOLICITATION &&
	    !p->key.vni && !(in->flags & VPORT_RA))
		why = REASON_RA_GUARD;
	if (!why && is_dhcp_client_port(p, in->flags) && is_to_dhcp_client(p))
		why = REASON_DHCP_GUARD;
	return why ? why : guard_local_addr(p, seg, d);
}

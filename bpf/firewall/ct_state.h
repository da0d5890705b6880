/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * ct_state: the state of a connection, which its bits and protocol tell.
 *
 * in:    a connection
 * out:   its state
 * maps:  none
 * stops: nothing
 */
#pragma once

#include "firewall/work.h"

#define CT_BOTH(bit) ((bit) | (bit) << 1)

static __always_inline bool has_all(__u32 bits, __u32 all)
{
	return (bits & all) == all;
}

/* Both ends have agreed to the connection. */
static __always_inline bool tcp_is_open(__u32 bits)
{
	return has_all(bits, CT_BOTH(CT_ACK)) &&
	       (bits & CT_PICKED_UP || has_all(bits, CT_BOTH(CT_SYN)));
}

/* A connection is opening until both ends have agreed, whatever one of them sends. */
static __always_inline enum ct_state tcp_state(__u32 bits)
{
	if (bits & CT_RST)
		return CT_STATE_CLOSED;
	if (!tcp_is_open(bits))
		return CT_STATE_OPENING;
	if (has_all(bits, CT_BOTH(CT_FIN)))
		return CT_STATE_TIME_WAIT;
	return bits & CT_BOTH(CT_FIN) ? CT_STATE_HALF_CLOSED : CT_STATE_ESTABLISHED;
}

static __always_inline enum ct_state ct_state(const struct ct_entry *c, __u8 proto)
{
	if (proto == IPPROTO_TCP)
		return tcp_state(c->bits);
	if (proto == IPPROTO_ICMP || proto == IPPROTO_ICMPV6)
		return CT_STATE_ICMP;
	if (c->bits & CT_STREAM)
		return CT_STATE_UDP_STREAM;
	return c->bits & CT_REPLIED ? CT_STATE_UDP_REPLIED : CT_STATE_UDP;
}

static __always_inline bool ct_expired(const struct ct_entry *c, __u8 proto, __u64 now,
				       const volatile __u64 *timeouts)
{
	__u32 state = ct_state(c, proto);

	return state < CT_STATE_MAX && ns_since(c->seen_ns, now) > (__s64)timeouts[state];
}

/* Whether the other end has answered. */
static __always_inline bool ct_is_answered(const struct ct_entry *c, __u8 proto)
{
	return proto == IPPROTO_TCP ? tcp_is_open(c->bits) : c->bits & CT_REPLIED;
}

/* Whether it is closed. Late packets still pass; evicting it loses nothing. */
static __always_inline bool ct_is_closed(const struct ct_entry *c, __u8 proto)
{
	enum ct_state state = ct_state(c, proto);

	return state == CT_STATE_TIME_WAIT || state == CT_STATE_CLOSED;
}

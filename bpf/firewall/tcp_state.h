/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * tcp_state: how a segment changes its connection (RFC 9293, RFC 5961). Only what both ends
 * agree on has an effect: an acknowledged SYN, a FIN within the window whose acknowledgement can
 * be (RFC 5961 5), and a reset with exactly the next sequence number. All other segments pass,
 * and the ends deal with them.
 * Data of an established connection does not come here.
 *
 * in:    p->l4_info, p->flow_seq, the connection, the direction: 0 is the originator's
 * out:   the connection's bits and sequence numbers, p->next_seq
 * maps:  none
 * stops: TCP_FLAGS, OUT_OF_WINDOW
 */
#pragma once

#include "firewall/conntrack.h"

#define TCP_UNSCALED 65535
#define TCP_SCALE_MAX 14 /* RFC 7323 2.3 */

static __always_inline __s32 seq_diff(__u32 a, __u32 b)
{
	return a - b;
}

/* Whether the combination of flags is possible (RFC 9293 3.10.7). */
static __always_inline bool tcp_flags_fit(__u8 flags)
{
	if (flags & TCP_SYN)
		return !(flags & (TCP_FIN | TCP_RST));
	return flags & (flags & TCP_FIN ? TCP_ACK : TCP_ACK | TCP_RST);
}

/* The largest window that the receiver of the segment can have offered. */
static __always_inline __u32 tcp_window(const struct ct_entry *c, __u32 dir)
{
	__u8 scale = c->scale[(dir ^ 1) & 1];

	if (c->bits & CT_PICKED_UP)
		return TCP_UNSCALED << TCP_SCALE_MAX;
	if (c->scale[0] == NO_SCALE || c->scale[1] == NO_SCALE || scale > TCP_SCALE_MAX)
		return TCP_UNSCALED;
	return TCP_UNSCALED << scale;
}

/* Whether the segment acknowledges the peer's SYN; with Fast Open (RFC 7413) also its data. */
static __always_inline bool tcp_acks_syn(const struct l4_info *t, const struct ct_entry *c,
					 __u32 dir)
{
	if (!(t->flags & TCP_ACK))
		return false;
	if (c->bits & CT_PICKED_UP)
		return true;
	return c->bits & CT_SYN << ((dir ^ 1) & 1) &&
	       t->ack - c->next_seq[(dir ^ 1) & 1] <= TCP_UNSCALED;
}

/*
 * The next sequence number of the direction. The flow cache knows it for segments that it has
 * forwarded; the connection's own number may be more than half the space behind.
 */
static __always_inline __u32 tcp_next(const struct pkt *p, const struct ct_entry *c, __u32 dir)
{
	return p->has_flow_seq ? p->flow_seq : c->next_seq[dir & 1];
}

static __always_inline bool is_near(__u32 diff, __u32 window)
{
	return diff <= window || -diff <= window;
}

/*
 * Whether the segment is near the flow's number or the connection's. A direction may have two
 * flows, when a path failed or some packets have other headers; each is behind the other.
 */
static __always_inline bool tcp_in_window(__u32 seq, const struct ct_entry *c, __u32 dir,
					  __u32 next)
{
	__u32 window = tcp_window(c, dir);

	return is_near(seq - next, window) || is_near(seq - c->next_seq[dir & 1], window);
}

static __always_inline int tcp_reset(const struct l4_info *t, struct ct_entry *c, __u32 dir,
				     __u32 next)
{
	bool exact = t->seq == next || t->seq == c->next_seq[dir & 1];

	if (c->bits & CT_PICKED_UP && !(c->bits & CT_ACK << dir))
		return 0;				 /* its numbers are unknown */
	if (!(c->bits & (CT_SYN << dir | CT_PICKED_UP))) /* it refuses the SYN */
		exact = tcp_acks_syn(t, c, dir);
	else if (!tcp_in_window(t->seq, c, dir, next))
		return strict ? REASON_OUT_OF_WINDOW : 0;
	if (exact)
		__sync_fetch_and_or(&c->bits, CT_RST);
	return 0;
}

/* Returns whether the segment sets the first number of its direction. */
static __always_inline bool tcp_syn(const struct l4_info *t, struct ct_entry *c, __u32 dir)
{
	enum ct_state state = tcp_state(c->bits);
	bool acks = tcp_acks_syn(t, c, dir);

	if (state != CT_STATE_OPENING || c->bits & CT_PICKED_UP || (t->flags & TCP_ACK && !acks))
		return false;
	/* Until the peer has acknowledged a SYN, another one may have another number. */
	if (!(c->bits & CT_ACK << ((dir ^ 1) & 1))) {
		c->next_seq[dir & 1] = t->seq + 1;
		c->scale[dir & 1] = t->scale;
	}
	__sync_fetch_and_or(&c->bits, CT_SYN << dir | (acks ? CT_ACK << dir : 0));
	return true;
}

/* Whether the segment opens a connection in place of a closed one. */
static __always_inline bool tcp_is_anew(const struct l4_info *t, const struct ct_entry *c)
{
	enum ct_state state = tcp_state(c->bits);

	return (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN &&
	       (state == CT_STATE_TIME_WAIT || state == CT_STATE_CLOSED);
}

/*
 * Whether the sender knows the connection: its segment is the next one, or acknowledges about what
 * the peer has sent (RFC 5961 5). The peer's number may be as old as its last tracked segment, so
 * the acknowledgement of an honest sender may be far ahead; its own number is then right.
 */
static __always_inline bool tcp_is_credible(const struct l4_info *t, const struct ct_entry *c,
					    __u32 dir, __u32 next)
{
	__u32 peer = (dir ^ 1) & 1;

	if (t->seq == next || t->seq == c->next_seq[dir & 1])
		return true;
	return t->flags & TCP_ACK && is_near(t->ack - c->next_seq[peer], tcp_window(c, peer));
}

/* Advances the direction's number to the end of the segment, which is within the window. */
static __always_inline void tcp_advance(__u32 end, struct ct_entry *c, __u32 dir, __u32 next)
{
	__u32 *kept = &c->next_seq[dir & 1];

	if (is_near(next - *kept, tcp_window(c, dir)) && seq_diff(*kept, next) > 0)
		next = *kept;
	*kept = seq_diff(end, next) > 0 ? end : next;
}

/* Data, an acknowledgement or a FIN. Returns whether it determines the direction's number. */
static __always_inline bool tcp_data(const struct l4_info *t, struct ct_entry *c, __u32 dir,
				     __u32 next)
{
	__u32 bits = 0;

	if (!(c->bits & CT_ACK << dir) && tcp_acks_syn(t, c, dir))
		bits |= CT_ACK << dir;
	if (c->bits & CT_PICKED_UP && !(c->bits & CT_ACK << dir)) {
		c->next_seq[dir & 1] = next = t->seq; /* the first one seen */
	}
	/* A direction has no numbers before its SYN. */
	if (!(c->bits & (CT_SYN << dir | CT_PICKED_UP)) || !tcp_in_window(t->seq, c, dir, next) ||
	    !tcp_is_credible(t, c, dir, next)) {
		__sync_fetch_and_or(&c->bits, bits);
		return false;
	}
	if (t->flags & TCP_FIN)
		bits |= CT_FIN << dir;
	/* Until the SYN is acknowledged, the number is the one after it. */
	if (c->bits & (CT_ACK << ((dir ^ 1) & 1) | CT_PICKED_UP))
		tcp_advance(t->end, c, dir, next);
	__sync_fetch_and_or(&c->bits, bits);
	return true;
}

static __always_inline int tcp_follow(struct pkt *p, struct ct_entry *c, __u32 dir)
{
	const struct l4_info *t = &p->l4_info;
	__u32 next = tcp_next(p, c, dir);
	bool known = false;
	int why = 0;

	p->next_seq = next;
	if (t->flags & TCP_RST)
		why = tcp_reset(t, c, dir, next);
	else if (t->flags & TCP_SYN)
		known = tcp_syn(t, c, dir);
	else
		known = tcp_data(t, c, dir, next);
	if (known)
		p->next_seq = c->next_seq[dir & 1];
	return why;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * tcp: what a segment says about its connection (RFC 9293, RFC 5961). Only what both
 * ends agree to changes anything: the acknowledgement of a SYN, a FIN within the
 * window, and a reset with exactly the next sequence number. All else of a connection
 * passes, and its ends judge it. Data of an open connection does not come here.
 *
 * in:    h->transport, h->carried_seq, the connection, the direction: 0 from who opened it
 * out:   the connection's bits and sequence numbers
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

/* Flags that a segment of some connection may have (RFC 9293 3.10.7). */
static __always_inline bool tcp_flags_fit(__u8 flags)
{
	if (flags & TCP_SYN)
		return !(flags & (TCP_FIN | TCP_RST));
	return flags & (flags & TCP_FIN ? TCP_ACK : TCP_ACK | TCP_RST);
}

/* The largest window that the one who gets the segment can have offered. */
static __always_inline __u32 tcp_window(const struct conn *c, __u32 way)
{
	__u8 scale = c->scale[(way ^ 1) & 1];

	if (c->bits & CONN_PICKED_UP)
		return TCP_UNSCALED << TCP_SCALE_MAX;
	if (c->scale[0] == NO_SCALE || c->scale[1] == NO_SCALE || scale > TCP_SCALE_MAX)
		return TCP_UNSCALED;
	return TCP_UNSCALED << scale;
}

/* Whether the segment acknowledges the other end's SYN; Fast Open (RFC 7413) also its data. */
static __always_inline bool tcp_acks_syn(const struct transport *t, const struct conn *c, __u32 way)
{
	if (!(t->flags & TCP_ACK))
		return false;
	if (c->bits & CONN_PICKED_UP)
		return true;
	return c->bits & CONN_SYN << ((way ^ 1) & 1) &&
	       t->ack - c->next_seq[(way ^ 1) & 1] <= TCP_UNSCALED;
}

/*
 * Behind the last segment of the direction. The flow cache knows of those that it has let
 * through since; the connection's own number may be more than half the space behind it.
 */
static __always_inline __u32 tcp_next(const struct hearing *h, const struct conn *c, __u32 way)
{
	return h->has_seq ? h->carried_seq : c->next_seq[way & 1];
}

static __always_inline bool is_near(__u32 diff, __u32 window)
{
	return diff <= window || -diff <= window;
}

/*
 * Near the flow's number or the connection's: of one direction there may be two flows, when
 * a path failed or a few packets have other headers, and each is behind the other's packets.
 */
static __always_inline bool tcp_in_window(const struct hearing *h, const struct conn *c, __u32 way)
{
	__u32 seq = h->transport.seq, window = tcp_window(c, way);

	return is_near(seq - tcp_next(h, c, way), window) ||
	       is_near(seq - c->next_seq[way & 1], window);
}

static __always_inline int tcp_reset(struct hearing *h, struct conn *c, __u32 way)
{
	const struct transport *t = &h->transport;
	bool exact = t->seq == tcp_next(h, c, way) || t->seq == c->next_seq[way & 1];

	if (c->bits & CONN_PICKED_UP && !(c->bits & CONN_ACK << way))
		return 0;				     /* nothing is known of its numbers */
	if (!(c->bits & (CONN_SYN << way | CONN_PICKED_UP))) /* refuses the SYN */
		exact = tcp_acks_syn(t, c, way);
	else if (!tcp_in_window(h, c, way))
		return strict ? REASON_OUT_OF_WINDOW : 0;
	if (exact)
		__sync_fetch_and_or(&c->bits, CONN_RST);
	return 0;
}

/* Whether the connection knows by it where its direction begins. */
static __always_inline bool tcp_syn(struct hearing *h, struct conn *c, __u32 way)
{
	const struct transport *t = &h->transport;
	enum conn_state state = tcp_state(c->bits);
	bool acks = tcp_acks_syn(t, c, way);

	if (state != STATE_OPENING || c->bits & CONN_PICKED_UP || (t->flags & TCP_ACK && !acks))
		return false;
	/* Until the other end has acknowledged one, it may begin with another number. */
	if (!(c->bits & CONN_ACK << ((way ^ 1) & 1))) {
		c->next_seq[way & 1] = t->seq + 1;
		c->scale[way & 1] = t->scale;
	}
	__sync_fetch_and_or(&c->bits, CONN_SYN << way | (acks ? CONN_ACK << way : 0));
	return true;
}

/* Whether the segment opens a connection in the place of one that is over. */
static __always_inline bool tcp_is_anew(const struct transport *t, const struct conn *c)
{
	enum conn_state state = tcp_state(c->bits);

	return (t->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN &&
	       (state == STATE_TIME_WAIT || state == STATE_CLOSED);
}

/* Moves the direction's number behind the segment, which is within the window. */
static __always_inline void tcp_advance(struct hearing *h, struct conn *c, __u32 way)
{
	__u32 next = tcp_next(h, c, way), *kept = &c->next_seq[way & 1];

	if (is_near(next - *kept, tcp_window(c, way)) && seq_diff(*kept, next) > 0)
		next = *kept;
	*kept = seq_diff(h->transport.end, next) > 0 ? h->transport.end : next;
}

/* Data, an acknowledgement or a FIN; whether the direction's number is known by it. */
static __always_inline bool tcp_data(struct hearing *h, struct conn *c, __u32 way)
{
	const struct transport *t = &h->transport;
	__u32 bits = 0;

	if (!(c->bits & CONN_ACK << way) && tcp_acks_syn(t, c, way))
		bits |= CONN_ACK << way;
	if (c->bits & CONN_PICKED_UP && !(c->bits & CONN_ACK << way)) {
		c->next_seq[way & 1] = t->seq; /* the first that is seen of it */
		h->has_seq = false;
	}
	/* Before its SYN a direction has no numbers. */
	if (!(c->bits & (CONN_SYN << way | CONN_PICKED_UP)) || !tcp_in_window(h, c, way)) {
		__sync_fetch_and_or(&c->bits, bits);
		return false;
	}
	if (t->flags & TCP_FIN)
		bits |= CONN_FIN << way;
	/* Until the SYN is acknowledged the number is that behind it. */
	if (c->bits & (CONN_ACK << ((way ^ 1) & 1) | CONN_PICKED_UP))
		tcp_advance(h, c, way);
	__sync_fetch_and_or(&c->bits, bits);
	return true;
}

static __always_inline int tcp_follow(struct hearing *h, struct conn *c, __u32 way)
{
	bool known = false;
	int why = 0;

	h->next_seq = tcp_next(h, c, way);
	if (h->transport.flags & TCP_RST)
		why = tcp_reset(h, c, way);
	else if (h->transport.flags & TCP_SYN)
		known = tcp_syn(h, c, way);
	else
		known = tcp_data(h, c, way);
	if (known)
		h->next_seq = c->next_seq[way & 1];
	return why;
}

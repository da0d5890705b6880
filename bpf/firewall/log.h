/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * log: writes log lines of the firewall, which user space reads. Each port has a rate of its
 * own, so that one cannot hide another's lines.
 *
 * in:    the scratch
 * out:   a line, or one more lost
 * maps:  logs, owner_limits, owner_usages
 * stops: nothing
 */
#pragma once

#include "core/limits.h"

/* A line of the vport is not written: the next one says how many were lost. */
static __always_inline void lose_line(struct limit_usage *u)
{
	if (u)
		__sync_fetch_and_add(&u->log_lost, 1);
	count(EVENT_LOG_LOST);
}

/* The lines that the vport has lost since its last one. */
static __always_inline __u32 take_lost(struct limit_usage *u)
{
	return u && u->log_lost ? __sync_lock_test_and_set(&u->log_lost, 0) : 0;
}

SUBPROGRAM int write_log(struct pkt *p, const struct rule_query *o, __u32 rule, __u32 verdict,
			 __u32 why)
{
	struct limit_usage *u;
	struct log_line *l = NULL;

	if (!p || !o || tracing)
		return 0;
	u = usage_of(o->vport);
	if (log_rate && !rate_exceeded(p, o->vport, RATE_LOG_LINES))
		l = bpf_ringbuf_reserve(&logs, sizeof(*l), 0);
	if (!l) {
		lose_line(u);
		return 0;
	}
	__builtin_memset(l, 0, sizeof(*l));
	l->ns = bpf_ktime_get_ns();
	l->src = o->src;
	l->dst = o->dst;
	l->rule = rule;
	l->reason = why;
	l->lost = take_lost(u);
	l->vport = o->vport;
	l->sport = o->sport;
	l->dport = o->dport;
	l->len = p->frame_len;
	l->proto = o->proto;
	l->tcp_flags = p->l4_info.flags;
	l->direction = o->direction;
	l->verdict = verdict;
	bpf_ringbuf_submit(l, 0);
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * log: writes log lines of the firewall, which user space reads.
 *
 * in:    the scratch
 * out:   a line, or one more lost
 * maps:  logs, log_buckets
 * stops: nothing
 */
#pragma once

#include "core/token_bucket.h"
#include "core/count.h"

/* A token bucket for each core. The next line tells how many were lost. */
static __always_inline struct log_bucket *may_log(__u64 now)
{
	__u32 zero = 0;
	struct log_bucket *b = bpf_map_lookup_elem(&log_buckets, &zero);

	if (!b || take_token(&b->bucket, now, log_rate, log_rate))
		return b;
	b->lost++;
	count(EVENT_LOG_LOST);
	return NULL;
}

SUBPROGRAM int write_log(struct pkt *p, const struct rule_query *o, __u32 rule, __u32 verdict,
			 __u32 why)
{
	__u64 now = bpf_ktime_get_ns();
	struct log_bucket *b;
	struct log_line *l;

	if (!p || !o || tracing)
		return 0;
	b = may_log(now);
	if (!b)
		return 0;
	l = bpf_ringbuf_reserve(&logs, sizeof(*l), 0);
	if (!l) {
		b->lost++;
		count(EVENT_LOG_LOST);
		return 0;
	}
	__builtin_memset(l, 0, sizeof(*l));
	l->ns = now;
	l->src = o->src;
	l->dst = o->dst;
	l->rule = rule;
	l->reason = why;
	l->lost = b->lost;
	l->vport = o->vport;
	l->sport = o->sport;
	l->dport = o->dport;
	l->len = p->frame_len;
	l->proto = o->proto;
	l->tcp_flags = p->l4_info.flags;
	l->direction = o->direction;
	l->verdict = verdict;
	bpf_ringbuf_submit(l, 0);
	b->lost = 0;
	return 0;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * stateless: what the firewall filters packet by packet, or not at all.
 *
 * in:    p->arp_nd, p->l4_info
 * out:   counters of rules
 * maps:  those of rule_query.h
 * stops: DENIED, REJECTED, NO_POLICY
 */
#pragma once

#include "firewall/rule_query.h"

/* l2/neighbour.h inspects ARP and neighbour discovery, and no rule sees them. */
static __always_inline bool is_unfiltered(const struct pkt *p)
{
	return p->arp_nd && !is_router_discovery(p);
}

/* Router discovery has no connections: it is evaluated packet by packet. */
static __always_inline int firewall_stateless(CTX *ctx, struct pkt *p, struct ct_work *w,
					      __u32 vport, bool out)
{
	int why;

	make_query(p, &p->l4_info.tuple, &w->query, vport, out);
	why = evaluate_rules(p, w, packets_of(ctx, p), p->frame_len);
	if (!w->match.is_default)
		count_rule(p, w->match.rule, 1, packets_of(ctx, p), p->frame_len);
	return why;
}

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * nat_fragments: later fragments have no ports: they get the translation of the first.
 *
 * in:    p->l4_info
 * out:   p->translation, the work's via
 * maps:  nat_fragments, nat_host_counts
 * stops: NAT_FRAGMENT, FRAGMENT_TINY
 */
#pragma once

#include "firewall/share.h"
#include "nat/nat_track.h"

/* Whether the source has no session of which this may be a fragment. */
static __always_inline bool has_no_session(const struct pkt *p, struct nat_work *w)
{
	struct nat_host_key key = { .router = router_of(p), .addr = p->key.saddr };
	struct nat_host_count *out = bpf_map_lookup_elem(&nat_host_counts, &key), *in;

	key.router |= NAT_HOST_INBOUND;
	in = bpf_map_lookup_elem(&nat_host_counts, &key);
	w->key.inside = p->key.saddr;
	return has_no_pool(&w->key, egress_get(p->egress)) && !(out && out->count) &&
	       !(in && in->count);
}

/* Later fragments get the translation of the first; they are not queued for it. */
static __always_inline int load_fragment(struct pkt *p, struct nat_work *w)
{
	struct fragment_translation *f;

	make_fragment_key(&w->fragment, p, router_of(p), false);
	f = bpf_map_lookup_elem(&nat_fragments, &w->fragment);
	if (!f || ns_since(f->passed_ns, p->now_ns) >= FRAGMENT_NS) {
		if (p->decision.flags & FLOW_DNAT || !has_no_session(p, w))
			return REASON_NAT_FRAGMENT;
		return pass_untranslated(p);
	}
	if (p->l4_info.fragment < f->headers)
		return REASON_FRAGMENT_TINY;
	p->translation = f->translation;
	w->via = f->via;
	w->via_policy = f->egress;
	p->decision.flags = (p->decision.flags & ~FLOW_NAT) | (f->flags & FLOW_NAT);
	return 0;
}

/* The vport inside whose packet it is: sender, or receiver of what comes in by an uplink. */
static __always_inline __u32 inside_vport(const struct pkt *p)
{
	struct segment *seg = segment_get(p->segment);

	return seg && seg->flags & SEGMENT_UPLINK ? p->decision.out : p->in;
}

/* Stores the translation of a datagram's first fragment. Returns 0. */
SUBPROGRAM int store_fragment(struct pkt *p)
{
	struct nat_work *w = nat_work();
	struct fragment_translation *f;

	if (!p || !w || tracing)
		return 0;
	f = &w->translated;
	__builtin_memset(f, 0, sizeof(*f));
	f->passed_ns = p->now_ns;
	f->translation = p->translation;
	f->headers = p->l4_info.fragment;
	if (p->decision.flags & FLOW_DNAT) {
		f->via = w->via;
		f->egress = w->via_policy;
	}
	f->flags = p->decision.flags & FLOW_NAT;
	make_fragment_key(&w->fragment, p, router_of(p), false);
	if (!bpf_map_update_elem(&nat_fragments, &w->fragment, f, BPF_EXIST))
		return 0;
	fragment_slot(&nat_fragments, inside_vport(p), &w->fragment_slot, &w->fragment, f,
		      offsetof(struct fragment_translation, noted));
	bpf_map_update_elem(&nat_fragments, &w->fragment, f, BPF_ANY);
	return 0;
}

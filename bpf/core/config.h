/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Load-time constants. The verifier removes the branches that they disable. */
#pragma once

#include "abi/abi.h"

/* This edge's TEPs, and the UDP ports on which tunnel packets arrive. */
const volatile struct addr tep_addrs[MAX_TEPS];
const volatile __be16 udp_ports[MAX_UDP_PORTS];
const volatile __u8 udp_encaps[MAX_UDP_PORTS]; /* enum encapsulation */
/* The edge's own MAC address, which answers probes in tunnels; zero: none. */
const volatile __u16 probe_mac[3];
/* Whether GRE packets may be NVGRE. Otherwise they belong to the host. */
const volatile bool nvgre;
/* false: every packet takes the slow path */
const volatile bool flow_cache = true;
/* So many moves within the time freeze a MAC address, 0: never, for so long and then longer. */
const volatile __u32 mac_moves = 5;
const volatile __u32 mac_moves_within_s = 180;
const volatile __u32 mac_freeze_s = 10;
/* Names this edge in loop probes; 0: it sends none. */
const volatile __u64 loop_edge;
/* Maximum age of a decision. */
const volatile __u64 revalidate_ns = 10000000000ULL;
/* Transit cache entries of each core, and actions, of which there are at most 65536: powers of two. */
const volatile __u32 transit_slots = 4;
const volatile __u32 transit_actions_max = 4;
/* The interface of a transit program. */
const volatile enum device_flags this_flags;
const volatile __u32 this_ifindex;
const volatile __u16 this_mac[3];
const volatile bool this_csum_partial; /* frames arrive with partial checksums */
/* How long a packet waits for an earlier one of its flow, 0: not at all. */
const volatile __u64 reorder_timeout_ns = 8000;

/*
 * Whether the edge has a firewall, and NAT. Without them their stages are removed before
 * verification (Linux 6.8).
 */
const volatile bool with_firewall;
const volatile bool with_nat;
/* Firewall settings, see overlay.Firewall. */
const volatile bool strict;
const volatile bool non_ip_dropped;
const volatile __u64 ct_timeouts[CT_STATE_MAX]; /* ns, by enum ct_state */
const volatile __u32 log_rate = 100;		/* 0: no lines; the rates are those of ports */
/* NAT settings, see overlay.Egress. */
const volatile __u64 nat_timeouts[CT_STATE_MAX]; /* ns, by enum ct_state */
const volatile __u64 nat_dns_timeout;		 /* ns, of UDP to port 53; 0: as other UDP */
const volatile __u32 nat_inbound_mask;		 /* slots of a vport in nat_inbound, less 1 */
const volatile bool nat_events_wanted;		 /* user space reads nat_events */

/* Run a trace: record steps; do not learn, count or send. */
const volatile bool tracing;

/*
 * The names and texts of core/reasons.h. User space reads them from the object file, so
 * "used" keeps the ones that no program reads.
 */
#define TEXT_MAX 96
struct word {
	char name[32];
	char text[TEXT_MAX];
};
#define X(n, t) { #n, t },
const volatile struct word reason_words[] __attribute__((used)) = { REASONS(X) };
const volatile struct word slow_words[] __attribute__((used)) = { SLOWS(X) };
const volatile struct word stage_words[] __attribute__((used)) = { STAGES(X) };
const volatile struct word event_words[] __attribute__((used)) = { EVENTS(X) };
const volatile struct word count_words[] __attribute__((used)) = { LIMITED_COUNTS(X) };
const volatile struct word rate_words[] __attribute__((used)) = { LIMITED_RATES(X) };
#undef X

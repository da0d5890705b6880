/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Load-time constants: the verifier removes the branches that they close. */
#pragma once

#include "abi/abi.h"

/* This edge's tunnel endpoints, and the UDP ports on which tunnels arrive. */
const volatile struct addr tep_addrs[MAX_TEPS];
const volatile __be16 udp_ports[MAX_UDP_PORTS];
const volatile __u8 udp_encaps[MAX_UDP_PORTS]; /* enum encapsulation */
/* The edge's own address, which answers to probes out of tunnels; zero: none does. */
const volatile __u16 probe_mac[3];
/* Whether GRE packets may be NVGRE tunnels; otherwise they are the host's. */
const volatile bool nvgre;
/* false: decide every packet. */
const volatile bool flow_cache = true;
/* A decision's greatest age. */
const volatile __u64 revalidate_ns = 10000000000ULL;
/* Shortcuts that each core may have, a power of two. */
const volatile __u32 shortcut_slots = 4;
/* The interface of a transit program. */
const volatile enum device_flags this_flags;
const volatile __u32 this_ifindex;
const volatile __u16 this_mac[3];
const volatile bool this_unsummed; /* frames come with checksums that are not filled in */
/* How long a packet waits for one that it overtook, 0: never. */
const volatile __u64 hold_ns = 8000;

/* ICMP errors and requests for neighbours, a second and core, and at once. */
const volatile __u64 icmp_rate = 1000;
const volatile __u64 icmp_burst = 100;
/*
 * Whether the edge has a firewall, and whether it translates. Without one its stages are
 * left out, and the verifier does not look at them (Linux 6.8).
 */
const volatile bool with_firewall;
const volatile bool with_nat;
/* The firewall, as overlay.Firewall says. */
const volatile bool strict;
const volatile bool non_ip_dropped;
const volatile __u64 conn_timeouts[STATE_MAX]; /* ns, by enum conn_state */
const volatile __u32 half_open_limit;
const volatile __u32 log_rate = 100;
/* NAT, as overlay.Egress says. */
const volatile __u64 nat_timeouts[STATE_MAX]; /* ns, by enum conn_state */
const volatile bool nat_news;		      /* somebody reads the map news */

/* Tell a trace what happens, and neither learn, count nor send. */
const volatile bool tracing;

/*
 * The words of core/reasons.h for the Go side, which reads them from the object file.
 * "used" keeps what no program reads.
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
#undef X

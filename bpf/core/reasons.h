/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Why a packet was dropped, why a flow is not on the fast path, and what else
 * is counted. Each list feeds the enum, the counters, the command line and the
 * docs, so nothing can be dropped without a reason that a user can read.
 */
#pragma once

/* X(NAME, "what happened") */
#define REASONS(X)                                                                             \
	X(FORWARDED, "not dropped")                                                            \
	X(MALFORMED_ETHERNET, "frame shorter than an Ethernet header")                         \
	X(MALFORMED_ARP, "ARP packet cut short")                                               \
	X(MALFORMED_IPV4, "inner IPv4 header or length wrong, or the packet cut short")        \
	X(MALFORMED_IPV6, "inner IPv6 header or length wrong, or the packet cut short")        \
	X(MALFORMED_L4, "TCP, UDP or ICMP header cut short")                                   \
	X(SOURCE_MULTICAST, "source MAC is a group or zero address")                           \
	X(VLAN_TAGGED, "802.1Q tag of no VLAN of the port, or in a segment that keeps none")   \
	X(OUTER_MALFORMED, "outer UDP length wrong or the tunnel packet cut short")            \
	X(OUTER_FRAGMENT, "tunnel packet was fragmented (RFC 7348 4.3)")                       \
	X(TUNNEL_FLAGS, "tunnel header without a VNI, of another version or payload")          \
	X(UNKNOWN_OPTION, "Geneve option that is critical and not known (RFC 8926 3.5)")       \
	X(ECN_MARKED, "congestion mark that the inner packet cannot carry (RFC 6040 4.2)")     \
	X(UNKNOWN_VNI, "VNI is not of a segment at this UDP port")                             \
	X(UNKNOWN_REMOTE, "tunnel packet from an address that is no remote of the segment")    \
	X(UNKNOWN_PORT, "interface is not a port of this edge")                                \
	X(SPOOFED_MAC, "source MAC is not allowed at the port, or is the gateway's")           \
	X(SPOOFED_ADDRESS, "source address is not allowed at the port, or is the gateway's")   \
	X(STATIC_ELSEWHERE, "source MAC is static at another port or remote")                  \
	X(SAME_PORT, "destination is where the frame came from")                               \
	X(SPLIT_HORIZON, "frame from a tunnel for another remote of the segment")              \
	X(NOT_ROUTED, "frame for a router's MAC address that is not IP")                       \
	X(NOT_SERVED, "packet for an address of the edge that answers ARP, ND and ping only")  \
	X(TTL_EXCEEDED, "TTL or hop limit ran out at a router")                                \
	X(NO_PREFIX, "no route of the router to the destination")                              \
	X(BLACKHOLE, "blackhole route")                                                        \
	X(UNREACHABLE, "unreachable route")                                                    \
	X(PROHIBITED, "prohibit route")                                                        \
	X(NO_NEIGHBOUR, "MAC address of the next hop not known yet, and asked for")            \
	X(NO_MEMBER, "no other port or remote in the segment to flood to")                     \
	X(NO_ROUTE, "no underlay route to the remote")                                         \
	X(UNRESOLVED, "next hop of the remote has no MAC address yet (flooded frame)")         \
	X(TOO_BIG, "frame larger than the tunnel or port can carry")                           \
	X(GSO_NESTED, "large segment that already has a tunnel header")                        \
	X(GSO_UDP, "large UDP segment out of a tunnel, which the kernel cannot cut")           \
	X(NO_ROOM, "kernel refused to make or remove room for the headers")                    \
	X(NO_CSUM, "segment wants UDP checksums and the kernel's tunnel device is missing")    \
	X(REDIRECT, "kernel refused to send a copy of a flooded frame")                        \
	X(NOT_TAKEN, "packet that passed through and the next interface did not take")         \
	X(DENIED, "firewall: a rule or the default drops it")                                  \
	X(REJECTED, "firewall: a rule or the default rejects it, and the sender is told")      \
	X(NO_POLICY, "firewall: the policy is not loaded yet")                                 \
	X(NON_IP, "firewall: frame that is not IP, ARP or neighbour discovery")                \
	X(OUT_OF_STATE, "firewall: TCP segment or echo reply of no connection")                \
	X(OUT_OF_WINDOW, "firewall: TCP reset outside the window")                             \
	X(TCP_FLAGS, "firewall: TCP flags that no connection has")                             \
	X(UNRELATED, "firewall: ICMP error about no connection of the port")                   \
	X(FRAGMENT_FIRST, "firewall: fragment whose first one has not passed")                 \
	X(FRAGMENT_TINY, "firewall: fragment that cuts the transport header (RFC 3128)")       \
	X(HEADERS, "firewall: too many or broken IPv6 extension headers")                      \
	X(HALF_OPEN, "firewall: port has too many connections without an answer")              \
	X(NO_GATEWAY, "egress: no gateway of the policy is alive, or this one has no address") \
	X(NAT_EXHAUSTED, "NAT: no port of the pool is free for the destination")               \
	X(NAT_FULL, "NAT: table of bindings is full")                                          \
	X(NAT_LIMIT, "NAT: source has as many bindings as it may have")                        \
	X(NO_BINDING, "NAT: packet for an egress address that belongs to no binding")          \
	X(UNTRANSLATED, "NAT: packet that nothing translates, at an uplink where all must be") \
	X(NAT_FRAGMENT, "NAT: fragment whose first one was not translated")                    \
	X(NAT_UNREAD, "NAT: packet that cannot be translated")

/* X(NAME, "why each packet of the flow is decided anew"); the last three are the firewall's */
#define SLOWS(X)                                                        \
	X(FAST, "")                                                     \
	X(NEIGHBOUR, "ARP and neighbour discovery, always looked into") \
	X(ANSWERED, "answered by the edge itself")                      \
	X(HOST, "of a VLAN that is the host's")                         \
	X(UNKNOWN_UNICAST, "destination MAC not learned, flooded")      \
	X(CACHE_OFF, "flow cache is turned off")                        \
	X(CONNECTION, "connection is being opened or closed")           \
	X(FRAGMENT, "fragment at a firewall or NAT")                    \
	X(EXAMINED, "ICMP, or several extension headers, at a firewall or NAT")

/* X(NAME, "what a trace tells of the stage"), see trace.h */
#define STAGES(X)                 \
	X(PARSE, "parse")         \
	X(CACHE, "flow cache")    \
	X(GUARD, "guard")         \
	X(LEARN, "learn")         \
	X(NEIGHBOUR, "neighbour") \
	X(ROUTE, "route")         \
	X(SWITCH, "switch")       \
	X(POLICE, "firewall")     \
	X(EGRESS, "egress")       \
	X(NAT, "nat")             \
	X(DECISION, "decision")   \
	X(FLOOD, "flood")         \
	X(ICMP, "icmp")           \
	X(CLAMP, "mss")           \
	X(ENCAP, "encap")         \
	X(TRANSMIT, "transmit")   \
	X(DROP, "drop")

/* X(NAME, "what is counted") */
#define EVENTS(X)                                                                              \
	X(HIT, "packets that found a valid decision")                                          \
	X(MISS, "packets without a decision")                                                  \
	X(STALE, "packets whose decision was outdated by a change")                            \
	X(REVALIDATED, "packets whose decision had reached its age")                           \
	X(LEARNED, "MAC addresses learned")                                                    \
	X(MOVED, "MAC addresses that moved to another port or remote")                         \
	X(ARRIVAL_LOST, "hosts at ports not told of because of their rate")                    \
	X(FDB_FULL, "MAC addresses not learned because the FDB was full")                      \
	X(FLOW_FULL, "decisions not kept because the flow cache was full")                     \
	X(FLOODED, "frames replicated to the members of a segment")                            \
	X(FLOOD_COPY, "copies sent of flooded frames")                                         \
	X(EVICTED, "decisions of transit flows replaced by those of other flows")              \
	X(TRANSIT, "packets forwarded by a transit program")                                   \
	X(NEIGH_FALLBACK, "packets sent through the kernel's neighbour table")                 \
	X(HELD, "turns taken by packets that overtook an earlier one of their flow")           \
	X(GAP, "packets that did not come, so that the held ones went on")                     \
	X(ANSWERED, "ARP, ND and echo requests answered by the edge")                          \
	X(ASKED, "requests for the MAC address of a next hop")                                 \
	X(CONSUMED, "answers to the edge itself, of ARP, ND and ping")                         \
	X(ICMP_SENT, "ICMP errors sent to senders")                                            \
	X(RESET_SENT, "TCP resets sent for rejected segments")                                 \
	X(ICMP_LIMITED, "ICMP errors and requests not sent because of their rate")             \
	X(MSS_CLAMPED, "TCP SYNs with a lowered MSS")                                          \
	X(PATH_MTU, "messages of the underlay that a tunnel packet was too big")               \
	X(COALESCED, "packets given to the kernel to be put together again")                   \
	X(NOT_TUNNEL, "underlay packets that are not ours, left to the host")                  \
	X(CONN_OPENED, "connections that the firewall let begin")                              \
	X(CONN_ANSWERED, "connections that were answered")                                     \
	X(CONN_FULL, "connections that stayed among those without an answer for want of room") \
	X(CONN_REJUDGED, "connections that a new policy was asked about")                      \
	X(CONN_CUT, "connections that a new policy no longer allows")                          \
	X(LOG_LOST, "log lines of the firewall not written because of their rate")             \
	X(NAT_OPENED, "NAT bindings that began")                                               \
	X(NAT_SPILLED, "NAT bindings on another address of the pool than their first")         \
	X(NAT_RETRIED, "ports that NAT tried and found taken")                                 \
	X(NAT_ENDED, "NAT bindings that ended")                                                \
	X(NEWS_LOST, "NAT bindings that log and other gateways were not told of")

#define X(name, text) REASON_##name,
enum reason { REASONS(X) REASON_MAX };
#undef X
#define X(name, text) SLOW_##name,
enum __attribute__((packed)) slow { SLOWS(X) SLOW_MAX };
#undef X
#define X(name, text) STAGE_##name,
enum stage { STAGES(X) STAGE_MAX };
#undef X
#define X(name, text) EVENT_##name,
enum event { EVENTS(X) EVENT_MAX };
#undef X

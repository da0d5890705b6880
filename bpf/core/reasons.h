/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * reasons: why a packet was dropped, why a flow is not cached, and what else is counted.
 * Each list feeds the enum, the counters, the command line and the documents, so nothing is
 * dropped without a reason that a user can read.
 */
#pragma once

/* X(NAME, "what happened") */
#define REASONS(X)                                                                              \
	X(FORWARDED, "not dropped")                                                             \
	X(MALFORMED_ETHERNET, "frame shorter than an Ethernet header")                          \
	X(MALFORMED_ARP, "ARP packet cut short")                                                \
	X(MALFORMED_IPV4, "inner IPv4 header or length wrong, or the packet cut short")         \
	X(MALFORMED_IPV6, "inner IPv6 header or length wrong, or the packet cut short")         \
	X(MALFORMED_L4, "TCP, UDP or ICMP header cut short")                                    \
	X(SOURCE_MULTICAST, "source MAC is a group or zero address")                            \
	X(VLAN_TAGGED, "802.1Q tag of no VLAN of the port, or in a segment that keeps none")    \
	X(OUTER_MALFORMED, "outer UDP length wrong or the tunnel packet cut short")             \
	X(OUTER_FRAGMENT, "tunnel packet was fragmented (RFC 7348 4.3)")                        \
	X(TUNNEL_FLAGS, "tunnel header without a VNI, of another version or payload")           \
	X(UNKNOWN_OPTION, "Geneve option that is critical and not known (RFC 8926 3.5)")        \
	X(ECN_MARKED, "congestion mark that the inner packet cannot carry (RFC 6040 4.2)")      \
	X(UNKNOWN_VNI, "VNI is not of a segment at this UDP port")                              \
	X(UNKNOWN_REMOTE, "tunnel packet from an address that is no remote of the segment")     \
	X(UNKNOWN_PORT, "interface is not a port of this edge")                                 \
	X(SPOOFED_MAC, "source MAC is not allowed at the port, or is the gateway's")            \
	X(SPOOFED_ADDRESS, "source address is not allowed at the port, or is the gateway's")    \
	X(RA_GUARD, "router advertisement or redirect at a port without `ra: allow`")           \
	X(ND_EXT_HEADERS, "neighbour discovery behind IPv6 extension headers (RFC 6980, 7113)") \
	X(DHCP_GUARD, "to a DHCP client from a port without `dhcp: server`")                    \
	X(STATIC_MAC_MOVE, "source MAC is static at another port or remote")                    \
	X(MAC_FROZEN, "source MAC moved too often, and is frozen at another port or remote")    \
	X(NEW_FLOW_LIMIT, "more new flows a second than the port may have")                     \
	X(SAME_PORT, "destination is where the frame came from")                                \
	X(SPLIT_HORIZON, "frame from a tunnel for another remote of the segment")               \
	X(RESERVED_GROUP, "frame for the nearest bridge alone: BPDU, LACP, PAUSE and alike")    \
	X(LOOP, "loop probe that came back, or flooded frame at a port that is cut")            \
	X(NOT_ROUTED, "frame for a router's MAC address that is not IP")                        \
	X(NO_LOCAL_SERVICE, "packet to the edge itself, which answers only ARP, ND and ping")   \
	X(TTL_EXCEEDED, "TTL or hop limit ran out at a router")                                 \
	X(MARTIAN, "routed packet from or to loopback, link-local and alike")                   \
	X(REVERSE_PATH, "source that does not belong behind the uplink (RFC 3704)")             \
	X(TUNNEL_FROM_INSIDE, "tunnel packet of an inside host for a TEP of this fabric")       \
	X(NO_ROUTE, "no route of the router to the destination")                                \
	X(BLACKHOLE, "blackhole route")                                                         \
	X(UNREACHABLE, "unreachable route")                                                     \
	X(PROHIBITED, "prohibit route")                                                         \
	X(NO_NEIGHBOUR, "MAC address of the next hop not known yet, and asked for")             \
	X(NO_MEMBER, "no other port or remote in the segment to flood to")                      \
	X(STORM_CONTROL, "more flooded frames a second than the port or segment may have")      \
	X(NO_UNDERLAY_ROUTE, "no underlay route to the remote")                                 \
	X(NEXTHOP_UNRESOLVED, "next hop of the remote has no MAC address yet (flooded frame)")  \
	X(TOO_BIG, "frame larger than the tunnel or port can carry")                            \
	X(GSO_NESTED, "large segment that already has a tunnel header")                         \
	X(GSO_UDP, "large segment out of a tunnel that the kernel has not cut")                 \
	X(NO_HEADROOM, "kernel refused to make or remove room for the headers")                 \
	X(NO_CSUM, "segment wants UDP checksums and the kernel's tunnel device is missing")     \
	X(REDIRECT_FAILED, "kernel refused to send a copy of a flooded frame")                  \
	X(DEVMAP_DROP, "packet that the device of an XDP redirect refused")                     \
	X(DENIED, "firewall: a rule or the default drops it")                                   \
	X(REJECTED, "firewall: a rule or the default rejects it, and the sender is told")       \
	X(NO_POLICY, "firewall: the policy is not loaded yet")                                  \
	X(NON_IP, "firewall: frame that is not IP, ARP or neighbour discovery")                 \
	X(OUT_OF_STATE, "firewall: TCP segment or echo reply of no connection")                 \
	X(OUT_OF_WINDOW, "firewall: TCP reset outside the window")                              \
	X(TCP_FLAGS, "firewall: TCP flags that no connection has")                              \
	X(UNRELATED, "firewall: ICMP error about no connection of the port")                    \
	X(FRAGMENT_NO_FIRST, "firewall: fragment whose first one has not passed")               \
	X(FRAGMENT_TINY, "fragment that cuts the transport header (RFC 3128, RFC 7112)")        \
	X(IPV6_EXT_HEADERS, "too many or broken IPv6 extension headers")                        \
	X(HALF_OPEN_LIMIT, "firewall: no room for a half-open connection")                      \
	X(NO_GATEWAY, "egress: no gateway of the policy is alive, or this one has no address")  \
	X(NAT_EXHAUSTED, "NAT: no port of the pool is free for the destination")                \
	X(NAT_FULL, "NAT: session table is full")                                               \
	X(NAT_LIMIT, "NAT: source has as many sessions as it may have")                         \
	X(NAT_CONFLICT, "NAT: the client's port is in use at the host of the port forward")     \
	X(NO_NAT_SESSION, "NAT: packet to an egress address without a session or port forward") \
	X(NO_TRANSLATION, "NAT: packet without a translation, at an uplink that requires one")  \
	X(NAT_FRAGMENT, "NAT: fragment whose first one was not translated")                     \
	X(NAT_UNSUPPORTED, "NAT: packet that cannot be translated")                             \
	X(HIDDEN_PROTOCOL, "IP, ARP or a VLAN tag hidden behind LLC/SNAP or TPID 0x9100")       \
	X(OUTER_CHECKSUM, "outer UDP checksum that is not zero, and wrong (RFC 8926 3.3)")      \
	X(PORT_DOWN, "interface of the port or uplink is down")

/* X(NAME, "why each packet of the flow takes the slow path"); the last three are the firewall's */
#define SLOWS(X)                                                      \
	X(FAST, "")                                                   \
	X(NEIGHBOUR, "ARP and neighbour discovery, always inspected") \
	X(LOCAL_REPLY, "answered by the edge itself")                 \
	X(HOST, "of a VLAN that is the host's")                       \
	X(UNKNOWN_UNICAST, "destination MAC not learned, flooded")    \
	X(CACHE_OFF, "flow cache is turned off")                      \
	X(CONNECTION, "TCP connection is opening or closing")         \
	X(FRAGMENT, "fragment at a firewall or NAT")                  \
	X(DEEP_PARSE, "ICMP that a firewall, NAT or guard reads, or several extension headers")

/* X(NAME, "the stage's name in a trace") */
#define STAGES(X)                 \
	X(PARSE, "parse")         \
	X(CACHE, "flow cache")    \
	X(GUARD, "guard")         \
	X(LEARN, "learn")         \
	X(NEIGHBOUR, "neighbour") \
	X(ROUTE, "route")         \
	X(SWITCH, "switch")       \
	X(FIREWALL, "firewall")   \
	X(EGRESS, "egress")       \
	X(NAT, "nat")             \
	X(DECISION, "decision")   \
	X(FLOOD, "flood")         \
	X(ICMP, "icmp")           \
	X(CLAMP, "mss")           \
	X(FRAGMENT, "fragment")   \
	X(ENCAP, "encap")         \
	X(TRANSMIT, "transmit")   \
	X(DROP, "drop")

/* X(NAME, "what is counted") */
#define EVENTS(X)                                                                             \
	X(HIT, "packets that found a valid decision")                                         \
	X(MISS, "packets without a decision")                                                 \
	X(STALE, "packets whose decision a change had invalidated")                           \
	X(REVALIDATED, "packets whose decision had reached its age")                          \
	X(LEARNED, "MAC addresses learned")                                                   \
	X(MOVED, "MAC addresses that moved to another port or remote")                        \
	X(MAC_FROZEN, "MAC addresses frozen because they moved too often")                    \
	X(HOST_EVENT_LOST, "host events not sent to user space because of their rate")        \
	X(FDB_FULL, "MAC addresses not learned because the FDB or their limit was full")      \
	X(FLOW_FULL, "decisions not kept because the flow cache was full")                    \
	X(FLOW_NOT_ADMITTED, "decisions not kept because the port is at its limit")           \
	X(FLOODED, "frames replicated to the members of a segment")                           \
	X(FLOOD_COPY, "copies sent of flooded frames")                                        \
	X(EVICTED, "transit flows evicted by others")                                         \
	X(TRANSIT, "packets forwarded by a transit program")                                  \
	X(NEIGH_FALLBACK, "packets sent through the kernel's neighbour table")                \
	X(REORDER_HELD, "times a packet waited for an earlier one of its flow")               \
	X(REORDER_TIMEOUT, "packets that waited and went on without the earlier one")         \
	X(PROXY_REPLIED, "ARP, ND and echo requests answered by the edge")                    \
	X(NEIGH_REQUESTED, "ARP requests and neighbour solicitations sent for next hops")     \
	X(LOCAL_DELIVERED, "replies to the edge itself: ARP, ND and ping")                    \
	X(ICMP_SENT, "ICMP errors sent to senders")                                           \
	X(RESET_SENT, "TCP resets sent for rejected segments")                                \
	X(ICMP_LIMITED, "ICMP errors and requests not sent because of their rate")            \
	X(MSS_CLAMPED, "TCP SYNs with a lowered MSS")                                         \
	X(PATH_MTU, "ICMP messages that a tunnel packet was too big, for a probe to confirm") \
	X(PATH_MTU_LIMITED, "the same, soon after another about the path")                    \
	X(PATH_MTU_REFUSED, "the same, about no packet that this edge can have sent")         \
	X(FRAGMENTED, "routed IPv4 packets that were fragmented to fit")                      \
	X(GRO, "packets given to the kernel for GRO")                                         \
	X(NOT_TUNNEL, "underlay packets that are not ours, left to the host")                 \
	X(CONNTRACK_OPENED, "connections that the firewall allowed to open")                  \
	X(CONNTRACK_ANSWERED, "connections that were answered")                               \
	X(CONNTRACK_FULL, "answered connections kept as half-open because the table is full") \
	X(CONNTRACK_EVICTED, "connections evicted for newer ones of the same port")           \
	X(CONNTRACK_REEVALUATED, "connections evaluated against a new policy")                \
	X(CONNTRACK_REVOKED, "connections that a new policy no longer allows")                \
	X(LOG_LOST, "log lines of the firewall not written because of their rate")            \
	X(NAT_CREATED, "NAT sessions created")                                                \
	X(NAT_NEXT_ADDRESS, "NAT sessions that took another address of the pool")             \
	X(NAT_RETRIED, "ports that NAT tried and found in use")                               \
	X(NAT_DELETED, "NAT sessions deleted")                                                \
	X(NAT_EARLY_DROPPED, "NAT sessions, over or unanswered, that made room for others")   \
	X(NAT_EVENT_LOST, "NAT events not sent to the log and to other gateways")             \
	X(GSO_CUT, "large segments out of tunnels given to the kernel to cut")                \
	X(NAT_INBOUND_EVICTED, "untranslated connections from outside forgotten unanswered")

/* X(NAME, "entries of tables that a port, remote or segment may have a limited number of") */
#define LIMITED_COUNTS(X)                                             \
	X(MACS, "MAC addresses learned")                              \
	X(NEIGHBOURS, "IP addresses of neighbours")                   \
	X(HALF_OPEN_IN, "half-open connections, opened from outside") \
	X(HALF_OPEN_OUT, "half-open connections, opened from inside") \
	X(CONNECTIONS, "answered connections")                        \
	X(NAT_SESSIONS, "NAT sessions")                               \
	X(FLOWS, "entries of the flow cache")

/* X(NAME, "packets that a port or segment may have a limited number of in a second") */
#define LIMITED_RATES(X)                                         \
	X(BROADCAST, "broadcast frames flooded")                 \
	X(MULTICAST, "multicast frames flooded")                 \
	X(UNKNOWN_UNICAST, "frames for unknown MAC addresses")   \
	X(NEW_FLOWS, "flows that take the slow path")            \
	X(ICMP_ERRORS, "ICMP errors sent to it")                 \
	X(RESETS, "TCP resets sent to it")                       \
	X(NEIGHBOUR_REQUESTS, "ARP and ND requests sent for it") \
	X(LOG_LINES, "log lines of the firewall")                \
	X(HOST_EVENTS, "hosts that arrive or move, told to BGP")

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
#define X(name, text) COUNT_##name,
enum limited_count { LIMITED_COUNTS(X) COUNT_MAX };
#undef X
#define X(name, text) RATE_##name,
enum limited_rate { LIMITED_RATES(X) RATE_MAX };
#undef X

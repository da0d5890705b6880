package config

import (
	"strings"
	"testing"
)

func TestBGPErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"unknown field", fabric + "    neighbors: []\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:5: spec.bgp.neighbors: unknown field; did you mean "neighbours"?`,
		}},
		{"nothing", under + "  bgp: {}\n", []string{
			`6:8: spec.bgp.as: is missing; add it: number of the autonomous system of this edge, as in 65000`,
			`6:8: spec.bgp.neighbours: is missing; add it: speakers with which there are sessions, such as route reflectors and routers at uplinks`,
		}},
		{"no mapping", under + "  bgp: 65000\n", []string{
			`6:8: spec.bgp: must be a mapping, is an integer; fields here: as, routerID, listen, neighbours, gracefulRestart, policies, autoRouteTargets, duplicates`,
		}},
		{"no neighbours", fabric + "    neighbours: []\n", []string{
			`17:17: spec.bgp.neighbours: the list is empty; give speakers with which there are sessions, such as route reflectors and routers at uplinks`,
		}},
		{"AS 0", under + "  bgp: {as: 0, neighbours: [{name: rr, address: 192.0.2.9}]}\n", []string{
			`6:13: spec.bgp.as: 0 is outside 1 to 4294967294; 64512 to 65534 and 4200000000 to 4294967294 are for private use`,
		}},
		{"AS too large", under + "  bgp: {as: 4294967295, neighbours: [{name: rr, address: 192.0.2.9}]}\n", []string{
			`6:13: spec.bgp.as: 4294967295 is outside 1 to 4294967294; 64512 to 65534 and 4200000000 to 4294967294 are for private use`,
		}},
		{"AS as text", under + "  bgp: {as: \"65000\", neighbours: [{name: rr, address: 192.0.2.9, as: 65535}]}\n", []string{
			`6:13: spec.bgp.as: must be an integer, is a string; remove the quotes`,
			`6:70: spec.bgp.neighbours[0].as: 65535 is reserved (RFC 7300); 64512 to 65534 and 4200000000 to 4294967294 are for private use`,
		}},
		{"AS_TRANS", under + "  bgp: {as: 23456, neighbours: [{name: rr, address: 192.0.2.9, as: 65535}]}\n", []string{
			`6:13: spec.bgp.as: 23456 stands for any number of 4 octets (RFC 6793); write the number itself; 64512 to 65534 and 4200000000 to 4294967294 are for private use`,
			`6:68: spec.bgp.neighbours[0].as: 65535 is reserved (RFC 7300); 64512 to 65534 and 4200000000 to 4294967294 are for private use`,
		}},
		{"router ID", fabric + "    routerID: 2001:db8::1\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:15: spec.bgp.routerID: "2001:db8::1" is not a router ID; write it like the IPv4 address 192.0.2.1, a different one for each speaker`,
		}},
		{"router ID 0", fabric + "    routerID: 0.0.0.0\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:15: spec.bgp.routerID: "0.0.0.0" is not a router ID; write it like the IPv4 address 192.0.2.1, a different one for each speaker`,
		}},
		{"router ID missing", header + "spec:\n  underlay: {interfaces: [eth0], tep: \"2001:db8::1\"}\n  bgp:\n    as: 65000\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`7:5: spec.bgp.routerID: is missing, and cannot be the tep 2001:db8::1, which is IPv6; add it: an IPv4 address that identifies this edge, unique among BGP speakers`,
		}},
		{"listen", fabric + "    listen: [here, 192.0.2.1:0, 192.0.2.1:99999, 224.0.0.1, \"fe80::1\", 192.0.2.1, 192.0.2.1:179]\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:14: spec.bgp.listen[0]: "here" is not an IP address; write it like 192.0.2.1, 192.0.2.1:179, 2001:db8::1 or [2001:db8::1]:179`,
			`17:20: spec.bgp.listen[1]: 192.0.2.1:0 has port 0, which is not valid; leave the port out, or write 179`,
			`17:33: spec.bgp.listen[2]: "192.0.2.1:99999" is not an IP address; write it like 192.0.2.1, 192.0.2.1:179, 2001:db8::1 or [2001:db8::1]:179`,
			`17:50: spec.bgp.listen[3]: 224.0.0.1 is a multicast address; use the unicast address of a speaker`,
			`17:61: spec.bgp.listen[4]: fe80::1 is valid on one link only; use a global or unique local address`,
			`17:83: spec.bgp.listen[6]: 192.0.2.1:179 is already listed (spec.bgp.listen[5], line 17); keep one`,
		}},
		{"listen at other ports", fabric + "    listen: [192.0.2.1, 192.0.2.3:1179]\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:25: spec.bgp.listen[1]: port 1179 differs from the 179 of 192.0.2.1; give all addresses the same port`,
		}},
		{"listen to nobody", fabric + "    listen: []\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:13: spec.bgp.listen: the list is empty; give addresses of this host, also with a port, the same for all, as in 192.0.2.1:179, where sessions are accepted; when left out they are only opened`,
		}},
		{"route targets", fabric + "    autoRouteTargets: rfc4360\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:23: spec.bgp.autoRouteTargets: "rfc4360" is not supported; write vni or rfc8365`,
		}},
		{"restart", fabric + "    gracefulRestart: {time: 4096s, stale: 500ms}\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:29: spec.bgp.gracefulRestart.time: 4096s is outside 0s to 4095s; 120s is usual`,
			`17:43: spec.bgp.gracefulRestart.stale: 500ms is not a whole number of seconds; 1h is usual`,
		}},
		{"restart without unit", fabric + "    gracefulRestart: {time: 120, stale: -1s}\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:29: spec.bgp.gracefulRestart.time: "120" is not a duration; add the unit: 120s`,
			`17:41: spec.bgp.gracefulRestart.stale: -1s is outside 0s to 16777215s; 1h is usual`,
		}},
		{"duplicates", fabric + "    duplicates: {moves: 1, within: 0, freeze: 10ms}\n    neighbours: [{name: rr, address: 192.0.2.9}]\n", []string{
			`17:25: spec.bgp.duplicates.moves: 1 would freeze every host that moves; 5 is usual, 0 never freezes`,
			`17:36: spec.bgp.duplicates.within: no move can be within 0s; 180s is usual; moves: 0 never freezes`,
			`17:47: spec.bgp.duplicates.freeze: 10ms is outside 1s to 1000000s; 0 means forever, 300s is usual`,
		}},
	})
}

func TestNeighbourErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"nothing", withNeighbour(""), []string{
			`19:7: spec.bgp.neighbours[1].name: is missing; add it: name of the neighbour in commands and counters`,
			`19:7: spec.bgp.neighbours[1].address: is missing; add it: its address, IPv4 or IPv6`,
		}},
		{"unknown field", withNeighbour("name: n, address: 192.0.2.10, pasword: geheim"), []string{
			`19:38: spec.bgp.neighbours[1].pasword: unknown field; did you mean "password"?`,
		}},
		{"name twice", withNeighbour("name: rr, address: 192.0.2.10"), []string{
			`19:14: spec.bgp.neighbours[1].name: neighbour "rr" already exists (spec.bgp.neighbours[0].name, line 18); names are unique`,
		}},
		{"address twice", withNeighbour("name: n, address: 192.0.2.9"), []string{
			`19:26: spec.bgp.neighbours[1].address: 192.0.2.9 is already a neighbour (spec.bgp.neighbours[0].address, line 18); there is only one session with a speaker: put all families into it`,
		}},
		{"own address", withNeighbour("name: n, address: 192.0.2.1"), []string{
			`19:26: spec.bgp.neighbours[1].address: 192.0.2.1 is this edge's own tep; list the other speakers only; one on this host has another address, such as 127.0.0.1`,
		}},
		{"no address", withNeighbour("name: n, address: rr.example.org"), []string{
			`19:26: spec.bgp.neighbours[1].address: "rr.example.org" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`,
		}},
		{"link-local", withNeighbour("name: n, address: \"fe80::1\""), []string{
			`19:26: spec.bgp.neighbours[1].address: fe80::1 is valid on one link only; use a global or unique local address`,
		}},
		{"family of the ends", withNeighbour("name: n, address: 192.0.2.10, localAddress: \"2001:db8::1\""), []string{
			`19:52: spec.bgp.neighbours[1].localAddress: 2001:db8::1 is IPv6 but the neighbour 192.0.2.10 is IPv4; a session is of one family`,
		}},
		{"port", withNeighbour("name: n, address: 192.0.2.10, port: 0"), []string{
			`19:44: spec.bgp.neighbours[1].port: 0 is outside 1 to 65535; 179 is BGP's own`,
		}},
		{"family unknown", withNeighbour("name: n, address: 192.0.2.10, families: [evpm]"), []string{
			`19:49: spec.bgp.neighbours[1].families[0]: "evpm" is not a known address family; did you mean "evpn"?`,
		}},
		{"no families", withNeighbour("name: n, address: 192.0.2.10, families: []"), []string{
			`19:48: spec.bgp.neighbours[1].families: the list is empty; give what is exchanged: evpn, ipv4 and ipv6; when left out evpn or, with uplink, what the uplink has addresses of`,
		}},
		{"family twice", withNeighbour("name: n, address: 192.0.2.10, families: [evpn, evpn]"), []string{
			`19:55: spec.bgp.neighbours[1].families[1]: evpn is already listed (spec.bgp.neighbours[1].families[0], line 19); keep one`,
		}},
		{"unicast without an uplink", withNeighbour("name: n, address: 192.0.2.10, families: [evpn, ipv4]"), []string{
			`19:55: spec.bgp.neighbours[1].families[1]: ipv4 routes belong to an uplink, but none is given; add uplink: the name of the one that leads to the neighbour`,
		}},
		{"announce without unicast", withNeighbour("name: n, address: 192.0.2.10, advertise: [static]"), []string{
			`19:49: spec.bgp.neighbours[1].advertise: applies to ipv4 and ipv6, which this neighbour does not exchange; remove it; routers[].l3.evpn.advertise says what EVPN advertises`,
		}},
		{"uplink without unicast", withNeighbour("name: n, address: 192.0.2.10, families: [evpn], uplink: wan"), []string{
			`19:64: spec.bgp.neighbours[1].uplink: applies to ipv4 and ipv6, which this neighbour does not exchange; add one to families, or remove this`,
		}},
		{"uplink unknown", withNeighbour("name: n, address: 198.51.100.1, uplink: won"), []string{
			`19:48: spec.bgp.neighbours[1].uplink: there is no uplink "won"; did you mean "wan"?`,
		}},
		{"uplink without the family", withNeighbour("name: n, address: 198.51.100.1, uplink: wan, families: [ipv4, ipv6]"), []string{
			`19:70: spec.bgp.neighbours[1].families[1]: uplink "wan" has no ipv6 address to be a next hop; add one to the uplink, or remove the family`,
		}},
		{"the uplink itself", withNeighbour("name: n, address: 198.51.100.2, uplink: wan"), []string{
			`19:26: spec.bgp.neighbours[1].address: 198.51.100.2 is the uplink's own address; give the address of the router behind the uplink`,
		}},
		{"from the uplink itself", withNeighbour("name: n, address: 198.51.100.1, localAddress: 198.51.100.2, uplink: wan"), []string{
			`19:54: spec.bgp.neighbours[1].localAddress: 198.51.100.2 is the uplink's own address; the uplink's addresses are the router's; the session runs from one that the host has itself in that network`,
		}},
		{"source unknown", withNeighbour("name: n, address: 198.51.100.1, uplink: wan, advertise: [conected]"), []string{
			`19:65: spec.bgp.neighbours[1].advertise[0]: "conected" is not a known source of prefixes; did you mean "connected"?`,
		}},
		{"source twice", withNeighbour("name: n, address: 198.51.100.1, uplink: wan, advertise: [static, static]"), []string{
			`19:73: spec.bgp.neighbours[1].advertise[1]: static is already listed (spec.bgp.neighbours[1].advertise[0], line 19); keep one`,
		}},
		{"announced differently", withNeighbour("name: n, address: 198.51.100.1, uplink: wan") + "    - {name: m, address: 198.51.100.3, uplink: wan, advertise: [static]}\n", []string{
			`20:64: spec.bgp.neighbours[2].advertise: neighbour "n" at the same uplink has another advertise; give all neighbours of an uplink the same advertise; policies in export select from it`,
		}},
		{"empty password", withNeighbour("name: n, address: 192.0.2.10, password: \"\""), []string{
			`19:48: spec.bgp.neighbours[1].password: the password is empty; write a long random word, or remove the line`,
		}},
		{"long password", withNeighbour("name: n, address: 192.0.2.10, password: " + strings.Repeat("x", 81)), []string{
			`19:48: spec.bgp.neighbours[1].password: the password has 81 bytes, at most 80; shorten it at both ends`,
		}},
		{"password of several lines", withNeighbour("name: n, address: 192.0.2.10, password: \"a\\nb\""), []string{
			`19:48: spec.bgp.neighbours[1].password: the password has a control character or spans lines; write it in one line, in quotes`,
		}},
		{"password is a number", withNeighbour("name: n, address: 192.0.2.10, password: 12345678"), []string{
			`19:48: spec.bgp.neighbours[1].password: must be a string, is an integer; put it in quotes`,
		}},
		{"hops", withNeighbour("name: n, address: 192.0.2.10, ebgpMultihop: 0, ttlSecurity: 255"), []string{
			`19:52: spec.bgp.neighbours[1].ebgpMultihop: 0 is outside 1 to 255; 1 is on the same link; at most 255`,
			`19:68: spec.bgp.neighbours[1].ttlSecurity: 255 is outside 1 to 254; 1 is on the same link; at most 254`,
		}},
		{"both kinds of hops", withNeighbour("name: n, address: 192.0.2.10, ebgpMultihop: 2, ttlSecurity: 1"), []string{
			`19:52: spec.bgp.neighbours[1].ebgpMultihop: cannot be combined with ttlSecurity; remove it: ttlSecurity says how far away the neighbour is`,
		}},
		{"passive", withNeighbour("name: n, address: 192.0.2.10, passive: true"), []string{
			`19:47: spec.bgp.neighbours[1].passive: neither end would open the session: there is no spec.bgp.listen; add listen, as in [192.0.2.1], or remove the line`,
		}},
		{"timers", withNeighbour("name: n, address: 192.0.2.10, timers: {hold: 2s, keepalive: 500ms, connectRetry: 1500ms}"), []string{
			`19:53: spec.bgp.neighbours[1].timers.hold: 2s is outside 3s to 65535s; 9s is usual`,
			`19:68: spec.bgp.neighbours[1].timers.keepalive: 500ms is outside 1s to 65535s; 3s is usual`,
			`19:89: spec.bgp.neighbours[1].timers.connectRetry: 1500ms is not a whole number of seconds; 3s is usual`,
		}},
		{"timers too large", withNeighbour("name: n, address: 192.0.2.10, timers: {hold: 20h, connectRetry: 0}"), []string{
			`19:53: spec.bgp.neighbours[1].timers.hold: 20h is outside 3s to 65535s; 9s is usual`,
			`19:72: spec.bgp.neighbours[1].timers.connectRetry: 0 is outside 1s to 65535s; 3s is usual`,
		}},
		{"timers without unit", withNeighbour("name: n, address: 192.0.2.10, timers: {hold: 9}"), []string{
			`19:53: spec.bgp.neighbours[1].timers.hold: "9" is not a duration; add the unit: 9s`,
		}},
		{"keepalive", withNeighbour("name: n, address: 192.0.2.10, timers: {keepalive: 4s}"), []string{
			`19:58: spec.bgp.neighbours[1].timers.keepalive: 4s is more than a third of hold, 9s; raise hold, or lower this: one or two lost packets must not end the session`,
		}},
		{"liveness", strings.Replace(withNeighbour("name: n, address: 192.0.2.10, bfd: true"), ", bfd: {}", "", 1), []string{
			`19:43: spec.bgp.neighbours[1].bfd: BFD is not configured; add spec.underlay.bfd, which may be empty: {}`,
		}},
		{"policies", withNeighbour("name: n, address: 192.0.2.10, import: [in], export: [out]"), []string{
			`19:47: spec.bgp.neighbours[1].import[0]: there is no policy "in"; there are no policies in spec.bgp.policies`,
			`19:61: spec.bgp.neighbours[1].export[0]: there is no policy "out"; there are no policies in spec.bgp.policies`,
		}},
		{"policy misspelled and twice", strings.Replace(withStatement(""), "192.0.2.9}", "192.0.2.9, import: [p, q, p], export: [pp]}", 1), []string{
			`18:50: spec.bgp.neighbours[0].import[1]: there is no policy "q"; did you mean "p"?`,
			`18:53: spec.bgp.neighbours[0].import[2]: policy "p" is already listed (spec.bgp.neighbours[0].import[0], line 18); keep one`,
			`18:66: spec.bgp.neighbours[0].export[0]: there is no policy "pp"; did you mean "p"?`,
		}},
	})
}

func TestRoutePolicyErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"name twice", withStatement("") + "    - {name: p, statements: []}\n", []string{
			`21:14: spec.bgp.policies[1].name: policy "p" already exists (spec.bgp.policies[0].name, line 20); names are unique`,
			`21:29: spec.bgp.policies[1].statements: the list is empty; give what matches and what becomes of it; the first that matches decides, and what none matches is accepted`,
		}},
		{"unknown field", withStatement("action: reject"), []string{
			`20:31: spec.bgp.policies[0].statements[0].action: unknown field; fields here: prefixes, communities, reject, localPref, med, addCommunities, prepend`,
		}},
		{"rejected and changed", withStatement("reject: true, localPref: 5, med: 0, addCommunities: [\"1:1\"], prepend: 1"), []string{
			`20:56: spec.bgp.policies[0].statements[0].localPref: changes a route that is rejected; remove it, or reject`,
			`20:64: spec.bgp.policies[0].statements[0].med: changes a route that is rejected; remove it, or reject`,
			`20:83: spec.bgp.policies[0].statements[0].addCommunities: changes a route that is rejected; remove it, or reject`,
			`20:101: spec.bgp.policies[0].statements[0].prepend: changes a route that is rejected; remove it, or reject`,
		}},
		{"after all", withStatement("reject: true}, {reject: false"), []string{
			`20:30: spec.bgp.policies[0].statements[0]: matches every route, so the statements after it are never evaluated; put it last, or add prefixes or communities`,
		}},
		{"prefix", withStatement("prefixes: [{prefix: 10.0.0.1/8}]"), []string{
			`20:51: spec.bgp.policies[0].statements[0].prefixes[0].prefix: 10.0.0.1/8 has host bits; write 10.0.0.0/8`,
		}},
		{"no prefix", withStatement("prefixes: [{min: 8}, 10.0.0.0/8]"), []string{
			`20:42: spec.bgp.policies[0].statements[0].prefixes[0].prefix: is missing; add it: network in which the route's prefix lies, as in 10.0.0.0/8`,
			`20:52: spec.bgp.policies[0].statements[0].prefixes[1]: must be a mapping, is a string; fields here: prefix, min, max`,
		}},
		{"too short", withStatement("prefixes: [{prefix: 10.0.0.0/8, min: 7}]"), []string{
			`20:68: spec.bgp.policies[0].statements[0].prefixes[0].min: no prefix in 10.0.0.0/8 has 7 bits; write 8 or more`,
		}},
		{"beyond the family", withStatement("prefixes: [{prefix: 10.0.0.0/8, max: 33}, {prefix: 10.0.0.0/8, min: 33}, {prefix: 10.0.0.0/8, max: 129}]"), []string{
			`20:68: spec.bgp.policies[0].statements[0].prefixes[0].max: 33 is more than the 32 bits of IPv4; lower it`,
			`20:99: spec.bgp.policies[0].statements[0].prefixes[1].min: 33 is more than the 32 bits of IPv4; lower it`,
			`20:130: spec.bgp.policies[0].statements[0].prefixes[2].max: 129 is outside 0 to 128; lengths are up to 32 with IPv4 and 128 with IPv6`,
		}},
		{"from more to less", withStatement("prefixes: [{prefix: 10.0.0.0/8, min: 24, max: 16}, {prefix: 10.0.0.0/8, max: 7}]"), []string{
			`20:77: spec.bgp.policies[0].statements[0].prefixes[0].max: 16 is less than the minimum of 24 bits; raise it`,
			`20:108: spec.bgp.policies[0].statements[0].prefixes[1].max: 7 is less than the minimum of 8 bits; raise it`,
		}},
		{"communities", withStatement("communities: [noexport, 65536:1, \"1:1\", \"1:1\"], addCommunities: []"), []string{
			`20:45: spec.bgp.policies[0].statements[0].communities[0]: "noexport" is not a community: two numbers up to 65535, as in 65000:1, or a well-known name; write it like "65000:1", in quotes; names: graceful-shutdown, llgr-stale, no-llgr, blackhole, no-export, no-advertise, no-export-subconfed, no-peer`,
			`20:55: spec.bgp.policies[0].statements[0].communities[1]: must be a string, is a mapping; put what has a colon in quotes`,
			`20:71: spec.bgp.policies[0].statements[0].communities[3]: 1:1 is already listed (spec.bgp.policies[0].statements[0].communities[2], line 20); keep one`,
			`20:95: spec.bgp.policies[0].statements[0].addCommunities: the list is empty; give communities that the route gets besides its own`,
		}},
		{"numbers", withStatement("localPref: -1, med: 4294967296, prepend: 33"), []string{
			`20:42: spec.bgp.policies[0].statements[0].localPref: -1 is outside 1 to 4294967295; 100 is that of routes without one`,
			`20:51: spec.bgp.policies[0].statements[0].med: 4294967296 is outside 0 to 4294967295; 0 is the best`,
			`20:72: spec.bgp.policies[0].statements[0].prepend: 33 is outside 0 to 32; 2 or 3 is usual`,
		}},
	})
}

func TestEVPNErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"without BGP", under + "  segments: [{name: blue, vni: 1, evpn: {}}]\n  routers: [{name: r, l3: {vni: 3, mac: \"02:00:00:00:00:01\", evpn: {}}}]\n", []string{
			`6:41: spec.segments[0].evpn: EVPN needs BGP, which is not configured; add spec.bgp, with a neighbour such as a route reflector`,
			`7:68: spec.routers[0].l3.evpn: EVPN needs BGP, which is not configured; add spec.bgp, with a neighbour such as a route reflector`,
		}},
		{"nobody to tell", fabric + "    neighbours:\n    - {name: tor, address: 198.51.100.1, uplink: wan}\n", []string{
			`18:5: spec.bgp.neighbours: none exchanges evpn, which spec.segments[0] needs; add evpn to the families of one, or remove evpn there`,
		}},
		{"nothing", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "vni: 1, evpn: {}", "vni: 1, evpn: ", 1), []string{
			`7:31: spec.segments[0].evpn: must be a mapping, is nothing; give a value or remove the line`,
		}},
		{"fields", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "vni: 1, evpn: {}", "vni: 1, evpn: {advertise: [static]}", 1), []string{
			`7:33: spec.segments[0].evpn.advertise: unknown field; fields here: rd, import, export`,
		}},
		{"texts", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "vni: 1, evpn: {}", "vni: 1, evpn: {rd: 65536:65536, import: [auto], export: []}", 1), []string{
			`7:37: spec.segments[0].evpn.rd: 65536 does not fit the 16 bits that are left after 65536; write it in quotes, like "65000:10010", "192.0.2.1:7" or "4200000000:7": after an address, or an AS beyond 65535, comes a number up to 65535`,
			`7:59: spec.segments[0].evpn.import[0]: "auto" is not AS:NUMBER or ADDRESS:NUMBER; write it in quotes, like "65000:10010", "192.0.2.1:7" or "4200000000:7": after an address, or an AS beyond 65535, comes a number up to 65535`,
			`7:74: spec.segments[0].evpn.export: the list is empty; give route targets that advertised routes get; automatic when left out`,
		}},
		{"texts as numbers", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "vni: 1, evpn: {}", "vni: 1, evpn: {rd: \"0:0\", import: [1]}", 1), []string{
			`7:37: spec.segments[0].evpn.rd: 0:0 is not a usable route distinguisher; leave the line out for an automatic one`,
			`7:53: spec.segments[0].evpn.import[0]: must be a string, is an integer; put it in quotes`,
		}},
		{"target twice", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "vni: 1, evpn: {}", "vni: 1, evpn: {export: [\"1:1\", \"1:1\"]}", 1), []string{
			`7:49: spec.segments[0].evpn.export[1]: 1:1 is already listed (spec.segments[0].evpn.export[0], line 7); keep one`,
		}},
		{"distinguisher twice", strings.ReplaceAll(withNeighbour("name: n, address: 192.0.2.10"), "evpn: {}", "evpn: {rd: \"192.0.2.1:7\"}"), []string{
			`11:55: spec.routers[0].l3.evpn.rd: 192.0.2.1:7 belongs to another instance (spec.segments[0].evpn.rd, line 7); each instance of each edge needs its own; without the line it is automatic`,
		}},
		{"VNI twice", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "{vni: 3,", "{vni: 1, encapsulation: geneve,", 1), []string{
			`11:15: spec.routers[0].l3.vni: VNI 1 belongs to another EVPN instance (spec.segments[0].vni, line 7); EVPN knows a segment by its VNI, whatever its encapsulation and port: choose another`,
		}},
		{"what a router tells", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "01\", evpn: {}", "01\", evpn: {advertise: [evpn, static, static]}", 1), []string{
			`11:63: spec.routers[0].l3.evpn.advertise[0]: "evpn" is not a known source of prefixes for other edges; known ones: connected, loopback, static, uplink`,
			`11:77: spec.routers[0].l3.evpn.advertise[2]: static is already listed (spec.routers[0].l3.evpn.advertise[1], line 11); keep one`,
		}},
	})
}

func TestLoopbackErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"twice", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `[10.255.0.1, 10.255.0.1]`, 1), []string{
			`10:29: spec.routers[0].loopbacks[1]: 10.255.0.1 is already listed (spec.routers[0].loopbacks[0], line 10); keep one`,
		}},
		{"in a network", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `[10.0.0.7, 203.0.113.9]`, 1), []string{
			`10:17: spec.routers[0].loopbacks[0]: 10.0.0.7 is in 10.0.0.0/24, a network of the router (spec.segments[0].gateway.addresses[0], line 7); use an address outside those networks`,
			`10:27: spec.routers[0].loopbacks[1]: 203.0.113.9 is in 203.0.113.0/24, a network of the router (spec.routers[0].uplinks[1].addresses[0], line 14); use an address outside those networks`,
		}},
		{"in a pool", strings.Replace(withPolicy(good), "- name: r\n", "- name: r\n    loopbacks: [198.51.100.10]\n", 1), []string{
			`13:17: spec.routers[0].loopbacks[0]: 198.51.100.10 is in 198.51.100.0/24, a network of the router (spec.routers[0].uplinks[0].addresses[0], line 15); use an address outside those networks`,
			`13:17: spec.routers[0].loopbacks[0]: 198.51.100.10 is in a pool of the router (spec.egress.policies[0].pool[0], line 21); use an address outside the pools`,
		}},
		{"of this host", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `[127.0.0.1]`, 1), []string{
			`10:17: spec.routers[0].loopbacks[0]: 127.0.0.1 never leaves the host; use the unicast address of a host`,
		}},
		{"of a link", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `["fe80::1"]`, 1), []string{
			`10:17: spec.routers[0].loopbacks[0]: fe80::1 is valid on one link only, and a loopback is on none; use an address that others can reach`,
		}},
		{"a prefix", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `[10.255.0.1/32]`, 1), []string{
			`10:17: spec.routers[0].loopbacks[0]: "10.255.0.1/32" is not an IP address; leave out the prefix length: 10.255.0.1`,
		}},
		{"no list", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "[10.255.0.1]", `10.255.0.1`, 1), []string{
			`10:16: spec.routers[0].loopbacks: must be a list, is a string; put it in brackets: [10.255.0.1]`,
		}},
		{"with a route", strings.Replace(withNeighbour("name: n, address: 192.0.2.10"), "    l3:", "    routes: [{prefix: 10.255.0.1/32, type: blackhole}]\n    l3:", 1), []string{
			`11:23: spec.routers[0].routes[0].prefix: 10.255.0.1/32 already has a route (spec.routers[0].loopbacks[0], line 10); keep one; several next hops go into one via`,
		}},
	})
}

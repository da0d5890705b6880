package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestGatewayGroupErrors(t *testing.T) {
	gateways := func(list string) string { return exit + "  egress:\n    gateways: [" + list + "]\n" }
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf("192.0.2.%d", 100+i))
	}
	testErrors(t, []errorCase{
		{"unknown field", exit + "  egress: {gateway: []}\n", []string{`17:12: spec.egress.gateway: unknown field; did you mean "gateways"?`}},
		{"sessions", exit + "  egress: {sessions: 100}\n", []string{
			`17:22: spec.egress.sessions: 100 is outside 1024 to 16777216; one entry for each concurrent connection is enough`}},
		{"timeout", exit + "  egress: {timeouts: {udp: 2s}}\n", []string{
			`17:28: spec.egress.timeouts.udp: 2s is outside 20s to 1000000s; packets are accounted up to 10s late, so a shorter timeout would forget live connections`}},
		{"rate", exit + "  egress: {log: {rate: 0}}\n", []string{`17:24: spec.egress.log.rate: 0 is outside 1 to 100000; 100 is usual; enabled: false writes none`}},
		{"no members", gateways("{name: g, members: []}"), []string{
			`18:35: spec.egress.gateways[0].members: the list is empty; give edges, the preferred first, in the same order on every edge: the name of one of spec.remotes or of this edge, or a tunnel endpoint; at most 16`}},
		{"unknown member", gateways("{name: g, members: [a, bb]}"), []string{
			`18:39: spec.egress.gateways[0].members[1]: there is no edge "bb"; did you mean "b"?`}},
		{"member that is no name", gateways("{name: g, members: [a/b]}"), []string{
			`18:36: spec.egress.gateways[0].members[0]: "a/b" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`}},
		{"member of the other family", gateways(`{name: g, members: ["2001:db8::1"]}`), []string{
			`18:36: spec.egress.gateways[0].members[0]: 2001:db8::1 is IPv6 but the tep 192.0.2.1 is IPv4; one underlay is IPv4 or IPv6`}},
		{"member twice", gateways("{name: g, members: [b, a, 192.0.2.12, 192.0.2.1]}"), []string{
			`18:42: spec.egress.gateways[0].members[2]: gateway 192.0.2.12 is already listed (spec.egress.gateways[0].members[0], line 18); keep one`,
			`18:54: spec.egress.gateways[0].members[3]: gateway 192.0.2.1 is already listed (spec.egress.gateways[0].members[1], line 18); keep one`}},
		{"many members", gateways("{name: g, members: [" + strings.Join(many, ", ") + "]}"), []string{
			`18:35: spec.egress.gateways[0].members: 17 members, at most 16; make several groups, with a policy each`}},
		{"both called the same", strings.Replace(gateways("{name: g, members: [a]}"), "{name: b,", "{name: a,", 1), []string{
			`10:36: spec.segments[0].remotes[0]: there is no remote "b"; did you mean "a"?`,
			`18:36: spec.egress.gateways[0].members[0]: both this edge and a remote are called "a"; give the remote another name, or write an address`}},
		{"group twice", gateways("{name: g, members: [a]}, {name: g, members: [b]}"), []string{
			`18:48: spec.egress.gateways[1].name: group "g" already exists (spec.egress.gateways[0].name, line 18); names are unique`}},
		{"mode", gateways("{name: g, members: [a], mode: both}"), []string{
			`18:46: spec.egress.gateways[0].mode: "both" is not supported; write active-standby or active-active`}},
		{"one port for two groups", gateways("{name: g, members: [a], replication: {}}, {name: h, members: [b], replication: {}}, {name: i, members: [a, b], replication: {}}"), []string{
			`18:140: spec.egress.gateways[2].replication.port: port 49789 belongs to another group of this edge (spec.egress.gateways[0].replication.port, line 18); give each group a port of its own`}},
		{"empty key", gateways(`{name: g, members: [a], replication: {key: ""}}`), []string{
			`18:59: spec.egress.gateways[0].replication.key: the key is empty; write a long random word, or remove the line`}},
	})
}

func TestPolicyErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"fields missing", withPolicy("name: web"), []string{
			`20:7: spec.egress.policies[0].router: is missing; add it: name of the router whose packets these are`,
			`20:7: spec.egress.policies[0].vni: is missing; add it: virtual network identifier (VSID with nvgre), the same on every edge of the segment`,
			`20:7: spec.egress.policies[0].gateways: is missing; add it: name of the group of gateways`,
			`20:7: spec.egress.policies[0].pool: is missing; add it: addresses that sources get, as in [192.0.2.10-192.0.2.20, "2001:db8::10"], at most 1024; or [uplink], that of the gateway's uplink`}},
		{"name twice", withPolicy(good) + "    - {name: web, router: r, vni: 10, gateways: gws, pool: [198.51.100.11], uplink: wan}\n", []string{
			`21:14: spec.egress.policies[1].name: policy "web" already exists (spec.egress.policies[0].name, line 20); names are unique`}},
		{"name of a segment", strings.Replace(withPolicy(good), "name: blue", "name: egress-web", 1), []string{
			`16:49: spec.ports[0].segment: there is no segment "blue"; segments: egress-web`,
			`20:14: spec.egress.policies[0].name: the policy's segment would be called "egress-web", which already exists (spec.segments[0].name, line 10); give the policy or the other another name`}},
		{"VNI of a segment", withPolicy(strings.Replace(good, "vni: 9", "vni: 1", 1)), []string{
			`20:35: spec.egress.policies[0].vni: VNI 1 on UDP port 4789 is taken (spec.segments[0].vni, line 10); choose another vni or udpPort, or make them one segment`}},
		{"VNI of another policy", withPolicy(good) + "    - {name: more, router: r, vni: 9, gateways: gws, pool: [198.51.100.11], uplink: wan}\n", []string{
			`21:36: spec.egress.policies[1].vni: VNI 9 on UDP port 4789 is taken (spec.egress.policies[0].vni, line 20); choose another vni or udpPort, or make them one segment`}},
		{"router", withPolicy(strings.Replace(good, "router: r", "router: rr", 1)), []string{
			`20:27: spec.egress.policies[0].router: there is no router "rr"; did you mean "r"?`}},
		{"group", withPolicy(strings.Replace(good, "gateways: gws", "gateways: gw", 1)), []string{
			`20:48: spec.egress.policies[0].gateways: there is no group "gw" of gateways; did you mean "gws"?`}},
		{"remote", withPolicy(good + ", remotes: [d]"), []string{
			`20:99: spec.egress.policies[0].remotes[0]: there is no remote "d"; did you mean "b"?`}},
		{"no uplink", withPolicy(strings.Replace(good, ", uplink: wan", "", 1)), []string{
			`20:7: spec.egress.policies[0].uplink: is missing, and this edge is a gateway of "gws"; add it: name of the router's uplink that the packets leave by`}},
		{"uplink", withPolicy(strings.Replace(good, "wan", "wam", 1)), []string{
			`20:84: spec.egress.policies[0].uplink: router "r" has no uplink "wam"; did you mean "wan"?`}},
		{"from", withPolicy(good + ", from: [gg, {segment: bleu}, {port: wan}, {port: p0, group: x}, any]"), []string{
			`20:96: spec.egress.policies[0].from[0]: there is no group "gg"; there are no groups`,
			`20:100: spec.egress.policies[0].from[1]: there is no segment "bleu"; did you mean "blue"?`,
			`20:117: spec.egress.policies[0].from[2]: "wan" is an uplink; write {segment: wan}: its network`,
			`20:130: spec.egress.policies[0].from[3]: both port and group are given; make them two members: one of them has to match`,
			`20:152: spec.egress.policies[0].from[4]: any includes all the others; keep any alone, or remove it`}},
		{"families", withPolicy(good + `, from: ["fd00::/64"], to: [10.0.0.0/8, "2001:db8::/32"]`), []string{
			`20:95: spec.egress.policies[0].from: sources and pool are of different families; add addresses of the sources' family to the pool`,
			`20:127: spec.egress.policies[0].to[1]: the pool has no IPv6 address, so packets to 2001:db8::/32 would be dropped; add one to the pool, or remove the network`}},
		{"host bits", withPolicy(good + `, to: [10.0.0.1/8]`), []string{
			`20:94: spec.egress.policies[0].to[0]: 10.0.0.1/8 has host bits; write 10.0.0.0/8`}},
		{"filtering alone", withPolicy(good + ", filtering: endpoint-independent"), []string{
			`20:100: spec.egress.policies[0].filtering: only endpoint-independent mappings accept packets from anybody; write mapping: endpoint-independent too, or remove the line`}},
		{"ports", withPolicy(good + ", ports: 0-100"), []string{`20:96: spec.egress.policies[0].ports: port 0 is not valid; begin with 1, or better 1024`}},
		{"ports backwards", withPolicy(good + ", ports: 200-100"), []string{`20:96: spec.egress.policies[0].ports: 200-100 ends before it begins; write it 100-200`}},
		{"no port", withPolicy(good + ", ports: 0"), []string{`20:96: spec.egress.policies[0].ports: port 0 is not valid; begin with 1, or better 1024`}},
	})
}

func TestPoolErrors(t *testing.T) {
	pool := func(list string) string {
		return withPolicy("name: web, router: r, vni: 9, gateways: gws, uplink: lan, pool: [" + list + "]")
	}
	more := func(list string) string {
		return pool(list) + "    - {name: more, router: r, vni: 10, gateways: gws, uplink: lan, pool: [203.0.113.10-203.0.113.20]}\n"
	}
	const at = `20:73: spec.egress.policies[0].pool[0]: `
	var cases []errorCase
	for _, c := range []struct{ list, want string }{
		{"203.0.113.0/28", `203.0.113.0/28 is a network; write its addresses as a range that begins with 203.0.113.0`},
		{"203.0.113", `"203.0.113" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`},
		{"203.0.113.9-5", `"5" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`},
		{"203.0.113.9-203.0.113.5", `203.0.113.9-203.0.113.5 ends before it begins; write it 203.0.113.5-203.0.113.9`},
		{`"203.0.113.9-2001:db8:5::9"`, `203.0.113.9-2001:db8:5::9 begins with IPv4 and ends with IPv6; make it two ranges, one a family`},
		{"224.0.0.1", `224.0.0.1 is a multicast address; use the unicast address of a host`},
		{`"fe80::1"`, `fe80::1 is in fe80::/10, valid on one link only; use an address that others can reply to`},
		{"0.0.0.5", `0.0.0.5 is in 0.0.0.0/8, reserved (RFC 1122 section 3.2.1.3); use an address that others can reply to`},
		{"203.0.113.0-203.0.113.1", `203.0.113.0 is the network address of 203.0.113.0/24; leave it out`},
		{`"2001:db8:5::-2001:db8:5::ffff"`, `2001:db8:5::-2001:db8:5::ffff has more than 1024 addresses; give fewer: each has 64512 ports for each destination`},
		{"203.0.113.1-203.0.113.9", `203.0.113.2 is the uplink's own address (spec.routers[0].uplinks[1].addresses[0], line 15); leave it out, or use masquerade of the uplink`},
		{"203.0.113.250-203.0.113.255", `203.0.113.255 is the broadcast address of 203.0.113.0/24; leave it out`},
		{"10.0.0.1", `overlaps 10.0.0.0/24, a network of the overlay (spec.segments[0].gateway.addresses[0], line 10); a pool needs addresses that nothing else uses`},
		{"9.255.255.250-10.0.1.4", `overlaps 10.0.0.0/24, a network of the overlay (spec.segments[0].gateway.addresses[0], line 10); a pool needs addresses that nothing else uses`},
	} {
		cases = append(cases, errorCase{c.list, pool(c.list), []string{at + c.want}})
	}
	testErrors(t, append(cases, []errorCase{
		{"too many together", pool("203.0.113.10-203.0.113.19, 100.64.0.0-100.64.3.255"), []string{
			`20:72: spec.egress.policies[0].pool: the pool has more than 1024 addresses; give fewer, or make two policies`}},
		{"uplink and others", pool("203.0.113.10, uplink, uplink, 203.0.113.11"), []string{
			`20:73: spec.egress.policies[0].pool[0]: sources get the address of the uplink already; write [uplink] alone, or addresses without it`,
			`20:95: spec.egress.policies[0].pool[2]: sources get the address of the uplink already; write [uplink] alone, or addresses without it`,
			`20:103: spec.egress.policies[0].pool[3]: sources get the address of the uplink already; write [uplink] alone, or addresses without it`}},
		{"within itself", pool("203.0.113.10-203.0.113.19, 203.0.113.30, 203.0.113.19"), []string{
			`20:114: spec.egress.policies[0].pool[2]: 203.0.113.19 is already in a pool of the router (spec.egress.policies[0].pool[0], line 20); give each policy addresses of its own`}},
		{"of two policies", more("203.0.113.20-203.0.113.30"), []string{
			`21:75: spec.egress.policies[1].pool[0]: 203.0.113.20 is already in a pool of the router (spec.egress.policies[0].pool[0], line 20); give each policy addresses of its own`}},
		{"of two policies, one in the other", more("203.0.113.3-203.0.113.40, 203.0.113.41"), []string{
			`21:75: spec.egress.policies[1].pool[0]: 203.0.113.10 is already in a pool of the router (spec.egress.policies[0].pool[0], line 20); give each policy addresses of its own`}},
		{"family of the uplink", withPolicy(strings.Replace(good, "[198.51.100.10]", `[198.51.100.10, "2001:db8::9"]`, 1)), []string{
			`20:75: spec.egress.policies[0].pool[1]: uplink "wan" has no IPv6 address; add one to the uplink, or remove this from the pool`}},
	}...))
}

// A next hop, a BGP neighbour and the host's end of the session keep their addresses; those of other routers are others.
func TestPoolOfOthers(t *testing.T) {
	const routes = "    routes: [{prefix: 0.0.0.0/0, via: [{address: 203.0.113.1}]}]\n"
	const bgp = `  bgp:
    as: 65000
    neighbours: [{name: up, address: 203.0.113.9, localAddress: 203.0.113.8, as: 65001, uplink: lan}]
`
	pool := func(list string) string {
		text := strings.Replace(withPolicy("name: web, router: r, vni: 9, gateways: gws, uplink: lan, pool: ["+list+"]"), "  ports: ", routes+"  ports: ", 1)
		return strings.Replace(text, "  ports: ", "  - {name: q, uplinks: [{name: q-wan, interface: eth3, addresses: [203.0.113.3/24]}], "+strings.TrimSpace(strings.Replace(routes, ".1}", ".4}", 1))+"}\n  ports: ", 1) + bgp
	}
	testErrors(t, []errorCase{
		{"next hop", pool("203.0.113.10, 203.0.113.1"), []string{
			`22:87: spec.egress.policies[0].pool[1]: 203.0.113.1 is a next hop of the router (spec.routers[0].routes[0].via[0].address, line 16); leave it out: it belongs to another router`}},
		{"range with the next hop", pool("203.0.113.1-203.0.113.1"), []string{
			`22:73: spec.egress.policies[0].pool[0]: 203.0.113.1 is a next hop of the router (spec.routers[0].routes[0].via[0].address, line 16); leave it out: it belongs to another router`}},
		{"neighbour", pool("203.0.113.9-203.0.113.20"), []string{
			`22:73: spec.egress.policies[0].pool[0]: 203.0.113.9 is a BGP neighbour (spec.bgp.neighbours[0].address, line 25); leave it out: it belongs to another router`}},
		{"this host", pool("203.0.113.8"), []string{
			`22:73: spec.egress.policies[0].pool[0]: 203.0.113.8 is this host's address in a BGP session (spec.bgp.neighbours[0].localAddress, line 25); leave it out: the session would end`}},
		{"subnet-router anycast", pool(`"2001:db8:5::-2001:db8:5::1"`), []string{
			`22:73: spec.egress.policies[0].pool[0]: 2001:db8:5:: is the subnet-router anycast address of 2001:db8:5::/64 (RFC 4291 section 2.6.1); leave it out`}},
	})
	parseEdge(t, pool("203.0.113.4"))
}

// In another router the same addresses are others.
func TestPoolsOfTwoRouters(t *testing.T) {
	text := strings.Replace(withPolicy(good), "  ports: ", "  - {name: q, uplinks: [{name: q-wan, interface: eth3, addresses: [198.51.100.2/24]}]}\n  ports: ", 1)
	parseEdge(t, text+"    - {name: more, router: q, vni: 10, gateways: gws, pool: [198.51.100.10], uplink: q-wan}\n")
}

func TestNATErrors(t *testing.T) {
	nat := func(fields string) string {
		return strings.Replace(exit, "[198.51.100.2/24]}", "[198.51.100.2/24], nat: {"+fields+"}}", 1)
	}
	portForward := func(fields string) string { return nat("portForwards: [{protocol: tcp, " + fields + "}]") }
	const at = "spec.routers[0].uplinks[0].nat"
	testErrors(t, []errorCase{
		{"unknown field", nat("masquarade: true"), []string{`14:72: ` + at + `.masquarade: unknown field; did you mean "masquerade"?`}},
		{"ports", nat("ports: 0-9"), []string{`14:79: ` + at + `.ports: port 0 is not valid; begin with 1, or better 1024`}},
		{"fields missing", nat("portForwards: [{}]"), []string{
			`14:87: ` + at + `.portForwards[0].protocol: is missing; add it: tcp or udp`,
			`14:87: ` + at + `.portForwards[0].port: is missing; add it: port or range of ports, as in 8000-8009`,
			`14:87: ` + at + `.portForwards[0].to: is missing; add it: address of the host`}},
		{"protocol", nat("portForwards: [{protocol: icmp, port: 1, to: 10.0.0.5}]"), []string{
			`14:98: ` + at + `.portForwards[0].protocol: "icmp" is not supported; write tcp or udp`}},
		{"port 0", portForward("port: 0, to: 10.0.0.5"), []string{`14:109: ` + at + `.portForwards[0].port: port 0 is not valid; begin with 1`}},
		{"port backwards", portForward("port: 9-8, to: 10.0.0.5"), []string{`14:109: ` + at + `.portForwards[0].port: 9-8 ends before it begins; write it 8-9`}},
		{"too many ports", portForward("port: 80-90, to: 10.0.0.5, toPort: 65530"), []string{
			`14:138: ` + at + `.portForwards[0].toPort: 11 ports from 65530 on go beyond 65535; lower it, or forward fewer`}},
		{"no address of the family", portForward(`port: 80, to: "fd00::5"`), []string{
			`14:117: ` + at + `.portForwards[0].to: uplink "wan" has no IPv6 address; give the address to forward from, or add one to the uplink`}},
		{"families", portForward(`address: 198.51.100.2, port: 80, to: "fd00::5"`), []string{
			`14:140: ` + at + `.portForwards[0].to: fd00::5 is IPv6 but 198.51.100.2 is IPv4; families are not translated; make them the same`}},
		{"address of another uplink", portForward("address: 203.0.113.2, port: 80, to: 10.0.0.5"), []string{
			`14:112: ` + at + `.portForwards[0].address: 203.0.113.2 is neither an address of uplink "wan" nor in a pool at it; use one of the uplink's addresses, or leave it out`}},
		{"to the router", portForward("port: 80, to: 10.0.0.254"), []string{
			`14:117: ` + at + `.portForwards[0].to: 10.0.0.254 is the router's own address; give the address of a host`}},
		{"port twice", nat("portForwards: [{protocol: tcp, port: 80-90, to: 10.0.0.5}, {protocol: udp, port: 80-90, to: 10.0.0.5}, {protocol: tcp, port: 85, to: 10.0.0.6}, " +
			"{protocol: tcp, address: 198.51.100.2, port: 10-80, to: 10.0.0.6}]"), []string{
			`14:197: ` + at + `.portForwards[2].port: tcp port 85 of 198.51.100.2 is already forwarded (` + at + `.portForwards[0], line 14); a port can lead to only one host`,
			`14:261: ` + at + `.portForwards[3].port: tcp port 80 of 198.51.100.2 is already forwarded (` + at + `.portForwards[0], line 14); a port can lead to only one host`}},
		{"many", nat("portForwards: [{protocol: tcp, port: 1-65535, to: 10.0.0.5}, {protocol: udp, port: 1-2, to: 10.0.0.5}]"), []string{
			`12:3: spec.routers: 65537 ports to forward, at most 65536; forward fewer`}},
	})
}

// A forward may use an address of a pool at its uplink.
func TestPortForwardOfPool(t *testing.T) {
	text := strings.Replace(withPolicy(good), "[198.51.100.2/24]}",
		"[198.51.100.2/24], nat: {portForwards: [{protocol: tcp, address: 198.51.100.10, port: 80, to: 10.0.0.5}]}}", 1)
	if f := parseEdge(t, text).Routers[0].Uplinks[0].NAT.PortForwards; len(f) != 1 || f[0].Addr.String() != "198.51.100.10" {
		t.Errorf("forwards %+v", f)
	}
}

// The rest of the file is good, so each limit is a mistake of its own.
func TestEgressLimits(t *testing.T) {
	var many strings.Builder
	for i := range maxPolicies + 1 {
		fmt.Fprintf(&many, "    - {name: p%d, router: r, vni: %d, gateways: gws, pool: [100.64.%d.%d], uplink: wan}\n", i, 100+i, i>>8, i&255)
	}
	var pools strings.Builder
	for i := range 65 {
		fmt.Fprintf(&pools, "    - {name: p%d, router: r, vni: %d, gateways: gws, pool: [100.64.%d.0-100.64.%d.255], uplink: wan}\n", i, 100+i, 4*(i%64), 4*(i%64)+3)
	}
	testErrors(t, []errorCase{
		{"policies", exit + pair + "    policies:\n" + many.String(), []string{
			`18:5: spec.egress: 1024 policies and uplinks that translate, at most 1023; divide them among several edges`}},
		{"pools", exit + pair + "    policies:\n" + pools.String(), []string{
			`20:5: spec.egress.policies: the pools have 66560 addresses, at most 65536; divide them among several edges`}},
	})
}

package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wan is a good router with an uplink and a segment; what follows begins in
// line 10 and belongs to the router.
const wan = under + `  segments:
  - {name: blue, vni: 1, gateway: {router: r, addresses: [10.0.0.254/24, "fd00::fe/64"]}}
  routers:
  - name: r
    uplinks: [{name: wan, interface: eth1, addresses: [198.51.100.2/24]}]
`

func TestTunnelErrors(t *testing.T) {
	segments := func(fields ...string) string {
		var b strings.Builder
		for i, f := range fields {
			fmt.Fprintf(&b, "  - {name: s%d, %s}\n", i, f)
		}
		return under + "  segments:\n" + b.String()
	}
	testErrors(t, []errorCase{
		{"VNI twice of geneve", segments("vni: 1, encapsulation: geneve", "vni: 1, encapsulation: geneve"), []string{
			`8:21: spec.segments[1].vni: VNI 1 on UDP port 6081 is taken (spec.segments[0].vni, line 7); choose another vni or udpPort, or make them one segment`,
		}},
		{"VSID twice", segments("vni: 1, encapsulation: nvgre", "vni: 1", "vni: 1, encapsulation: nvgre"), []string{
			`9:21: spec.segments[2].vni: VSID 1 of nvgre is taken (spec.segments[0].vni, line 7); choose another vni, or make them one segment`,
		}},
		{"VNI twice with an l3 segment", segments("vni: 1") + "  routers:\n  - {name: r, l3: {vni: 1, mac: \"02:00:00:00:00:01\"}}\n", []string{
			`9:25: spec.routers[0].l3.vni: VNI 1 on UDP port 4789 is taken (spec.segments[0].vni, line 7); choose another vni or udpPort, or make them one segment`,
		}},
		{"two encapsulations on a port", segments("vni: 1", "vni: 2, encapsulation: geneve, udpPort: 4789"), []string{
			`8:56: spec.segments[1].udpPort: UDP port 4789 already carries vxlan (spec.segments[0], line 7); give geneve a port of its own, as in 6081`,
		}},
		{"port of nvgre", segments("vni: 1, encapsulation: nvgre, udpPort: 4789"), []string{
			`7:55: spec.segments[0].udpPort: nvgre has no UDP port (RFC 7637 section 3.1: it is GRE); remove the line`,
		}},
		{"options of vxlan", segments(`vni: 1, options: "0104 0100"`), []string{
			`7:33: spec.segments[0].options: vxlan has no options; remove the line; it is for geneve`,
		}},
		{"checksum of geneve", segments("vni: 1, encapsulation: geneve, udpChecksum: true"), []string{
			`7:60: spec.segments[0].udpChecksum: there are no outer UDP checksums with geneve; remove the line; it is for vxlan`,
		}},
		{"options no hex", segments(`vni: 1, encapsulation: geneve, options: "01 0x"`), []string{
			`7:56: spec.segments[0].options: "01 0x" is not an even number of hex digits; write the bytes of the header in hex, as in "0104 8001 deadbeef"`,
		}},
		{"options a number", segments(`vni: 1, encapsulation: geneve, options: 01040100`), []string{
			`7:56: spec.segments[0].options: must be a string, is an integer; put it in quotes`,
		}},
		{"options half a header", segments(`vni: 1, encapsulation: geneve, options: "0104 0100 01"`), []string{
			`7:56: spec.segments[0].options: at byte 4 are 1 bytes, where the header of an option has 4; an option is class (2 bytes), type (1), length of the data in words of 4 bytes (1), data (RFC 8926 section 3.5)`,
		}},
		{"options cut short", segments(`vni: 1, encapsulation: geneve, options: "0104 0102 deadbeef"`), []string{
			`7:56: spec.segments[0].options: byte 0 begins an option of 12 bytes, of which 8 are there; an option is class (2 bytes), type (1), length of the data in words of 4 bytes (1), data (RFC 8926 section 3.5)`,
		}},
		{"options with reserved bits", segments(`vni: 1, encapsulation: geneve, options: "0104 0120"`), []string{
			`7:56: spec.segments[0].options: byte 3 is 0x20: its upper three bits are reserved; write the length in words of 4 bytes, 00 to 1f`,
		}},
		{"options too long", segments(`vni: 1, encapsulation: geneve, options: "` + strings.Repeat("01040100", 64) + `"`), []string{
			`7:56: spec.segments[0].options: 256 bytes of options, at most 252; send fewer: the header's length field ends there (RFC 8926 section 3.4)`,
		}},
		{"outer", segments("vni: 1, outer: {dscp: 64, ttl: 0, df: maybe}"), []string{
			`7:38: spec.segments[0].outer.dscp: "64" is not a DSCP; write 0 to 63, or inherit to take that of the inner packet`,
			`7:47: spec.segments[0].outer.ttl: "0" is not a TTL; write 1 to 255, or inherit to take that of the inner packet`,
			`7:54: spec.segments[0].outer.df: "maybe" is not supported; write set or unset or inherit`,
		}},
		{"outer octal", segments("vni: 1, outer: {dscp: 010}"), []string{
			`7:38: spec.segments[0].outer.dscp: "010" is not a DSCP; write 0 to 63, or inherit to take that of the inner packet`,
		}},
		{"two sources of a family", segments(`vni: 1, icmpSources: [10.0.0.1, "fd00::1", 10.0.0.2]`), []string{
			`7:59: spec.segments[0].icmpSources[2]: there is already a source for IPv4 (spec.segments[0].icmpSources[0], line 7); keep one per family`,
		}},
		{"neighbours", segments(`vni: 1, neighbours: [{address: 224.0.0.1, mac: "02:00:00:00:00:01"}, {address: 10.0.0.1, mac: "03:00:00:00:00:01"}, {address: 10.0.0.1, mac: "02:00:00:00:00:01"}]`), []string{
			`7:47: spec.segments[0].neighbours[0].address: 224.0.0.1 is a multicast address; use the unicast address of a host`,
			`7:110: spec.segments[0].neighbours[1].mac: 03:00:00:00:00:01 is a group address; the lowest bit of the first byte must be 0; groups are flooded to all remotes anyway`,
			`7:142: spec.segments[0].neighbours[2].address: 10.0.0.1 already has an entry (spec.segments[0].neighbours[1].address, line 7); an address can have only one MAC address`,
		}},
	})
}

func TestGatewayErrors(t *testing.T) {
	gateway := func(addresses string) string {
		return under + "  segments:\n  - {name: blue, vni: 1, gateway: {router: r, addresses: " + addresses + "}}\n  routers: [{name: r}]\n"
	}
	testErrors(t, []errorCase{
		{"no such router", strings.Replace(gateway("[10.0.0.1/24]"), "router: r", "router: rr", 1), []string{
			`7:44: spec.segments[0].gateway.router: there is no router "rr"; did you mean "r"?`,
		}},
		{"no addresses", gateway("[]"), []string{
			`7:58: spec.segments[0].gateway.addresses: the list is empty; give addresses of the gateway with the prefix of the network, as in [10.0.0.254/24], the same on every edge`,
		}},
		{"no prefix length", gateway("[10.0.0.1]"), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: "10.0.0.1" is not a prefix; add the prefix length: 10.0.0.1/32 is one address`,
		}},
		{"network address", gateway("[10.0.0.0/24]"), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: 10.0.0.0 is the network address of 10.0.0.0/24; use another address of the network`,
		}},
		{"broadcast address", gateway("[10.0.0.255/24]"), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: 10.0.0.255 is the broadcast address of 10.0.0.0/24; use another address of the network`,
		}},
		{"subnet-router anycast address", gateway(`["2001:db8:7::/64"]`), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: 2001:db8:7:: is the subnet-router anycast address of 2001:db8:7::/64 (RFC 4291 section 2.6.1); use another address of the network`,
		}},
		{"link-local", gateway(`["fe80::1/64"]`), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: fe80::1 is valid on one link only; leave it out: any IPv6 address adds the link-local one of the MAC address`,
		}},
		{"mapped", gateway(`["::ffff:10.0.0.1/120"]`), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: ::ffff:10.0.0.1/120 is an IPv4 prefix in IPv6 form; write it like 10.0.0.0/8`,
		}},
		{"no network", gateway("[10.0.0.1/0]"), []string{
			`7:59: spec.segments[0].gateway.addresses[0]: 10.0.0.1/0 has no network; give the prefix length of the network, as in /24 or /64`,
		}},
		{"address twice", gateway("[10.0.0.1/24, 10.0.0.1/16]"), []string{
			`7:72: spec.segments[0].gateway.addresses[1]: 10.0.0.1 is already an address of the router (spec.segments[0].gateway.addresses[0], line 7); keep one`,
		}},
		{"own address as neighbour", under + "  segments:\n  - name: blue\n    vni: 1\n    gateway: {router: r, addresses: [10.0.0.1/24]}\n" +
			"    neighbours: [{address: 10.0.0.1, mac: \"02:00:00:00:00:01\"}]\n  routers: [{name: r}]\n", []string{
			`10:28: spec.segments[0].neighbours[0].address: 10.0.0.1 is the gateway's own address; list hosts only`,
		}},
		{"overlap between segments", under + "  segments:\n" +
			"  - {name: a, vni: 1, gateway: {router: r, addresses: [10.0.0.1/24]}}\n" +
			"  - {name: b, vni: 2, gateway: {router: r, addresses: [10.0.0.129/25]}}\n" +
			"  - {name: c, vni: 3, gateway: {router: s, addresses: [10.0.0.1/24]}}\n" +
			"  routers: [{name: r}, {name: s}]\n", []string{
			`8:56: spec.segments[1].gateway.addresses[0]: 10.0.0.128/25 overlaps 10.0.0.0/24 of the same router (spec.segments[0].gateway.addresses[0], line 7); use another network, or another router: addresses of different routers may overlap`,
		}},
		{"overlap with an uplink", strings.Replace(wan, "198.51.100.2/24", "10.0.0.2/30", 1), []string{
			`10:56: spec.routers[0].uplinks[0].addresses[0]: 10.0.0.0/30 overlaps 10.0.0.0/24 of the same router (spec.segments[0].gateway.addresses[0], line 7); use another network, or another router: addresses of different routers may overlap`,
		}},
	})
}

func TestRouterErrors(t *testing.T) {
	route := func(text string) string { return wan + "    routes:\n    - " + text + "\n" }
	l3 := "    l3: {vni: 9, mac: \"02:00:00:00:00:01\", remotes: [192.0.2.2]}\n"
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("{address: 10.0.0.%d}", i+1)
	}
	testErrors(t, []errorCase{
		{"name twice", wan + "  - {name: r}\n", []string{
			`11:12: spec.routers[1].name: router "r" already exists (spec.routers[0].name, line 9); names are unique`,
		}},
		{"host bits", route("{prefix: 10.1.2.0/16, type: blackhole}"), []string{
			`12:16: spec.routers[0].routes[0].prefix: 10.1.2.0/16 has host bits; write 10.1.0.0/16`,
		}},
		{"no prefix", route("{prefix: 10.1.2.0, type: blackhole}"), []string{
			`12:16: spec.routers[0].routes[0].prefix: "10.1.2.0" is not a prefix; add the prefix length: 10.1.2.0/32 is one address`,
		}},
		{"prefix twice", route("{prefix: 10.1.0.0/16, type: blackhole}\n    - {prefix: 10.1.0.0/16, type: prohibit}"), []string{
			`13:16: spec.routers[0].routes[1].prefix: 10.1.0.0/16 already has a route (spec.routers[0].routes[0].prefix, line 12); keep one; several next hops go into one via`,
		}},
		{"prefix of a gateway", route("{prefix: 10.0.0.0/24, via: [{address: 198.51.100.1}]}"), []string{
			`12:16: spec.routers[0].routes[0].prefix: 10.0.0.0/24 already has a route (spec.segments[0].gateway.addresses[0], line 7); keep one; several next hops go into one via`,
		}},
		{"unknown type", route("{prefix: 10.1.0.0/16, type: throw}"), []string{
			`12:35: spec.routers[0].routes[0].type: "throw" is not supported; write unicast or blackhole or unreachable or prohibit`,
		}},
		{"no next hop", route("{prefix: 10.1.0.0/16}"), []string{
			`12:7: spec.routers[0].routes[0].via: is missing; add next hops, as in [{address: 198.51.100.1}], or a type like blackhole`,
		}},
		{"empty via", route("{prefix: 10.1.0.0/16, via: []}"), []string{
			`12:34: spec.routers[0].routes[0].via: is missing; add next hops, as in [{address: 198.51.100.1}], or a type like blackhole`,
		}},
		{"blackhole with next hop", route("{prefix: 10.1.0.0/16, type: blackhole, via: [{address: 198.51.100.1}]}"), []string{
			`12:51: spec.routers[0].routes[0].via: a route of type blackhole goes nowhere; remove via, or the type`,
		}},
		{"next hop elsewhere", route("{prefix: 10.1.0.0/16, via: [{address: 203.0.113.1}]}"), []string{
			`12:45: spec.routers[0].routes[0].via[0].address: 203.0.113.1 is in no network of router "r"; a next hop is in the network of one of the router's gateways or uplinks: 10.0.0.0/24, fd00::/64, 198.51.100.0/24; for one that is on the link all the same, name its uplink beside it`,
		}},
		{"next hop elsewhere than at its uplink", route("{prefix: 10.1.0.0/16, via: [{address: 10.0.0.1, uplink: wan}]}"), []string{
			`12:63: spec.routers[0].routes[0].via[0].uplink: 10.0.0.1 is in 10.0.0.0/24, which is elsewhere (spec.segments[0].gateway.addresses[0], line 7); remove uplink, or correct the address`,
		}},
		{"no such uplink", route("{prefix: 10.1.0.0/16, via: [{address: 203.0.113.1, uplink: wam}]}"), []string{
			`12:66: spec.routers[0].routes[0].via[0].uplink: router "r" has no uplink "wam"; did you mean "wan"?`,
		}},
		{"uplink without the family", route(`{prefix: "::/0", via: [{address: "fe80::1", uplink: wan}]}`), []string{
			`12:59: spec.routers[0].routes[0].via[0].uplink: uplink "wan" has no IPv6 address to ask fe80::1 from; add one to its addresses`,
		}},
		{"link-local next hop without an uplink", route(`{prefix: "::/0", via: [{address: "fe80::1"}]}`), []string{
			`12:40: spec.routers[0].routes[0].via[0].address: fe80::1 is link-local, and router "r" has not just one uplink with an IPv6 address; add the uplink that it is behind, as in {address: fe80::1, uplink: wan}`,
		}},
		{"uplink and remote", wan + l3 + "    routes: [{prefix: 10.1.0.0/16, via: [{uplink: wan, remote: 192.0.2.2, mac: \"02:00:00:00:00:02\"}]}]\n", []string{
			`12:42: spec.routers[0].routes[0].via[0]: both uplink and remote or mac are given; keep address and uplink for a router on the link of an uplink, remote and mac for one behind l3`,
		}},
		{"own next hop", route("{prefix: 10.1.0.0/16, via: [{address: 198.51.100.2}]}"), []string{
			`12:45: spec.routers[0].routes[0].via[0].address: 198.51.100.2 is the router's own address; give the address of the next router`,
		}},
		{"next hop of the other family", route(`{prefix: 10.1.0.0/16, via: [{address: "fd00::1"}]}`), []string{
			`12:45: spec.routers[0].routes[0].via[0].address: fd00::1 is IPv6 but the prefix 10.1.0.0/16 is IPv4; use a next hop of the same family`,
		}},
		{"next hop twice", route("{prefix: 10.1.0.0/16, via: [{address: 10.0.0.1}, {address: 10.0.0.1}]}"), []string{
			`12:56: spec.routers[0].routes[0].via[1]: the next hop is already listed (spec.routers[0].routes[0].via[0], line 12); keep one`,
		}},
		{"both kinds of next hop", route("{prefix: 10.1.0.0/16, via: [{address: 10.0.0.1, remote: 192.0.2.2}]}"), []string{
			`12:35: spec.routers[0].routes[0].via[0]: both address and remote or mac are given; keep address for a router in a connected network, remote and mac for one behind l3`,
		}},
		{"no kind of next hop", route("{prefix: 10.1.0.0/16, via: [{}]}"), []string{
			`12:35: spec.routers[0].routes[0].via[0]: neither address nor remote is given; add address for a router in a connected network, remote and mac for one behind l3`,
		}},
		{"remote without MAC", wan + l3 + "    routes: [{prefix: 10.1.0.0/16, via: [{remote: 192.0.2.2}]}]\n", []string{
			`12:42: spec.routers[0].routes[0].via[0].mac: is missing; add it: MAC address of the router at remote, l3.mac in its configuration`,
		}},
		{"MAC without remote", wan + l3 + "    routes: [{prefix: 10.1.0.0/16, via: [{mac: \"02:00:00:00:00:02\"}]}]\n", []string{
			`12:42: spec.routers[0].routes[0].via[0].remote: is missing; add it: the remote whose router has this mac`,
		}},
		{"remote without l3", route(`{prefix: 10.1.0.0/16, via: [{remote: 192.0.2.2, mac: "02:00:00:00:00:02"}]}`), []string{
			`12:44: spec.routers[0].routes[0].via[0].remote: router "r" has no l3 segment to reach 192.0.2.2; add l3 to the router, or use an address`,
		}},
		{"remote that l3 lacks", wan + l3 + "    routes: [{prefix: 10.1.0.0/16, via: [{remote: 192.0.2.3, mac: \"02:00:00:00:00:02\"}]}]\n", []string{
			`12:51: spec.routers[0].routes[0].via[0].remote: 192.0.2.3 is not a remote of the router's l3 segment; add it to l3.remotes`,
		}},
		{"too many next hops", route("{prefix: 10.1.0.0/16, via: [" + strings.Join(many, ", ") + "]}"), []string{
			`12:34: spec.routers[0].routes[0].via: 65 next hops of one route, at most 64; keep fewer`,
		}},
		{"l3 without MAC", wan + "    l3: {vni: 9}\n", []string{
			`11:9: spec.routers[0].l3.mac: is missing; add it: MAC address of this edge's router on the segment, as in "02:00:00:00:01:01": another one on each edge`,
		}},
		{"l3 with the anycast MAC", wan + "    l3: {vni: 9, mac: \"02:00:5e:00:01:01\"}\n", []string{
			`11:23: spec.routers[0].l3.mac: 02:00:5e:00:01:01 is the gateways' address, the same on every edge; give each edge's router one of its own`,
		}},
		{"l3 remote is the own", wan + "    l3: {vni: 9, mac: \"02:00:00:00:00:01\", remotes: [192.0.2.1]}\n", []string{
			`11:54: spec.routers[0].l3.remotes[0]: overlapping addresses: 192.0.2.1 is this edge's own tep; list the other edges only`,
		}},
		{"name of the l3 segment taken", strings.ReplaceAll(wan, "name: blue", "name: r-l3") + l3, []string{
			`11:9: spec.routers[0].l3: the l3 segment would be called "r-l3", which already exists (spec.segments[0].name, line 7); give the router or the other another name`,
		}},
		{"name of the uplink taken", strings.ReplaceAll(wan, "name: wan", "name: blue"), []string{
			`10:22: spec.routers[0].uplinks[0].name: the uplink's network would be called "blue", which already exists (spec.segments[0].name, line 7); names of segments and uplinks are unique`,
		}},
		{"leak from nowhere", wan + "    leaks: [{from: rr, prefixes: [10.0.0.0/8]}]\n", []string{
			`11:20: spec.routers[0].leaks[0].from: there is no router "rr"; did you mean "r"?`,
		}},
		{"leak from itself", wan + "    leaks: [{from: r, prefixes: [10.0.0.0/8]}]\n", []string{
			`11:20: spec.routers[0].leaks[0].from: a router already has its own routes; name another router`,
		}},
		{"leak twice", wan + "    leaks: [{from: s, prefixes: [10.0.0.0/8]}, {from: s, prefixes: [11.0.0.0/8]}]\n  - {name: s}\n", []string{
			`11:55: spec.routers[0].leaks[1].from: router "s" is already listed (spec.routers[0].leaks[0].from, line 11); put the prefixes into one list`,
		}},
		{"leak of nothing", wan + "    leaks: [{from: s, prefixes: []}]\n  - {name: s}\n", []string{
			`11:33: spec.routers[0].leaks[0].prefixes: the list is empty; give prefixes within which its connected and static routes are taken, as in [10.0.0.0/8]`,
		}},
	})
}

func TestTrunkErrors(t *testing.T) {
	port := func(text string) string {
		return wan + "  ports:\n  - " + text + "\n"
	}
	testErrors(t, []errorCase{
		{"no segment", port("{name: p0, interface: v0}"), []string{
			`12:5: spec.ports[0].segment: is missing; add it: name of the segment that the port belongs to, or vlans`,
		}},
		{"no VLANs", port("{name: p0, interface: v0, vlans: []}"), []string{
			`12:5: spec.ports[0].segment: is missing; add it: name of the segment that the port belongs to, or vlans`,
		}},
		{"VLAN zero", port("{name: p0, interface: v0, vlans: [{vlan: 0, segment: blue}]}"), []string{
			`12:46: spec.ports[0].vlans[0].vlan: 0 is outside 1 to 4094; a VLAN is 1 to 4094`,
		}},
		{"VLAN too large", port("{name: p0, interface: v0, vlans: [{vlan: 4095, segment: blue}]}"), []string{
			`12:46: spec.ports[0].vlans[0].vlan: 4095 is outside 1 to 4094; a VLAN is 1 to 4094`,
		}},
		{"VLAN twice", port("{name: p0, interface: v0, vlans: [{vlan: 1, segment: blue}, {vlan: 1, segment: blue}]}"), []string{
			`12:72: spec.ports[0].vlans[1].vlan: VLAN 1 of interface "v0" is already used (spec.ports[0].vlans[0].vlan, line 12); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"VLAN of two ports", port("{name: p0, interface: v0, vlans: [{vlan: 1, segment: blue}]}\n  - {name: p1, interface: v0, vlans: [{vlan: 1, segment: blue}]}"), []string{
			`13:46: spec.ports[1].vlans[0].vlan: VLAN 1 of interface "v0" is already used (spec.ports[0].vlans[0].vlan, line 12); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"VLAN of an uplink", strings.Replace(wan, "interface: eth1", "interface: eth1, vlan: 7", 1) + "  ports:\n  - {name: p0, interface: eth1, vlans: [{vlan: 7, segment: blue}]}\n", []string{
			`12:48: spec.ports[0].vlans[0].vlan: VLAN 7 of interface "eth1" is already used (spec.routers[0].uplinks[0].interface, line 10); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"trunk on the underlay", port("{name: p0, interface: eth0, vlans: [{vlan: 1, segment: blue}]}"), []string{
			`12:27: spec.ports[0].interface: interface "eth0" is already used (spec.underlay.interfaces[0], line 5); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"uplink on the underlay", strings.Replace(wan, "eth1", "eth0", 1), []string{
			`10:38: spec.routers[0].uplinks[0].interface: interface "eth0" is already used (spec.underlay.interfaces[0], line 5); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"VLAN without segment", port("{name: p0, interface: v0, vlans: [{vlan: 1, segment: red}]}"), []string{
			`12:58: spec.ports[0].vlans[0].segment: there is no segment "red"; segments: blue`,
		}},
		{"name of a member taken", port("{name: p0.1, interface: v1, segment: blue}\n  - {name: p0, interface: v0, vlans: [{vlan: 1, segment: blue}]}"), []string{
			`13:46: spec.ports[1].vlans[0].vlan: the member would be called "p0.1", which already exists (spec.ports[0].name, line 12); names are unique`,
		}},
		{"name of an uplink taken", port("{name: wan, interface: v1, segment: blue}"), []string{
			`12:12: spec.ports[0].name: port "wan" already exists (spec.routers[0].uplinks[0].name, line 10); names are unique`,
		}},
		{"nobody allowed", port("{name: p0, interface: v0, segment: blue, allowed: {}}"), []string{
			`12:55: spec.ports[0].allowed: neither macs nor addresses are given; add those that may send, or remove the line`,
		}},
		{"allowed with host bits", port("{name: p0, interface: v0, segment: blue, allowed: {macs: [], addresses: [10.0.0.5/24, 10.0.0.5]}}"), []string{
			`12:62: spec.ports[0].allowed.macs: the list is empty; give source MAC addresses; any when left out`,
			`12:78: spec.ports[0].allowed.addresses[0]: 10.0.0.5/24 has host bits; write 10.0.0.0/24`,
			`12:91: spec.ports[0].allowed.addresses[1]: "10.0.0.5" is not a prefix; add the prefix length: 10.0.0.5/32 is one address`,
		}},
	})
}

// A static MAC address is behind one VLAN of a trunk, by its name.
func TestStaticMACOfATrunk(t *testing.T) {
	text := func(port string) string {
		return under + "  segments:\n  - {name: blue, vni: 1, fdb: [{mac: \"02:00:00:00:00:01\", port: " + port + "}]}\n" +
			"  - {name: green, vni: 2}\n" +
			"  ports: [{name: p0, interface: v0, segment: green, vlans: [{vlan: 10, segment: blue}]}]\n"
	}
	edge, err := Parse("f", []byte(text("p0.10")))
	if err != nil || edge.Segments[0].Static[0].Port != "p0.10" {
		t.Errorf("%+v, %v", edge, err)
	}
	testErrors(t, []errorCase{
		{"untagged", text("p0"), []string{
			`7:65: spec.segments[0].fdb[0].port: port "p0" is in segment "green", not "blue"; move the entry to that segment`,
		}},
		{"no such VLAN", text("p0.11"), []string{
			`7:65: spec.segments[0].fdb[0].port: segment "blue" has no port "p0.11"; did you mean "p0.10"?`,
		}},
	})
}

// What depends on a network that could not be read is not compared.
func TestNoConsequentialRouteErrors(t *testing.T) {
	route := "    routes: [{prefix: 10.1.0.0/16, via: [{address: 203.0.113.1}]}]\n"
	testErrors(t, []errorCase{
		{"gateway's address", strings.Replace(wan, "10.0.0.254/24", "10.0.0.254", 1) + route, []string{
			`7:59: spec.segments[0].gateway.addresses[0]: "10.0.0.254" is not a prefix; add the prefix length: 10.0.0.254/32 is one address`,
		}},
		{"gateway's router", strings.Replace(wan, "router: r,", "", 1) + route, []string{
			`7:35: spec.segments[0].gateway.router: is missing; add it: name of the router`,
		}},
		{"uplinks", strings.Replace(wan, "uplinks: [{name: wan, interface: eth1, addresses: [198.51.100.2/24]}]", "uplinks: wan", 1) + route, []string{
			`10:14: spec.routers[0].uplinks: must be a list, is a string; put it in brackets: [wan]`,
		}},
		{"misspelt gateway", strings.Replace(wan, "gateway:", "gatewya:", 1) + route, []string{
			`7:26: spec.segments[0].gatewya: unknown field; did you mean "gateway"?`,
		}},
		{"misspelt segment of a port", under + "  ports: [{name: p0, interface: v0, segmnet: blue}]\n", []string{
			`6:37: spec.ports[0].segmnet: unknown field; did you mean "segment"?`,
		}},
	})
}

// A next hop may be on the link of an uplink without being in a network of it.
func TestNextHopsOnTheLink(t *testing.T) {
	text := under + `  routers:
  - name: r
    uplinks: [{name: wan, interface: eth1, addresses: [203.0.113.5/32, "2001:db8::5/128"]}, {name: other, interface: eth2, addresses: [198.51.100.2/24]}]
    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 192.0.2.254, uplink: wan}, {address: 198.51.100.1}]}
    - {prefix: "::/0", via: [{address: "fe80::1"}]}
    - {prefix: "2001:db8:1::/48", via: [{address: "fe80::1", uplink: wan}, {address: "2001:db8:ffff::1", uplink: wan}]}
`
	e, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range e.Routers[0].Routes {
		for _, via := range r.Via {
			got = append(got, fmt.Sprint(r.Prefix, " ", via.Addr, " ", via.Uplink))
		}
	}
	want := []string{"0.0.0.0/0 192.0.2.254 wan", "0.0.0.0/0 198.51.100.1 ", "::/0 fe80::1 wan", "2001:db8:1::/48 fe80::1 wan", "2001:db8:1::/48 2001:db8:ffff::1 wan"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestConflicts(t *testing.T) {
	testErrors(t, []errorCase{
		{"underlay interface twice", header + "spec:\n  underlay:\n    interfaces: [eth0, eth1, eth0]\n    tep: 192.0.2.1\n", []string{
			`6:30: spec.underlay.interfaces[2]: interface "eth0" is already used (spec.underlay.interfaces[0], line 6); keep one`,
		}},
		{"port on underlay", blue + "  ports:\n  - {name: p0, interface: eth0, segment: blue}\n", []string{
			`9:27: spec.ports[0].interface: interface "eth0" is already used (spec.underlay.interfaces[0], line 5); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"interface of two ports", blue + "  ports:\n  - {name: p0, interface: veth0, segment: blue}\n  - {name: p1, interface: veth0, segment: blue}\n", []string{
			`10:27: spec.ports[1].interface: interface "veth0" is already used (spec.ports[0].interface, line 9); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"port name twice", blue + "  ports:\n  - {name: p0, interface: veth0, segment: blue}\n  - {name: p0, interface: veth1, segment: blue}\n", []string{
			`10:12: spec.ports[1].name: port "p0" already exists (spec.ports[0].name, line 9); names are unique`,
		}},
		{"segment name twice", blue + "  - {name: blue, vni: 2}\n", []string{
			`8:12: spec.segments[1].name: segment "blue" already exists (spec.segments[0].name, line 7); names are unique`,
		}},
		{"VNI twice on a UDP port", blue + "  - {name: green, vni: 1}\n", []string{
			`8:24: spec.segments[1].vni: VNI 1 on UDP port 4789 is taken (spec.segments[0].vni, line 7); choose another vni or udpPort, or make them one segment`,
		}},
		{"port without segment", blue + "  ports:\n  - {name: p0, interface: veth0, segment: bleu}\n", []string{
			`9:43: spec.ports[0].segment: there is no segment "bleu"; did you mean "blue"?`,
		}},
		{"untagged frames that keep their tags beside VLANs", under + "  segments:\n  - {name: blue, vni: 1}\n  - {name: carry, vni: 2, vlanTransparent: true}\n" +
			"  ports:\n  - {name: p0, interface: veth0, segment: carry, vlans: [{vlan: 20, segment: blue}]}\n  - {name: p1, interface: veth1, segment: carry}\n", []string{
			`10:43: spec.ports[0].segment: carry keeps tags, and interface "veth0" has other VLANs (spec.ports[0].vlans[0], line 10), of which a frame could become one by its own tag; give one of them an interface of its own, or remove vlanTransparent`,
		}},
		{"untagged frames that keep their tags beside an uplink", under + "  segments:\n  - {name: carry, vni: 2, vlanTransparent: true}\n" +
			"  routers:\n  - {name: r, uplinks: [{name: up, interface: eth1, vlan: 42, addresses: [198.51.100.2/24]}]}\n" +
			"  ports:\n  - {name: p0, interface: eth1, segment: carry}\n", []string{
			`11:42: spec.ports[0].segment: carry keeps tags, and interface "eth1" has other VLANs (spec.routers[0].uplinks[0], line 9), of which a frame could become one by its own tag; give one of them an interface of its own, or remove vlanTransparent`,
		}},
		{"port without any segment", under + "  ports:\n  - {name: p0, interface: veth0, segment: blue}\n", []string{
			`7:43: spec.ports[0].segment: there is no segment "blue"; there are no segments`,
		}},
		{"too many UDP ports", under + "  segments:\n" + segments(9), []string{
			`15:33: spec.segments[8].udpPort: UDP port 4797 is beyond the 8 ports that an edge can listen on; let segments share ports; the vni tells them apart`,
		}},
		{"checksum on IPv4", under + "  segments:\n  - {name: blue, vni: 1, udpChecksum: true}\n", []string{
			`7:39: spec.segments[0].udpChecksum: an IPv4 underlay always sends UDP checksum zero (RFC 7348 section 5); remove the line; it is for IPv6`,
		}},
	})
}

func TestRemoteErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"twice", under + "  segments:\n  - {name: blue, vni: 1, remotes: [192.0.2.2, 192.0.2.3, 192.0.2.2]}\n", []string{
			`7:58: spec.segments[0].remotes[2]: remote 192.0.2.2 is already listed (spec.segments[0].remotes[0], line 7); keep one`,
		}},
		{"own address", under + "  segments:\n  - {name: blue, vni: 1, remotes: [192.0.2.1]}\n", []string{
			`7:36: spec.segments[0].remotes[0]: overlapping addresses: 192.0.2.1 is this edge's own tep; list the other edges only`,
		}},
		{"IPv6 on IPv4", under + "  segments:\n  - {name: blue, vni: 1, remotes: [\"2001:db8::2\"]}\n", []string{
			`7:36: spec.segments[0].remotes[0]: 2001:db8::2 is IPv6 but the tep 192.0.2.1 is IPv4; one underlay is IPv4 or IPv6`,
		}},
		{"IPv4 on IPv6", header + "spec:\n  underlay: {interfaces: [eth0], tep: \"2001:db8::1\"}\n  segments:\n  - {name: blue, vni: 1, remotes: [192.0.2.2]}\n", []string{
			`7:36: spec.segments[0].remotes[0]: 192.0.2.2 is IPv4 but the tep 2001:db8::1 is IPv6; one underlay is IPv4 or IPv6`,
		}},
		{"multicast", under + "  segments:\n  - {name: blue, vni: 1, remotes: [239.1.1.1]}\n", []string{
			`7:36: spec.segments[0].remotes[0]: 239.1.1.1 is a multicast address; use the unicast address of a tunnel endpoint`,
		}},
	})
}

func TestStaticMACErrors(t *testing.T) {
	entry := func(text string) string {
		return under + `  segments:
  - name: blue
    vni: 1
    remotes: [192.0.2.2]
    fdb:
    - ` + text + `
  - {name: green, vni: 2, remotes: [192.0.2.3]}
  ports:
  - {name: p0, interface: veth0, segment: blue}
  - {name: p1, interface: veth1, segment: green}
`
	}
	testErrors(t, []errorCase{
		{"group address", entry(`{mac: "03:00:00:00:00:01", port: p0}`), []string{
			`11:13: spec.segments[0].fdb[0].mac: 03:00:00:00:00:01 is a group address; the lowest bit of the first byte must be 0; groups are flooded to all remotes anyway`,
		}},
		{"zero address", entry(`{mac: "00:00:00:00:00:00", port: p0}`), []string{
			`11:13: spec.segments[0].fdb[0].mac: 00:00:00:00:00:00 is not a host's address; use the address of an interface; see ip link`,
		}},
		{"both", entry(`{mac: "02:00:00:00:00:01", port: p0, remote: 192.0.2.2}`), []string{
			`11:7: spec.segments[0].fdb[0]: both port and remote are given; keep the one that the address is behind`,
		}},
		{"neither", entry(`{mac: "02:00:00:00:00:01"}`), []string{
			`11:7: spec.segments[0].fdb[0]: neither port nor remote is given; add the one that the address is behind`,
		}},
		{"not an entry", entry(`"02:00:00:00:00:01"`), []string{
			`11:7: spec.segments[0].fdb[0]: must be a mapping, is a string; fields here: mac, port, remote`,
		}},
		{"port of another segment", entry(`{mac: "02:00:00:00:00:01", port: p1}`), []string{
			`11:40: spec.segments[0].fdb[0].port: port "p1" is in segment "green", not "blue"; move the entry to that segment`,
		}},
		{"no such port", entry(`{mac: "02:00:00:00:00:01", port: q0}`), []string{
			`11:40: spec.segments[0].fdb[0].port: segment "blue" has no port "q0"; did you mean "p0"?`,
		}},
		{"no such remote", entry(`{mac: "02:00:00:00:00:01", remote: 192.0.2.3}`), []string{
			`11:42: spec.segments[0].fdb[0].remote: 192.0.2.3 is not a remote of segment "blue"; add it to the segment's remotes`,
		}},
		{"twice", entry(`{mac: "02:00:00:00:00:01", port: p0}` + "\n" + `    - {mac: "02-00-00-00-00-01", remote: 192.0.2.2}`), []string{
			`12:13: spec.segments[0].fdb[1].mac: 02:00:00:00:00:01 already has an entry (spec.segments[0].fdb[0].mac, line 11); an address can be in only one place`,
		}},
	})
}

// One mistake is one message: what depends on a field that could not be read
// is not compared.
func TestNoConsequentialErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"segments", under + "  segments: blue\n  ports:\n  - {name: p0, interface: veth0, segment: blue}\n", []string{
			`6:13: spec.segments: must be a list, is a string; put it in brackets: [blue]`,
		}},
		{"segment name", under + "  segments:\n  - {nmae: blue, vni: 1}\n  ports:\n  - {name: p0, interface: veth0, segment: blue}\n", []string{
			`7:6: spec.segments[0].nmae: unknown field; did you mean "name"?`,
		}},
		{"tep", header + "spec:\n  underlay: {interfaces: [eth0], tep: nowhere}\n  segments:\n  - {name: blue, vni: 1, udpChecksum: true, remotes: [192.0.2.2]}\n", []string{
			`5:39: spec.underlay.tep: "nowhere" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`,
		}},
		{"remotes", under + "  segments:\n  - name: blue\n    vni: 1\n    remotes: 192.0.2.2\n    fdb: [{mac: \"02:00:00:00:00:01\", remote: 192.0.2.2}]\n", []string{
			`9:14: spec.segments[0].remotes: must be a list, is a string; put it in brackets: [192.0.2.2]`,
		}},
		{"ports", under + "  segments:\n  - name: blue\n    vni: 1\n    fdb: [{mac: \"02:00:00:00:00:01\", port: p0}]\n  ports: p0\n", []string{
			`10:10: spec.ports: must be a list, is a string; put it in brackets: [p0]`,
		}},
	})
}

func TestLimits(t *testing.T) {
	var remotes, more, many, ports, static, blue, teps, severals, names, routes, networks strings.Builder
	for i := range 8 {
		fmt.Fprintf(&teps, "    - {name: t%d, address: 192.0.2.%d, interface: eth%d}\n", i, i+1, i)
	}
	for i := range 128 {
		fmt.Fprintf(&severals, "  - {name: r%d, addresses: [", i)
		for j := range 8 {
			fmt.Fprintf(&severals, "10.1.%d.%d, ", i, j)
		}
		fmt.Fprintf(&severals, "]}\n")
		fmt.Fprintf(&names, "r%d, ", i)
	}
	for i := range 4095 {
		fmt.Fprintf(&routes, "    - {prefix: 10.100.%d.%d/32, via: [{address: 10.0.%d.%d}]}\n", i>>8, i&255, (i+2)>>8, (i+2)&255)
	}
	for i := range 65537 {
		fmt.Fprintf(&networks, "10.%d.%d.%d/32, ", i>>16, i>>8&255, i&255)
	}
	for i := range 1025 {
		fmt.Fprintf(&remotes, "10.0.%d.%d, ", i>>8, i&255)
	}
	for i := range 4096 {
		fmt.Fprintf(&many, "  - {name: s%d, vni: %d}\n", i, i+1)
	}
	for i := range 9 {
		fmt.Fprintf(&more, "  - {name: s%d, vni: %d}\n", i, i+1)
	}
	for i := range 8192 {
		fmt.Fprintf(&ports, "  - {name: p%d, interface: v%d, segment: s%d}\n", i, i, i%9)
	}
	for i := range 65 {
		fmt.Fprintf(&blue, "  - {name: p%d, interface: v%d, segment: blue}\n", i, i)
	}
	for i := range 17 {
		fmt.Fprintf(&static, "    - {mac: \"02:00:00:00:00:%02x\", remote: 192.0.2.2}\n", i)
	}
	testErrors(t, []errorCase{
		{"segments", under + "  segments:\n" + many.String(), []string{
			`7:3: spec.segments: 4096 segments, at most 4095; divide them among several edges`,
		}},
		{"members", under + "  segments:\n  - {name: blue, vni: 1, remotes: [" + remotes.String() + "]}\n", []string{
			`7:5: spec.segments[0]: 1025 ports and remotes in one segment, at most 1024; raise spec.tables.segmentMembers, or divide them among several edges`,
		}},
		{"ends", under + "  segments:\n" + more.String() + "  ports:\n" + ports.String(), []string{
			`5:3: spec: 8192 ports and paths to remotes, at most 8191; raise spec.tables.vports, or divide them among several edges`,
		}},
		{"paths", header + "spec:\n  underlay:\n    teps:\n" + teps.String() + "  remotes:\n" + severals.String() + "  segments:\n  - {name: blue, vni: 1, remotes: [" + names.String() + "]}\n", []string{
			`5:3: spec: 8192 ports and paths to remotes, at most 8191; raise spec.tables.vports, or divide them among several edges`,
		}},
		{"next hops", under + "  routers:\n  - name: main\n    uplinks: [{name: up, interface: eth1, addresses: [10.0.0.1/16]}]\n    routes:\n" + routes.String(), []string{
			`7:3: spec.routers: 4096 different next hops of routes, at most 4095; raise spec.tables.nextHops, or divide them among several edges`,
			`7:3: spec.routers: 4096 different sets of next hops of routes, at most 4095; raise spec.tables.nextHopGroups, or divide them among several edges`,
		}},
		{"sizes", under + "  tables: {vports: 64513, nextHops: 65537, segmentMembers: 16385, routes: 63}\n", []string{
			`6:20: spec.tables.vports: 64513 is outside 64 to 64512; a remote takes an entry for each pair of its endpoints and this edge's`,
			`6:37: spec.tables.nextHops: 65537 is outside 64 to 65536; a next hop that several routes share takes one entry`,
			`6:60: spec.tables.segmentMembers: 16385 is outside 16 to 16384; 1024 is usual; a flood takes about a microsecond for each`,
			`6:75: spec.tables.routes: 63 is outside 64 to 16777216; a full Internet table is about 1200000 routes`,
		}},
		{"smaller tables", under + "  tables: {segmentMembers: 16, members: 64}\n  segments:\n  - {name: blue, vni: 1}\n  ports:\n" + blue.String(), []string{
			`8:3: spec.segments: 65 ports and remotes of all segments, at most 64; raise spec.tables.members, or divide them among several edges`,
			`8:5: spec.segments[0]: 65 ports and remotes in one segment, at most 16; raise spec.tables.segmentMembers, or divide them among several edges`,
		}},
		{"allowed", under + "  segments:\n  - {name: blue, vni: 1}\n  ports:\n  - {name: p0, interface: veth0, segment: blue, allowed: {addresses: [" + networks.String() + "]}}\n", []string{
			`9:3: spec.ports: 65537 allowed networks, at most 65536; write fewer, larger ones`,
		}},
		{"static", under + "  fdb: {size: 16}\n  segments:\n  - name: blue\n    vni: 1\n    remotes: [192.0.2.2]\n    fdb:\n" + static.String(), []string{
			`6:8: spec.fdb: 17 static MAC addresses, at most 16; raise spec.fdb.size, with room for learned ones`,
		}},
	})
}

func segments(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  - {name: s%d, vni: 1, udpPort: %d}\n", i, 4789+i)
	}
	return b.String()
}

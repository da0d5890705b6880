package config

import (
	"errors"
	"strings"
	"testing"
)

const header = "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: a}\n"

// under is a header with a good underlay; what follows begins in line 6.
const under = header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n"

// blue is a good segment on top of that; what follows begins in line 8.
const blue = under + "  segments:\n  - {name: blue, vni: 1, remotes: [192.0.2.2]}\n"

type errorCase struct {
	name, text string
	want       []string // without the file's name
}

func testErrors(t *testing.T, cases []errorCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(c.text))
			var list Errors
			if !errors.As(err, &list) {
				t.Fatalf("got %v, want Errors", err)
			}
			got := strings.ReplaceAll("\n"+err.Error(), "\nf:", "\n")
			if want := "\n" + strings.Join(c.want, "\n"); got != want {
				t.Errorf("got%s\nwant%s\nof\n%.500q", got, want, c.text)
			}
		})
	}
}

func TestFileErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"empty", "", []string{
			`1:1: the file is empty; see examples/host-a.yaml for a configuration`,
		}},
		{"comment only", "# nothing\n", []string{
			`1:1: the file is empty; see examples/host-a.yaml for a configuration`,
		}},
		{"not UTF-8", "a: 1\nb: \xff\n", []string{
			`2:4: the file is not UTF-8 text; save it as UTF-8`,
		}},
		{"too large", strings.Repeat("#", maxFileSize+1), []string{
			`1:1: the file is larger than 64 MiB; give the path of an edge's configuration`,
		}},
		{"large and not JSON", "{\"a\": [1,\n 2,\n x]}" + strings.Repeat(" ", maxParserSize), []string{
			`3:2: the file is larger than 8 MiB and not JSON: invalid character 'x' looking for beginning of value; write large files as JSON`,
		}},
		{"syntax", "a: 1\nb: [1, 2\n", []string{
			`2:4: not YAML: sequence end token ']' not found; check the indentation, quotes and brackets around here`,
		}},
		{"tab", "a:\n\tb: 1\n", []string{
			`2:1: not YAML: found character '\t' that cannot start any token; check the indentation, quotes and brackets around here`,
		}},
		{"two documents", header + "---\nkind: Edge\n", []string{
			`5:1: a second document begins here; give each edge a file of its own`,
		}},
		{"not a mapping", "- a\n", []string{
			`1:1: must be a mapping, is a list; fields here: apiVersion, kind, metadata, spec`,
		}},
		{"one word", "hello\n", []string{
			`1:1: must be a mapping, is a string; fields here: apiVersion, kind, metadata, spec`,
		}},
		{"everything missing", "{}\n", []string{
			`1:1: apiVersion: is missing; add it: version of this format: selvage.dev/v1alpha2`,
			`1:1: kind: is missing; add it: what the file describes: Edge`,
			`1:1: metadata: is missing; add it: who this edge is`,
			`1:1: spec: is missing; add it: what this edge does`,
		}},
		{"version and kind", "apiVersion: v1\nkind: edge\nmetadata: {name: a}\n" + under[len(header):], []string{
			`1:13: apiVersion: "v1" is not supported; write selvage.dev/v1alpha2`,
			`2:7: kind: "edge" is not supported; write Edge`,
		}},
	})
}

func TestShapeErrors(t *testing.T) {
	testErrors(t, []errorCase{
		{"unknown field", under + "  ports:\n  - {name: p0, interfase: veth0, segment: blue}\n", []string{
			`7:16: spec.ports[0].interfase: unknown field; did you mean "interface"?`,
			`7:43: spec.ports[0].segment: there is no segment "blue"; there are no segments`,
		}},
		{"unknown field unlike any", under + "  colour: red\n", []string{
			`6:3: spec.colour: unknown field; fields here: underlay, flowCache, fdb, tables, transit, remotes, segments, routers, ports, portPatterns, limits, firewall, egress, bgp, http`,
		}},
		{"unknown field with odd name", under + "  \"a b\": red\n", []string{
			`6:3: spec."a b": unknown field; fields here: underlay, flowCache, fdb, tables, transit, remotes, segments, routers, ports, portPatterns, limits, firewall, egress, bgp, http`,
		}},
		{"duplicate field", under + "  fdb: {}\n  fdb: {}\n", []string{
			`7:3: spec.fdb: appears twice, first in line 6; keep one`,
		}},
		{"number as field name", under + "  1: red\n", []string{
			`6:3: spec: the name of a field must be a plain word; write it like name: value`,
		}},
		{"merge key", under + "  <<: {fdb: {}}\n", []string{
			`6:3: spec: a merge key is not supported here; write the fields out`,
		}},
		{"anchor and alias", under + "  segments:\n  - {name: &x blue, vni: 1}\n  - {name: *x, vni: 2}\n", []string{
			`7:12: spec.segments[0].name: an anchor is not supported here; write the value out`,
			`8:12: spec.segments[1].name: an alias is not supported here; write the value out`,
		}},
		{"tag", under + "  segments:\n  - {name: !!str blue, vni: 1}\n", []string{
			`7:12: spec.segments[0].name: a tag is not supported here; write the value out`,
		}},
		{"missing in list", under + "  segments:\n  - name: blue\n    udpPort: 4789\n", []string{
			`7:5: spec.segments[0].vni: is missing; add it: virtual network identifier (VSID with nvgre), the same on every edge of the segment`,
		}},
		{"missing in underlay", header + "spec:\n  underlay: {}\n", []string{
			`5:13: spec.underlay.interfaces: is missing; add it: interfaces on which tunnels arrive and leave, as in [eth0]`,
			`5:13: spec.underlay.tep: is missing; add it: address of this edge's tunnel endpoint, IPv4 or IPv6: one that this host has`,
		}},
		{"no interfaces", header + "spec:\n  underlay:\n    interfaces: []\n    tep: 192.0.2.1\n", []string{
			`6:17: spec.underlay.interfaces: the list is empty; give interfaces on which tunnels arrive and leave, as in [eth0]`,
		}},
		{"no value", under + "  fdb:\n", []string{
			`6:8: spec.fdb: must be a mapping, is nothing; give a value or remove the line`,
		}},
		{"integer for string", under + "  segments:\n  - {name: 7, vni: 1}\n", []string{
			`7:12: spec.segments[0].name: must be a string, is an integer; put it in quotes`,
		}},
		{"integer for enum", under + "  segments:\n  - {name: blue, vni: 1, encapsulation: 7}\n", []string{
			`7:41: spec.segments[0].encapsulation: must be a string, is an integer; put it in quotes`,
		}},
		{"quoted integer", under + "  segments:\n  - {name: blue, vni: \"1\"}\n", []string{
			`7:23: spec.segments[0].vni: must be an integer, is a string; remove the quotes`,
		}},
		{"word for integer", under + "  segments:\n  - {name: blue, vni: one}\n", []string{
			`7:23: spec.segments[0].vni: must be an integer, is a string; virtual network identifier (VSID with nvgre), the same on every edge of the segment`,
		}},
		{"fraction for integer", under + "  segments:\n  - {name: blue, vni: 1.5}\n", []string{
			`7:23: spec.segments[0].vni: must be an integer, is a number; virtual network identifier (VSID with nvgre), the same on every edge of the segment`,
		}},
		{"octal", under + "  segments:\n  - {name: blue, vni: 0100}\n", []string{
			`7:23: spec.segments[0].vni: 0100 is octal to some parsers and decimal to others; remove the leading zeros`,
		}},
		{"yes for boolean", under + "  flowCache: {enabled: yes}\n", []string{
			`6:24: spec.flowCache.enabled: must be true or false, is a string; write true or false`,
		}},
		{"quoted boolean", under + "  flowCache: {enabled: \"true\"}\n", []string{
			`6:24: spec.flowCache.enabled: must be true or false, is a string; remove the quotes`,
		}},
		{"word for list", under + "  segments:\n  - {name: blue, vni: 1, remotes: 192.0.2.2}\n", []string{
			`7:35: spec.segments[0].remotes: must be a list, is a string; put it in brackets: [192.0.2.2]`,
		}},
		{"mapping for list", under + "  segments: {blue: 1}\n", []string{
			`6:13: spec.segments: must be a list, is a mapping; layer 2 broadcast domains, one VNI each`,
		}},
		{"list for mapping", under + "  fdb: [1]\n", []string{
			`6:8: spec.fdb: must be a mapping, is a list; fields here: size, ageing, duplicates`,
		}},
		{"list for string", under + "  segments:\n  - {name: [a], vni: 1}\n", []string{
			`7:12: spec.segments[0].name: must be a string, is a list; name by which ports and commands refer to this segment`,
		}},
		{"unknown encapsulation", under + "  segments:\n  - {name: blue, vni: 1, encapsulation: vxlan-gpe}\n", []string{
			`7:41: spec.segments[0].encapsulation: "vxlan-gpe" is not supported; write vxlan or geneve or nvgre`,
		}},
	})
}

func TestValueErrors(t *testing.T) {
	underlay := func(tep string) string {
		return header + "spec:\n  underlay: {interfaces: [eth0], tep: " + tep + "}\n"
	}
	testErrors(t, []errorCase{
		{"edge name", strings.Replace(under, "name: a", "name: Host_A", 1), []string{
			`3:18: metadata.name: "Host_A" is not a DNS label; use 1 to 63 of a-z, 0-9 and "-", with no "-" at either end: it names a socket and a directory`,
		}},
		{"edge name as path", strings.Replace(under, "name: a", "name: ../a", 1), []string{
			`3:18: metadata.name: "../a" is not a DNS label; use 1 to 63 of a-z, 0-9 and "-", with no "-" at either end: it names a socket and a directory`,
		}},
		{"segment name", under + "  segments:\n  - {name: 192.0.2.9, vni: 1}\n", []string{
			`7:12: spec.segments[0].name: "192.0.2.9" is not a name; begin with a letter, then up to 62 letters, digits, "_", "." and "-"`,
		}},
		{"interface names", header + "spec:\n  underlay:\n    interfaces: [a/b, \"a b\", .., abcdefghijklmnop, \"\"]\n    tep: 192.0.2.1\n", []string{
			`6:18: spec.underlay.interfaces[0]: "a/b" is not an interface name; no spaces, "/", ":" or "%"; see ip link`,
			`6:23: spec.underlay.interfaces[1]: "a b" is not an interface name; no spaces, "/", ":" or "%"; see ip link`,
			`6:30: spec.underlay.interfaces[2]: ".." is not an interface name; no spaces, "/", ":" or "%"; see ip link`,
			`6:34: spec.underlay.interfaces[3]: "abcdefghijklmnop" is too long for an interface name; Linux takes up to 15 bytes; of one with a longer altname, ip link show dev ALTNAME says the name`,
			`6:52: spec.underlay.interfaces[4]: "" is not an interface name; no spaces, "/", ":" or "%"; see ip link`,
		}},
		{"tep is no address", underlay("192.0.2"), []string{
			`5:39: spec.underlay.tep: "192.0.2" is not an IP address; write it like 192.0.2.1 or 2001:db8::1`,
		}},
		{"tep has prefix", underlay("192.0.2.1/24"), []string{
			`5:39: spec.underlay.tep: "192.0.2.1/24" is not an IP address; leave out the prefix length: 192.0.2.1`,
		}},
		{"tep multicast", underlay("239.1.1.1"), []string{
			`5:39: spec.underlay.tep: 239.1.1.1 is a multicast address; use the unicast address of a tunnel endpoint`,
		}},
		{"tep multicast IPv6", underlay("\"ff02::1\""), []string{
			`5:39: spec.underlay.tep: ff02::1 is a multicast address; use the unicast address of a tunnel endpoint`,
		}},
		{"tep unspecified", underlay("0.0.0.0"), []string{
			`5:39: spec.underlay.tep: 0.0.0.0 is the unspecified address; use the unicast address of a tunnel endpoint`,
		}},
		{"tep unspecified IPv6", underlay("\"::\""), []string{
			`5:39: spec.underlay.tep: :: is the unspecified address; use the unicast address of a tunnel endpoint`,
		}},
		{"tep broadcast", underlay("255.255.255.255"), []string{
			`5:39: spec.underlay.tep: 255.255.255.255 is the broadcast address; use the unicast address of a tunnel endpoint`,
		}},
		{"tep loopback", underlay("127.0.0.1"), []string{
			`5:39: spec.underlay.tep: 127.0.0.1 never leaves the host; use the unicast address of a tunnel endpoint`,
		}},
		{"tep link-local", underlay("\"fe80::1\""), []string{
			`5:39: spec.underlay.tep: fe80::1 is valid on one link only; use a global or unique local address`,
		}},
		{"tep with zone", underlay("\"2001:db8::1%eth0\""), []string{
			`5:39: spec.underlay.tep: 2001:db8::1%eth0 is valid on one link only; use a global or unique local address`,
		}},
		{"tep mapped", underlay("\"::ffff:192.0.2.1\""), []string{
			`5:39: spec.underlay.tep: ::ffff:192.0.2.1 is an IPv4 address in IPv6 form; write it as 192.0.2.1`,
		}},
		{"tep is a number", underlay("1"), []string{
			`5:39: spec.underlay.tep: must be a string, is an integer; put it in quotes`,
		}},
		{"VNI zero", under + "  segments:\n  - name: blue\n    vni: 0\n", []string{
			`8:10: spec.segments[0].vni: 0 is outside 1 to 16777215; a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used`,
		}},
		{"VNI too large", under + "  segments:\n  - name: blue\n    vni: 16777216\n", []string{
			`8:10: spec.segments[0].vni: 16777216 is outside 1 to 16777215; a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used`,
		}},
		{"VNI negative", under + "  segments:\n  - name: blue\n    vni: -1\n", []string{
			`8:10: spec.segments[0].vni: -1 is outside 1 to 16777215; a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used`,
		}},
		{"VNI enormous", under + "  segments:\n  - name: blue\n    vni: 99999999999999999999\n", []string{
			`8:10: spec.segments[0].vni: 99999999999999999999 is outside 1 to 16777215; a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used`,
		}},
		{"UDP port zero", under + "  segments:\n  - {name: blue, vni: 1, udpPort: 0}\n", []string{
			`7:35: spec.segments[0].udpPort: 0 is outside 1 to 65535; 4789 is VXLAN's own, 8472 what Linux used before it; 6081 is Geneve's`,
		}},
		{"UDP port too large", under + "  segments:\n  - {name: blue, vni: 1, udpPort: 65536}\n", []string{
			`7:35: spec.segments[0].udpPort: 65536 is outside 1 to 65535; 4789 is VXLAN's own, 8472 what Linux used before it; 6081 is Geneve's`,
		}},
		{"flow cache too small", under + "  flowCache: {size: 10}\n", []string{
			`6:21: spec.flowCache.size: 10 is outside 1024 to 4194304; two entries for each concurrent connection are enough`,
		}},
		{"FDB too large", under + "  fdb: {size: 4194305}\n", []string{
			`6:15: spec.fdb.size: 4194305 is outside 16 to 4194304; one entry for each MAC address is enough`,
		}},
		{"ageing without unit", under + "  fdb: {ageing: 300}\n", []string{
			`6:17: spec.fdb.ageing: "300" is not a duration; add the unit: 300s`,
		}},
		{"ageing too short", under + "  fdb: {ageing: 999ms}\n", []string{
			`6:17: spec.fdb.ageing: 999ms is outside 1s to 1000000s; 0 means forever, 300s is usual`,
		}},
		{"ageing negative", under + "  fdb: {ageing: -1s}\n", []string{
			`6:17: spec.fdb.ageing: -1s is outside 1s to 1000000s; 0 means forever, 300s is usual`,
		}},
		{"ageing too long", under + "  fdb: {ageing: 1000h}\n", []string{
			`6:17: spec.fdb.ageing: 1000h is outside 1s to 1000000s; 0 means forever, 300s is usual`,
		}},
		{"ageing a word", under + "  fdb: {ageing: never}\n", []string{
			`6:17: spec.fdb.ageing: "never" is not a duration; write it like 300s or 5m; 0 means forever`,
		}},
		{"MAC too short", under + "  segments:\n  - name: blue\n    vni: 1\n    fdb: [{mac: \"02:00:00:00:01\", port: p0}]\n", []string{
			`9:17: spec.segments[0].fdb[0].mac: "02:00:00:00:01" is not a 48-bit MAC address; write it like "02:00:00:00:00:01"`,
			`9:41: spec.segments[0].fdb[0].port: segment "blue" has no port "p0"; there are no ports in the segment`,
		}},
	})
}

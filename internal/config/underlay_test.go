package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/overlay"
)

func TestLoadTEPs(t *testing.T) {
	got, err := Load("../../examples/teps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	b := addr("192.0.2.2")
	want := overlay.Edge{
		Name: "host-e",
		Underlay: overlay.Underlay{
			Interfaces: []string{"eth0", "eth1"}, TEP: addr("192.0.2.1"), ProbeMTU: true, Teaming: overlay.PathPolicyFlow,
			TEPs: []overlay.TEP{
				{Name: "a", Addr: addr("192.0.2.1"), Interface: "eth0"}, {Name: "b", Addr: addr("198.51.100.1"), Interface: "eth1"},
			},
			Liveness: &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3},
		},
		Transit:   overlay.Transit{Mode: overlay.TransitAuto},
		FlowCache: overlay.FlowCache{Enabled: true, Size: 262144},
		FDB:       overlay.FDB{Size: 65536, Ageing: 300 * time.Second, Duplicates: usualDuplicates},
		Tables:    usualTables,
		Remotes:   []overlay.Remote{{Name: "edge-b", Addrs: []netip.Addr{b, addr("198.51.100.2")}}},
		Segments: []overlay.Segment{
			{
				Name: "blue", VNI: 100, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true,
				Remotes: []netip.Addr{b, addr("192.0.2.3")},
				Static:  []overlay.StaticMAC{{MAC: overlay.MAC{2, 0, 0, 0, 0, 2}, Remote: b}},
			},
			{
				Name: "storage", VNI: 200, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true,
				Remotes: []netip.Addr{b}, TEPs: []string{"b", "a"},
				Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24")}},
			},
		},
		Routers: []overlay.Router{{
			Name: "tenant",
			L3: &overlay.L3{VNI: 5000, Tunnel: tunnel(overlay.VXLAN, 4789), MAC: overlay.MAC{2, 0, 0, 0, 5, 1},
				Remotes: []netip.Addr{b}, TEPs: []string{"a", "b"}},
			Routes: []overlay.Route{{Prefix: netip.MustParsePrefix("10.0.2.0/24"), Kind: overlay.Unicast,
				Via: []overlay.NextHop{{Remote: b, MAC: overlay.MAC{2, 0, 0, 0, 6, 1}}}}},
		}},
		Ports: []overlay.Port{
			{Name: "p0", Interface: "veth0", Segment: "blue"}, {Name: "disks", Interface: "veth1", Segment: "storage"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), noLimits); diff != "" {
		t.Error(diff)
	}
	for _, a := range []string{"192.0.2.2", "198.51.100.2"} {
		if r := got.Remote(addr(a)); r.Name != "edge-b" || len(r.Addrs) != 2 {
			t.Errorf("%s is %+v", a, r)
		}
	}
	if r := got.Remote(addr("192.0.2.3")); r.Name != "" || len(r.Addrs) != 1 {
		t.Errorf("192.0.2.3 is %+v", r)
	}
}

// A remote is the same edge by its name and by each of its addresses.
func TestRemoteByAnyAddress(t *testing.T) {
	got, err := Parse("f", []byte(under+`  remotes: [{name: b, addresses: [192.0.2.2, 192.0.2.3]}]
  segments:
  - {name: blue, vni: 1, remotes: [192.0.2.3], fdb: [{mac: "02:00:00:00:00:01", remote: b}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if s, first := got.Segments[0], netip.MustParseAddr("192.0.2.2"); s.Remotes[0] != first || s.Static[0].Remote != first {
		t.Errorf("remotes %v, static %v, want %s", s.Remotes, s.Static, first)
	}
}

func TestLivenessValues(t *testing.T) {
	parse := func(fields string) *overlay.Liveness {
		t.Helper()
		got, err := Parse("f", []byte(header+"spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1"+fields+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return got.Underlay.Liveness
	}
	if got := parse(""); got != nil {
		t.Errorf("liveness without being asked for: %+v", got)
	}
	for fields, want := range map[string]overlay.Liveness{
		", bfd: {}":         {Interval: 50 * time.Millisecond, Multiplier: 3},
		", bfd: {hops: 16}": {Interval: 50 * time.Millisecond, Multiplier: 3, Hops: 16},
		", bfd: {interval: 1.5s, multiplier: 5, hops: auto}": {Interval: 1500 * time.Millisecond, Multiplier: 5},
	} {
		if got := parse(fields); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", fields, got, want)
		}
	}
}

func TestUnderlayErrors(t *testing.T) {
	underlay := func(fields string) string { return header + "spec:\n  underlay: {" + fields + "}\n" }
	const two = "teps: [{name: a, address: 192.0.2.1, interface: eth0}, {name: b, address: 198.51.100.1, interface: eth1}]"
	nine := "teps: [{name: t0, address: 192.0.2.10, interface: eth0}"
	for _, digit := range "12345678" {
		nine += ", {name: t" + string(digit) + ", address: 192.0.2.1" + string(digit) + ", interface: eth0}"
	}
	testErrors(t, []errorCase{
		{"both forms", underlay(two + ", tep: 192.0.2.1, interfaces: [eth0]"), []string{
			`5:126: spec.underlay.tep: cannot be combined with teps; remove it: each of the teps has its address and interface`,
			`5:149: spec.underlay.interfaces: cannot be combined with teps; remove it: each of the teps has its address and interface`,
		}},
		{"half a form", underlay("tep: 192.0.2.1"), []string{
			`5:13: spec.underlay.interfaces: is missing; add it: interfaces on which tunnels arrive and leave, as in [eth0]`,
		}},
		{"no teps", underlay("teps: []"), []string{
			`5:20: spec.underlay.teps: the list is empty; give tunnel endpoints of this edge, the preferred first, instead of interfaces and tep; at most 8`,
		}},
		{"tep without interface", underlay("teps: [{name: a, address: 192.0.2.1}]"), []string{
			`5:21: spec.underlay.teps[0].interface: is missing; add it: interface on which its tunnels arrive and leave, as in eth0`,
		}},
		{"too many", underlay(nine + "]"), []string{
			`5:20: spec.underlay.teps: 9 tunnel endpoints, at most 8; keep fewer`,
		}},
		{"twice", underlay("teps: [{name: a, address: 192.0.2.1, interface: eth0}, {name: a, address: 192.0.2.1, interface: eth0}]"), []string{
			`5:76: spec.underlay.teps[1].name: tunnel endpoint "a" already exists (spec.underlay.teps[0].name, line 5); names are unique`,
			`5:88: spec.underlay.teps[1].address: 192.0.2.1 is already a tunnel endpoint (spec.underlay.teps[0].address, line 5); keep one`,
		}},
		{"two families", underlay(`teps: [{name: a, address: 192.0.2.1, interface: eth0}, {name: b, address: "2001:db8::1", interface: eth1}]`), []string{
			`5:88: spec.underlay.teps[1].address: 2001:db8::1 is IPv6 but the tep 192.0.2.1 is IPv4; one underlay is IPv4 or IPv6`,
		}},
		{"port on a tep's interface", underlay(two) + "  segments: [{name: blue, vni: 1}]\n  ports: [{name: p0, interface: eth1, segment: blue}]\n", []string{
			`7:33: spec.ports[0].interface: interface "eth1" is already used (spec.underlay.teps[1].interface, line 5); an interface, or one of its VLANs, can be only one port, uplink or underlay`,
		}},
		{"checksum on IPv4", underlay(two) + "  segments: [{name: blue, vni: 1, udpChecksum: true}]\n", []string{
			`6:48: spec.segments[0].udpChecksum: an IPv4 underlay always sends UDP checksum zero (RFC 7348 section 5); remove the line; it is for IPv6`,
		}},
		{"own addresses as remotes", underlay(two) + "  segments: [{name: blue, vni: 1, remotes: [198.51.100.1]}]\n", []string{
			`6:45: spec.segments[0].remotes[0]: overlapping addresses: 198.51.100.1 is this edge's own tep; list the other edges only`,
		}},
		{"teaming", underlay(two + ", teaming: lacp"), []string{
			`5:130: spec.underlay.teaming: "lacp" is not supported; write flow or source or failover`,
		}},
		{"transit", under + "  transit: {mode: xdp}\n", []string{
			`6:19: spec.transit.mode: "xdp" is not supported; write auto or native or generic or tc`,
		}},
		{"liveness", underlay("interfaces: [eth0], tep: 192.0.2.1, bfd: {interval: 5ms, multiplier: 1, hops: 0}"), []string{
			`5:66: spec.underlay.bfd.interval: 5ms is outside 10ms to 10s; 50ms is usual`,
			`5:83: spec.underlay.bfd.multiplier: 1 is outside 2 to 255; 3 is usual; 2 to 255`,
			`5:92: spec.underlay.bfd.hops: "0" is not a number of hops; write 1 to 255, or auto`,
		}},
		{"interval without unit", underlay("interfaces: [eth0], tep: 192.0.2.1, bfd: {interval: 50, hops: some}"), []string{
			`5:66: spec.underlay.bfd.interval: "50" is not a duration; add the unit: 50ms`,
			`5:76: spec.underlay.bfd.hops: "some" is not a number of hops; write 1 to 255, or auto`,
		}},
		{"interval of odd precision", underlay("interfaces: [eth0], tep: 192.0.2.1, bfd: {interval: 20.0001ms}"), []string{
			`5:66: spec.underlay.bfd.interval: 20.0001ms is not a whole number of microseconds; 50ms is usual`,
		}},
		{"liveness a word", underlay("interfaces: [eth0], tep: 192.0.2.1, bfd: on"), []string{
			`5:55: spec.underlay.bfd: must be a mapping, is a string; fields here: interval, multiplier, hops`,
		}},
	})
}

func TestNamedRemoteErrors(t *testing.T) {
	remotes := func(list, segment string) string {
		return under + "  remotes: [" + list + "]\n  segments:\n  - {name: blue, vni: 1, " + segment + "}\n"
	}
	const b = "{name: b, addresses: [192.0.2.2, 192.0.2.3]}"
	testErrors(t, []errorCase{
		{"name twice", remotes(b+", {name: b, addresses: [192.0.2.4]}", "remotes: [b]"), []string{
			`6:66: spec.remotes[1].name: remote "b" already exists (spec.remotes[0].name, line 6); names are unique`,
		}},
		{"address twice", remotes(b+", {name: c, addresses: [192.0.2.3]}", "remotes: [b]"), []string{
			`6:81: spec.remotes[1].addresses[0]: 192.0.2.3 is already a remote's address (spec.remotes[0].addresses[1], line 6); keep one`,
		}},
		{"no addresses", remotes("{name: b, addresses: []}", ""), []string{
			`6:34: spec.remotes[0].addresses: the list is empty; give its tunnel endpoints, the preferred first; at most 8`,
		}},
		{"own address and other family", remotes(`{name: b, addresses: [192.0.2.1, "2001:db8::2"]}`, "remotes: [b]"), []string{
			`6:35: spec.remotes[0].addresses[0]: overlapping addresses: 192.0.2.1 is this edge's own tep; list the other edges only`,
			`6:46: spec.remotes[0].addresses[1]: 2001:db8::2 is IPv6 but the tep 192.0.2.1 is IPv4; one underlay is IPv4 or IPv6`,
		}},
		{"unknown name", remotes("{name: edge-b, addresses: [192.0.2.2]}", "remotes: [edge-c]"), []string{
			`8:36: spec.segments[0].remotes[0]: there is no remote "edge-c"; did you mean "edge-b"?`,
		}},
		{"no names", blue + "  - {name: green, vni: 2, remotes: [eth0]}\n", []string{
			`8:37: spec.segments[1].remotes[0]: there is no remote "eth0"; there are no named remotes: write an address, or name it in spec.remotes`,
		}},
		{"one edge by two names", remotes(b, "remotes: [b, 192.0.2.3]"), []string{
			`8:39: spec.segments[0].remotes[1]: remote 192.0.2.3 is already listed (spec.segments[0].remotes[0], line 8); keep one`,
		}},
		{"no remote of the segment", remotes(b, `remotes: [192.0.2.9], fdb: [{mac: "02:00:00:00:00:01", remote: b}]`), []string{
			`8:89: spec.segments[0].fdb[0].remote: b is not a remote of segment "blue"; add it to the segment's remotes`,
		}},
		{"names that could not be read", strings.Replace(remotes("{name: 7, addresses: [192.0.2.2]}", "remotes: [b]"), "7, a", "[7], a", 1), []string{
			`6:20: spec.remotes[0].name: must be a string, is a list; name by which segments and routes refer to this edge`,
		}},
		{"next hop", remotes(b, "remotes: [b]") + `  routers:
  - name: r
    l3: {vni: 2, mac: "02:00:00:00:00:01", remotes: [192.0.2.9]}
    routes: [{prefix: 10.0.0.0/8, via: [{remote: b, mac: "02:00:00:00:00:02"}]}]
`, []string{
			`12:50: spec.routers[0].routes[0].via[0].remote: b is not a remote of the router's l3 segment; add it to l3.remotes`,
		}},
		{"next hop twice", remotes(b, "remotes: [b]") + `  routers:
  - name: r
    l3: {vni: 2, mac: "02:00:00:00:00:01", remotes: [b]}
    routes: [{prefix: 10.0.0.0/8, via: [{remote: b, mac: "02:00:00:00:00:02"}, {remote: 192.0.2.3, mac: "02:00:00:00:00:02"}]}]
`, []string{
			`12:80: spec.routers[0].routes[0].via[1]: the next hop is already listed (spec.routers[0].routes[0].via[0], line 12); keep one`,
		}},
	})
}

func TestPinErrors(t *testing.T) {
	const teps = header + "spec:\n  underlay: {teps: [{name: left, address: 192.0.2.1, interface: eth0}]}\n"
	testErrors(t, []errorCase{
		{"unknown", teps + "  segments: [{name: blue, vni: 1, teps: [lift]}]\n", []string{
			`6:42: spec.segments[0].teps[0]: there is no tunnel endpoint "lift"; did you mean "left"?`,
		}},
		{"twice", teps + "  segments: [{name: blue, vni: 1, teps: [left, left]}]\n", []string{
			`6:48: spec.segments[0].teps[1]: tunnel endpoint "left" is already listed (spec.segments[0].teps[0], line 6); keep one`,
		}},
		{"without names", under + "  segments: [{name: blue, vni: 1, teps: [a]}]\n", []string{
			`6:42: spec.segments[0].teps[0]: there is no tunnel endpoint "a"; there are no named ones, see spec.underlay.teps`,
		}},
		{"empty", teps + "  routers: [{name: r, l3: {vni: 1, mac: \"02:00:00:00:00:01\", teps: []}}]\n", []string{
			`6:68: spec.routers[0].l3.teps: the list is empty; give names of the endpoints of this edge that the segment is pinned to: it uses the first live one; all, by spec.underlay.teaming, when left out`,
		}},
		{"names that could not be read", strings.Replace(teps, "left", "7", 1) + "  segments: [{name: blue, vni: 1, teps: [left]}]\n", []string{
			`5:28: spec.underlay.teps[0].name: must be a string, is an integer; put it in quotes`,
		}},
	})
}

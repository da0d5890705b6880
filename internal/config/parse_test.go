package config

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/overlay"
)

// tunnel has the defaults of the outer header.
func tunnel(kind overlay.Encapsulation, port uint16) overlay.Tunnel {
	return overlay.Tunnel{Encapsulation: kind, UDPPort: port, TTL: 64, DF: overlay.DFSet}
}

func TestLoadExample(t *testing.T) {
	got, err := Load("../../examples/host-a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	remote := netip.MustParseAddr("192.0.2.2")
	want := overlay.Edge{
		Name:      "host-a",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: netip.MustParseAddr("192.0.2.1"), ProbeMTU: true, Teaming: overlay.PathPolicyFlow},
		Transit:   overlay.Transit{Mode: overlay.TransitAuto},
		FlowCache: overlay.FlowCache{Enabled: true, Size: 262144},
		FDB:       overlay.FDB{Size: 65536, Ageing: 300 * time.Second, Duplicates: usualDuplicates},
		Tables:    usualTables,
		Segments: []overlay.Segment{{
			Name: "blue", VNI: 100, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true,
			Remotes: []netip.Addr{remote},
			Static: []overlay.StaticMAC{
				{MAC: overlay.MAC{2, 0, 0, 0, 0, 1}, Port: "p0"},
				{MAC: overlay.MAC{2, 0, 0, 0, 0, 2}, Remote: remote},
			},
		}},
		Ports: []overlay.Port{{Name: "p0", Interface: "veth0", Segment: "blue"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), noLimits); diff != "" {
		t.Error(diff)
	}
}

func TestLoadGateway(t *testing.T) {
	got, err := Load("../../examples/gateway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	remotes := []netip.Addr{addr("192.0.2.5")}
	geneve := tunnel(overlay.Geneve, 6081)
	geneve.DSCP, geneve.Options = overlay.Inherit, []byte{1, 4, 1, 1, 0xde, 0xad, 0xbe, 0xef}
	want := overlay.Edge{
		Name:      "host-d",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: addr("192.0.2.4"), ProbeMTU: true, Teaming: overlay.PathPolicyFlow},
		Transit:   overlay.Transit{Mode: overlay.TransitAuto},
		FlowCache: overlay.FlowCache{Enabled: true, Size: 262144},
		FDB:       overlay.FDB{Size: 65536, Ageing: 300 * time.Second, Duplicates: usualDuplicates},
		Tables:    usualTables,
		Segments: []overlay.Segment{
			{
				Name: "web", VNI: 100, Tunnel: geneve, Suppress: true, ClampMSS: true, Remotes: remotes,
				Neighbours: []overlay.Neighbour{{Addr: addr("10.0.0.5"), MAC: overlay.MAC{2, 0, 0, 0, 0, 5}}},
				Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC,
					Addresses: []netip.Prefix{prefix("10.0.0.254/24"), prefix("fd00::fe/64")}},
			},
			{
				Name: "db", VNI: 5001, Tunnel: tunnel(overlay.NVGRE, 0), Suppress: true, ClampMSS: true, Remotes: remotes,
				Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.1.254/24")}},
			},
			{
				Name: "legacy", VNI: 300, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true, Remotes: remotes,
				KeepTags: true, Wire: true, TooBigFrom: []netip.Addr{addr("10.9.9.9")},
			},
			{
				Name: "services", VNI: 400, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true,
				Gateway: &overlay.Gateway{Router: "shared", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.20.0.254/24")}},
			},
		},
		Routers: []overlay.Router{
			{
				Name: "tenant",
				L3:   &overlay.L3{VNI: 5000, Tunnel: tunnel(overlay.VXLAN, 4789), MAC: overlay.MAC{2, 0, 0, 0, 4, 1}, Remotes: remotes},
				Routes: []overlay.Route{
					{Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("198.51.100.1")}, {Addr: addr("198.51.100.3")}}},
					{Prefix: prefix("203.0.113.0/24"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("192.0.2.200"), Uplink: "wan"}}},
					{Prefix: prefix("10.0.2.0/24"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Remote: remotes[0], MAC: overlay.MAC{2, 0, 0, 0, 5, 1}}}},
					{Prefix: prefix("10.0.0.0/8"), Kind: overlay.Unreachable},
				},
				Leaks: []overlay.Leak{{From: "shared", Prefixes: []netip.Prefix{prefix("10.20.0.0/16")}}},
				Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth1", VLAN: 42, MAC: overlay.MAC{2, 0, 0, 0, 4, 2},
					Addresses: []netip.Prefix{prefix("198.51.100.2/24")}, ReversePath: overlay.ReversePathStrict}},
			},
			{Name: "shared", Leaks: []overlay.Leak{{From: "tenant", Prefixes: []netip.Prefix{prefix("10.0.0.0/23")}}}},
		},
		Ports: []overlay.Port{
			{Name: "vm", Interface: "tap0", Segment: "web", Allowed: &overlay.Allowed{
				MACs: []overlay.MAC{{2, 0, 0, 0, 0, 7}}, Addresses: []netip.Prefix{prefix("10.0.0.7/32"), prefix("fd00::7/128")},
			}},
			{Name: "rack", Interface: "eth2", VLANs: []overlay.PortVLAN{{VLAN: 10, Segment: "web"}, {VLAN: 20, Segment: "db"}}},
			{Name: "customer", Interface: "eth3", Segment: "legacy"},
			{Name: "dns", Interface: "veth0", Segment: "services"},
			{Name: "dhcp", Interface: "veth1", Segment: "services", AllowRA: true, DHCPServer: true},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), noLimits); diff != "" {
		t.Error(diff)
	}
}

func TestDefaults(t *testing.T) {
	got, err := Parse("f", []byte(header+`spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  flowCache: {enabled: false}
  fdb: {ageing: 0}
  segments: [{name: blue, vni: 0x64}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := overlay.Edge{
		Name:      "a",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: netip.MustParseAddr("192.0.2.1"), ProbeMTU: true, Teaming: overlay.PathPolicyFlow},
		Transit:   overlay.Transit{Mode: overlay.TransitAuto},
		FlowCache: overlay.FlowCache{Enabled: false, Size: 262144},
		FDB:       overlay.FDB{Size: 65536, Duplicates: usualDuplicates},
		Tables:    usualTables,
		Segments:  []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: tunnel(overlay.VXLAN, 4789), Suppress: true, ClampMSS: true}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty(), noLimits); diff != "" {
		t.Error(diff)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load("nowhere.yaml")
	if want := "configuration: open nowhere.yaml: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSuggest(t *testing.T) {
	fields := []string{"name", "vni", "udpPort", "remotes"}
	for word, want := range map[string]string{
		"udpport": `did you mean "udpPort"?`,
		"vin":     `did you mean "vni"?`,
		"remote":  `did you mean "remotes"?`,
		"colour":  "fields here: name, vni, udpPort, remotes",
		"":        "fields here: name, vni, udpPort, remotes",
	} {
		if got := suggest(word, fields, "fields here"); got != want {
			t.Errorf("suggest(%q) = %s, want %s", word, got, want)
		}
	}
	if got := suggest("x", nil, "segments"); got != "there are no segments" {
		t.Error(got)
	}
}

// The parser is asked for a large file only now and then, but then it must not
// take the edge's time.
func BenchmarkParse(b *testing.B) {
	text := []byte(header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n  segments:\n  - name: blue\n    vni: 1\n    remotes: [192.0.2.2]\n    fdb:\n")
	for i := range 10000 {
		mac := overlay.MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}
		text = append(text, "    - {mac: \""+mac.String()+"\", remote: 192.0.2.2}\n"...)
	}
	for b.Loop() {
		if _, err := Parse("f", text); err != nil {
			b.Fatal(err)
		}
	}
}

// usualTables are sizes where nothing is said.
var usualTables = overlay.Tables{
	Vports: 8192, SegmentMembers: 1024, Members: 131072, Remotes: 65536, Routes: 262144, NextHops: 4096, NextHopGroups: 4096,
}

// usualDuplicates are those of the FDB where nothing is said.
var usualDuplicates = overlay.Duplicates{Moves: 5, Within: 180 * time.Second, Freeze: 10 * time.Second}

// noLimits leaves them to TestPortLimits.
var noLimits = cmpopts.IgnoreTypes(overlay.Limits{})

package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	prefix     = netip.MustParsePrefix
	addr       = netip.MustParseAddr
	samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	ownL3      = overlay.MAC{2, 0, 0, 0, 1, 1}
	macC       = overlay.MAC{2, 0, 0, 0, 0, 3}
)

// gateway is edge with routers: tenant joins blue, the uplink wan (VLAN 42 of
// eth1) and remote C over its L3 segment; shared has red and leaks.
func gateway() overlay.Edge {
	e := edge()
	e.Segments[0].Gateway = &overlay.Gateway{
		Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.0.254/24"), prefix("fd00::fe/64")},
	}
	e.Segments = append(e.Segments, overlay.Segment{
		Name: "red", VNI: 200, Tunnel: overlay.Tunnel{Encapsulation: overlay.Geneve, UDPPort: 6081, Options: make([]byte, 8)},
		Remotes: []netip.Addr{remoteB},
		Gateway: &overlay.Gateway{Router: "shared", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.20.0.254/24")}},
	})
	e.Routers = []overlay.Router{
		{
			Name: "tenant",
			L3: &overlay.L3{VNI: 5000, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, MAC: ownL3,
				Remotes: []netip.Addr{remoteB, remoteC}},
			Routes: []overlay.Route{
				{Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Via: []overlay.NextHop{
					{Addr: addr("198.51.100.1")}, {Remote: remoteC, MAC: macC},
				}},
				{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Blackhole},
			},
			Leaks: []overlay.Leak{{From: "shared", Prefixes: []netip.Prefix{prefix("10.20.0.0/16")}}},
			Uplinks: []overlay.Uplink{{
				Name: "wan", Interface: "eth1", VLAN: 42, Addresses: []netip.Prefix{prefix("198.51.100.2/24")},
			}},
		},
		{
			Name: "shared",
			Routes: []overlay.Route{
				{Prefix: prefix("10.20.9.0/24"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("10.20.0.1")}}},
				{Prefix: prefix("10.30.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("10.20.0.1")}}},
			},
			Leaks: []overlay.Leak{{From: "tenant", Prefixes: []netip.Prefix{prefix("10.0.0.0/8"), prefix("fd00::/8")}}},
		},
	}
	e.Ports[0].VLANs = []overlay.PortVLAN{{VLAN: 10, Segment: "red"}}
	e.Ports[0].Allowed = &overlay.Allowed{MACs: []overlay.MAC{macB}}
	return e
}

func gatewayState() host.State {
	v := state()
	v.Links["eth1"] = host.Link{Name: "eth1", Index: 7, MTU: 1500, MAC: overlay.MAC{0, 0x11, 0x22, 0x33, 0x44, 0x55}, Up: true}
	return v
}

func TestGatewayTables(t *testing.T) {
	e := gateway()
	got, problems := desired(e, gatewayState(), nil)
	if len(problems) != 1 || problems[0] != "port p1.10 has MTU 1450, the tunnel to 192.0.2.2 carries 1442: "+
		"larger packets are answered with ICMP errors; to avoid that, lower the MTU of tap1 and of what is behind it to 1442, or raise that of eth0 to 1508" {
		t.Errorf("problems %q, want that red's options leave less to its port", problems)
	}
	blue, red := e.Segments[0], e.Segments[1]
	blue.Gateway = &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC,
		Addresses: []netip.Prefix{prefix("10.0.0.254/24"), prefix("fd00::fe/64"), prefix("fe80::5eff:fe00:101/64")}}
	want := fib.Tables{
		Underlays: []int{2},
		Segments: []overlay.Segment{blue, red,
			{Name: "tenant-l3", VNI: 5000, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, ClampMSS: true,
				Remotes: []netip.Addr{remoteB, remoteC}, Gateway: &overlay.Gateway{Router: "tenant", MAC: ownL3}},
			{Name: "wan", Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.MAC{2, 0x11, 0x22, 0x33, 0x1a, 0x55},
				Addresses: []netip.Prefix{prefix("198.51.100.2/24")}}},
		},
		Routers: []fib.Router{
			{Name: "tenant", Routes: []fib.Route{
				{Prefix: prefix("10.0.0.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "blue"}}},
				{Prefix: prefix("fd00::/64"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "blue"}}},
				{Prefix: prefix("198.51.100.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "wan"}}},
				{Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Hops: []fib.Hop{
					{Segment: "wan", Addr: addr("198.51.100.1")}, {Segment: "tenant-l3", Remote: remoteC, MAC: macC},
				}},
				{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Blackhole},
				{Prefix: prefix("10.20.0.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "red"}}},
				{Prefix: prefix("10.20.9.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "red", Addr: addr("10.20.0.1")}}},
			}},
			{Name: "shared", Routes: []fib.Route{
				{Prefix: prefix("10.20.0.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "red"}}},
				{Prefix: prefix("10.20.9.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "red", Addr: addr("10.20.0.1")}}},
				{Prefix: prefix("10.30.0.0/16"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "red", Addr: addr("10.20.0.1")}}},
				{Prefix: prefix("10.0.0.0/24"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "blue"}}},
				{Prefix: prefix("fd00::/64"), Kind: overlay.Unicast, Hops: []fib.Hop{{Segment: "blue"}}},
				{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Blackhole},
			}},
		},
		Ports: []fib.Port{
			{Name: "p0", Ifindex: 3, Segment: "blue", MTU: 1450, Peer: true, Segments: true},
			{Name: "p1", Ifindex: 4, Segment: "blue", MTU: 1450, Segments: true, Allowed: e.Ports[0].Allowed},
			{Name: "p1.10", Ifindex: 4, VLAN: 10, Segment: "red", MTU: 1450, Segments: true, Allowed: e.Ports[0].Allowed},
			{Name: "wan", Ifindex: 7, VLAN: 42, Segment: "wan", MTU: 1500, Uplink: true},
		},
		TEPs: []fib.TEP{
			{Addr: remoteB, Local: self, Edge: remoteB, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
			{Addr: remoteC, Local: self, Edge: remoteC, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macR},
		},
		PathPolicies: []fib.PathPolicy{{PathGroups: []fib.PathGroup{
			{Remote: remoteB, Paths: []overlay.Pair{toB}}, {Remote: remoteC, Paths: []overlay.Pair{toC}},
		}}},
		PathPolicyOf: map[string]int{"blue": 0, "red": 0, "tenant-l3": 0},
	}
	want.Ports[3].Limits = overlay.UplinkLimits()
	for i := range want.Segments[2:] { // not configured as segments
		want.Segments[2+i].Limits = e.DefaultSegmentLimits()
	}
	if diff := cmp.Diff(want, got, sameAddr, samePrefix); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gateway(), e, sameAddr, samePrefix); diff != "" {
		t.Errorf("the configuration was changed (-want +got):\n%s", diff)
	}
}

// Of two routes to one prefix the connected one wins, then the static one.
func TestLeakedRoutesYield(t *testing.T) {
	e := gateway()
	e.Routers[1].Routes = append(e.Routers[1].Routes,
		overlay.Route{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Prohibit}, overlay.Route{Prefix: prefix("10.0.0.0/24"), Kind: overlay.Unreachable})
	e.Routers[0].Leaks[0].Prefixes = []netip.Prefix{prefix("10.0.0.0/8")}
	tables := NewRouting(e, nil).All()
	for i, want := range []map[netip.Prefix]Origin{
		{prefix("10.0.0.0/24"): Connected, prefix("10.9.0.0/16"): Static, prefix("10.20.0.0/24"): Leaked},
		{prefix("10.0.0.0/24"): Static, prefix("10.9.0.0/16"): Static, prefix("10.20.0.0/24"): Connected, prefix("fd00::/64"): Leaked},
	} {
		for p, origin := range want {
			var found []Route
			for _, r := range tables[i].Routes {
				if r.Prefix == p {
					found = append(found, r)
				}
			}
			if len(found) != 1 || found[0].Origin != origin {
				t.Errorf("%s has %+v for %s, want one that is %s", tables[i].Router, found, p, origin)
			}
		}
	}
}

func TestUplinkMAC(t *testing.T) {
	interfaceMAC := overlay.MAC{0x52, 0x54, 0, 1, 2, 3}
	got := UplinkMAC(overlay.Uplink{}, host.Link{MAC: interfaceMAC})
	if got == interfaceMAC || got.Multicast() || got[0]&2 == 0 || got != UplinkMAC(overlay.Uplink{}, host.Link{MAC: interfaceMAC}) {
		t.Errorf("%s is not an address of our own made of %s", got, interfaceMAC)
	}
	if got := UplinkMAC(overlay.Uplink{MAC: macB}, host.Link{MAC: interfaceMAC}); got != macB {
		t.Errorf("%s, want the configured %s", got, macB)
	}
}

func TestGatewayHostConfig(t *testing.T) {
	e, v := gateway(), gatewayState()
	e.Segments[0].Remotes = nil // only the L3 segment sends to B now
	e.Segments[1].Remotes = nil
	h := HostConfig(e, v)
	if !slices.Equal(h.Promisc, []int{7}) {
		t.Errorf("promiscuous %v, want the uplink, which shall take the router's MAC", h.Promisc)
	}
	if want := []host.NextHop{{Ifindex: 2, Addr: remoteB}, {Ifindex: 2, Addr: router}}; !slices.Equal(h.NextHops, want) {
		t.Errorf("next hops %v, want %v: remotes of L3 segments too", h.NextHops, want)
	}
	e.Routers[0].Uplinks[0].MAC = v.Links["eth1"].MAC
	if h := HostConfig(e, v); len(h.Promisc) > 0 {
		t.Errorf("promiscuous %v for the card's own address", h.Promisc)
	}
	if want := Want(e).Interfaces; !slices.Equal(want, []string{"eth0", "tap1", "veth0", "eth1"}) {
		t.Errorf("wanted interfaces %v", want)
	}
}

func TestUplinkProblems(t *testing.T) {
	e, v := gateway(), gatewayState()
	delete(v.Links, "eth1")
	delete(v.Links, "tap1")
	_, problems := desired(e, v, nil)
	want := []string{
		"port p1: interface tap1 does not exist: create it, it is attached when it appears", // once, though a trunk
		"uplink wan: interface eth1 does not exist: create it, it is attached when it appears",
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestProbedMTU(t *testing.T) {
	e, v := edge(), state()
	tables, problems := desired(e, v, map[overlay.Pair]int{toB: 1400, toC: 9000})
	if tables.TEPs[0].MTU != 1400 || tables.TEPs[1].MTU != 1500 {
		t.Errorf("TEPs %+v, want what was probed, at most the interface's", tables.TEPs)
	}
	want := []string{
		"port p1 has MTU 1450, the tunnel to 192.0.2.2 carries 1350: " + oversize + "lower the MTU of tap1 and of what is behind it to 1350, or raise that of the path to 1500",
		"port p0 has MTU 1450, the tunnel to 192.0.2.2 carries 1350: " + oversize + "lower the MTU of veth0 and of what is behind it to 1350, or raise that of the path to 1500",
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// What a tunnel costs is its own: options and the encapsulation count.
func TestInnerMTUOfEncapsulations(t *testing.T) {
	e := gateway()
	if got := InnerMTU(e, remoteC, 1500); got != 1450 { // VXLAN in blue, NVGRE in tenant-l3
		t.Errorf("inner MTU to C %d, want 1450", got)
	}
	if got := InnerMTU(e, remoteB, 1500); got != 1442 { // Geneve with 8 bytes of options in red
		t.Errorf("inner MTU to B %d, want 1442", got)
	}
	e.Segments = nil
	if got := InnerMTU(e, remoteC, 1500); got != 1458 {
		t.Errorf("inner MTU of NVGRE alone %d, want 1458", got)
	}
}

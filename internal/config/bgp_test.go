package config

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
)

// fabric is a good edge of an EVPN fabric with an uplink; what follows, with good, begins in
// line 17.
const fabric = header + `spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {}}
  segments:
  - {name: blue, vni: 1, evpn: {}, gateway: {router: r, addresses: [10.0.0.254/24]}}
  routers:
  - name: r
    loopbacks: [10.255.0.1]
    l3: {vni: 3, mac: "02:00:00:00:00:01", evpn: {}}
    uplinks:
    - {name: wan, interface: eth1, addresses: [198.51.100.2/24]}
    - {name: lan, interface: eth2, addresses: [203.0.113.2/24, "2001:db8:5::2/64"]}
  bgp:
    as: 65000
`

// withNeighbour and withPolicies are what most cases need; fields of the neighbour begin in
// line 19, column 8, and of the first policy's statement in line 21, column 26.
func withNeighbour(fields string) string {
	return fabric + "    neighbours:\n    - {name: rr, address: 192.0.2.9}\n    - {" + fields + "}\n"
}

func withStatement(fields string) string {
	return fabric + "    neighbours:\n    - {name: rr, address: 192.0.2.9}\n    policies:\n    - {name: p, statements: [{" + fields + "}]}\n"
}

func TestBGP(t *testing.T) {
	a, p := netip.MustParseAddr, netip.MustParsePrefix
	e := parseEdge(t, fabric+`    routerID: 10.9.9.9
    listen: [192.0.2.1, "::", "192.0.2.3:179", "[2001:db8::1]:179"]
    autoRouteTargets: rfc8365
    gracefulRestart: {time: 0, stale: 0}
    duplicates: {moves: 0, within: 60s, freeze: 5m}
    neighbours:
    - {name: rr, address: 192.0.2.9}
    - {name: far, address: "2001:db8::9", as: 4200000000, port: 1790, localAddress: "2001:db8::1", families: [evpn], password: geheim, ebgpMultihop: 255,
       passive: true, timers: {hold: 1m}, maximumPrefixes: 4294967295, bfd: true, import: [in, rest]}
    - {name: tor, address: 203.0.113.1, as: 65100, uplink: lan, ttlSecurity: 1, timers: {hold: 30s, keepalive: 5s, connectRetry: 7s}, export: [rest]}
    - {name: isp, address: 198.51.100.1, as: 65200, uplink: wan, families: [ipv4, evpn], advertise: []}
    policies:
    - name: in
      statements:
      - {prefixes: [{prefix: 10.0.0.0/8}, {prefix: 10.0.0.0/8, min: 9}, {prefix: 10.0.0.0/8, max: 24}, {prefix: "fd00::/8", min: 0x10, max: 64}], reject: true}
      - {communities: ["65000:1", no-export], localPref: 1, med: 4294967295, addCommunities: ["0:7", blackhole], prepend: 32}
    - {name: rest, statements: [{}]}
`)
	one, most := uint32(1), uint32(1<<32-1)
	usual := overlay.BGPTimers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: time.Second}
	given := []overlay.RouteSource{overlay.SourceConnected, overlay.SourceLoopback, overlay.SourceEgress}
	want := &overlay.BGP{
		AS: 65000, RouterID: a("10.9.9.9"),
		Listen: []netip.AddrPort{
			netip.MustParseAddrPort("192.0.2.1:179"), netip.MustParseAddrPort("[::]:179"),
			netip.MustParseAddrPort("192.0.2.3:179"), netip.MustParseAddrPort("[2001:db8::1]:179"),
		},
		Neighbours: []overlay.BGPNeighbour{
			{Name: "rr", Addr: a("192.0.2.9"), Port: 179, AS: 65000, Families: []overlay.BGPFamily{overlay.FamilyEVPN}, Timers: usual},
			{Name: "far", Addr: a("2001:db8::9"), Port: 1790, AS: 4200000000, Local: a("2001:db8::1"), Families: []overlay.BGPFamily{overlay.FamilyEVPN},
				Password: "geheim", Hops: 255, Passive: true, Timers: overlay.BGPTimers{Hold: time.Minute, Keepalive: 20 * time.Second, ConnectRetry: time.Second},
				MaxPrefixes: 1<<32 - 1, Liveness: true, Import: []string{"in", "rest"}},
			{Name: "tor", Addr: a("203.0.113.1"), Port: 179, AS: 65100, Families: []overlay.BGPFamily{overlay.FamilyIPv4, overlay.FamilyIPv6}, Uplink: "lan",
				Announce: given, Hops: 1, Security: true, Export: []string{"rest"},
				Timers: overlay.BGPTimers{Hold: 30 * time.Second, Keepalive: 5 * time.Second, ConnectRetry: 7 * time.Second}},
			{Name: "isp", Addr: a("198.51.100.1"), Port: 179, AS: 65200, Families: []overlay.BGPFamily{overlay.FamilyIPv4, overlay.FamilyEVPN}, Uplink: "wan", Timers: usual},
		},
		Policies: []overlay.RoutePolicy{
			{Name: "in", Statements: []overlay.RouteStatement{
				{Prefixes: []overlay.PrefixRange{
					{Prefix: p("10.0.0.0/8"), Min: 8, Max: 8}, {Prefix: p("10.0.0.0/8"), Min: 9, Max: 32}, {Prefix: p("10.0.0.0/8"), Min: 8, Max: 24},
					{Prefix: p("fd00::/8"), Min: 16, Max: 64},
				}, Reject: true},
				{Communities: []overlay.Community{65000<<16 | 1, 0xffffff01}, LocalPref: &one, MED: &most, Add: []overlay.Community{7, 0xffff029a}, Prepend: 32},
			}},
			{Name: "rest", Statements: []overlay.RouteStatement{{}}},
		},
		Targets:    overlay.TargetsRFC8365,
		Duplicates: overlay.Duplicates{Within: time.Minute, Freeze: 5 * time.Minute},
		// 80 % of the table of routes.
		MostPrefixes: 209_715,
	}
	if d := cmp.Diff(want, e.BGP, sameAddr, samePrefix, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("bgp (-want +got):\n%s", d)
	}
}

func TestBGPDefaults(t *testing.T) {
	b := parseEdge(t, withNeighbour("name: tor, address: 203.0.113.1, as: 65100, uplink: wan")).BGP
	if b.RouterID != netip.MustParseAddr("192.0.2.1") || b.Listen != nil || b.Targets != overlay.TargetsVNI {
		t.Errorf("router ID %s, listen %v, targets %s", b.RouterID, b.Listen, b.Targets)
	}
	if want := (overlay.BGPRestart{Time: 2 * time.Minute, Stale: time.Hour}); b.Restart != want {
		t.Errorf("restart %+v", b.Restart)
	}
	if want := (overlay.Duplicates{Moves: 5, Within: 3 * time.Minute}); b.Duplicates != want {
		t.Errorf("duplicates %+v", b.Duplicates)
	}
	if e := parseEdge(t, blue); e.BGP != nil || e.Segments[0].EVPN != nil {
		t.Errorf("an edge without BGP has %+v", e.BGP)
	}
}

func TestEVPN(t *testing.T) {
	e := parseEdge(t, under+`  segments:
  - {name: auto, vni: 1, evpn: {}}
  - {name: own, vni: 2, remotes: [192.0.2.2], evpn: {rd: "4200000000:2", import: ["65000:2", "192.0.2.9:2"], export: ["0.65000:2"]}}
  - {name: none, vni: 3}
  routers:
  - {name: r, l3: {vni: 4, mac: "02:00:00:00:00:01", evpn: {rd: "65000:4", advertise: [static, loopback]}}, loopbacks: [10.0.0.1, "fd00::1"]}
  - {name: q, l3: {vni: 5, mac: "02:00:00:00:00:02", evpn: {}}}
  - {name: p, l3: {vni: 6, mac: "02:00:00:00:00:03", evpn: {advertise: []}}}
  bgp: {as: 65000, neighbours: [{name: rr, address: 192.0.2.9}]}
`)
	all := []overlay.RouteSource{overlay.SourceConnected, overlay.SourceLoopback, overlay.SourceStatic, overlay.SourceUplink}
	for _, c := range []struct {
		name      string
		got, want *overlay.EVPNInstance
	}{
		{"automatic", e.Segments[0].EVPN, &overlay.EVPNInstance{}},
		{"configured", e.Segments[1].EVPN, &overlay.EVPNInstance{
			RD: 0x0002_fa56ea00_0002, Import: []overlay.RouteTarget{0x0002_fde8_00000002, 0x0102_c0000209_0002}, Export: []overlay.RouteTarget{0x0202_0000fde8_0002},
		}},
		{"without", e.Segments[2].EVPN, nil},
		{"router", e.Routers[0].L3.EVPN, &overlay.EVPNInstance{RD: 0x0000_fde8_00000004, Announce: []overlay.RouteSource{overlay.SourceStatic, overlay.SourceLoopback}}},
		{"router, automatic", e.Routers[1].L3.EVPN, &overlay.EVPNInstance{Announce: all}},
		{"router that tells nothing", e.Routers[2].L3.EVPN, &overlay.EVPNInstance{}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	if l := e.Routers[0].Loopbacks; len(l) != 2 || l[0].String() != "10.0.0.1" || l[1].String() != "fd00::1" {
		t.Errorf("loopbacks %v", l)
	}
}

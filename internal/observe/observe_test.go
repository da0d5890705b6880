package observe

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	tep     = netip.MustParseAddr("192.0.2.1")
	remote  = netip.MustParseAddr("192.0.2.2")
	remote6 = netip.MustParseAddr("2001:db8::2")
	started = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	mac1    = overlay.MAC{2, 0, 0, 0, 0, 1}
	mac2    = overlay.MAC{2, 0, 0, 0, 0, 2}
)

func busy() api.Status {
	return api.Status{
		Name: "host-a", Version: "v0.1.0", PID: 4711, Started: started, Config: "/etc/selvage/host-a.yaml", TEP: tep,
		Segments: []api.SegmentInfo{
			{Name: "blue", VNI: 100, Encapsulation: overlay.VXLAN, UDPPort: 4789, Ports: 1, Remotes: 1, Generation: 3},
			{Name: "green", VNI: 16777215, Encapsulation: overlay.VXLAN, UDPPort: 8472, Remotes: 2, Generation: 1},
			{Name: "red", VNI: 5001, Encapsulation: overlay.NVGRE, Ports: 2, Remotes: 1, Router: "tenant",
				Gateway: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24"), netip.MustParsePrefix("fd00::fe/64")}},
			{Name: "wan", Ports: 1, Router: "tenant", Gateway: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}},
		},
		Ports: api.Tally{Up: 1, Total: 2}, TEPs: api.Tally{Up: 2, Total: 2},
		FDB: api.Usage{Used: 12, Size: 65536}, Flows: api.Usage{Used: 340, Size: 262144},
		FlowCache: true, LookUps: 1_235_457, Hits: 1_234_567, Misses: 600, Dropped: 42,
		Verdict: problem.Broken, Problems: []problem.Problem{problem.Error("port p1: interface veth1 is absent"), problem.Warning("remote 192.0.2.3: no route")},
	}
}

func idle() api.Status {
	return api.Status{Name: "host-b", Version: "v0.1.0", PID: 1, Started: started, Config: "b.yaml", Adopted: true, TEP: remote6}
}

func ports() []api.PortInfo {
	return []api.PortInfo{
		{
			Name: "p0", Interface: "veth0", Ifindex: 12, Segment: "blue", State: "up", Hook: "tcx", Deliver: "peer", MTU: 1450,
			RxPackets: 9999, RxBytes: 1_000_000, TxPackets: 12_345_678, TxBytes: 98_765_432_101, Drops: 3,
			Limits: limits()[:3],
		},
		{Name: "p1", Interface: "veth1", Segment: "green", State: "absent"},
		{Name: "p0.10", Interface: "veth0", Ifindex: 12, VLAN: 10, Trunk: "p0", Segment: "red", State: "up", Hook: "tcx", Deliver: "peer", MTU: 1450},
	}
}

func limits() []api.LimitInfo {
	return []api.LimitInfo{
		{Kind: "port", Owner: "p0", Limit: "macs", Description: "MAC addresses learned", Unit: "entries", Used: 3, Max: 4096, Mode: "enforce"},
		{Kind: "port", Owner: "p0", Limit: "connections", Description: "answered connections", Unit: "entries", Used: 7, Mode: "enforce"},
		{Kind: "port", Owner: "p0", Limit: "broadcast", Description: "broadcast frames flooded", Unit: "per-second", Max: 1000, Exceeded: 123_456, Mode: "enforce"},
		{Kind: "segment", Owner: "blue", Limit: "neighbours", Description: "IP addresses of neighbours", Unit: "entries", Max: 32768, Mode: "observe"},
		{Kind: "segment", Owner: "blue", Limit: "multicast", Description: "multicast frames flooded", Unit: "per-second", Exceeded: 5, Mode: "observe"},
	}
}

func ownerDrops() []api.OwnerDropInfo {
	drop := api.DropInfo{Reason: "storm-control", Description: "more flooded frames a second than the port or segment may have", Packets: 1204, Bytes: 72_240}
	return []api.OwnerDropInfo{{Kind: "port", Owner: "p0", DropInfo: drop}, {Kind: "port", DropInfo: api.DropInfo{Reason: "too-big", Packets: 2, Bytes: 3008}}}
}

func interfaces() []api.InterfaceInfo {
	return []api.InterfaceInfo{
		{Name: "eth0", Ifindex: 2, Roles: []string{"underlay", "uplink"}, Hook: "xdp", TakesRedirected: true, MTU: 1700},
		{Name: "eth1", Ifindex: 3, Roles: []string{"uplink"}, Hook: "tcx", HookWhy: "the driver has no XDP with redirects", RedirectWhy: "it takes no redirected packets", MTU: 9000},
		{Name: "eth2", Roles: []string{"uplink"}, HookWhy: "the interface does not exist"},
	}
}

func flowCacheInfo() api.FlowCacheInfo {
	evicted := uint64(12_345)
	return api.FlowCacheInfo{
		ReadAt: started, Enabled: true, LookUps: 1_235_457, HitRatio: 1_234_567 / 1_235_457.0,
		Caches: []api.CacheInfo{
			{Name: "tc", Used: 340, Size: 262144, Bytes: 42_000_000},
			{Name: "transit", Used: 100_000, Size: 524288, Bytes: 67_108_864, Evicted: &evicted},
		},
		Events: []api.EventInfo{
			{Name: "hit", Description: "packets that found a valid decision", LookUp: true, Count: 1_234_567},
			{Name: "miss", Description: "packets without a decision", LookUp: true, Count: 890},
			{Name: "evicted", Description: "transit flows evicted by others", Count: evicted},
		},
	}
}

// thrashing has rates, and an alarm.
func thrashing() api.FlowCacheInfo {
	f := flowCacheInfo()
	f.Alarm, f.Problem = "thrashing", "flow cache: thrashing: raise spec.flowCache.size"
	f.Rates = &api.CacheRates{
		Seconds: 1.004, LookUps: 812_345.6, HitRatio: 0.61234,
		Events:  map[string]float64{"hit": 497_431.7, "miss": 314_913.9, "evicted": 4.26},
		Evicted: map[string]float64{"tc": 310_000, "transit": 4.26},
	}
	return f
}

// off has been off since the data path was loaded.
func off() api.FlowCacheInfo {
	return api.FlowCacheInfo{
		Alarm: "off", Problem: "flow cache: off",
		Caches: []api.CacheInfo{{Name: "tc", Used: 6, Size: 262144, Bytes: 42_000_000}},
		Events: []api.EventInfo{{Name: "hit", Description: "packets that found a valid decision", LookUp: true}},
		Rates:  &api.CacheRates{Seconds: 60},
	}
}

func teps() []api.TEPInfo {
	return []api.TEPInfo{
		{
			Address: remote, Segments: []string{"blue", "green"}, Interface: "eth0", NextHop: remote, NextMAC: mac2.String(),
			State: "resolved", MTU: 1500, PathMTU: 1450, PathMTUState: "reported by ICMP", InnerMTU: 1400, RxPackets: 10, RxBytes: 999, TxPackets: 11, TxBytes: 10_000,
		},
		{Address: remote6, Segments: []string{"green"}, State: "no route"},
	}
}

// pathsOf are three paths to one remote and one to another.
func pathsOf() []api.TEPInfo {
	list, local := teps(), netip.MustParseAddr("192.0.2.1")
	list[0].Name = "edge-b"
	now := 0.5
	all := []api.ShareInfo{{Share: 0.5}, {TEPs: []string{"b", "a"}, Share: 1}}
	list[0].Paths = []api.PathInfo{
		{Local: local, Remote: remote, Interface: "eth0", PathMTU: 1450, State: "up", Age: 61, Why: "it answers", Shares: all, PacketShare: &now, TxPackets: 11, TxBytes: 10_000},
		{Local: local, Remote: netip.MustParseAddr("192.0.2.3"), Interface: "eth0", PathMTU: 1500, State: "down", Age: 0.2, Why: "no packet for 150ms", Shares: []api.ShareInfo{{}}},
		{Local: netip.MustParseAddr("198.51.100.1"), Remote: remote, Interface: "eth1", State: "dead", Why: "interface eth1 is down"},
	}
	list[1].Paths = []api.PathInfo{{Local: remote6, Remote: remote6, State: "unknown", Why: "it has not answered yet", Shares: []api.ShareInfo{{Share: 1}}}}
	return list
}

// nextHopsOf are two paths to one remote by two next hops.
func nextHopsOf() []api.TEPInfo {
	list, local := teps()[:1], netip.MustParseAddr("192.0.2.1")
	half := []api.ShareInfo{{Share: 0.5}}
	for i, name := range []string{"eth0", "eth1"} {
		list[0].Paths = append(list[0].Paths, api.PathInfo{
			Local: local, Remote: remote, Interface: name, NextHop: netip.AddrFrom4([4]byte{10, 0, byte(i), 1}), Weight: 1, PathMTU: 1450,
			State: "up", Age: 61, Why: "it answers", Shares: half, TxPackets: 11, TxBytes: 10_000,
		})
	}
	return list
}

func fdb() []api.FDBEntry {
	return []api.FDBEntry{
		{Segment: "blue", MAC: mac1, Port: "p0", Static: true, Origin: "static", Age: 99},
		{Segment: "blue", MAC: mac2, Remote: remote, Origin: "learned", Age: 12.34, Moves: 2},
		{Segment: "green", MAC: mac1, Remote: remote, Origin: "bgp", Age: 3},
		{Segment: "green", MAC: mac2, Remote: remote, Origin: "bgp", Sticky: true},
	}
}

func flows() []api.FlowInfo {
	client, server := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	return []api.FlowInfo{
		{
			Segment: "blue", In: "p0", Out: "192.0.2.2", SrcMAC: mac1, DstMAC: mac2, Proto: "tcp", Src: client, Dst: server,
			SrcPort: 40000, DstPort: 5201, FastPath: true, Packets: 123_456, Bytes: 7_000_000_000, Idle: 0.004,
		},
		{
			Segment: "blue", In: "192.0.2.2", Out: "p0", SrcMAC: mac2, DstMAC: mac1, Proto: "udp",
			Src: netip.MustParseAddr("2001:db8::a"), Dst: netip.MustParseAddr("2001:db8::b"), SrcPort: 53, DstPort: 5353,
			FastPath: true, Packets: 1, Bytes: 90, Idle: 61,
		},
		{
			Segment: "blue", In: "p0", Out: "192.0.2.2", SrcMAC: mac1, DstMAC: mac2, Proto: "icmp", Src: client, Dst: server,
			Why: "destination not learned yet", Packets: 4, Bytes: 392, Idle: 3.21,
		},
		{Segment: "blue", In: "p0", Out: "flood", SrcMAC: mac1, DstMAC: overlay.MAC{255, 255, 255, 255, 255, 255}, Proto: "0x0806", Why: "flooded", Packets: 2, Bytes: 84, Idle: 7500},
		{Segment: "blue", OutSegment: "tenant-l3", In: "p0", Out: "192.0.2.2", Proto: "tcp", Src: client, Dst: server, SrcPort: 1, DstPort: 2, FastPath: true},
		{
			Segment: "blue", OutSegment: "wan", In: "p0", Out: "wan", Proto: "tcp", Src: client, Dst: server, SrcPort: 1, DstPort: 2,
			ToSrc: netip.MustParseAddrPort("203.0.113.10:1024"), FastPath: true,
		},
		{
			Segment: "wan", OutSegment: "blue", In: "wan", Out: "p0", Proto: "icmp", Src: server, Dst: client,
			ToDst: netip.MustParseAddrPort("10.0.0.7:9"), FastPath: true,
		},
		{Segment: "green", In: "p1", SrcMAC: mac2, DstMAC: mac1, Proto: "0x88cc", FastPath: true, Packets: 1, Bytes: 60, Idle: 200_000},
	}
}

func neighbours() []api.NeighbourInfo {
	return []api.NeighbourInfo{
		{Segment: "blue", Address: netip.MustParseAddr("10.0.0.1"), MAC: mac1, Port: "p0", Origin: "learned", Age: 12.34},
		{Segment: "blue", Address: netip.MustParseAddr("fd00::2"), MAC: mac2, Remote: remote, Static: true, Origin: "static", Age: 99},
		{Segment: "blue", Address: netip.MustParseAddr("10.0.0.3"), MAC: mac2, Remote: remote, Origin: "bgp", Age: 3},
		{Segment: "wan", Address: netip.MustParseAddr("198.51.100.1"), MAC: mac2, Origin: "learned", Age: 100},
	}
}

func routes() []api.RouteInfo {
	prefix, address := netip.MustParsePrefix, netip.MustParseAddr
	return []api.RouteInfo{
		{Router: "tenant", Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Origin: "static", Hops: []api.HopInfo{
			{Segment: "wan", Address: address("198.51.100.1"), MAC: mac1.String(), State: "resolved"},
			{Segment: "wan", Address: address("198.51.100.3"), State: "unresolved"},
		}},
		{Router: "tenant", Prefix: prefix("10.0.0.0/24"), Kind: overlay.Unicast, Origin: "connected", Hops: []api.HopInfo{{Segment: "blue", State: "connected"}}},
		{Router: "tenant", Prefix: prefix("10.2.0.0/16"), Kind: overlay.Unicast, Origin: "static", Hops: []api.HopInfo{
			{Segment: "tenant-l3", Remote: remote, MAC: mac2.String(), State: "resolved"},
		}},
		{Router: "tenant", Prefix: prefix("10.2.0.9/32"), Kind: overlay.Unicast, Origin: "bgp", Hops: []api.HopInfo{
			{Segment: "tenant-l3", Remote: remote, MAC: mac2.String(), State: "resolved"},
		}},
		{Router: "tenant", Prefix: prefix("10.9.0.0/16"), Kind: overlay.Blackhole, Origin: "leaked", From: "shared"},
	}
}

func trace() api.TraceInfo {
	return api.TraceInfo{
		Packet: "02:00:00:00:00:01 > 02:00:5e:00:01:01: tcp 10.0.0.1:1000 > 10.2.0.2:80 syn, TTL 64, 40 bytes",
		Steps: []api.TraceStep{
			{Stage: "classify", What: "port p0, segment blue"}, {Stage: "route", What: "10.2.0.0/16 in tenant by 192.0.2.2"},
			{Stage: "encap", What: "vxlan"},
		},
		Verdict: "sent to 192.0.2.2",
		Headers: []string{
			"02:00:00:00:0a:01 > 02:00:00:00:0a:02", "IPv4 192.0.2.1 > 192.0.2.2, 90 bytes, DSCP 0, ECN 0, TTL 64, DF",
			"UDP 50000 > 4789, 70 bytes, no checksum", "VXLAN VNI 5000",
			"inside: 02:00:00:00:04:01 > 02:00:00:00:00:02: tcp 10.0.0.1:1000 > 10.2.0.2:80 syn, TTL 63, 40 bytes",
		},
	}
}

func drops() []api.DropInfo {
	return []api.DropInfo{
		{Reason: "NO_REMOTE", Description: "no remote TEP for the inner destination", Packets: 12345, Bytes: 1_234_567},
		{Reason: "UNKNOWN_VNI", Description: "VNI is not configured"},
	}
}

func TestGolden(t *testing.T) {
	now := started.Add(3*time.Hour + 12*time.Minute)
	for name, write := range map[string]func(Writer) error{
		"status":      func(w Writer) error { return Status(w, busy(), now) },
		"status-idle": func(w Writer) error { return Status(w, idle(), started.Add(30*time.Second)) },
		"ports":       func(w Writer) error { return Ports(w, ports()) },
		"status-transit": func(w Writer) error {
			s := busy()
			s.Verdict, s.Transit, s.Problems, s.Segments = problem.OK, &api.Usage{Used: 100, Size: 524288}, nil, nil
			return Status(w, s, now)
		},
		"interfaces":       func(w Writer) error { return Interfaces(w, interfaces()) },
		"flow-cache":       func(w Writer) error { return FlowCache(w, flowCacheInfo()) },
		"flow-cache-rates": func(w Writer) error { return FlowCache(w, thrashing()) },
		"flow-cache-off":   func(w Writer) error { return FlowCache(w, off()) },
		"flow-cache-json":  func(w Writer) error { return JSON(w, thrashing()) },
		"teps":             func(w Writer) error { return TEPs(w, teps()) },
		"teps-paths":       func(w Writer) error { return TEPs(w, pathsOf()) },
		"teps-next-hops":   func(w Writer) error { return TEPs(w, nextHopsOf()) },
		"fdb":              func(w Writer) error { return FDB(w, fdb()) },
		"fdb-empty":        func(w Writer) error { return FDB(w, nil) },
		"flows":            func(w Writer) error { return Flows(w, flows()) },
		"drops":            func(w Writer) error { return Drops(w, drops(), false) },
		"drops-all":        func(w Writer) error { return Drops(w, drops(), true) },
		"drops-port":       func(w Writer) error { return OwnerDrops(w, "port", ownerDrops()) },
		"limits":           func(w Writer) error { return Limits(w, limits(), false) },
		"limits-all":       func(w Writer) error { return Limits(w, limits(), true) },
		"ports-wide": func(w Writer) error {
			w.Wide = true
			return Ports(w, ports())
		},
		"neighbours": func(w Writer) error { return Neighbours(w, neighbours()) },
		"routes":     func(w Writer) error { return Routes(w, routes()) },
		"trace":      func(w Writer) error { return Trace(w, trace()) },
		"trace-drop": func(w Writer) error {
			return Trace(w, api.TraceInfo{Packet: "p", Verdict: "dropped: ttl-exceeded"})
		},
		"status-firewall": func(w Writer) error {
			s := idle()
			s.Firewall = &api.FirewallUse{Rules: 12_345, Connections: api.Usage{Used: 3400, Size: 131072}, HalfOpen: api.Usage{Used: 12, Size: 16384}}
			return Status(w, s, now)
		},
		"rules":           func(w Writer) error { return Rules(w, rules()) },
		"sessions":        func(w Writer) error { return Sessions(w, sessionList()) },
		"sessions-json":   func(w Writer) error { return JSON(w, sessionList()) },
		"sessions-top":    func(w Writer) error { return TopSessions(w, topSessions()) },
		"firewall":        func(w Writer) error { return Firewall(w, firewall()) },
		"firewall-alarms": func(w Writer) error { return Firewall(w, pressed()) },
		"what-if":         func(w Writer) error { return WhatIf(w, whatIf()) },
		"what-if-nothing": func(w Writer) error { return WhatIf(w, api.WhatIfInfo{Total: 7}) },
		"egress":          func(w Writer) error { return Egress(w, egress()) },
		"egress-json":     func(w Writer) error { return JSON(w, egress()) },
		"egress-uplink":   func(w Writer) error { return Egress(w, masquerade()) },
		"egress-drained":  func(w Writer) error { return Gateways(w, drained()) },
		"nat":             func(w Writer) error { return NATSessions(w, natSessionList()) },
		"nat-top":         func(w Writer) error { return TopNATSessions(w, topNATSessions()) },
		"nat-pressure":    func(w Writer) error { return Pressures(w, pressures()) },
		"nat-stats":       func(w Writer) error { return NAT(w, translation()) },
		"status-nat": func(w Writer) error {
			s := idle()
			s.NAT = &api.NATUse{Sessions: api.Usage{Used: 13, Size: 262144}, Policies: 2, State: "draining"}
			return Status(w, s, now)
		},
		"bgp": func(w Writer) error { return BGP(w, bgp()) },
		"status-bgp": func(w Writer) error {
			s := idle()
			s.BGP = &api.BGPUse{Neighbours: api.Tally{Up: 1, Total: 2}, Used: 100_000, Unused: 3, Advertised: 15, Stale: 7, Frozen: 1}
			return Status(w, s, now)
		},
		"bgp-idle":        func(w Writer) error { return BGP(w, api.BGPInfo{AS: 65000, RouterID: tep}) },
		"bgp-neighbour":   func(w Writer) error { return BGPNeighbour(w, bgp().Neighbours[0]) },
		"bgp-lost":        func(w Writer) error { return BGPNeighbour(w, bgp().Neighbours[2]) },
		"bgp-routes":      func(w Writer) error { return BGPRoutes(w, bgpRoutes()) },
		"bgp-routes-wide": func(w Writer) error { return BGPRoutes(Writer{Writer: w, Wide: true}, bgpRoutes()) },
		"bgp-routes-json": func(w Writer) error { return JSON(w, bgpRoutes()) },
		"prove":           func(w Writer) error { return Prove(w, proofs()) },
		"prove-nothing":   func(w Writer) error { return Prove(w, api.ProveInfo{}) },
		"bgp-moves":       func(w Writer) error { return BGPMoves(w, bgpMoves()) },
		"fdb-json":        func(w Writer) error { return JSON(w, fdb()) },
	} {
		t.Run(name, func(t *testing.T) { compare(t, name, write) })
	}
}

// compare compares what is written with a golden file.
func compare(t *testing.T, name string, write func(Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(Writer{Writer: &got}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("differs from %s (go test -update rewrites it):\n%s", golden, diff)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 9_999: "9999", 10_000: "10.0k", 12_345: "12.3k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k",
		999_500: "1.00M", 9_994_999: "9.99M", 9_995_001: "10.0M", 1e9: "1.00G", 1e12: "1.00T", 1e15: "1.00P", 1 << 63: "9.22E",
	} {
		if got := count(n).String(); got != want {
			t.Errorf("count(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	for perSecond, want := range map[float64]string{
		-1: "0", 0: "0", 0.04: "0.0", 0.26: "0.3", 9.94: "9.9", 9.95: "10", 314_913.9: "315k",
	} {
		if got := rate(perSecond); got != want {
			t.Errorf("rate(%v) = %s, want %s", perSecond, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for seconds, want := range map[float64]gauge{
		-1: "0s", 0: "0.0s", 0.26: "0.3s", 9.94: "9.9s", 12.9: "12s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m", 86399: "23h59m", 90000: "1d01h", 1e300: "11574d01h",
	} {
		if got := span(seconds); got != want {
			t.Errorf("span(%v) = %s, want %s", seconds, got, want)
		}
	}
}

package edge

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
)

var (
	prefix     = netip.MustParsePrefix
	addr       = netip.MustParseAddr
	samePrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	uplinkMAC  = overlay.MAC{2, 0, 0, 0, 9, 9}
	l3MAC      = overlay.MAC{2, 0, 0, 0, 1, 1}
	remoteL3   = overlay.MAC{2, 0, 0, 0, 2, 1}
)

// newGatewayWorld has a router with blue, the uplink wan, and an L3 segment; p0
// is a trunk.
func newGatewayWorld(t *testing.T) *world {
	w := newWorld(t)
	w.config.Segments[0].Gateway = &overlay.Gateway{Router: "tenant", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.0.254/24")}}
	w.config.Segments[1].Tunnel = overlay.Tunnel{Encapsulation: overlay.Geneve, UDPPort: 6081}
	w.config.Routers = []overlay.Router{{
		Name: "tenant",
		L3:   &overlay.L3{VNI: 5000, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, MAC: l3MAC, Remotes: []netip.Addr{remote}},
		Routes: []overlay.Route{
			{Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("198.51.100.1")}, {Addr: addr("198.51.100.3")}}},
			{Prefix: prefix("10.2.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Remote: remote, MAC: remoteL3}}},
			{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Blackhole},
		},
		Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth1", VLAN: 42, MAC: uplinkMAC, Addresses: []netip.Prefix{prefix("198.51.100.2/24")}}},
	}}
	w.config.Ports[0].VLANs = []overlay.PortVLAN{{VLAN: 10, Segment: "red"}}
	w.config.Ports = w.config.Ports[:1]
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 8, MTU: 1500, Up: true}
	w.neighbours = []datapath.Neighbour{
		{Segment: "wan", Addr: addr("198.51.100.1"), MAC: overlay.MAC{2, 0xff}, Port: "wan", AgeNS: 2e9},
		{Segment: "blue", Addr: addr("10.0.0.5"), MAC: mac, Remote: remote, Static: true},
		{Segment: "blue", Addr: addr("10.0.0.1"), MAC: overlay.MAC{2, 1}, Port: "p0", AgeNS: 1e9},
	}
	return w
}

func TestDataPathConfig(t *testing.T) {
	w := newGatewayWorld(t)
	cfg := dataPathConfig(w.config, RunOptions{PinRoot: "pins"})
	want := []datapath.UDPPort{{Port: 4789, Encapsulation: overlay.VXLAN}, {Port: 6081, Encapsulation: overlay.Geneve}}
	if !slices.Equal(cfg.UDPPorts, want) || !cfg.NVGRE {
		t.Errorf("%+v, want %v and NVGRE for the L3 segment", cfg, want)
	}
	w.config.Routers = nil
	if cfg := dataPathConfig(w.config, RunOptions{PinRoot: "pins"}); cfg.NVGRE {
		t.Error("NVGRE without a segment that has it")
	}
}

func TestGatewayDocuments(t *testing.T) {
	c, _ := newGatewayWorld(t).run()
	check := func(name string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got, sameAddr, samePrefix); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("neighbours", entries(t, c.Neighbours, api.EntryQuery{}), []api.NeighbourInfo{
		{Segment: "blue", Address: addr("10.0.0.1"), MAC: overlay.MAC{2, 1}, Port: "p0", Age: 1},
		{Segment: "blue", Address: addr("10.0.0.5"), MAC: mac, Remote: remote, Static: true},
		{Segment: "wan", Address: addr("198.51.100.1"), MAC: overlay.MAC{2, 0xff}, Port: "wan", Age: 2},
	})
	routes := func(to netip.Addr) []api.RouteInfo {
		return fetched(t, func(ctx context.Context) ([]api.RouteInfo, error) { return c.Routes(ctx, to) })
	}
	check("routes", routes(netip.Addr{}), []api.RouteInfo{
		{Router: "tenant", Prefix: prefix("0.0.0.0/0"), Kind: "unicast", Origin: "static", Hops: []api.HopInfo{
			{Segment: "wan", Address: addr("198.51.100.1"), MAC: "02:ff:00:00:00:00", State: "resolved"},
			{Segment: "wan", Address: addr("198.51.100.3"), State: "unresolved"},
		}},
		{Router: "tenant", Prefix: prefix("10.0.0.0/24"), Kind: "unicast", Origin: "connected", Hops: []api.HopInfo{{Segment: "blue", State: "connected"}}},
		{Router: "tenant", Prefix: prefix("10.2.0.0/16"), Kind: "unicast", Origin: "static", Hops: []api.HopInfo{
			{Segment: "tenant-l3", Remote: remote, MAC: remoteL3.String(), State: "resolved"},
		}},
		{Router: "tenant", Prefix: prefix("10.9.0.0/16"), Kind: "blackhole", Origin: "static", Hops: []api.HopInfo{}},
		{Router: "tenant", Prefix: prefix("198.51.100.0/24"), Kind: "unicast", Origin: "connected", Hops: []api.HopInfo{{Segment: "wan", State: "connected"}}},
	})
	for to, want := range map[string]string{"10.0.0.9": "10.0.0.0/24", "10.2.255.255": "10.2.0.0/16", "10.9.1.1": "10.9.0.0/16", "10.3.0.1": "0.0.0.0/0", "::ffff:10.0.0.9": "10.0.0.0/24", "2001:db8::1": ""} {
		var got string
		for _, r := range routes(addr(to)) {
			got += r.Prefix.String()
		}
		check("route to "+to, got, want)
	}
	if _, err := api.Fetch[[]api.RouteInfo](t.Context(), c, "routes?to=10.0.0"); err == nil || !strings.Contains(err.Error(), `to: "10.0.0" is not an IP address`) {
		t.Errorf("error %v of a route to no address", err)
	}
	ports := fetched(t, c.Ports)
	check("names of ports", each(ports, func(p api.PortInfo) string { return p.Name }), []string{"p0", "p0.10", "wan"})
	if p := ports[1]; p.VLAN != 10 || p.Trunk != "p0" || p.Segment != "red" || p.Ifindex != 3 {
		t.Errorf("member of a trunk %+v", p)
	}
	if p := ports[2]; p.VLAN != 42 || p.Router != "tenant" || p.Segment != "wan" || p.Ifindex != 8 {
		t.Errorf("uplink %+v", p)
	}
	s := fetched(t, c.Status)
	check("segments", s.Segments, []api.SegmentInfo{
		{Name: "blue", VNI: 100, Encapsulation: "vxlan", UDPPort: 4789, Ports: 1, Remotes: 1, Generation: 4,
			Router: "tenant", Gateway: []netip.Prefix{prefix("10.0.0.254/24")}},
		{Name: "red", VNI: 200, Encapsulation: "geneve", UDPPort: 6081, Ports: 1, Gateway: []netip.Prefix{}},
		{Name: "tenant-l3", VNI: 5000, Encapsulation: "nvgre", Remotes: 1, Router: "tenant", Gateway: []netip.Prefix{}, ClampMSS: true},
		{Name: "wan", Ports: 1, Router: "tenant", Gateway: []netip.Prefix{prefix("198.51.100.2/24")}},
	})
	if s.Ports != (api.Tally{Up: 3, Total: 3}) {
		t.Errorf("ports %+v, want all three up", s.Ports)
	}
}

// A next hop that nobody needs is not asked, and no problem. One that does not
// answer is, while packets want it and no longer.
func TestUnresolvedNextHops(t *testing.T) {
	const problem = "router tenant: next hop 198.51.100.3 in wan has no MAC address, " +
		"so packets were just dropped (no-neighbour): check that it is up and answers"
	w := newGatewayWorld(t)
	w.inVain = 3 // of a former process
	w.opts.Resync = 200 * time.Millisecond
	c, _ := w.run()
	more := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inVain++
	}
	if w.problem(c, "next hop") {
		t.Errorf("problems %q of next hops that nobody asked for", fetched(t, c.Status).Problems)
	}
	more()
	w.within("the silent one is a problem", func() bool { return w.problem(c, problem) })
	if w.problem(c, "198.51.100.1 ") {
		t.Error("one that answers is a problem")
	}
	w.within("it is over when nobody asks", func() bool { return !w.problem(c, "next hop") })
	more()
	w.within("it is back", func() bool { return w.problem(c, problem) })
	w.mu.Lock()
	w.neighbours = append(w.neighbours, datapath.Neighbour{Segment: "wan", Addr: addr("198.51.100.3"), MAC: mac})
	w.mu.Unlock()
	if w.problem(c, "next hop") {
		t.Error("a problem of next hops that have all answered")
	}
}

func each[A, B any](list []A, f func(A) B) (out []B) {
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

func TestProbesFollowConfigurationAndHost(t *testing.T) {
	w := newWorld(t)
	w.config.Underlay.ProbeMTU = true
	w.hostState.TEPs = nil
	c, _ := w.run()
	if w.called("probe from 192.0.2.1") > 0 {
		t.Error("probes were opened before the host has the TEP")
	}
	w.set(func() { w.hostState.TEPs = map[netip.Addr]bool{tep: true} })
	w.within("remotes probed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.ceilings[pair] == 1550
	})
	info := func() api.TEPInfo { return fetched(t, c.TEPs)[0] }
	w.mu.Lock()
	w.results = map[netip.Addr]pathmtu.Result{remote: {State: pathmtu.Confirmed, MTU: 1450, When: time.Now()}}
	w.mu.Unlock()
	w.found <- struct{}{}
	w.within("tables obey", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.tables.TEPs[0].MTU == 1450
	})
	if got := info(); got.MTU != 1550 || got.PathMTU != 1450 || got.PathMTUState != "confirmed" || got.InnerMTU != 1400 {
		t.Errorf("TEP %+v, want a path MTU of 1450", got)
	}
	w.mu.Lock()
	w.config.Underlay.ProbeMTU = false
	w.mu.Unlock()
	w.hangup()
	w.within("probes ended", func() bool { return w.called("end probes") == 1 })
	w.within("interface's MTU again", func() bool { got := info(); return got.PathMTU == 1550 && got.PathMTUState == "not probed" })
}

func TestProbesThatCannotBe(t *testing.T) {
	w := newWorld(t)
	w.config.Underlay.ProbeMTU = true
	w.failing["probe from 192.0.2.1"] = errFake
	c, stop := w.run()
	if !w.problem(c, "probe path MTUs", errFake.Error()) {
		t.Error("no problem says so")
	}
	w.set(func() { delete(w.failing, "probe from 192.0.2.1") })
	w.within("probes opened", func() bool { return !w.problem(c, "probe path MTUs") })
	if err := stop(); err != nil || w.called("end probes") != 1 {
		t.Errorf("stop: %v, calls %q", err, w.calls)
	}
}

// What an ICMP message said is obeyed by nobody before a probe has found it to be true.
func TestReportedPathMTUs(t *testing.T) {
	w := newWorld(t)
	w.config.Underlay.ProbeMTU = true
	w.config.FDB.Ageing = time.Second // a look at all every 100 ms, too
	c, _ := w.run()
	pair := overlay.Pair{Local: tep, Remote: remote}
	probed := func(mtu int, when time.Time) {
		w.mu.Lock()
		w.results = map[netip.Addr]pathmtu.Result{remote: {State: pathmtu.Confirmed, MTU: mtu, When: when}}
		w.mu.Unlock()
		w.found <- struct{}{}
	}
	reported := func(mtu int) {
		w.mu.Lock()
		w.reported, w.reports = time.Now(), map[overlay.Pair]datapath.PathReport{pair: {MTU: mtu, VNIMTU: mtu, Age: 5 * time.Second}}
		w.mu.Unlock()
	}
	probed(1550, time.Now().Add(-time.Minute))
	reported(1400)
	w.within("looked into", func() bool { return w.called("recheck 192.0.2.2 1400") == 1 })
	if got := fetched(t, c.TEPs)[0]; got.PathMTU != 1550 || got.PathMTUState != "confirmed" || got.ReportedMTU != 1400 || got.InnerMTU != 1500 {
		t.Errorf("TEP %+v, want what was confirmed, and the report", got)
	}
	before := w.called("age 1s")
	w.within("more looks", func() bool { return w.called("age 1s") > before+2 })
	if n := w.called("recheck 192.0.2.2 1400"); n != 1 || w.called("decide 192.0.2.2") > 0 {
		t.Errorf("%d rechecks of one message, calls %q", n, w.calls)
	}
	probed(1550, time.Now())
	w.within("refuted", func() bool { return w.called("decide 192.0.2.2") == 1 })
	if got := fetched(t, c.TEPs)[0]; got.PathMTU != 1550 || got.ReportedMTU != 0 {
		t.Errorf("TEP %+v, want what was confirmed", got)
	}
	reported(1380)
	w.mu.Lock()
	w.reported, w.reports[pair] = time.Now(), datapath.PathReport{MTU: 1380}
	w.mu.Unlock()
	w.within("looked into", func() bool { return w.called("recheck 192.0.2.2 1380") > 0 })
	probed(1380, time.Now().Add(time.Hour))
	w.within("confirmed", func() bool { return w.called("decide 192.0.2.2") == 2 })
	w.within("tables obey", func() bool {
		got := fetched(t, c.TEPs)[0]
		return got.PathMTU == 1380 && got.PathMTUState == "confirmed"
	})
	for _, want := range []string{`outcome="refuted"} 1`, `outcome="confirmed"} 1`, `outcome="unconfirmed"} 0`} {
		w.exports(c, "selvage_path_mtu_reports_total{"+want)
	}
}

// Where no probe can decide, a message that embeds a VNI is obeyed for a while, and never below
// what leaves 1,280 bytes inside.
func TestUnansweredReports(t *testing.T) {
	pair := overlay.Pair{Local: tep, Remote: remote}
	const floor = 1280 + 50
	for _, probing := range []bool{false, true} {
		w := newWorld(t)
		w.config.Underlay.ProbeMTU = probing
		w.results = map[netip.Addr]pathmtu.Result{remote: {State: pathmtu.Unanswered, When: time.Now()}}
		c, _ := w.run()
		n := 0
		for _, s := range []struct{ mtu, vniMTU, want int }{{1400, 0, 1550}, {1400, 1500, 1500}, {576, 1490, 1490}, {576, 576, floor}, {600, 600, floor}, {1540, 1540, floor}} {
			n++
			w.mu.Lock()
			w.reports = map[overlay.Pair]datapath.PathReport{pair: {MTU: s.mtu, VNIMTU: s.vniMTU}}
			w.mu.Unlock()
			w.within("decided", func() bool { return w.called("decide 192.0.2.2") == n })
			got := fetched(t, c.TEPs)[0]
			w.within("tables obey", func() bool { got = fetched(t, c.TEPs)[0]; return got.PathMTU == s.want })
			if state := got.PathMTUState; s.want != 1550 && state != "reported by ICMP" {
				t.Errorf("%+v: state %s", s, state)
			}
			if w.called("recheck 192.0.2.2") > 0 {
				t.Error("an unanswered remote is probed for what anybody says")
			}
		}
	}
}

func TestTrace(t *testing.T) {
	w := newGatewayWorld(t)
	c, _ := w.run()
	for _, tt := range []struct {
		name  string
		query api.TraceQuery
		want  string // what went in, as a summary
		from  string // port, or remote and segment
	}{
		{"routed", api.TraceQuery{Port: "p0", Packet: "tcp 10.0.0.1:1000 > 10.1.0.2:80 syn"},
			"02:01:00:00:00:00 > 02:00:5e:00:01:01: tcp 10.0.0.1:1000 > 10.1.0.2:80 syn, TTL 64, 40 bytes", "p0"},
		{"bridged", api.TraceQuery{Port: "p0", Packet: "icmp 10.0.0.1 > 10.0.0.5", Size: 1400, TTL: 1},
			"02:01:00:00:00:00 > 02:00:00:00:00:02: icmp 10.0.0.1 > 10.0.0.5 echo request, TTL 1, 1400 bytes", "p0"},
		{"to the gateway", api.TraceQuery{Port: "p0", Packet: "icmp 10.0.0.1 > 10.0.0.254"},
			"02:01:00:00:00:00 > 02:00:5e:00:01:01: icmp 10.0.0.1 > 10.0.0.254 echo request, TTL 64, 28 bytes", "p0"},
		{"ARP", api.TraceQuery{Port: "p0", Packet: "arp 10.0.0.1 ? 10.0.0.9"}, "02:01:00:00:00:00 > ff:ff:ff:ff:ff:ff: arp 10.0.0.1 ? 10.0.0.9", "p0"},
		{"multicast", api.TraceQuery{Port: "p0", Packet: "udp 10.0.0.1:1 > 224.0.0.1:2"},
			"02:01:00:00:00:00 > 01:00:5e:00:00:01: udp 10.0.0.1:1 > 224.0.0.1:2, TTL 64, 28 bytes", "p0"},
		{"member by its name", api.TraceQuery{Port: "p0.10", Packet: "raw 0x88b5 4", SrcMAC: mac, DstMAC: mac, VLAN: 7},
			"02:00:00:00:00:02 > 02:00:00:00:00:02, VLAN 10, VLAN 7: ethertype 0x88b5, 4 bytes", "p0.10"},
		{"member by its VLAN", api.TraceQuery{Port: "p0", Packet: "raw 0x88b5 4", SrcMAC: mac, DstMAC: mac, VLAN: 10},
			"02:00:00:00:00:02 > 02:00:00:00:00:02, VLAN 10: ethertype 0x88b5, 4 bytes", "p0.10"},
		{"tag of no member", api.TraceQuery{Port: "p0", Packet: "raw 0x88b5 4", SrcMAC: mac, DstMAC: mac, VLAN: 11},
			"02:00:00:00:00:02 > 02:00:00:00:00:02, VLAN 11: ethertype 0x88b5, 4 bytes", "p0"},
		{"out of a tunnel", api.TraceQuery{Remote: remote, Segment: "blue", Packet: "icmp 10.0.0.5 > 10.0.0.1"},
			"02:00:00:00:00:02 > 02:01:00:00:00:00: icmp 10.0.0.5 > 10.0.0.1 echo request, TTL 64, 28 bytes", "192.0.2.2 blue"},
		{"from a remote router", api.TraceQuery{Remote: remote, Segment: "tenant-l3", Packet: "icmp 10.2.0.5 > 10.0.0.1"},
			"02:00:00:00:02:01 > 02:00:00:00:01:01: icmp 10.2.0.5 > 10.0.0.1 echo request, TTL 64, 28 bytes", "192.0.2.2 tenant-l3"},
		{"from the plain network", api.TraceQuery{Port: "wan", Packet: "icmp 198.51.100.1 > 10.0.0.1"},
			"02:ff:00:00:00:00 > 02:00:00:00:09:09, VLAN 42: icmp 198.51.100.1 > 10.0.0.1 echo request, TTL 64, 28 bytes", "wan"},
	} {
		got, err := c.Trace(context.Background(), tt.query)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		in := w.traced[len(w.traced)-1]
		from := in.Port
		if in.Remote.IsValid() {
			from = in.Remote.String() + " " + in.Segment
		}
		if got.Packet != tt.want || from != tt.from || got.Verdict != "forwarded" || len(got.Steps) != 1 || !slices.Equal(got.Headers, []string{tt.want}) {
			t.Errorf("%s: from %s\ngot  %+v\nwant %s from %s", tt.name, from, got, tt.want, tt.from)
		}
	}
}

func TestTraceRefuses(t *testing.T) {
	w := newGatewayWorld(t)
	c, _ := w.run()
	for want, q := range map[string]api.TraceQuery{
		`there is no port "p9"; ports: p0, p0.10, wan`:                                       {Port: "p9", Packet: "arp 10.0.0.1 ? 10.0.0.2"},
		"give a port, or a remote with a segment":                                            {Packet: "arp 10.0.0.1 ? 10.0.0.2"},
		"a port is in one segment: leave the segment out":                                    {Port: "p0", Segment: "blue", Packet: "arp 10.0.0.1 ? 10.0.0.2"},
		"name the segment too; with remote 192.0.2.2 are: blue, tenant-l3":                   {Remote: remote, Packet: "arp 10.0.0.1 ? 10.0.0.2"},
		`there is no segment "wan" with tunnels; with remote 192.0.2.2 are: blue, tenant-l3`: {Remote: remote, Segment: "wan", Packet: "arp 10.0.0.1 ? 10.0.0.2"},
		"the MAC address of 10.0.0.7 in segment blue is not known: give it with --src-mac":   {Port: "p0", Packet: "icmp 10.0.0.7 > 10.0.0.5"},
		"the MAC address of 10.0.0.9 in segment blue is not known: give it with --dst-mac":   {Port: "p0", Packet: "icmp 10.0.0.1 > 10.0.0.9"},
		"without IP addresses, MAC addresses cannot be looked up: give --src-mac":            {Port: "p0", Packet: "raw 0x88b5"},
		"a packet cannot have 20 bytes: its headers have 28, and the most is 65535":          {Port: "p0", Packet: "icmp 10.0.0.1 > 10.0.0.5", Size: 20},
		`packet "ping 10.0.0.1": "ping" is not a kind of packet`:                             {Port: "p0", Packet: "ping 10.0.0.1"},
		"the MAC address of 10.9.9.9 in segment red is not known: give it with --dst-mac":    {Port: "p0.10", Packet: "icmp 10.0.0.1 > 10.9.9.9", SrcMAC: mac},
	} {
		_, err := c.Trace(context.Background(), q)
		if err == nil || !strings.HasPrefix(err.Error(), "edge a: "+want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	resp, body := raw(t, w.opts.RuntimeDir+"/a.sock", "GET", "/v1/trace?port=p0&ttl=256&packet=arp")
	if resp.StatusCode != 400 || !strings.Contains(body, "is not a number from 0 to 255") {
		t.Errorf("%d %s, want 400 that names the argument", resp.StatusCode, body)
	}
	w.mu.Lock()
	w.failing["trace"] = errFake
	w.mu.Unlock()
	if _, err := c.Trace(context.Background(), api.TraceQuery{Port: "p0", Packet: "arp 10.0.0.1 ? 10.0.0.2"}); err == nil || !strings.Contains(err.Error(), "read trace: "+errFake.Error()) {
		t.Errorf("%v, want the data path's own error", err)
	}
}

package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

var (
	self    = netip.MustParseAddr("192.0.2.1")
	remoteB = netip.MustParseAddr("192.0.2.2")
	remoteC = netip.MustParseAddr("198.51.100.3")
	toB     = overlay.Pair{Local: self, Remote: remoteB}
	toC     = overlay.Pair{Local: self, Remote: remoteC}
	router  = netip.MustParseAddr("192.0.2.254")
	own     = overlay.MAC{2, 0, 0, 0, 0, 1}
	macB    = overlay.MAC{2, 0, 0, 0, 0, 2}
	macR    = overlay.MAC{2, 0, 0, 0, 0, 0xfe}

	noPath   = "remote 192.0.2.2: no route leaves by the interface of its TEP: add one, or correct the remote's addresses"
	oversize = "larger packets are answered with ICMP errors and TCP gets a smaller MSS; to avoid that, "

	sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

// edge has two ports in segment blue, whose remotes are B (on the same
// network) and, behind a static MAC only, C (behind a router).
func edge() overlay.Edge {
	return overlay.Edge{
		Name:     "a",
		Underlay: overlay.Underlay{Interfaces: []string{"eth0"}, TEP: self},
		Segments: []overlay.Segment{{
			Name: "blue", VNI: 100, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}, ClampMSS: true,
			Remotes: []netip.Addr{remoteB},
			Static:  []overlay.StaticMAC{{MAC: macB, Remote: remoteC}},
		}},
		Ports: []overlay.Port{
			{Name: "p1", Interface: "tap1", Segment: "blue"},
			{Name: "p0", Interface: "veth0", Segment: "blue"},
		},
	}
}

// state is a host on which edge works without problems.
func state() host.State {
	direct := host.Path{
		NextHop: host.NextHop{Ifindex: 2, Addr: remoteB}, Interface: "eth0", MTU: 1500, SrcMAC: own, NextMAC: macB,
	}
	routed := direct
	routed.NextHop.Addr, routed.NextMAC = router, macR
	return host.State{
		Links: map[string]host.Link{
			"eth0":  {Name: "eth0", Index: 2, MTU: 1500, MAC: own, Up: true},
			"veth0": {Name: "veth0", Index: 3, Kind: "veth", MTU: 1450, Up: true, PeerElsewhere: true, Segments: true},
			"tap1":  {Name: "tap1", Index: 4, Kind: "tun", MTU: 1450, Up: true, Segments: true},
		},
		TEPs:   map[netip.Addr]bool{self: true},
		Routes: map[overlay.Pair]host.Path{toB: direct, toC: routed},
	}
}

// desired is what the data path gets when nothing was planned before.
func desired(e overlay.Edge, v host.State, probed map[overlay.Pair]int) (fib.Tables, []string) {
	pathPolicies, problems := Teamed(e, FactsOf(e, v, probed, nil), PathPolicies{})
	tables, more := Desired(e, v, pathPolicies)
	return tables, problem.Texts(append(more, problems...))
}

func TestDesiredTables(t *testing.T) {
	e := edge()
	got, problems := desired(e, state(), nil)
	want := fib.Tables{
		Underlays: []int{2},
		Segments:  e.Segments,
		Ports: []fib.Port{
			{Name: "p0", Ifindex: 3, Segment: "blue", MTU: 1450, Peer: true, Segments: true},
			{Name: "p1", Ifindex: 4, Segment: "blue", MTU: 1450, Segments: true},
		},
		TEPs: []fib.TEP{
			{Addr: remoteB, Local: self, Edge: remoteB, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
			{Addr: remoteC, Local: self, Edge: remoteC, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macR},
		},
		PathPolicies: []fib.PathPolicy{{PathGroups: []fib.PathGroup{
			{Remote: remoteB, Paths: []overlay.Pair{toB}}, {Remote: remoteC, Paths: []overlay.Pair{toC}},
		}}},
		PathPolicyOf: map[string]int{"blue": 0},
	}
	if diff := cmp.Diff(want, got, sameAddr); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems of a sound host: %q", problems)
	}
}

// A port with segmentation offload turned off gets no large segments: neither put
// together nor past its device, which has them cut.
// Two ports that name one interface, by its name and by another of its names, are one: the
// first has it, and the other is a problem.
func TestPortsOfOneInterface(t *testing.T) {
	e, v := edge(), state()
	e.Ports = append(e.Ports, overlay.Port{Name: "p2", Interface: "uplink-of-tap", Segment: "blue"},
		overlay.Port{Name: "p3", Interface: "uplink-of-tap", VLANs: []overlay.PortVLAN{{VLAN: 7, Segment: "blue"}}})
	v.Links["uplink-of-tap"] = v.Links["tap1"]
	tables, problems := desired(e, v, nil)
	want := "p2: interface uplink-of-tap is that of p1, by another name: give each an interface, or a VLAN, of its own"
	if !slices.Contains(problems, want) || len(problems) != 1 {
		t.Errorf("problems %q, want %q", problems, want)
	}
	var names []string
	for _, p := range tables.Ports {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"p0", "p1", "p3.7"}) {
		t.Errorf("ports %q", names)
	}
}

func TestPortsWithoutSegments(t *testing.T) {
	v := state()
	for name, link := range v.Links {
		link.Segments = false
		v.Links[name] = link
	}
	tables, problems := desired(edge(), v, nil)
	for _, p := range tables.Ports {
		if p.Peer || p.Segments {
			t.Errorf("%+v, want neither segments nor delivery to the peer", p)
		}
	}
	if len(tables.Ports) != 2 || len(problems) > 0 {
		t.Errorf("ports %v, problems %q", tables.Ports, problems)
	}
}

func TestDesiredProblems(t *testing.T) {
	link := func(name string, change func(*host.Link)) func(*overlay.Edge, *host.State) {
		return func(_ *overlay.Edge, v *host.State) {
			l := v.Links[name]
			change(&l)
			v.Links[name] = l
		}
	}
	path := func(change func(*host.Path)) func(*overlay.Edge, *host.State) {
		return func(_ *overlay.Edge, v *host.State) {
			p := v.Routes[toB]
			change(&p)
			v.Routes[toB] = p
		}
	}
	tests := []struct {
		name   string
		change func(*overlay.Edge, *host.State)
		want   []string
		check  func(*testing.T, fib.Tables)
	}{
		{
			name:   "underlay interface missing",
			change: func(e *overlay.Edge, _ *host.State) { e.Underlay.Interfaces = []string{"eth0", "eth9"} },
			want:   []string{"underlay interface eth9 does not exist: create it, or correct the underlay's interfaces"},
		}, {
			name:   "underlay interface down",
			change: link("eth0", func(l *host.Link) { l.Up = false }),
			want: []string{
				"underlay interface eth0 is down: enable it with `ip link set dev eth0 up` and check its cable or peer",
				"remote 192.0.2.2: all paths are dead, the last ones stay in use: check the remote and the network to it",
				"remote 198.51.100.3: all paths are dead, the last ones stay in use: check the remote and the network to it",
				"remote 192.0.2.2: the path from 192.0.2.1 to 192.0.2.2 is dead: interface eth0 is down: check the network between them",
				"remote 198.51.100.3: the path from 192.0.2.1 to 198.51.100.3 is dead: interface eth0 is down: check the network between them",
			},
			check: func(t *testing.T, got fib.Tables) {
				if len(got.Underlays) != 1 {
					t.Errorf("a link that is down shall stay attached, underlays %v", got.Underlays)
				}
			},
		}, {
			name:   "TEP address elsewhere",
			change: func(_ *overlay.Edge, v *host.State) { v.TEPs = nil },
			want:   []string{"TEP address 192.0.2.1 is not on this host: add it to an interface, or correct the underlay's TEP"},
		}, {
			name:   "port missing",
			change: func(_ *overlay.Edge, v *host.State) { delete(v.Links, "tap1") },
			want:   []string{"port p1: interface tap1 does not exist: create it, it is attached when it appears"},
			check: func(t *testing.T, got fib.Tables) {
				if len(got.Ports) != 1 || got.Ports[0].Name != "p0" {
					t.Errorf("ports %v, want p0 alone", got.Ports)
				}
			},
		}, {
			name:   "port down",
			change: link("tap1", func(l *host.Link) { l.Up = false }),
			want:   []string{"port p1: interface tap1 is down: enable it with `ip link set dev tap1 up`, and check what is behind it"},
		}, {
			name:   "no route",
			change: func(_ *overlay.Edge, v *host.State) { delete(v.Routes, toB) },
			want:   []string{noPath},
			check: func(t *testing.T, got fib.Tables) {
				if got.TEPs[0] != (fib.TEP{Addr: remoteB, Local: self, Edge: remoteB}) {
					t.Errorf("TEP without a route is %+v, want its addresses alone", got.TEPs[0])
				}
			},
		}, {
			name:   "remote is this host",
			change: path(func(p *host.Path) { p.Local = true }),
			want:   []string{"remote 192.0.2.2 is an address of this host: correct the remote", noPath},
		}, {
			name:   "route leaves the underlay",
			change: path(func(p *host.Path) { p.Ifindex, p.Interface = 9, "wlan0" }),
			want: []string{"remote 192.0.2.2: its route leaves by wlan0, which is not an underlay interface: " +
				"change the route, or add wlan0 to the underlay's interfaces", noPath},
			check: func(t *testing.T, got fib.Tables) {
				if got.TEPs[0].Ifindex != 0 {
					t.Error("tunnels would leave by an interface that is no underlay")
				}
			},
		}, {
			name:   "next hop silent",
			change: path(func(p *host.Path) { p.NextMAC = overlay.MAC{} }),
			want:   []string{"remote 192.0.2.2: next hop 192.0.2.2 on eth0 does not answer: check that it is up and in the same network"},
			check: func(t *testing.T, got fib.Tables) {
				if got.TEPs[0].Ifindex != 2 {
					t.Error("an unresolved TEP needs its interface, for the kernel's neighbour table")
				}
			},
		}, {
			name: "no device for UDP checksums",
			change: func(e *overlay.Edge, v *host.State) {
				e.Segments[0].Tunnel.UDPChecksum = true
				v.ChecksumDevices = map[uint16]int{4790: 8}
			},
			want: []string{"segment blue: device svx4789, which fills in UDP checksums, is missing, so nothing is sent to remotes: " +
				"find out why it cannot be created, or remove udpChecksum from the segment"},
			check: func(t *testing.T, got fib.Tables) {
				if len(got.ChecksumDevices) > 0 {
					t.Errorf("checksummers %v, want none that no segment names", got.ChecksumDevices)
				}
			},
		}, {
			name:   "port larger than the tunnel",
			change: link("veth0", func(l *host.Link) { l.MTU = 1500 }),
			want: []string{"port p0 has MTU 1500, the tunnel to 192.0.2.2 carries 1450: " +
				oversize + "lower the MTU of veth0 and of what is behind it to 1450, or raise that of eth0 to 1550"},
		}, {
			name:   "narrow path counts",
			change: func(_ *overlay.Edge, v *host.State) { p := v.Routes[toC]; p.MTU = 1400; v.Routes[toC] = p },
			want: []string{
				"port p1 has MTU 1450, the tunnel to 198.51.100.3 carries 1350: " + oversize + "lower the MTU of tap1 and of what is behind it to 1350, or raise that of eth0 to 1500",
				"port p0 has MTU 1450, the tunnel to 198.51.100.3 carries 1350: " + oversize + "lower the MTU of veth0 and of what is behind it to 1350, or raise that of eth0 to 1500",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, v := edge(), state()
			tt.change(&e, &v)
			tables, problems := desired(e, v, nil)
			if diff := cmp.Diff(tt.want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if tt.check != nil {
				tt.check(t, tables)
			}
		})
	}
}

func TestWantNamesEverythingThatDesiredReads(t *testing.T) {
	got := Want(edge())
	want := host.Want{
		Interfaces: []string{"eth0", "tap1", "veth0"}, TEPs: []netip.Addr{self}, Pairs: []overlay.Pair{toB, toC},
	}
	if diff := cmp.Diff(want, got, sameAddr, samePair); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHostConfig(t *testing.T) {
	e, v := edge(), state()
	e.Ports = append(e.Ports,
		overlay.Port{Name: "p2", Interface: "eth1", Segment: "blue"},
		overlay.Port{Name: "p3", Interface: "lo", Segment: "blue"})
	v.Links["eth1"] = host.Link{Name: "eth1", Index: 5, Up: true}
	v.Links["lo"] = host.Link{Name: "lo", Index: 1, Up: true, Loopback: true}
	e.Routers = []overlay.Router{{Name: "main", Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth9"}, {Name: "lan", Interface: "eth9", VLAN: 7}, {Name: "back", Interface: "eth0", VLAN: 8}}}}
	v.Links["eth9"] = host.Link{Name: "eth9", Index: 6, Up: true}
	want := host.Desired{
		NextHops: []host.NextHop{{Ifindex: 2, Addr: remoteB}, {Ifindex: 2, Addr: router}},
		Promisc:  []int{2, 5, 6}, GRODevice: host.GRODeviceName(e.Name), GRODevices: []uint16{4789},
		Offloads: []host.Offload{{Interface: "eth0", Feature: "rx-lro"}, {Interface: "eth9", Feature: "rx-lro"}},
	}
	if diff := cmp.Diff(want, HostConfig(e, v), sameAddr); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := v.Routes[toC]
	p.Ifindex = 9
	v.Routes[toC] = p
	if got := HostConfig(e, v).NextHops; len(got) != 1 || got[0].Addr != remoteB {
		t.Errorf("next hops %v, want none outside the underlay", got)
	}
}

func TestChecksumDevices(t *testing.T) {
	e, v := edge(), state()
	for i, s := range []overlay.Segment{
		{Name: "red", Tunnel: overlay.Tunnel{UDPPort: 5000, UDPChecksum: true}},
		{Name: "green", Tunnel: overlay.Tunnel{UDPPort: 4790, UDPChecksum: true}},
		{Name: "grey", Tunnel: overlay.Tunnel{UDPPort: 5000, UDPChecksum: true}},
		{Name: "plain", Tunnel: overlay.Tunnel{UDPPort: 6000}},
	} {
		s.VNI = overlay.VNI(200 + i)
		e.Segments = append(e.Segments, s)
	}
	if diff := cmp.Diff([]uint16{4790, 5000}, HostConfig(e, v).ChecksumDevices); diff != "" {
		t.Errorf("held UDP ports (-want +got):\n%s", diff)
	}
	v.ChecksumDevices = map[uint16]int{4790: 8, 5000: 9, 6000: 10}
	tables, problems := desired(e, v, nil)
	if diff := cmp.Diff(map[uint16]int{4790: 8, 5000: 9}, tables.ChecksumDevices); diff != "" || len(problems) > 0 {
		t.Errorf("problems %q, checksummers (-want +got):\n%s", problems, diff)
	}
}

func TestInnerMTU(t *testing.T) {
	e := edge()
	if got := InnerMTU(e, remoteB, 1500); got != 1450 {
		t.Errorf("inner MTU on IPv4 %d, want 1450", got)
	}
	remote6 := netip.MustParseAddr("2001:db8::2")
	e.Segments[0].Remotes = []netip.Addr{remote6}
	if got := InnerMTU(e, remote6, 9000); got != 8930 {
		t.Errorf("inner MTU on IPv6 %d, want 8930", got)
	}
}

// Problems are read by people: each names its object first and has something to do.
func TestProblemsSayWhatToDo(t *testing.T) {
	_, problems := desired(edge(), host.State{}, nil)
	if len(problems) != 6 {
		t.Errorf("%d problems of an empty host, want underlay, TEP, two ports, two remotes: %q", len(problems), problems)
	}
	for _, p := range problems {
		if _, todo, ok := strings.Cut(p, ": "); !ok || todo == "" {
			t.Errorf("%q does not say what to do", p)
		}
	}
}

// What ends traffic is an error; what only narrows it is a warning, or a note where nothing is lost.
func TestSeverities(t *testing.T) {
	pathPolicies, dead := Teamed(edge(), FactsOf(edge(), host.State{}, nil, nil), PathPolicies{})
	_, list := Desired(edge(), host.State{}, pathPolicies)
	for _, p := range append(list, dead...) {
		if p.Severity != problem.SeverityError {
			t.Errorf("%s of an empty host: %s", p.Severity, p.Text)
		}
	}
	e, v := edge(), state()
	e.Transit.Mode = overlay.TransitNative
	pathPolicies, _ = Teamed(e, FactsOf(e, v, map[overlay.Pair]int{toB: 1280}, nil), PathPolicies{})
	_, list = Desired(e, v, pathPolicies)
	if len(list) == 0 {
		t.Error("a narrow path is no problem")
	}
	for _, clamps := range []bool{true, false} {
		want := problem.SeverityWarning
		if clamps {
			want = problem.SeverityNote
		}
		for i := range e.Segments {
			e.Segments[i].ClampMSS = clamps
		}
		_, list = Desired(e, v, pathPolicies)
		for _, p := range list {
			if strings.Contains(p.Text, "has MTU") && p.Severity != want {
				t.Errorf("clamping %t: %s: %s", clamps, p.Severity, p.Text)
			}
		}
	}
}

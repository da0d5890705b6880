package datapath

import (
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

const (
	dave       = "02:00:00:00:00:0d"
	erin       = "02:00:00:00:00:0e"
	gatewayMAC = "02:00:5e:00:01:01"
	l3MAC      = "02:00:00:00:03:01" // this edge's router on the L3 segment
	farMAC     = "02:00:00:00:03:02" // the first remote's
	farMAC2    = "02:00:00:00:03:03" // the second remote's
	uplinkMAC  = "02:00:00:00:04:01"
	ispMAC     = "02:00:00:00:04:fe"

	gateway4, gateway6           = "10.0.1.1", "2001:db8:1::fe"
	greenGateway4, greenGateway6 = "10.0.2.1", "2001:db8:2::fe"
	uplink4, uplink6             = "198.51.100.1", "2001:db8:ff::1"
	l3VNI                        = 300
)

// routedWorld has a router:
//
//	blue  10.0.1.0/24  2001:db8:1::/64   alice .10 at p0, carol .12 at p1, bob .11 behind the first remote
//	green 10.0.2.0/24  2001:db8:2::/64   dave .13 at p2, erin .14 behind the first remote
//	main-l3                              10.0.3.0/24 and 2001:db8:3::/64 behind the first remote's router
//	up    198.51.100.0/24 at s0          the default route's next hop .254
//
// All segments but the uplink are tunnelled the same way.
func routedWorld(t testing.TB, to way, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	w := newWorld(t, to.family, append([]func(*Config, *fib.Tables){func(_ *Config, tables *fib.Tables) { routed(to, tables) }}, change...)...)
	w.tables.Ports = w.tables.Ports[:3:3]
	up := w.port("s0", "up")
	up.Uplink = true
	w.tables.Ports = append(w.tables.Ports, up)
	w.apply(t)
	return w
}

// routed changes the default tables; the uplink's port is the caller's.
func routed(to way, tables *fib.Tables) {
	remotes := to.family.remotes
	gateway := func(router, mac string, addrs ...string) *overlay.Gateway {
		g := &overlay.Gateway{Router: router, MAC: macOf(mac)}
		for _, a := range addrs {
			g.Addresses = append(g.Addresses, netip.MustParsePrefix(a))
		}
		return g
	}
	tables.Segments = []overlay.Segment{
		{
			Name: "blue", VNI: blueVNI, Tunnel: to.tunnel, Remotes: remotes[:],
			Gateway:    gateway("main", gatewayMAC, gateway4+"/24", gateway6+"/64"),
			Static:     []overlay.StaticMAC{{MAC: macOf(alice), Port: "p0"}, {MAC: macOf(carol), Port: "p1"}, {MAC: macOf(bob), Remote: remotes[0]}},
			Neighbours: neighbours("10.0.1.10", alice, "10.0.1.11", bob, "10.0.1.12", carol, "2001:db8:1::a", alice, "2001:db8:1::b", bob, "2001:db8:1::c", carol),
		},
		{
			Name: "green", VNI: greenVNI, Tunnel: to.tunnel, Remotes: remotes[:1],
			Gateway:    gateway("main", gatewayMAC, greenGateway4+"/24", greenGateway6+"/64"),
			Static:     []overlay.StaticMAC{{MAC: macOf(dave), Port: "p2"}, {MAC: macOf(erin), Remote: remotes[0]}},
			Neighbours: neighbours("10.0.2.13", dave, "10.0.2.14", erin, "2001:db8:2::d", dave, "2001:db8:2::e", erin),
		},
		{Name: "main-l3", VNI: l3VNI, Tunnel: to.tunnel, Remotes: remotes[:], Gateway: gateway("main", l3MAC)},
		{
			Name: "up", Gateway: gateway("main", uplinkMAC, uplink4+"/24", uplink6+"/64"),
			Static:     []overlay.StaticMAC{{MAC: macOf(ispMAC), Port: "s0"}},
			Neighbours: neighbours("198.51.100.254", ispMAC, "2001:db8:ff::fe", ispMAC),
		},
	}
	tables.Routers = []fib.Router{{Name: "main", Routes: mainRoutes(remotes[0])}}
}

func neighbours(list ...string) (n []overlay.Neighbour) {
	for i := 0; i < len(list); i += 2 {
		n = append(n, overlay.Neighbour{Addr: netip.MustParseAddr(list[i]), MAC: macOf(list[i+1])})
	}
	return n
}

func mainRoutes(remote netip.Addr) []fib.Route {
	far := fib.Hop{Segment: "main-l3", Remote: remote, MAC: macOf(farMAC)}
	return []fib.Route{
		route("10.0.1.0/24", fib.Hop{Segment: "blue"}), route("2001:db8:1::/64", fib.Hop{Segment: "blue"}),
		route("10.0.2.0/24", fib.Hop{Segment: "green"}), route("2001:db8:2::/64", fib.Hop{Segment: "green"}),
		route("198.51.100.0/24", fib.Hop{Segment: "up"}), route("2001:db8:ff::/64", fib.Hop{Segment: "up"}),
		route("10.0.3.0/24", far), route("2001:db8:3::/64", far),
		route("0.0.0.0/0", fib.Hop{Segment: "up", Addr: netip.MustParseAddr("198.51.100.254")}),
		route("2000::/3", fib.Hop{Segment: "up", Addr: netip.MustParseAddr("2001:db8:ff::fe")}),
		ending("10.9.1.0/24", overlay.Blackhole), ending("2001:db8:9:1::/64", overlay.Blackhole),
		ending("10.9.2.0/24", overlay.Unreachable), ending("2001:db8:9:2::/64", overlay.Unreachable),
		ending("10.9.3.0/24", overlay.Prohibit), ending("2001:db8:9:3::/64", overlay.Prohibit),
	}
}

func route(prefix string, hops ...fib.Hop) fib.Route {
	return fib.Route{Prefix: netip.MustParsePrefix(prefix), Kind: overlay.Unicast, Hops: hops}
}

func ending(prefix string, kind overlay.RouteKind) fib.Route {
	return fib.Route{Prefix: netip.MustParsePrefix(prefix), Kind: kind}
}

// via is a next hop in a segment.
func via(segment, addr string) fib.Hop {
	return fib.Hop{Segment: segment, Addr: netip.MustParseAddr(addr)}
}

// setRoute replaces the route to a prefix of a router's table, or adds it.
func (w *world) setRoute(router string, r fib.Route) {
	for i := range w.tables.Routers {
		if w.tables.Routers[i].Name != router {
			continue
		}
		list := &w.tables.Routers[i].Routes
		for j := range *list {
			if (*list)[j].Prefix == r.Prefix {
				(*list)[j] = r
				return
			}
		}
		*list = append(*list, r)
	}
}

// sendIn is a frame from a port or, when from is "first" or "second", from that
// remote in a segment.
func (w *world) sendIn(t testing.TB, segment, from string, frame []byte) (in []byte, r result) {
	t.Helper()
	switch from {
	case "first", "second":
		in = w.outerIn(segment, w.family.remotes[map[string]int{"first": 0, "second": 1}[from]]).Wrap(frame)
		return in, w.fromUnderlay(t, in)
	}
	return frame, w.fromPort(t, from, frame)
}

// wantAt checks that a result is a frame as it leaves at a port or, in a tunnel
// of the segment, to the first remote.
func (w *world) wantAt(t testing.TB, segment, at string, in, frame []byte, r result) bool {
	t.Helper()
	if at == "first" {
		return w.wantTunnelIn(t, segment, in, padded(frame), r, func(o *pkttest.Outer) { o.TOS = tosOf(frame) & 3 })
	}
	r.want(t, in, forwarded)
	return check.Equal(t, "frame at "+at, frame, r.out[:min(len(r.out), max(len(frame), 0))])
}

// tosOf is DSCP and ECN of a frame without tags, 0 when it is not IP.
func tosOf(frame []byte) uint8 {
	switch uint16(frame[12])<<8 | uint16(frame[13]) {
	case etherTypeIPv4:
		return frame[15]
	case etherTypeIPv6:
		return frame[14]<<4 | frame[15]>>4
	}
	return 0
}

// onOneCPU keeps the test on the core that it runs on, whose counters it means.
func onOneCPU(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &before))
	for cpu := range len(before) * 64 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	must(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}

// neighbour is what is known of an address in a segment, or nil.
func (w *world) neighbour(t testing.TB, segment, address string) *Neighbour {
	t.Helper()
	list, err := w.dp.Hosts.Neighbours()
	must(t, err)
	for _, n := range list {
		if n.Segment == segment && n.Addr == addr(address) {
			return &n
		}
	}
	return nil
}

// addrOfBytes is the address that 4 or 16 bytes are.
func addrOfBytes(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

package evpn

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// bulk is what a route reflector says of 100 edges with 1,000 hosts and 100 prefixes each.
func bulk(from netip.Addr) (updates []Update) {
	for e := range 100 {
		nextHop := netip.AddrFrom4([4]byte{192, 0, 3, byte(e + 1)})
		rd := overlay.AddrDistinguisher(nextHop, 1)
		l2, both := []overlay.RouteTarget{target(10)}, []overlay.RouteTarget{target(10), target(99)}
		l3, router := both[1:], overlay.MAC{2, 1, 0, 0, 0, byte(e)}
		base := Route{NextHop: nextHop, VNI: 10, Targets: l2, Encapsulation: overlay.VXLAN, LocalPref: 100}
		advertise := func(r Route) { updates = append(updates, Update{Neighbour: from, Route: r}) }
		mc := base
		mc.Key = Key{Type: Multicast, RD: rd, Addr: nextHop}
		advertise(mc)
		for h := range 500 {
			host := base
			host.Key = Key{Type: MACIP, RD: rd, MAC: overlay.MAC{2, 2, 0, byte(e), byte(h >> 8), byte(h)}}
			advertise(host)
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 10<<24|uint32(e)<<16|uint32(h))
			host.Addr, host.L3VNI, host.RouterMAC, host.Targets = netip.AddrFrom4(a), 99, router, both
			advertise(host)
		}
		for n := range 100 {
			r := base
			r.Key = Key{Type: Prefix, RD: rd, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 + byte(e%16), byte(e), byte(n)}), 32)}
			r.VNI, r.RouterMAC, r.Targets = 99, router, l3
			advertise(r)
		}
	}
	return updates
}

// leaf is an edge whose uplink is not told what other edges have.
func leaf() overlay.Edge {
	e := edge()
	e.BGP.Neighbours = e.BGP.Neighbours[:2]
	return e
}

// BenchmarkReceive takes 100,000 hosts' routes and 10,000 prefixes in batches of 2,000.
func BenchmarkReceive(b *testing.B) {
	updates := bulk(rr1)
	b.ReportAllocs()
	for b.Loop() {
		t := NewTable(leaf())
		receive(t, updates)
	}
	b.ReportMetric(float64(len(updates))*float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

// BenchmarkReceiveTwice has a second reflector say the same.
func BenchmarkReceiveTwice(b *testing.B) {
	first, second := bulk(rr1), bulk(rr2)
	for b.Loop() {
		b.StopTimer()
		t := NewTable(leaf())
		receive(t, first)
		b.StartTimer()
		receive(t, second)
	}
	b.ReportMetric(float64(len(second))*float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

func receive(t *Table, updates []Update) {
	for at := 0; at < len(updates); at += 2000 {
		t.Receive(updates[at:min(at+2000, len(updates))], start)
	}
}

// BenchmarkMove has one host move between two remotes.
func BenchmarkMove(b *testing.B) {
	updates := bulk(rr1)
	t := NewTable(leaf())
	receive(t, updates)
	u := updates[1]
	u.Route.RD++
	for b.Loop() {
		u.Route.Sequence++
		u.Route.NextHop = updates[1101*int(u.Route.Sequence%2)].Route.NextHop
		t.Receive([]Update{u}, start)
	}
}

// BenchmarkSessionLost makes all routes of a neighbour stale, and has it say them again.
func BenchmarkSessionLost(b *testing.B) {
	updates := bulk(rr1)
	t := NewTable(leaf())
	receive(t, updates)
	for b.Loop() {
		t.Session(Session{Neighbour: rr1, At: start})
		t.Session(Session{Neighbour: rr1, Up: true, At: start})
		receive(t, updates)
		t.Session(Session{Neighbour: rr1, Up: true, Complete: true, At: start})
	}
}

// BenchmarkMemory reports what a route takes that is in use.
func BenchmarkMemory(b *testing.B) {
	updates := bulk(rr1)
	for b.Loop() {
		before := heap()
		t := NewTable(leaf())
		receive(t, updates)
		b.ReportMetric(float64(heap()-before)/float64(len(updates)), "B/route")
		runtime.KeepAlive(t)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkReload configures the same edge again.
func BenchmarkReload(b *testing.B) {
	t := NewTable(leaf())
	receive(t, bulk(rr1))
	for b.Loop() {
		t.Configure(leaf(), start.Add(time.Second))
	}
}

// BenchmarkLook is what the edge's status and metrics ask for.
func BenchmarkLook(b *testing.B) {
	t := NewTable(leaf())
	receive(t, bulk(rr1))
	for name, look := range map[string]func(){
		"routes":     func() { t.Routes() },
		"select all": func() { t.Select(func(netip.Addr, *Route) bool { return true }) },
		"select one": func() { t.Select(func(_ netip.Addr, r *Route) bool { return r.MAC == mac(1) }) }, "problems": func() { t.Problems() }, "counts": func() { t.Counts() }, "fabric": func() { t.Learned() },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				look()
			}
		})
	}
}

package evpn

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/tier"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func mac(n byte) overlay.MAC       { return overlay.MAC{2, 0, 0, 0, 0, n} }
func target(vni uint32) overlay.RouteTarget {
	return overlay.ASTarget(65000, vni)
}

var (
	start   = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	vxlan   = overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}
	rr1     = addr("192.0.2.101")
	rr2     = addr("192.0.2.102")
	tor1    = addr("198.51.100.1")
	tor2    = addr("198.51.100.2")
	here    = addr("192.0.2.5")
	remote1 = addr("192.0.2.1") // lower than here
	remote2 = addr("192.0.2.8")
	remote3 = addr("192.0.2.9")
)

// edge is one with two segments, a router between them, and an uplink:
//
//	blue (VNI 10) ── red (L3 VNI 99) ── wan, to tor1 and tor2
//	green (VNI 20) ──┘                      rr1, rr2: route reflectors
func edge() overlay.Edge {
	all := []overlay.RouteSource{overlay.SourceConnected, overlay.SourceStatic, overlay.SourceLoopback, overlay.SourceUplink}
	tor := func(a netip.Addr, as uint32) overlay.BGPNeighbour {
		return overlay.BGPNeighbour{Name: "tor", Addr: a, AS: as, Uplink: "wan", Families: []overlay.BGPFamily{overlay.FamilyIPv4},
			Announce: []overlay.RouteSource{overlay.SourceConnected, overlay.SourceLoopback, overlay.SourceEVPN, overlay.SourceEgress}}
	}
	return overlay.Edge{
		Name: "e", Underlay: overlay.Underlay{TEP: here},
		Segments: []overlay.Segment{
			{Name: "blue", VNI: 10, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{},
				Gateway: &overlay.Gateway{Router: "red", MAC: overlay.AnycastMAC, Addresses: []netip.Prefix{prefix("10.0.0.1/24")}}},
			{Name: "green", VNI: 20, Tunnel: vxlan, EVPN: &overlay.EVPNInstance{}},
			{Name: "plain", VNI: 30, Tunnel: vxlan},
		},
		Routers: []overlay.Router{{
			Name: "red", L3: &overlay.L3{VNI: 99, Tunnel: vxlan, MAC: mac(0xed), EVPN: &overlay.EVPNInstance{Announce: all}},
			Uplinks: []overlay.Uplink{{Name: "wan", Addresses: []netip.Prefix{prefix("198.51.100.5/24")}}},
		}},
		BGP: &overlay.BGP{AS: 65000, RouterID: here, Restart: overlay.BGPRestart{Stale: time.Hour}, Neighbours: []overlay.BGPNeighbour{
			{Name: "rr1", Addr: rr1, AS: 65000, Families: []overlay.BGPFamily{overlay.FamilyEVPN}},
			{Name: "rr2", Addr: rr2, AS: 65000, Families: []overlay.BGPFamily{overlay.FamilyEVPN}},
			tor(tor1, 64901), tor(tor2, 64902),
		}},
	}
}

// edges are what the edge is configured to be, one after the other.
func edges() []overlay.Edge {
	pinned := edge()
	pinned.Segments[0].Static = []overlay.StaticMAC{{MAC: mac(1), Port: "p1"}, {MAC: mac(2), Remote: remote1}}
	pinned.Segments[1].EVPN = &overlay.EVPNInstance{
		Import: []overlay.RouteTarget{target(10)}, Export: []overlay.RouteTarget{target(77)}}
	less := edge()
	less.Segments[1].EVPN = nil
	less.Segments[0].Gateway = nil
	bridge := edge()
	bridge.Routers = nil
	bridge.Segments[0].Gateway = nil
	bridge.Segments[0].VNI = 20
	bridge.Segments[1].VNI = 10
	two := edge()
	two.Routers[0].Uplinks = append(two.Routers[0].Uplinks, overlay.Uplink{Name: "lan", Addresses: []netip.Prefix{prefix("203.0.113.5/24")}})
	two.BGP.Neighbours = append(two.BGP.Neighbours, overlay.BGPNeighbour{Name: "tor3", Addr: addr("203.0.113.9"), AS: 64903, Uplink: "lan",
		Families: []overlay.BGPFamily{overlay.FamilyIPv4}, Announce: []overlay.RouteSource{overlay.SourceStatic, overlay.SourceUplink}})
	return []overlay.Edge{edge(), pinned, less, bridge, two}
}

// chance makes what happens.
type chance struct{ *rand.Rand }

func pick[T any](c chance, list ...T) T { return list[c.IntN(len(list))] }

func (c chance) route() (netip.Addr, Route) {
	from, nextHop := pick(c, rr1, rr2), pick(c, remote1, remote2, remote3)
	if c.IntN(20) == 0 {
		nextHop = here
	}
	rd := overlay.AddrDistinguisher(nextHop, 1)
	r := Route{NextHop: nextHop, LocalPref: 100, Encapsulation: pick(c, "", overlay.VXLAN, overlay.VXLAN)}
	vni := pick[uint32](c, 10, 10, 20)
	switch kind := c.IntN(8); {
	case kind < 4:
		r.Key = Key{Type: MACIP, RD: rd, MAC: mac(byte(c.IntN(3) + 1)), Addr: pick(c, netip.Addr{}, addr("10.0.0.11"), addr("10.0.0.12"), addr("10.9.0.9"), tor1)}
		r.VNI, r.Targets = overlay.VNI(vni), []overlay.RouteTarget{overlay.ASTarget(pick[uint32](c, 65000, 65001), vni)}
		r.Sequence, r.Sticky = uint32(c.IntN(4)), c.IntN(12) == 0
		if r.Addr.IsValid() && c.IntN(2) == 0 {
			r.L3VNI, r.RouterMAC, r.Targets = 99, mac(0xa0), append(r.Targets, target(99))
		}
		if c.IntN(15) == 0 {
			r.MAC = pick(c, overlay.AnycastMAC, r.MAC)
			r.Addr, r.DefaultGateway = addr("10.0.0.1"), c.IntN(2) == 0
		}
	case kind < 5:
		r.Key = Key{Type: Multicast, RD: rd, Addr: nextHop}
		r.VNI, r.Targets = overlay.VNI(vni), []overlay.RouteTarget{target(vni)}
	case kind < 6:
		r.Key = Key{Type: Prefix, RD: rd, Prefix: c.prefix()}
		r.VNI, r.Targets, r.RouterMAC = pick[overlay.VNI](c, 99, 99, 98), []overlay.RouteTarget{target(99)}, pick(c, mac(0xa1), mac(0xa2), overlay.MAC{})
		c.quality(&r)
	default:
		from, r.NextHop = pick(c, tor1, tor2), pick(c, tor1, tor2, addr("198.51.100.3"), addr("203.0.113.9"))
		r.Key = Key{Type: Unicast, Prefix: c.prefix(), Uplink: pick(c, "wan", "wan", "lan")}
		r.Encapsulation = ""
		c.quality(&r)
	}
	if c.IntN(20) == 0 && r.Type != Unicast {
		r.Encapsulation = overlay.Geneve
	}
	return from, r
}

func (c chance) prefix() netip.Prefix {
	return pick(c, prefix("10.0.0.11/32"), prefix("10.9.0.0/16"), prefix("0.0.0.0/0"))
}

func (c chance) quality(r *Route) {
	r.LocalPref = pick[uint32](c, 100, 100, 200)
	r.MED = uint32(c.IntN(2))
	r.ASPath = pick(c, nil, []uint32{64901}, []uint32{64902}, []uint32{64901}, []uint32{64902, 64903})
}

func (c chance) host() Host {
	return Host{Segment: pick(c, "blue", "green", "plain"), MAC: mac(byte(c.IntN(3) + 1)),
		Addr: pick(c, netip.Addr{}, netip.Addr{}, addr("10.0.0.11"), addr("10.0.0.12"), addr("10.9.0.9"), tor1)}
}

func (c chance) neighbour() netip.Addr { return pick(c, rr1, rr1, rr2, tor1, tor2) }

// step has something happen to both, and says what.
func (c chance) step(t *Table, r *reference, now time.Time) (what string, changes Changes) {
	switch n := c.IntN(20); {
	case n < 11:
		var updates []Update
		for range 1 + c.IntN(4) {
			from, route := c.route()
			updates = append(updates, Update{Neighbour: from, Route: route, Withdrawn: c.IntN(3) == 0})
		}
		r.receive(updates)
		return fmt.Sprintf("received %+v", updates), t.Receive(updates, now)
	case n < 15:
		h := c.host()
		if c.IntN(3) == 0 {
			r.vanish(h)
			r.decide()
			return fmt.Sprintf("vanished %+v", h), t.Hosts(nil, []Host{h}, now)
		}
		static := slices.ContainsFunc(r.edge.Segments, func(s overlay.Segment) bool {
			return s.Name == h.Segment && slices.ContainsFunc(s.Static, func(m overlay.StaticMAC) bool { return m.MAC == h.MAC && m.Port == "" })
		})
		if !static {
			r.appear(h)
			r.decide()
		}
		return fmt.Sprintf("appeared %+v", h), t.Hosts([]Host{h}, nil, now)
	case n < 18:
		s := Session{Neighbour: c.neighbour(), Up: c.IntN(2) == 0, At: now, Ended: c.IntN(10) == 0}
		s.Complete = s.Up && c.IntN(2) == 0
		r.session(s)
		return fmt.Sprintf("session %+v", s), t.Session(s)
	case n < 19:
		source, list := pick(c, overlay.SourceConnected, overlay.SourceStatic, overlay.SourceEgress), []netip.Prefix{c.prefix()}[:c.IntN(2)]
		if r.own["red"] != nil {
			r.own["red"][source] = list
		}
		return fmt.Sprintf("prefixes %s %v", source, list), t.Prefixes("red", source, list)
	}
	if c.IntN(2) == 0 {
		r.tick(now)
		return "tick", t.Tick(now)
	}
	i := c.IntN(len(edges()))
	r.configure(edges()[i])
	return fmt.Sprintf("configured %d", i), t.Configure(edges()[i], now)
}

// Whatever happens in whatever order, the changes lead to what a computation from scratch
// finds, and All and Fabric say the same.
func TestTableEqualsReference(t *testing.T) {
	seeds := uint64(100)
	switch {
	case testing.Short():
		seeds = 30
	case tier.IsLong():
		seeds = 1000
	}
	for seed := range seeds {
		c := chance{rand.New(rand.NewPCG(seed, 7))}
		table, r, got, now := NewTable(edge()), newReference(), newTables(), start
		r.configure(edge())
		var history []string
		remotes := map[string]string{}
		for range 60 {
			now = now.Add(time.Duration(c.IntN(20)) * pick(c, time.Second, time.Minute))
			what, changes := c.step(table, r, now)
			history = append(history, what)
			if changes.Remotes {
				remotes = remotesOf(table.Learned())
			}
			got.apply(changes)
			got.keepOnly(names(r.edge))
			maps.DeleteFunc(remotes, func(name, _ string) bool { return !names(r.edge)[name] })
			if want := r.remotes(); !maps.Equal(remotes, want) {
				t.Fatalf("seed %d: after\n%s\nremotes are %v, want %v", seed, lines(history), remotes, want)
			}
			if problem := differ(got, r.tables(), table); problem != "" {
				t.Fatalf("seed %d: after\n%s\n%s", seed, lines(history), problem)
			}
		}
	}
}

func names(e overlay.Edge) map[string]bool {
	list := map[string]bool{}
	for _, s := range e.Segments {
		list[s.Name] = s.EVPN != nil
	}
	for _, r := range e.Routers {
		list[r.Name] = true
	}
	return list
}

func lines(list []string) (text string) {
	for _, l := range list[max(0, len(list)-12):] {
		text += "  " + l + "\n"
	}
	return text
}

func differ(got, want tables, t *Table) string {
	for _, m := range []struct {
		name      string
		got, want map[string]string
	}{
		{"stations", got.macEntries, want.macEntries}, {"residents", got.arpEntries, want.arpEntries},
		{"routes", got.routes, want.routes}, {"announced", got.announced, want.announced},
	} {
		if !maps.Equal(m.got, m.want) {
			return fmt.Sprintf("%s are\n  %v\nwant\n  %v", m.name, others(m.got, m.want), others(m.want, m.got))
		}
	}
	all := newTables()
	all.apply(t.All())
	all.announced = got.announced
	if !maps.Equal(all.macEntries, got.macEntries) || !maps.Equal(all.arpEntries, got.arpEntries) || !maps.Equal(all.routes, got.routes) {
		return fmt.Sprintf("All is %v\nwant %v", all, got)
	}
	return ""
}

// others are the entries that are different in b.
func others(a, b map[string]string) map[string]string {
	list := map[string]string{}
	for k, v := range a {
		if b[k] != v {
			list[k] = v
		}
	}
	return list
}

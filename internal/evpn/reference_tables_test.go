package evpn

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// remotes are those of each segment and router, in words.
func (r *reference) remotes() map[string]string {
	sets := map[string]map[netip.Addr]bool{}
	add := func(name string, a netip.Addr) {
		if sets[name] == nil {
			sets[name] = map[netip.Addr]bool{}
		}
		sets[name][a] = true
	}
	for _, h := range r.all() {
		if s := r.segment(h); s != nil {
			add(s.Name, h.NextHop)
		}
		if name, _, hop, ok := r.router(h); ok && hop.Remote.IsValid() {
			add(name, h.NextHop)
		}
	}
	list := map[string]string{}
	for name, set := range sets {
		list[name] = fmt.Sprint(slices.SortedFunc(maps.Keys(set), netip.Addr.Compare))
	}
	return list
}

// remotesOf are those of a Fabric in the same words.
func remotesOf(f rib.Remotes) map[string]string {
	list := map[string]string{}
	for name, remotes := range f.Segments {
		put(list, name, len(remotes) > 0, fmt.Sprint(remotes))
	}
	for name, remotes := range f.Routers {
		put(list, name, len(remotes) > 0, fmt.Sprint(remotes))
	}
	return list
}

// tables computes all.
func (r *reference) tables() tables {
	t := newTables()
	for _, s := range r.edge.Segments {
		if s.EVPN == nil {
			continue
		}
		hosts := r.hosts[s.Name]
		macs, addrs := map[overlay.MAC]bool{}, map[netip.Addr]bool{}
		for _, h := range r.all() {
			macs[h.MAC], addrs[h.Addr] = true, h.Addr.IsValid()
		}
		for mac := range macs {
			h := r.bySegment(s.Name, func(h *received) bool { return h.MAC == mac })
			if h != nil && hosts[mac] == nil && !slices.ContainsFunc(s.Static, func(m overlay.StaticMAC) bool { return m.MAC == mac }) {
				t.macEntries[macEntryKey(s.Name, mac)] = macEntryText(h.NextHop, h.Sticky)
			}
		}
		for a := range addrs {
			h := r.bySegment(s.Name, func(h *received) bool { return h.Addr.IsValid() && h.Addr == a })
			if h != nil && !r.here(s.Name, a) {
				t.arpEntries[arpEntryKey(s.Name, a)] = h.MAC.String()
			}
		}
		r.announceSegment(t, s)
	}
	for _, c := range r.edge.Routers {
		r.routes(t, c)
	}
	return t
}

func (r *reference) here(segment string, a netip.Addr) bool {
	for _, p := range r.hosts[segment] {
		if p.addrs[a] {
			return true
		}
	}
	return false
}

func (r *reference) announceSegment(t tables, s overlay.Segment) {
	advertise := func(route Route) {
		route.NextHop, route.VNI, route.Encapsulation = r.tep(), s.VNI, s.Tunnel.Encapsulation
		t.announced[route.Key.text()] = route.text()
	}
	rd := overlay.AddrDistinguisher(r.edge.BGP.RouterID, uint16(s.VNI))
	targets := []overlay.RouteTarget{overlay.ASTarget(r.edge.BGP.AS, uint32(s.VNI))}
	if s.EVPN.Export != nil {
		targets = s.EVPN.Export
	}
	advertise(Route{Key: Key{Type: Multicast, RD: rd, Addr: r.tep()}, Targets: targets})
	var l3 *overlay.L3
	if s.Gateway != nil {
		for _, g := range s.Gateway.Addresses {
			advertise(Route{Key: Key{Type: MACIP, RD: rd, MAC: s.Gateway.MAC, Addr: g.Addr()}, Targets: targets, DefaultGateway: true})
		}
		for _, c := range r.edge.Routers {
			if c.Name == s.Gateway.Router && c.L3 != nil && c.L3.EVPN != nil {
				l3 = c.L3
			}
		}
	}
	for mac, p := range r.hosts[s.Name] {
		route := Route{Key: Key{Type: MACIP, RD: rd, MAC: mac}, Targets: targets, Sequence: p.sequence, Sticky: p.static}
		if p.mac || p.static {
			advertise(route)
		}
		for a := range p.addrs {
			with := route
			with.Addr = a
			if l3 != nil && s.Gateway.Addresses[0].Contains(a) {
				with.L3VNI, with.RouterMAC = l3.VNI, l3.MAC
				with.Targets = append(slices.Clone(targets), overlay.ASTarget(r.edge.BGP.AS, uint32(l3.VNI)))
			}
			advertise(with)
		}
	}
}

// mine reports whether a router has the prefix itself.
func (r *reference) mine(c overlay.Router, p netip.Prefix) (from []overlay.RouteSource, here bool) {
	for source, list := range r.own[c.Name] {
		if slices.Contains(list, p) {
			from = append(from, source)
		}
	}
	for _, s := range r.edge.Segments {
		if s.EVPN != nil && s.Gateway != nil && s.Gateway.Router == c.Name && p.IsSingleIP() &&
			s.Gateway.Addresses[0].Contains(p.Addr()) && r.here(s.Name, p.Addr()) {
			here = true
		}
	}
	return from, here
}

// routes decides each prefix of a router, by sorting what is left after each rule.
func (r *reference) routes(t tables, c overlay.Router) {
	choices := map[netip.Prefix][]*received{}
	for _, h := range r.all() {
		if name, prefix, _, ok := r.router(h); ok && name == c.Name && !r.elsewhere(h) {
			choices[prefix] = append(choices[prefix], h)
		}
	}
	for _, list := range r.own[c.Name] {
		for _, p := range list {
			choices[p] = append(choices[p], nil)[:len(choices[p])]
		}
	}
	for prefix, list := range choices {
		from, here := r.mine(c, prefix)
		var equal []*received
		if len(from) == 0 && !here {
			equal = r.equal(list)
		}
		var hops []overlay.NextHop
		for _, h := range equal {
			if _, _, hop, _ := r.router(h); !slices.Contains(hops, hop) {
				hops = append(hops, hop)
			}
		}
		slices.SortFunc(hops, func(a, b overlay.NextHop) int {
			return cmp.Or(a.Remote.Compare(b.Remote), a.Addr.Compare(b.Addr), slices.Compare(a.MAC[:], b.MAC[:]))
		})
		if len(hops) > 0 {
			t.routes[routeKey(c.Name, prefix)] = fmt.Sprint(hops)
		}
		r.announcePrefix(t, c, prefix, from, equal)
	}
}

// elsewhere reports whether a host route's MAC address is not at its next hop.
func (r *reference) elsewhere(h *received) bool {
	s := r.segment(h)
	if h.Type != MACIP || s == nil {
		return false
	}
	b := r.bySegment(s.Name, func(o *received) bool { return o.MAC == h.MAC })
	return r.hosts[s.Name][h.MAC] != nil || b.NextHop != h.NextHop
}

func (r *reference) equal(list []*received) []*received {
	var hosts []*received
	for _, h := range list {
		if h.Type == MACIP {
			hosts = append(hosts, h)
		}
	}
	if b := top(hosts); b != nil {
		least := b
		for _, h := range hosts {
			if rank(h) == rank(b) && slices.Compare(h.RouterMAC[:], least.RouterMAC[:]) < 0 {
				least = h
			}
		}
		return []*received{least}
	}
	beaten := func(rule func(a, b *received) bool) {
		var left []*received
		for _, a := range list {
			if !slices.ContainsFunc(list, func(b *received) bool { return rule(a, b) }) {
				left = append(left, a)
			}
		}
		list = left
	}
	external := func(h *received) bool {
		return slices.ContainsFunc(r.edge.BGP.Neighbours, func(n overlay.BGPNeighbour) bool { return n.Addr == h.from && n.AS != r.edge.BGP.AS })
	}
	first := func(h *received) uint32 { return append(slices.Clone(h.ASPath), 0)[0] }
	beaten(func(a, b *received) bool { return !a.stale.IsZero() && b.stale.IsZero() })
	beaten(func(a, b *received) bool { return a.LocalPref < b.LocalPref })
	beaten(func(a, b *received) bool { return len(a.ASPath) > len(b.ASPath) })
	beaten(func(a, b *received) bool { return first(a) == first(b) && a.MED > b.MED })
	beaten(func(a, b *received) bool { return a.Type == Prefix && b.Type == Unicast })
	beaten(func(a, b *received) bool { return !external(a) && external(b) })
	slices.SortFunc(list, func(a, b *received) int {
		return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.RD, b.RD), cmp.Compare(a.Uplink, b.Uplink))
	})
	return list
}

func (r *reference) announcePrefix(t tables, c overlay.Router, prefix netip.Prefix, from []overlay.RouteSource, equal []*received) {
	advertise := func(route Route, announce []overlay.RouteSource, learned overlay.RouteSource) {
		if !slices.ContainsFunc(from, func(s overlay.RouteSource) bool { return slices.Contains(announce, s) }) {
			if learned == "" || !slices.Contains(announce, learned) {
				return
			}
			route.ASPath, route.Communities = equal[0].ASPath, equal[0].Communities
		}
		t.announced[route.Key.text()] = route.text()
	}
	var learned overlay.RouteSource
	if len(equal) > 0 {
		learned = overlay.SourceEVPN
		if equal[0].Type == Unicast {
			learned = overlay.SourceUplink
		}
	}
	if c.L3 != nil && c.L3.EVPN != nil {
		route := Route{
			Key:     Key{Type: Prefix, RD: overlay.AddrDistinguisher(r.edge.BGP.RouterID, uint16(c.L3.VNI)), Prefix: prefix},
			NextHop: r.tep(), VNI: c.L3.VNI, Encapsulation: c.L3.Tunnel.Encapsulation, RouterMAC: c.L3.MAC,
			Targets: []overlay.RouteTarget{overlay.ASTarget(r.edge.BGP.AS, uint32(c.L3.VNI))},
		}
		if learned == overlay.SourceUplink {
			advertise(route, c.L3.EVPN.Announce, learned)
		} else {
			advertise(route, c.L3.EVPN.Announce, "")
		}
	}
	for _, u := range c.Uplinks {
		for _, n := range r.edge.BGP.Neighbours {
			if n.Uplink != u.Name {
				continue
			}
			by := learned
			if slices.ContainsFunc(equal, func(h *received) bool { return h.Type == Unicast && h.Uplink == u.Name }) {
				by = ""
			}
			advertise(Route{Key: Key{Type: Unicast, Prefix: prefix, Uplink: u.Name}, NextHop: u.Addresses[0].Addr()}, n.Announce, by)
		}
	}
}

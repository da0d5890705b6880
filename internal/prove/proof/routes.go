package proof

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

// nextHop is a router behind a tunnel.
type nextHop struct {
	remote netip.Addr
	mac    overlay.MAC
}

// hopRoutes are the prefixes that go by each next hop of a router over its L3 segment: only those of
// one prefix, where it is set, and then an address that goes there too.
type hopRoutes struct {
	order    []nextHop
	prefixes map[nextHop][]netip.Prefix
	beside   map[nextHop]netip.Prefix
}

func (p planner) hopRoutes(segment, router string, only netip.Prefix) hopRoutes {
	h := hopRoutes{prefixes: make(map[nextHop][]netip.Prefix), beside: make(map[nextHop]netip.Prefix)}
	i := slices.IndexFunc(p.Routes, func(t plan.Table) bool { return t.Router == router })
	if i < 0 {
		return h
	}
	for _, route := range p.Routes[i].Routes {
		for _, hop := range route.Hops {
			at := nextHop{hop.Remote, hop.MAC}
			switch {
			case hop.Segment != segment:
			case !only.IsValid() || route.Prefix == only:
				if h.prefixes[at] == nil {
					h.order = append(h.order, at)
				}
				h.prefixes[at] = append(h.prefixes[at], route.Prefix)
			case route.Prefix.IsSingleIP():
				h.beside[at] = route.Prefix
			}
		}
	}
	return h
}

// ofRouter are the proofs of all next hops of a router over its L3 segment, or of those of one
// prefix; and of remotes without any.
func (p planner) ofRouter(s overlay.Segment, r overlay.Router, only netip.Prefix) (proofs []proof) {
	h := p.hopRoutes(s.Name, r.Name, only)
	for _, hop := range h.order {
		proofs = append(proofs, p.ofNextHop(s, r, hop, h.prefixes[hop], h.beside[hop]))
	}
	for _, remote := range s.Remotes {
		if !only.IsValid() && !slices.ContainsFunc(h.order, func(n nextHop) bool { return n.remote == remote }) {
			at := p.start(s, remote, r.Name)
			p.addEdge(&at)
			at.control = append(at.control, "no prefix leads there")
			proofs = append(proofs, at)
		}
	}
	return proofs
}

// ofNextHop is the proof of one: by addresses that are prefixes of their own, which loopbacks
// are, and by a packet to a prefix whose hops are used up at the router there. Beside is, unless
// it is unset, another prefix, which tells whether the tunnel works.
func (p planner) ofNextHop(s overlay.Segment, r overlay.Router, hop nextHop, prefixes []netip.Prefix, beside netip.Prefix) proof {
	at := p.start(s, hop.remote, r.Name)
	at.count, at.known.Routed = len(prefixes), true
	asked := p.beyondGateways(r, prefixes)
	most := map[bool]int{true: mostLoopbacks, false: 1}
	if slices.ContainsFunc(asked, netip.Prefix.IsSingleIP) { // routers answer few of the others
		most[false] = mostRouted
	}
	for _, prefix := range asked {
		single := prefix.IsSingleIP()
		from, shared := p.source(r, prefix.Addr().Is6())
		if !from.IsValid() || most[single] == 0 {
			continue
		}
		most[single]--
		at.known.Shared = at.known.Shared || shared
		kind, ttl := TargetRouter, uint8(1)
		if single {
			kind, ttl = TargetAddress, echoTTL
		}
		at.prefixes = append(at.prefixes, prefix)
		at.add(kind, "", prove.Target{Ask: prove.Echo, MAC: hop.mac, Addr: someAddress(prefix), From: from, TTL: ttl})
	}
	if from, _ := p.source(r, beside.Addr().Is6()); beside.IsValid() && from.IsValid() {
		at.add(TargetAddress, "", prove.Target{
			Ask: prove.Echo, MAC: hop.mac, Addr: beside.Addr(), From: from, TTL: echoTTL, Near: true,
		})
	}
	at.control = append(at.control, fmt.Sprintf("%d prefixes lead there by router MAC %s", len(prefixes), hop.mac))
	if len(at.tunnel.Targets) == 0 {
		at.control = append(at.control, fmt.Sprintf("router %s has no address to probe from: give it one in spec.routers[].loopbacks", r.Name))
	}
	p.addEdge(&at)
	return at
}

// source is an address to which answers come back here: a loopback or one at an uplink, which no
// other edge has, or that of a host at a port, which gets them too. The gateways' own are every
// edge's: what answers to one may stay there, which shared says.
func (p planner) source(r overlay.Router, six bool) (from netip.Addr, shared bool) {
	own, gateways := slices.Clone(r.Loopbacks), []netip.Addr{}
	for _, u := range r.Uplinks {
		own = append(own, addrsOf(u.Addresses)...)
	}
	for _, s := range p.Config.Segments {
		if s.Gateway == nil || s.Gateway.Router != r.Name {
			continue
		}
		gateways = append(gateways, addrsOf(s.Gateway.Addresses)...)
		for _, n := range p.neighbours[receivedOf{s.Name, netip.Addr{}}] {
			if n.Port != "" && !n.Addr.IsLinkLocalUnicast() {
				own = append(own, n.Addr)
			}
		}
	}
	isFamily := func(a netip.Addr) bool { return a.Is6() == six }
	if i := slices.IndexFunc(own, isFamily); i >= 0 {
		return own[i], false
	}
	if i := slices.IndexFunc(gateways, isFamily); i >= 0 {
		return gateways[i], true
	}
	return netip.Addr{}, false
}

func addrsOf(list []netip.Prefix) (addrs []netip.Addr) {
	for _, p := range list {
		addrs = append(addrs, p.Addr())
	}
	return addrs
}

// beyondGateways are prefixes without the hosts of segments that have a gateway here, which are
// reached by those; all, where nothing else is left.
func (p planner) beyondGateways(r overlay.Router, prefixes []netip.Prefix) []netip.Prefix {
	left := slices.DeleteFunc(slices.Clone(prefixes), func(prefix netip.Prefix) bool {
		return prefix.IsSingleIP() && slices.ContainsFunc(p.Config.Segments, func(s overlay.Segment) bool {
			return s.Gateway != nil && s.Gateway.Router == r.Name &&
				slices.ContainsFunc(s.Gateway.Addresses, func(a netip.Prefix) bool { return a.Contains(prefix.Addr()) })
		})
	})
	if len(left) == 0 {
		return prefixes
	}
	return left
}

// Addresses for benchmarks (RFC 2544, RFC 5180) stand for those of a default route.
var anywhere4, anywhere6 = netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("2001:2::1")

// someAddress is one of the prefix.
func someAddress(prefix netip.Prefix) netip.Addr {
	switch {
	case prefix.IsSingleIP():
		return prefix.Addr()
	case prefix.Bits() == 0 && prefix.Addr().Is4():
		return anywhere4
	case prefix.Bits() == 0:
		return anywhere6
	}
	return prefix.Masked().Addr().Next()
}

// toPrefix are the proofs of the ways that a prefix, or an address, goes: of each router that
// knows it, the longest prefix that has it.
func (p planner) toPrefix(to netip.Prefix) ([]proof, error) {
	var proofs []proof
	var elsewhere []string
	for _, t := range p.Routes {
		best := -1
		for i, route := range t.Routes {
			if route.Prefix.Bits() <= to.Bits() && route.Prefix.Contains(to.Addr()) &&
				(best < 0 || route.Prefix.Bits() > t.Routes[best].Prefix.Bits()) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		found, words := p.byRoute(t.Router, t.Routes[best], to)
		proofs = append(proofs, found...)
		if words != "" {
			elsewhere = append(elsewhere, words)
		}
	}
	if len(p.Config.Routers) == 0 || len(proofs) == 0 && to.IsSingleIP() { // a host that is only bridged
		proofs = append(proofs, p.toHost(to.Addr(), "")...)
	}
	if len(proofs) == 0 {
		why := "no router has a route to it: `selvage routes`"
		if len(elsewhere) > 0 {
			why = strings.Join(elsewhere, "; ")
		}
		return nil, api.BadRequest{Err: fmt.Errorf("no tunnel leads to %s: %s", to, why)}
	}
	return proofs, nil
}

// byRoute are the proofs of a route's next hops, or where it leads instead of into a tunnel.
func (p planner) byRoute(router string, route plan.Route, to netip.Prefix) (proofs []proof, elsewhere string) {
	elsewhere = fmt.Sprintf("router %s: %s is %s", router, route.Prefix, route.Kind)
	done := make(map[string]bool)
	for _, hop := range route.Hops {
		elsewhere = fmt.Sprintf("router %s: %s goes by %s", router, route.Prefix, hop.Segment)
		if r, ok := p.routerOf(hop.Segment); ok && !done[hop.Segment] {
			done[hop.Segment] = true
			i := slices.IndexFunc(p.segments, func(s overlay.Segment) bool { return s.Name == hop.Segment })
			proofs = append(proofs, p.ofRouter(p.segments[i], r, route.Prefix)...)
			continue
		}
		addr := hop.Addr
		if !addr.IsValid() && to.IsSingleIP() { // a connected network
			addr = to.Addr()
		}
		switch {
		case addr.IsValid():
			proofs = append(proofs, p.toHost(addr, hop.Segment)...)
			elsewhere = fmt.Sprintf("%s in segment %s is not behind a known remote", addr, hop.Segment)
		default:
			proofs = append(proofs, p.ofAll(hop.Segment)...)
		}
	}
	return proofs, elsewhere
}

// ofAll are the proofs of a segment.
func (p planner) ofAll(segment string) (proofs []proof) {
	for _, s := range p.segments {
		if s.Name == segment && s.VNI != 0 {
			for _, remote := range s.Remotes {
				proofs = append(proofs, p.ofSegment(s, remote, nil))
			}
		}
	}
	return proofs
}

// toHost are the proofs of the tunnels to a host, in a segment or in any for "".
func (p planner) toHost(addr netip.Addr, segment string) (proofs []proof) {
	for _, s := range p.segments {
		if s.VNI == 0 || segment != "" && s.Name != segment {
			continue
		}
		for _, remote := range s.Remotes {
			for _, n := range p.neighbours[receivedOf{s.Name, remote}] {
				if n.Addr == addr {
					proofs = append(proofs, p.ofSegment(s, remote, &n))
				}
			}
		}
	}
	return proofs
}

package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// What the data path's tables hold (bpf/abi), less their unused first entry.
const (
	maxUDPPorts = 8
	maxSegments = 4095
	maxRouters  = 1023
	maxPaths    = 64    // next hops of one route
	maxAllowed  = 65536 // MAC addresses, and networks, of all ports
)

// divide is what to do where one edge has too much.
const divide = "divide them among several edges"

// raise is the same where the table may be larger.
func raise(field string) string { return "raise spec.tables." + field + ", or " + divide }

// usage is what the tables would hold.
type usage struct {
	segments, ports, members, pairs, static, routes int

	macs, networks int // allowed ones
	remotes        map[netip.Addr]bool
	hops, sets     map[string]bool
	ofSegment      map[objectName]int // ports
}

// limitChecker counts what the data path's tables would hold.
type limitChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

// check reports what does not fit in the data path's tables.
func (c limitChecker) check() {
	s := &c.doc.Spec
	tooMany := func(path string, have, limit int, what, hint string) {
		if have > limit {
			c.file.problem(path, fmt.Sprintf("%d %s, at most %d", have, what, limit), hint)
		}
	}
	u := usage{remotes: map[netip.Addr]bool{}, hops: map[string]bool{}, sets: map[string]bool{}, ofSegment: map[objectName]int{}}
	u.countPorts(c.declared)
	addresses := c.remoteAddresses()
	c.doc.eachNetwork(func(_ string, n *overlayNetwork) {
		u.segments++
		u.members += len(n.Remotes)
		for _, r := range n.Remotes {
			u.remotes[r.Addr] = true
			u.pairs += addresses(r.Addr)
		}
	})
	t := &s.Tables
	// A size that could not be read bounds nothing.
	full := func(path string, have int, size uint32, what, field string) {
		if size > 0 {
			tooMany(path, have, int(size), what, raise(field))
		}
	}
	for i, g := range s.Segments {
		full(fmt.Sprintf("spec.segments[%d]", i), u.ofSegment[g.Name]+len(g.Remotes), t.SegmentMembers, "ports and remotes in one segment", "segmentMembers")
	}
	for i, r := range s.Routers {
		if r.L3 != nil {
			full(fmt.Sprintf("spec.routers[%d].l3", i), len(r.L3.Remotes), t.SegmentMembers, "remotes in one segment", "segmentMembers")
		}
	}
	u.countRoutes(s)
	c.egress(u.remotes, tooMany)
	paths := 0
	for remote := range u.remotes {
		paths += addresses(remote) * max(1, len(s.Underlay.TEPs))
	}
	less := func(size uint32) uint32 { return max(size, 1) - 1 } // number 0 is none
	tooMany("spec.segments", u.segments, maxSegments, "segments", divide)
	full("spec.segments", u.members, t.Members, "ports and remotes of all segments", "members")
	full("spec.segments", u.pairs, t.Remotes, "addresses of remotes in all segments", "remotes")
	tooMany("spec.routers", len(s.Routers), maxRouters, "routers", divide)
	full("spec.routers", u.routes, t.Routes, "routes", "routes")
	full("spec.routers", len(u.hops), less(t.NextHops), "different next hops of routes", "nextHops")
	full("spec.routers", len(u.sets), less(t.NextHopGroups), "different sets of next hops of routes", "nextHopGroups")
	full("spec", u.ports+paths, less(t.Vports), "ports and paths to remotes", "vports")
	tooMany("spec.ports", u.macs, maxAllowed, "allowed MAC addresses", divide)
	tooMany("spec.ports", u.networks, maxAllowed, "allowed networks", "write fewer, larger ones")
	if s.FDB.Size > 0 {
		tooMany("spec.fdb", u.static, int(s.FDB.Size), "static MAC addresses", "raise spec.fdb.size, with room for learned ones")
	}
}

// remoteAddresses says how many addresses the remote with a first address has.
func (c limitChecker) remoteAddresses() func(first netip.Addr) int {
	several := map[netip.Addr]int{}
	for _, r := range c.doc.Spec.Remotes {
		if len(r.Addresses) > 0 {
			several[r.Addresses[0].Addr] = len(r.Addresses)
		}
	}
	return func(first netip.Addr) int { return max(1, several[first]) }
}

// countPorts counts ports and what they allow, for each VLAN.
func (u *usage) countPorts(d declared) {
	for i, list := range d.members {
		for _, m := range list {
			u.ofSegment[m.segment]++
			u.ports++
			u.members++
		}
		if a := d.doc.Spec.Ports[i].Allowed; a != nil {
			u.macs += len(a.MACs) * len(list)
			u.networks += len(a.Addresses) * len(list)
		}
	}
	for _, g := range d.doc.Spec.Segments {
		u.static += len(g.FDB)
	}
}

// countRoutes counts connected and static routes, and where they lead.
func (u *usage) countRoutes(s *spec) {
	add := func(router objectName, via ...string) {
		slices.Sort(via)
		for i, hop := range via {
			via[i] = string(router) + " " + hop
			u.hops[via[i]] = true
		}
		u.sets[strings.Join(slices.Compact(via), ", ")] = true
		u.routes++
	}
	for _, g := range s.Segments {
		if g.Gateway != nil {
			for range g.Gateway.Addresses {
				add(g.Gateway.Router, "on "+string(g.Name))
			}
		}
	}
	for _, r := range s.Routers {
		for _, uplink := range r.Uplinks {
			u.segments++
			u.ports++
			for range uplink.Addresses {
				add(r.Name, "on "+string(uplink.Name))
			}
		}
		for _, route := range r.Routes {
			via := make(map[string]bool)
			for _, hop := range route.Via {
				via[fmt.Sprintf("%s %s %s %s", hop.Address, hop.Uplink, hop.Remote, hop.MAC)] = true
			}
			if len(via) > 0 {
				add(r.Name, slices.Collect(maps.Keys(via))...)
			}
		}
	}
}

// egress counts what does not fit, and adds gateways to the remotes.
func (c limitChecker) egress(remotes map[netip.Addr]bool, tooMany func(path string, have, limit int, what, hint string)) {
	e, policies, portForwards := c.doc.Spec.Egress, 0, 0
	for _, r := range c.doc.Spec.Routers {
		for _, u := range r.Uplinks {
			if u.NAT == nil {
				continue
			}
			policies++
			for _, f := range u.NAT.PortForwards {
				portForwards += int(f.Port.Last) - int(f.Port.First) + 1
			}
		}
	}
	if e != nil {
		policies += len(e.Policies)
		for i, p := range e.Policies {
			edges := p.edges(c.doc.Spec)
			for _, addr := range edges {
				remotes[addr] = true
			}
			if most := int(c.doc.Spec.Tables.SegmentMembers); most > 0 {
				tooMany(fmt.Sprintf("spec.egress.policies[%d]", i), len(edges), most, "remotes in one segment", "list those that have sources in remotes, or "+raise("segmentMembers"))
			}
		}
	}
	tooMany("spec.egress", policies, maxPolicies, "policies and uplinks that translate", "divide them among several edges")
	tooMany("spec.routers", portForwards, maxPortForwards, "ports to forward", "forward fewer")
}

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
	maxUDPPorts    = 8
	maxSegments    = 4095
	maxRouters     = 1023
	maxNextHops    = 4095   // different ones, and different sets of them
	maxRoutes      = 262144 // connected and static ones
	maxPaths       = 64     // next hops of one route
	maxMembers     = 1024   // ports and remotes of one segment
	maxAllMembers  = 131072 // of all segments
	maxRemotePairs = 65536  // addresses of remotes, in all segments
	maxVports      = 8191   // ports and paths to remotes of one edge
	maxAllowed     = 65536  // MAC addresses, and networks, of all ports
)

// divide is what to do where one edge has too much.
const divide = "divide them among several edges"

// usage is what the tables would hold.
type usage struct {
	segments, ports, members, pairs, static, routes int

	macs, networks int // allowed ones
	remotes        map[netip.Addr]bool
	hops, sets     map[string]bool
	ofSegment      map[objectName]int // ports
}

// limits reports what does not fit in the data path's tables.
func (c checker) limits() {
	s := &c.doc.Spec
	tooMany := func(path string, have, limit int, what, hint string) {
		if have > limit {
			c.problem(path, fmt.Sprintf("%d %s, at most %d", have, what, limit), hint)
		}
	}
	u := usage{remotes: map[netip.Addr]bool{}, hops: map[string]bool{}, sets: map[string]bool{}, ofSegment: map[objectName]int{}}
	u.countPorts(c)
	addresses := c.remoteAddresses()
	c.eachNetwork(func(_ string, n *overlayNetwork) {
		u.segments++
		u.members += len(n.Remotes)
		for _, r := range n.Remotes {
			u.remotes[r.Addr] = true
			u.pairs += addresses(r.Addr)
		}
	})
	for i, g := range s.Segments {
		tooMany(fmt.Sprintf("spec.segments[%d]", i), u.ofSegment[g.Name]+len(g.Remotes), maxMembers, "ports and remotes in one segment",
			"divide the segment, flooding to so many costs too much")
	}
	for i, r := range s.Routers {
		if r.L3 != nil {
			tooMany(fmt.Sprintf("spec.routers[%d].l3", i), len(r.L3.Remotes), maxMembers, "remotes in one segment", divide)
		}
	}
	u.countRoutes(s)
	c.egressLimits(u.remotes, tooMany)
	paths := 0
	for remote := range u.remotes {
		paths += addresses(remote) * max(1, len(s.Underlay.TEPs))
	}
	tooMany("spec.segments", u.segments, maxSegments, "segments", divide)
	tooMany("spec.segments", u.members, maxAllMembers, "ports and remotes of all segments", divide)
	tooMany("spec.segments", u.pairs, maxRemotePairs, "addresses of remotes in all segments", divide)
	tooMany("spec.routers", len(s.Routers), maxRouters, "routers", divide)
	tooMany("spec.routers", u.routes, maxRoutes, "routes", divide)
	tooMany("spec.routers", len(u.hops), maxNextHops, "different next hops of routes", divide)
	tooMany("spec.routers", len(u.sets), maxNextHops, "different sets of next hops of routes", divide)
	tooMany("spec", u.ports+paths, maxVports, "ports and paths to remotes", divide)
	tooMany("spec.ports", u.macs, maxAllowed, "allowed MAC addresses", divide)
	tooMany("spec.ports", u.networks, maxAllowed, "allowed networks", "write fewer, larger ones")
	if s.FDB.Size > 0 {
		tooMany("spec.fdb", u.static, int(s.FDB.Size), "static MAC addresses", "raise spec.fdb.size, with room for learned ones")
	}
}

// remoteAddresses says how many addresses the remote with a first address has.
func (c checker) remoteAddresses() func(first netip.Addr) int {
	several := map[netip.Addr]int{}
	for _, r := range c.doc.Spec.Remotes {
		if len(r.Addresses) > 0 {
			several[r.Addresses[0].Addr] = len(r.Addresses)
		}
	}
	return func(first netip.Addr) int { return max(1, several[first]) }
}

// countPorts counts ports and what they allow, for each VLAN.
func (u *usage) countPorts(c checker) {
	for i, list := range c.members {
		for _, m := range list {
			u.ofSegment[m.segment]++
			u.ports++
			u.members++
		}
		if a := c.doc.Spec.Ports[i].Allowed; a != nil {
			u.macs += len(a.MACs) * len(list)
			u.networks += len(a.Addresses) * len(list)
		}
	}
	for _, g := range c.doc.Spec.Segments {
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
				via[fmt.Sprintf("%s %s %s", hop.Address, hop.Remote, hop.MAC)] = true
			}
			if len(via) > 0 {
				add(r.Name, slices.Collect(maps.Keys(via))...)
			}
		}
	}
}

package evpn

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// MaxHops is how many equal next hops a route has at most.
const MaxHops = 64

// sources are a set of overlay.RouteSource.
type sources uint8

var allSources = []overlay.RouteSource{
	overlay.SourceConnected, overlay.SourceStatic, overlay.SourceLoopback,
	overlay.SourceUplink, overlay.SourceEVPN, overlay.SourceEgress,
}

func sourcesOf(list []overlay.RouteSource) (set sources) {
	for i, s := range allSources {
		if slices.Contains(list, s) {
			set |= 1 << i
		}
	}
	return set
}

// has reports whether source is one of the set.
func (set sources) has(source overlay.RouteSource) bool {
	return set&sourcesOf([]overlay.RouteSource{source}) != 0
}

// destination is what is known of a prefix in a router.
type destination struct {
	router     *router
	prefix     netip.Prefix
	paths      []*path
	best       []*path // equal ones, nil where the router has the prefix itself
	advertised []overlay.NextHop
	// sources are those that this edge itself has it from; hosts is at how many ports the
	// address of a host route is.
	sources sources
	hosts   int
	dirty   bool
	leftOut bool // the data path has no room for it
}

// local reports whether the router has the prefix itself, which is better than anything learned.
func (d *destination) local() bool { return d.sources != 0 || d.hosts > 0 }

func (t *Table) updateDestination(d *destination) {
	d.dirty = false
	d.best = nil
	if !d.local() {
		d.best = bestPaths(d.paths)
	}
	if hops := hopsOf(d.best); !slices.Equal(hops, d.advertised) {
		d.advertised = hops
		t.out.Routes = append(t.out.Routes, d.learned())
	}
	t.adjOut.announcePrefix(d)
	if len(d.paths) == 0 && !d.local() {
		delete(t.room.leftOut, d)
		delete(d.router.destinations, d.prefix)
	}
}

func (d *destination) learned() rib.LearnedRoute {
	return rib.LearnedRoute{Router: d.router.name, Route: overlay.Route{
		Prefix: d.prefix, Kind: overlay.Unicast, Via: slices.Clone(d.advertised),
	}}
}

func hopsOf(paths []*path) []overlay.NextHop {
	hops := make([]overlay.NextHop, 0, len(paths))
	for _, p := range paths {
		hops = append(hops, p.hop())
	}
	slices.SortFunc(hops, compareHops)
	hops = slices.Compact(hops)
	return hops[:min(len(hops), MaxHops)]
}

func compareHops(a, b overlay.NextHop) int {
	return cmp.Or(a.Remote.Compare(b.Remote), a.Addr.Compare(b.Addr), bytes.Compare(a.MAC[:], b.MAC[:]))
}

// outdated reports whether the host of a host route is elsewhere by now.
func (p *path) outdated() bool {
	if p.segment == nil || p.inSegment != fits {
		return false // only its router is here
	}
	st := p.segment.macEntries[p.MAC]
	return st.local != nil || st.best != nil && st.best.remote != p.remote
}

// bestPaths are the equal ones among those that may be used: host routes first, which
// follow the host; then as RFC 4271 section 9.1.2.2 says, but for the origin, which says
// nothing any more, and router IDs, which would leave one of them.
func bestPaths(paths []*path) []*path {
	var hosts, list []*path
	for _, p := range paths {
		switch {
		case p.Type != MACIP:
			list = append(list, p)
		case !p.outdated():
			hosts = append(hosts, p)
		}
	}
	if len(hosts) > 0 {
		first := best(hosts, compareHostRoutes)
		return only(hosts, func(p *path) bool { return compareHostRoutes(p, first) == 0 })
	}
	list = lowest(list, func(p *path) int { return flag(p.old()) })
	list = lowest(list, func(p *path) int { return -int(p.LocalPref) })
	list = lowest(list, func(p *path) int { return len(p.ASPath) })
	list = lowestMED(list)
	list = lowest(list, func(p *path) int { return flag(p.Type != Unicast) })
	list = lowest(list, func(p *path) int { return flag(!p.from.external) })
	slices.SortFunc(list, comparePaths)
	return list
}

// llgrStale is the community of routes that a neighbour keeps for one that it lost (RFC
// 9494 section 4.6): they are for want of better ones, as are our own stale ones.
const llgrStale overlay.Community = 0xffff0006

func (p *path) old() bool { return p.stale != 0 || slices.Contains(p.Communities, llgrStale) }

// comparePaths orders equal paths, so that it does not matter when each came.
func comparePaths(a, b *path) int {
	return cmp.Or(a.from.addr.Compare(b.from.addr), cmp.Compare(a.RD, b.RD), cmp.Compare(a.Tag, b.Tag),
		cmp.Compare(a.Uplink, b.Uplink), a.NextHop.Compare(b.NextHop))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func only(list []*path, keep func(*path) bool) []*path {
	return slices.DeleteFunc(list, func(p *path) bool { return !keep(p) })
}

func compareHostRoutes(a, b *path) int {
	return cmp.Or(compareHosts(a, b), bytes.Compare(a.RouterMAC[:], b.RouterMAC[:]))
}

// lowest are those of the list with the lowest value.
func lowest(list []*path, value func(*path) int) []*path {
	if len(list) < 2 {
		return list
	}
	least := value(list[0])
	for _, p := range list[1:] {
		least = min(least, value(p))
	}
	return only(list, func(p *path) bool { return value(p) == least })
}

// lowestMED compares those that came from the same AS alone (RFC 4271 section 9.1.2.2 c).
func lowestMED(list []*path) []*path {
	if len(list) < 2 {
		return list
	}
	least := map[uint32]uint32{}
	for _, p := range list {
		if med, ok := least[p.fromAS()]; !ok || p.MED < med {
			least[p.fromAS()] = p.MED
		}
	}
	return only(list, func(p *path) bool { return p.MED == least[p.fromAS()] })
}

// fromAS is the neighbouring AS that p came from, 0 for the own one.
func (p *path) fromAS() uint32 {
	if len(p.ASPath) == 0 {
		return 0
	}
	return p.ASPath[0]
}

package apiserver

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/bgp/counters"
	"github.com/selvage/selvage/internal/metrics"
)

func bgpMetrics(b *BGP, p *metrics.Page) {
	c := b.State.Counters()
	p.Family(metrics.Gauge, "selvage_bgp_settling", "1 while what a former process learned stays, until the neighbours have said all.")
	p.Flag(c.Settling)
	bgpNeighbourMetrics(p, c.Neighbours)
	const routes = "selvage_bgp_routes"
	p.Family(metrics.Gauge, routes, "Routes that neighbours advertise, by what became of them, and those that this edge advertises.")
	p.Count(uint64(c.Routes.Used), "state", "used")
	p.Count(uint64(c.Routes.Received-c.Routes.Used), "state", "unused")
	p.Count(uint64(c.Routes.Advertised), "state", "advertised")
	p.Single(metrics.Gauge, "selvage_bgp_no_room_routes", "Routes that are not used, as tables have no room for them or the neighbour advertises too many.", uint64(c.Routes.NoRoom))
	p.Single(metrics.Gauge, "selvage_bgp_stale_routes", "Routes in use whose session was lost.", uint64(c.Routes.Stale))
	p.Single(metrics.Gauge, "selvage_bgp_problem_routes", "Routes that need an operator's attention.", uint64(c.Problems))
	p.Single(metrics.Gauge, "selvage_bgp_frozen_macs", "MAC addresses that moved too often and are frozen.", uint64(c.Routes.Frozen))
	p.Single(metrics.Counter, "selvage_bgp_mac_moves_total", "Hosts that moved to this edge or away.", c.Moved)
	p.Single(metrics.Counter, "selvage_bgp_route_changes_total", "Routes that neighbours advertised or withdrew.", c.Updates)
	convergenceMetrics(p, c.Convergence)
}

func bgpNeighbourMetrics(p *metrics.Page, list []counters.Neighbour) {
	const up, flaps, overflows, prefixes = "selvage_bgp_neighbour_up", "selvage_bgp_neighbour_flaps_total", "selvage_bgp_neighbour_overflows_total", "selvage_bgp_neighbour_prefixes"
	p.Family(metrics.Gauge, up, "1 while there is a session with the BGP neighbour.")
	for _, n := range list {
		p.Flag(n.Established, "neighbour", n.Name)
	}
	p.Family(metrics.Counter, flaps, "Sessions with the BGP neighbour that were lost.")
	for _, n := range list {
		p.Count(uint64(n.Flaps), "neighbour", n.Name)
	}
	p.Family(metrics.Counter, overflows, "Sessions with the BGP neighbour that this edge ended, as too many updates waited for the data path.")
	for _, n := range list {
		p.Count(n.Overflows, "neighbour", n.Name)
	}
	p.Family(metrics.Counter, "selvage_bgp_neighbour_malformed_routes_total", "Routes of the BGP neighbour that could not be understood.")
	for _, n := range list {
		p.Count(n.Malformed, "neighbour", n.Name)
	}
	p.Family(metrics.Counter, "selvage_bgp_neighbour_discarded_total", "What the BGP neighbour advertised and is not used whatever routes there are.")
	for _, n := range list {
		for _, what := range slices.Sorted(maps.Keys(n.Discarded)) {
			p.Count(n.Discarded[what], "neighbour", n.Name, "what", what)
		}
	}
	p.Family(metrics.Gauge, prefixes, "Routes that are exchanged with the BGP neighbour.")
	for _, n := range list {
		for _, f := range n.Families {
			p.Count(f.Received, "neighbour", n.Name, "family", string(f.Family), "direction", "received")
			p.Count(f.Advertised, "neighbour", n.Name, "family", string(f.Family), "direction", "advertised")
		}
	}
}

func convergenceMetrics(p *metrics.Page, c counters.Convergence) {
	buckets := make(map[float64]uint64, len(c.Buckets))
	for _, b := range c.Buckets {
		buckets[b.Bound.Seconds()] = b.Count
	}
	p.Histogram("selvage_bgp_fib_update_seconds", "From the receipt of an update until the maps of the data path contain it.", c.Count, c.Sum.Seconds(), buckets)
}

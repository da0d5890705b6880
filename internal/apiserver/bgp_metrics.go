package apiserver

import (
	"strconv"

	"github.com/selvage/selvage/internal/bgp/counters"
)

// bgpMetrics has nothing to say without BGP.
func bgpMetrics(e *State, p *page) {
	if e.BGP == nil {
		return
	}
	c := e.BGP.State.Counters()
	bgpNeighbourMetrics(p, c.Neighbours)
	const routes = "selvage_bgp_routes"
	p.family(gauge, routes, "Routes that neighbours advertise, by what became of them, and those that this edge advertises.")
	p.sample(routes, uint64(c.Routes.Used), "state", "used")
	p.sample(routes, uint64(c.Routes.Received-c.Routes.Used), "state", "unused")
	p.sample(routes, uint64(c.Routes.Advertised), "state", "advertised")
	p.single(gauge, "selvage_bgp_no_room_routes", "Routes that are not used, as tables have no room for them or the neighbour advertises too many.", uint64(c.Routes.NoRoom))
	p.single(gauge, "selvage_bgp_stale_routes", "Routes in use whose session was lost.", uint64(c.Routes.Stale))
	p.single(gauge, "selvage_bgp_problem_routes", "Routes that need an operator's attention.", uint64(c.Problems))
	p.single(gauge, "selvage_bgp_frozen_macs", "MAC addresses that moved too often and are frozen.", uint64(c.Routes.Frozen))
	p.single(counter, "selvage_bgp_mac_moves_total", "Hosts that moved to this edge or away.", c.Moved)
	p.single(counter, "selvage_bgp_route_changes_total", "Routes that neighbours advertised or withdrew.", c.Updates)
	convergenceMetrics(p, c.Convergence)
}

func bgpNeighbourMetrics(p *page, list []counters.Neighbour) {
	const up, flaps, overflows, prefixes = "selvage_bgp_neighbour_up", "selvage_bgp_neighbour_flaps_total", "selvage_bgp_neighbour_overflows_total", "selvage_bgp_neighbour_prefixes"
	p.family(gauge, up, "1 while there is a session with the BGP neighbour.")
	for _, n := range list {
		p.sample(up, flag(n.Established), "neighbour", n.Name)
	}
	p.family(counter, flaps, "Sessions with the BGP neighbour that were lost.")
	for _, n := range list {
		p.sample(flaps, uint64(n.Flaps), "neighbour", n.Name)
	}
	p.family(counter, overflows, "Sessions with the BGP neighbour that this edge ended, as too many updates waited for the data path.")
	for _, n := range list {
		p.sample(overflows, n.Overflows, "neighbour", n.Name)
	}
	p.family(gauge, prefixes, "Routes that are exchanged with the BGP neighbour.")
	for _, n := range list {
		for _, f := range n.Families {
			p.sample(prefixes, f.Received, "neighbour", n.Name, "family", string(f.Family), "direction", "received")
			p.sample(prefixes, f.Advertised, "neighbour", n.Name, "family", string(f.Family), "direction", "advertised")
		}
	}
}

func convergenceMetrics(p *page, c counters.Convergence) {
	const name = "selvage_bgp_fib_update_seconds"
	p.family(histogram, name, "From the receipt of an update until the maps of the data path contain it.")
	for _, b := range c.Buckets {
		p.sample(name+"_bucket", b.Count, "le", strconv.FormatFloat(b.Bound.Seconds(), 'g', -1, 64))
	}
	p.sample(name+"_bucket", c.Count, "le", "+Inf")
	p.WriteString(name + "_sum " + strconv.FormatFloat(c.Sum.Seconds(), 'g', -1, 64) + "\n")
	p.sample(name+"_count", c.Count)
}

package edge

import (
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/selvage/selvage/internal/api"
)

// spread is how long updates took until the maps said what they do.
type spread struct {
	times *hdrhistogram.Histogram // µs
	sum   time.Duration
}

// longest is what is told apart.
const longest = time.Minute

func newSpread() spread {
	return spread{times: hdrhistogram.New(1, longest.Microseconds(), 2)}
}

// converged counts what of a time is in the maps by now; zero: it was not received.
func (b *bgp) converged(n int, when time.Time) {
	if when.IsZero() {
		return
	}
	took := time.Since(when)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spread.sum += took * time.Duration(n)
	_ = b.spread.times.RecordValues(min(max(took, time.Microsecond), longest).Microseconds(), int64(n)) // never out of range
}

func (s spread) info() api.BGPConvergence {
	at := func(q float64) float64 {
		return (time.Duration(s.times.ValueAtQuantile(q)) * time.Microsecond).Seconds()
	}
	return api.BGPConvergence{Count: uint64(s.times.TotalCount()), P50: at(50), P99: at(99), Max: (time.Duration(s.times.Max()) * time.Microsecond).Seconds()}
}

// convergenceBounds are those of the histogram's buckets.
var convergenceBounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second,
}

// bgpMetrics has nothing to say without BGP.
func (e *edge) bgpMetrics(p *page) {
	b := e.bgp.Load()
	if b == nil {
		return
	}
	b.neighbourMetrics(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.table.Counts()
	const routes = "selvage_bgp_routes"
	p.family(gauge, routes, "Routes that neighbours advertise, by what became of them, and those that this edge advertises.")
	p.sample(routes, uint64(c.Used), "state", "used")
	p.sample(routes, uint64(c.Received-c.Used), "state", "unused")
	p.sample(routes, uint64(c.Advertised), "state", "advertised")
	p.single(gauge, "selvage_bgp_stale_routes", "Routes in use whose session was lost.", uint64(c.Stale))
	p.single(gauge, "selvage_bgp_problem_routes", "Routes that need an operator's attention.", uint64(len(b.table.Problems())))
	p.single(gauge, "selvage_bgp_frozen_macs", "MAC addresses that moved too often and are frozen.", uint64(c.Frozen))
	p.single(counter, "selvage_bgp_mac_moves_total", "Hosts that moved to this edge or away.", b.moved)
	p.single(counter, "selvage_bgp_route_changes_total", "Routes that neighbours advertised or withdrew.", b.updates)
	b.spread.metrics(p)
}

func (b *bgp) neighbourMetrics(p *page) {
	list := b.neighbours()
	const up, flaps, prefixes = "selvage_bgp_neighbour_up", "selvage_bgp_neighbour_flaps_total", "selvage_bgp_neighbour_prefixes"
	p.family(gauge, up, "1 while there is a session with the BGP neighbour.")
	for _, n := range list {
		p.sample(up, flag(n.Established), "neighbour", n.Name)
	}
	p.family(counter, flaps, "Sessions with the BGP neighbour that were lost.")
	for _, n := range list {
		p.sample(flaps, uint64(n.Flaps), "neighbour", n.Name)
	}
	p.family(gauge, prefixes, "Routes that are exchanged with the BGP neighbour.")
	for _, n := range list {
		for _, f := range n.Families {
			p.sample(prefixes, f.Received, "neighbour", n.Name, "family", string(f.Family), "direction", "received")
			p.sample(prefixes, f.Advertised, "neighbour", n.Name, "family", string(f.Family), "direction", "advertised")
		}
	}
}

func (s spread) metrics(p *page) {
	const name = "selvage_bgp_fib_update_seconds"
	p.family(histogram, name, "From the receipt of an update until the maps of the data path contain it.")
	bars := s.times.Distribution()
	var below uint64
	for _, bound := range convergenceBounds {
		for len(bars) > 0 && bars[0].To <= bound.Microseconds() {
			below += uint64(bars[0].Count)
			bars = bars[1:]
		}
		p.sample(name+"_bucket", below, "le", strconv.FormatFloat(bound.Seconds(), 'g', -1, 64))
	}
	p.sample(name+"_bucket", uint64(s.times.TotalCount()), "le", "+Inf")
	p.WriteString(name + "_sum " + strconv.FormatFloat(s.sum.Seconds(), 'g', -1, 64) + "\n")
	p.sample(name+"_count", uint64(s.times.TotalCount()))
}

package sizing

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/stats"
)

// Bus is a PCIe slot.
type Bus struct {
	Name            string
	Theory, Typical float64 // Gbit/s each way
}

// buses is the NSX edge study's table; the typical rate of Gen4 x8 is what the study found to be
// the limit of a slot.
func buses() []Bus {
	return []Bus{
		{"gen1x4", 8, 7}, {"gen1x8", 16, 14.1}, {"gen1x16", 32, 28.2},
		{"gen2x4", 16, 12.8}, {"gen2x8", 32, 25.6}, {"gen2x16", 64, 51.2},
		{"gen3x4", 32, 22.4}, {"gen3x8", 64, 44.8}, {"gen3x16", 128, 96.8},
		{"gen4x8", 128, 96}, {"gen4x16", 256, 209.6},
	}
}

// FindBus reads a slot's name: a generation and its lanes, "gen4x16".
func FindBus(name string) (Bus, error) {
	var known []string
	for _, b := range buses() {
		if b.Name == strings.ToLower(name) {
			return b, nil
		}
		known = append(known, b.Name)
	}
	return Bus{}, fmt.Errorf("no PCIe slot is named %q: want one of %s", name, strings.Join(known, ", "))
}

// edgeLimits are what one edge carries by each limiter, the least first.
func edgeLimits(d Demand, h Host, c Cost, u Use) []Limit {
	perMpps := d.Gbits / d.Mpps()
	path := h.Cores / 2
	limits := []Limit{{
		ByCores, float64(path) * c.MppsPerCore * u.Share * perMpps,
		fmt.Sprintf("%d of %d cores × %s Mpps × %.0f %%", path, h.Cores, stats.Figure(c.MppsPerCore), 100*u.Share),
	}}
	// A slot receives and transmits each at its full rate, so in one way of traffic the
	// wider frames of the underlay decide, whether or not the uplink shares their slot.
	side := max(1, h.Slots/2)
	limits = append(limits, Limit{
		ByBus, float64(side) * h.Bus.Typical / d.growth(),
		fmt.Sprintf("%s for the underlay × %s Gbit/s each way, frames %.2f × as wide", count(side, "slot"), stats.Figure(h.Bus.Typical), d.growth()),
	}, Limit{
		ByPorts, float64(h.Ports/2) * h.PortRate * u.Share / d.growth(),
		fmt.Sprintf("%s of the underlay × %s Gbit/s × %.0f %%, frames %.2f × as wide", count(h.Ports/2, "port"), stats.Figure(h.PortRate), 100*u.Share, d.growth()),
	})
	slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Gbits, b.Gbits) })
	return limits
}

// rules are those that a plan used.
func rules(d Demand, h Host, c Cost, u Use) []Rule {
	return []Rule{
		{fmt.Sprintf("%s Mpps a core for frames of %d bytes", stats.Figure(c.MppsPerCore), d.Frame), c.Source},
		{fmt.Sprintf("a frame takes %d bytes more on the wire than it has: preamble, start delimiter, gap", framing), ethernet},
		{"half the cores are for the data path, the other half for everything else", study},
		{fmt.Sprintf("a host has %d to %d cores and at most %d ports", leastCores, mostCores, mostPorts), study},
		{fmt.Sprintf("a PCIe slot %s carries %s Gbit/s each way (%s in theory)", h.Bus.Name, stats.Figure(h.Bus.Typical), stats.Figure(h.Bus.Theory)), study},
		{fmt.Sprintf("at most %d edges share a route (ECMP), at most %d are in a cluster", ecmpEdges, clusterEdges), study},
		{"the cards of an edge and the cores of its data path are on one NUMA node; so are members of a LAG", study},
		{fmt.Sprintf("plan with %.0f %% of what was measured, and %s", 100*u.Share, count(u.Spare, "spare edge")), ours},
	}
}

// notes are what to watch in a plan.
func notes(p Plan, d Demand, h Host, u Use) []string {
	var out []string
	if p.Edges > ecmpEdges {
		out = append(out, fmt.Sprintf("%d edges are more than the %d that can share a route: divide the destinations among %d groups.", p.Edges, ecmpEdges, p.Groups))
	}
	if p.Edges > clusterEdges {
		out = append(out, fmt.Sprintf("%d edges are more than the %d of a cluster: they make %d.", p.Edges, clusterEdges, p.Clusters))
	}
	if second := p.EdgeLimits[1]; second.Gbits < 1.1*p.EdgeLimits[0].Gbits {
		out = append(out, fmt.Sprintf("%s and %s limit an edge almost equally: more of only one gains nothing.", p.EdgeLimits[0].By, second.By))
	}
	if load := d.Gbits / float64(p.Edges-u.Spare) * d.growth() / (float64(h.Ports/2) * h.PortRate); load > 0.85 {
		out = append(out, fmt.Sprintf("The underlay's ports are at %.0f %% of their rate: flows that a hash spreads unevenly will lose frames there.", 100*load))
	}
	if u.Spare == 0 {
		out = append(out, "Without a spare edge the failure of one is a loss of rate.")
	}
	return out
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun
	case 1:
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

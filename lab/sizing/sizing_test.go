package sizing

import (
	"math"
	"strings"
	"testing"
)

func host(t *testing.T) Host {
	t.Helper()
	bus, err := FindBus("gen4x16")
	if err != nil {
		t.Fatal(err)
	}
	return Host{Cores: 32, Ports: 2, PortRate: 100, Slots: 2, Bus: bus}
}

func TestSize(t *testing.T) {
	demand := Demand{Gbits: 100, Frame: 512, Overhead: 50}
	for name, c := range map[string]struct {
		change  func(*Demand, *Host, *Cost, *Use)
		edges   int
		limiter Limiter
		note    string
	}{
		// 100 Gbit/s of 532 bytes are 23.5 Mpps: 16 cores × 1 Mpps are 68.1 Gbit/s.
		"cores":          {func(*Demand, *Host, *Cost, *Use) {}, 2, ByCores, ""},
		"faster cores":   {func(d *Demand, _ *Host, c *Cost, _ *Use) { d.Gbits, c.MppsPerCore = 90, 4 }, 1, ByPorts, "ports are at 98 %"},
		"headroom":       {func(_ *Demand, _ *Host, _ *Cost, u *Use) { u.Share = 0.5 }, 3, ByCores, ""},
		"more ports":     {func(_ *Demand, h *Host, c *Cost, _ *Use) { h.Ports, c.MppsPerCore = 4, 4 }, 1, ByPorts, ""},
		"old bus":        {func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.Bus, _ = FindBus("gen3x8") }, 3, ByBus, ""},
		"small frames":   {func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Frame = 64 }, 10, ByCluster, "10 edges are more than the 8 that can share a route: divide the destinations among 2 groups."},
		"two clusters":   {func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Gbits = 1000 }, 15, ByCluster, "more than the 10 of a cluster: they make 2"},
		"a spare":        {func(_ *Demand, _ *Host, _ *Cost, u *Use) { u.Spare = 1 }, 3, ByCores, ""},
		"a small demand": {func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Gbits = 1 }, 1, ByCores, "Without a spare edge"},
	} {
		d, h, cost, u := demand, host(t), Cost{MppsPerCore: 1, Source: "given"}, Use{Share: 1}
		c.change(&d, &h, &cost, &u)
		p, err := Size(d, h, cost, u)
		if err != nil || p.Edges != c.edges || p.Limiter != c.limiter || !strings.Contains(strings.Join(p.Notes, "\n"), c.note) {
			t.Errorf("%s: %v, %d edges by %s, want %d by %s; notes %q; limits %v", name, err, p.Edges, p.Limiter, c.edges, c.limiter, p.Notes, p.EdgeLimits)
		}
		for _, r := range p.Rules {
			if r.Text == "" || r.Source == "" {
				t.Errorf("%s: a rule without text or source: %+v", name, r)
			}
		}
	}
}

// TestEnough goes through many demands: a plan's edges carry the demand by every
// limiter, and one edge fewer does not.
func TestEnough(t *testing.T) {
	for _, gbits := range []float64{0.5, 10, 37, 100, 400, 1200} {
		for _, frame := range []int{64, 128, 512, 1518, 9000} {
			for _, mpps := range []float64{0.2, 1, 4} {
				d, u := Demand{gbits, frame, 50}, Use{Share: 0.8, Spare: 1}
				p, err := Size(d, host(t), Cost{mpps, "given"}, u)
				if err != nil {
					t.Fatal(err)
				}
				carry := func(edges int) float64 {
					least := math.Inf(1)
					for _, l := range p.EdgeLimits {
						least = min(least, float64(edges)*l.Gbits)
					}
					return least
				}
				if carry(p.Edges-1) < gbits*(1-1e-9) || p.Edges > 2 && carry(p.Edges-2) >= gbits {
					t.Errorf("%v of %d at %v Mpps: %d edges carry %v", gbits, frame, mpps, p.Edges, carry(p.Edges-1))
				}
				if float64(p.Cores)*mpps*0.8 < p.Mpps*(1-1e-9) || p.Cores > (p.Edges-1)*p.PathCores {
					t.Errorf("%v of %d at %v Mpps: %d cores for %v Mpps in %d edges", gbits, frame, mpps, p.Cores, p.Mpps, p.Edges)
				}
				if p.Uplinks > 1 || p.Underlays > 1 || p.Slots > 2 {
					t.Errorf("more ports than the host has: %+v", p)
				}
			}
		}
	}
}

func TestSizeErrors(t *testing.T) {
	for want, change := range map[string]func(*Demand, *Host, *Cost, *Use){
		"demand of 0":          func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Gbits = 0 },
		"demand of NaN":        func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Gbits = math.NaN() },
		"frame of 63":          func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Frame = 63 },
		"less than none":       func(d *Demand, _ *Host, _ *Cost, _ *Use) { d.Overhead = -1 },
		"4 cores a host":       func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.Cores = 4 },
		"3 ports a host":       func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.Ports = 3 },
		"18 ports a host":      func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.Ports = 18 },
		"3 PCIe slots for 2":   func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.Slots = 3 },
		"ports and PCIe need":  func(_ *Demand, h *Host, _ *Cost, _ *Use) { h.PortRate = 0 },
		"0 Mpps a core":        func(_ *Demand, _ *Host, c *Cost, _ *Use) { c.MppsPerCore = 0 },
		"planning with 1.1 of": func(_ *Demand, _ *Host, _ *Cost, u *Use) { u.Share = 1.1 },
	} {
		d, h, cost, u := Demand{100, 512, 50}, host(t), Cost{1, "given"}, Use{Share: 1}
		change(&d, &h, &cost, &u)
		if _, err := Size(d, h, cost, u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := FindBus("gen9x1"); err == nil || !strings.Contains(err.Error(), "gen4x16") {
		t.Error(err)
	}
}

// Package sizing says what hardware a demand needs: cores, ports, PCIe slots and
// edges, from what was measured and from rules whose sources it names.
//
// Its invariant: pure, and every number in a plan is either given, measured or a rule
// that the plan lists with its source. It knows no prices and no products. Do not use it
// for hosts of another kind than the one that was measured: a rate per core does not
// travel.
package sizing

import (
	"errors"
	"fmt"
	"math"
)

// Cost is what one core forwards.
type Cost struct {
	MppsPerCore float64
	Source      string // where that comes from
}

// Demand is what has to be forwarded.
type Demand struct {
	// Gbits is the rate on the wire of the uplinks in Gbit/s, with preamble and gap, all
	// edges together. Each frame is counted once, where it comes from the uplink or goes to it.
	Gbits float64
	Frame int // bytes of an inner frame with FCS
	// Overhead is what the tunnel adds to a frame in bytes (VXLAN and Geneve on IPv4: 50).
	Overhead int
}

// Host is one machine that can be an edge.
type Host struct {
	Cores    int     // of the whole machine
	Ports    int     // network ports, half for uplinks and half for the underlay
	PortRate float64 // Gbit/s of one, each way
	Slots    int     // PCIe slots, half of them for the ports of each side; one serves both
	Bus      Bus
}

// Use is how an edge is to be loaded.
type Use struct {
	// Share of the measured rate that is planned with, 0 … 1: the rest is for bursts and for
	// flows that do not spread evenly.
	Share float64
	// Spare edges are there beyond what the demand needs.
	Spare int
}

// Limits that the NSX edge study gives.
const (
	leastCores, mostCores = 8, 64
	mostPorts             = 16
	clusterEdges          = 10 // in one cluster
	ecmpEdges             = 8  // that share one route
	framing               = 20 // bytes of preamble, start delimiter and gap (IEEE 802.3)
)

// Limiter is what decides how many edges are needed.
type Limiter string

// The limiters.
const (
	ByCores   Limiter = "cores"
	ByBus     Limiter = "PCIe"
	ByPorts   Limiter = "ports"
	ByCluster Limiter = "cluster rule"
)

// Plan is what a demand needs.
type Plan struct {
	Mpps       float64  `json:"mpps"`        // packets of the demand
	FrameOut   int      `json:"frame_out"`   // bytes of a frame in the tunnel
	Egress     float64  `json:"egress_gbps"` // on the wire of the underlay
	Cores      int      `json:"cores"`       // of the datapath, all edges together, without spares
	Edges      int      `json:"edges"`       // with spares
	Spare      int      `json:"spare"`       // of these
	Groups     int      `json:"ecmp_groups"` // in which edges share a route
	Clusters   int      `json:"clusters"`
	HostCores  int      `json:"cores_per_edge"` // of the whole machine
	PathCores  int      `json:"datapath_cores"` // of one edge
	Uplinks    int      `json:"uplinks"`        // ports of one edge that the demand needs
	Underlays  int      `json:"underlays"`
	Slots      int      `json:"slots"` // of one edge that these need
	Limiter    Limiter  `json:"limiter"`
	EdgeLimits []Limit  `json:"limits"`          // of one edge, the least first
	Rules      []Rule   `json:"rules"`           // in the order in which they were used
	Notes      []string `json:"notes,omitempty"` // what to watch
}

// Limit is how much of the demand one edge carries if only this limits it.
type Limit struct {
	By    Limiter `json:"by"`
	Gbits float64 `json:"gbps"` // as Demand counts
	How   string  `json:"how"`
}

// Rule is a number or a practice that a plan used, and where it comes from.
type Rule struct {
	Text   string `json:"text"`
	Source string `json:"source"`
}

// Sources of rules.
const (
	study    = "the NSX edge study"
	ethernet = "IEEE 802.3"
	ours     = "Selvage's own choice"
)

// Mpps is how many million frames a second d is.
func (d Demand) Mpps() float64 { return d.Gbits * 1e3 / 8 / float64(d.Frame+framing) }

// growth is how much wider a frame is on the underlay's wire than on the uplink's.
func (d Demand) growth() float64 {
	return float64(d.Frame+d.Overhead+framing) / float64(d.Frame+framing)
}

func check(d Demand, h Host, c Cost, u Use) error {
	switch {
	case !(c.MppsPerCore > 0) || math.IsInf(c.MppsPerCore, 0):
		return fmt.Errorf("%g Mpps a core is not above 0", c.MppsPerCore)
	case !(u.Share > 0 && u.Share <= 1) || u.Spare < 0:
		return fmt.Errorf("planning with %g of the measured rate and %d spare edges: want above 0 up to 1, and 0 or more", u.Share, u.Spare)
	}
	return errors.Join(d.check(), h.check())
}

func (d Demand) check() error {
	switch {
	case !(d.Gbits > 0) || math.IsInf(d.Gbits, 0):
		return fmt.Errorf("a demand of %g Gbit/s is not above 0", d.Gbits)
	case d.Frame < 64 || d.Frame > 9216:
		return fmt.Errorf("a frame of %d bytes is not within 64 … 9216 (with FCS)", d.Frame)
	case d.Overhead < 0:
		return fmt.Errorf("a tunnel of %d bytes is less than none", d.Overhead)
	}
	return nil
}

func (h Host) check() error {
	switch {
	case h.Cores < leastCores || h.Cores > mostCores:
		return fmt.Errorf("%d cores a host are not within %d … %d (%s)", h.Cores, leastCores, mostCores, study)
	case h.Ports < 2 || h.Ports > mostPorts || h.Ports%2 != 0:
		return fmt.Errorf("%d ports a host are not an even number within 2 … %d (%s)", h.Ports, mostPorts, study)
	case h.Slots < 1 || h.Slots > h.Ports:
		return fmt.Errorf("%d PCIe slots for %d ports: want 1 or more, and a port in each", h.Slots, h.Ports)
	case !(h.PortRate > 0) || !(h.Bus.Typical > 0):
		return errors.New("ports and PCIe need a rate above 0")
	}
	return nil
}

// Size says what d needs of hosts h that work at cost c.
func Size(d Demand, h Host, c Cost, u Use) (Plan, error) {
	if err := check(d, h, c, u); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Mpps: d.Mpps(), FrameOut: d.Frame + d.Overhead, Egress: d.Gbits * d.growth(),
		HostCores: h.Cores, PathCores: h.Cores / 2, Spare: u.Spare,
	}
	p.Cores = ceil(p.Mpps / (c.MppsPerCore * u.Share))
	p.EdgeLimits = edgeLimits(d, h, c, u)
	p.Limiter = p.EdgeLimits[0].By
	need := ceil(d.Gbits / p.EdgeLimits[0].Gbits)
	p.Edges = need + u.Spare
	p.Groups, p.Clusters = (p.Edges+ecmpEdges-1)/ecmpEdges, (p.Edges+clusterEdges-1)/clusterEdges
	if p.Edges > ecmpEdges {
		p.Limiter = ByCluster
	}
	share := d.Gbits / float64(need) // of one edge, spares idle
	p.Uplinks, p.Underlays = ceil(share/(h.PortRate*u.Share)), ceil(share*d.growth()/(h.PortRate*u.Share))
	p.Slots = min(h.Slots, 2*ceil(share*d.growth()/h.Bus.Typical))
	p.Rules, p.Notes = rules(d, h, c, u), notes(p, d, h, u)
	return p, nil
}

// ceil is rounding up that forgives what floating point adds.
func ceil(x float64) int { return max(1, int(math.Ceil(x-1e-9))) }

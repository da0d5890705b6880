package experiments_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Every encapsulation, side by side, and each says what it is.
func TestAbEncapsulations(t *testing.T) {
	tier.Long(t, "TestTransitBytes, and lab/topo's TestOVSEncapsulations; TestAb has the experiment")
	targets := []string{"plain", "selvage", "selvage-geneve", "selvage-nvgre", "ovs-geneve"}
	r, _ := measuredAb(t, "--targets", strings.Join(targets, ","), "--cases", "tcp")
	for i, want := range []string{"no tunnel", "VXLAN", "Geneve", "NVGRE", "Geneve"} {
		c := r.Targets[i]
		if c.Name != targets[i] || !strings.HasSuffix(c.Description, want) || c.InnerMTU != 1450 {
			t.Errorf("target %+v, want %s with %s", c, targets[i], want)
		}
	}
	checkSamples(t, r, 1450-52)
}

// Edges with full tables: a target whose flow caches are not full, or whose metrics cannot be read, fails.
func TestAbLoad(t *testing.T) {
	r, _ := measuredAb(t, "--targets", "plain,selvage", "--cases", "rr", "--load", "selvage")
	checkSamples(t, r, 1450-52)
	const words = "100000 flows, 10000 FDB entries, metrics read each 5s"
	if r.Parameters["load"].String() != "selvage: "+words || !strings.HasSuffix(r.Targets[1].Description, words) {
		t.Errorf("parameters %v, targets %+v", r.Parameters, r.Targets)
	}
}

// Routed against routed: client and server in different subnets.
func TestAbRouted(t *testing.T) {
	tier.Long(t, "TestAbFedByBGP, which is routed too, and lab/topo's TestRoutedPathsInTurn")
	r, _ := measuredAb(t, "--targets", "wire,plain,kernel,selvage", "--cases", "tcp,rr", "--routed")
	checkSamples(t, r, 1450-52)
	if len(r.Samples) != 4*3 || !r.Parameters.Bool("routed") {
		t.Errorf("%d samples, parameters %v", len(r.Samples), r.Parameters)
	}
	if addrs := r.Topology.Nodes[3].Addrs; !slices.Equal(addrs, []string{topo.RoutedServerV4.String(), topo.RoutedServerV6.String()}) {
		t.Errorf("the server has %v", addrs)
	}
	for i, want := range []string{"one veth pair", "Linux routes on both hosts", "routing between two segments", "routing between two segments"} {
		if c := r.Targets[i]; !strings.Contains(c.Description, want) {
			t.Errorf("%s: %q, want %q", c.Name, c.Description, want)
		}
	}
}

// The same, fed by BGP: both tunnels know only what a reflector told them.
func TestAbFedByBGP(t *testing.T) {
	r, _ := measuredAb(t, "--targets", "plain,kernel,selvage", "--cases", "rr", "--control", "evpn")
	checkSamples(t, r, 1450-52)
	text := r.Parameters["control"].Explanation
	if !r.Parameters.Bool("routed") || !strings.Contains(text, "FRR route reflector") || !strings.Contains(text, "4 routes to addresses") {
		t.Errorf("parameters %v", r.Parameters)
	}
	for i, fed := range []bool{false, true, true} {
		if c := r.Targets[i]; strings.Contains(c.Description, "fed by BGP EVPN") != fed {
			t.Errorf("%s: %q", c.Name, c.Description)
		}
	}
	if len(r.Verdict.Findings) == 0 || !slices.ContainsFunc(r.Verdict.Findings, func(f result.Finding) bool { return strings.HasPrefix(f.String(), "Control plane: BGP EVPN") }) {
		t.Errorf("no word of the control plane in %q", r.Verdict.Findings)
	}
}

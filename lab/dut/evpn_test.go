package dut_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

//	red1, mobile --- edge1 ==switch== edge2 --- red2, blue2
//	                           |
//	                          rr1

// Linux and FRR on both sides, in every way of routing between segments: what the fabrics
// with Selvage in them are compared with.
func TestEVPNKernel(t *testing.T) {
	gateways := []dut.EVPNSegment{{Name: "red", Gateway: true}, {Name: "blue", Gateway: true}}
	for _, c := range []struct {
		name     string
		segments []dut.EVPNSegment
		l3       uint32
		path     dut.EVPNKernel
	}{
		{"Bridged", []dut.EVPNSegment{{Name: "red"}}, 0, dut.EVPNKernel{}},
		{"Flooding", []dut.EVPNSegment{{Name: "red"}}, 0, dut.EVPNKernel{Flood: true}},
		{"Asymmetric", gateways, 0, dut.EVPNKernel{}},
		{"Symmetric", gateways, 5000, dut.EVPNKernel{}},
	} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s/SessionsIPv%d", c.name, family), func(t *testing.T) {
				tier.Root(t)
				if family == 6 && c.l3 == 0 {
					tier.Long(t, "Symmetric/SessionsIPv6, and Bridged by sessions of IPv4")
				}
				t.Parallel()
				lab, err := topo.New(t.Context(), t.Name())
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := lab.Close(); err != nil {
						t.Error(err)
					}
				}()
				guests := []dut.EVPNGuestOptions{
					{Name: "red1", Number: 1, Edges: []int{0}},
					{Name: "mobile", Number: 9, Edges: []int{0, 1}},
					{Name: "red2", Number: 2, Edges: []int{1}},
				}
				if len(c.segments) > 1 {
					guests = append(guests, dut.EVPNGuestOptions{Name: "blue2", Segment: 1, Number: 1, Edges: []int{1}})
				}
				n, err := dut.NewEVPN(t.Context(), lab, dut.EVPNOptions{
					SessionFamily: family, Edges: []dut.EVPNPath{c.path, c.path}, Segments: c.segments, L3VNI: c.l3, Guests: guests,
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := n.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, to := range []int{1, 0} {
					allReach(t, n)
					if err := n.Guests[1].Move(t.Context(), n.Edges[to]); err != nil {
						t.Fatal(err)
					}
				}
				allReach(t, n)
			})
		}
	}
}

func allReach(t *testing.T, n *dut.EVPN) {
	t.Helper()
	for _, from := range n.Guests {
		for _, to := range n.Guests {
			if from == to {
				continue
			}
			for _, family := range []int{4, 6} {
				if err := from.Reach(t.Context(), to.Addr(family)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// What is asked for must make sense.
func TestEVPNRefuses(t *testing.T) {
	tier.Root(t)
	edges := []dut.EVPNPath{dut.EVPNKernel{}}
	for name, o := range map[string]dut.EVPNOptions{
		"family":   {Family: 5, Edges: edges},
		"no edge":  {Edges: edges, Guests: []dut.EVPNGuestOptions{{Name: "a", Number: 1, Edges: []int{1}}}},
		"segment":  {Edges: edges, Guests: []dut.EVPNGuestOptions{{Name: "a", Number: 1, Segment: 1, Edges: []int{0}}}},
		"liveness": {Edges: edges, Liveness: "often"},
	} {
		t.Run(name, func(t *testing.T) {
			lab, err := topo.New(t.Context(), t.Name())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := lab.Close(); err != nil {
					t.Error(err)
				}
			}()
			if _, err := dut.NewEVPN(t.Context(), lab, o); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

// A line that FRR does not understand is an error that names it.
func TestFRRNamesMistakes(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := lab.Host("router")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dut.StartFRR(t.Context(), h, dut.FRRConfig{BGP: "router bgp 65000\n nonsense\n"}); err == nil {
		t.Error("nonsense is taken")
	} else {
		t.Log(err)
	}
	f, err := dut.StartFRR(t.Context(), h, dut.FRRConfig{BGP: "router bgp 65000\n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Configure(t.Context(), "router bgp 65000", "nonsense"); err == nil {
		t.Error("nonsense is taken at run time")
	} else {
		t.Log(err)
	}
	ports, err := h.Output(t.Context(), "ss", "-ltnH", "not", "sport", "=", ":179")
	if err != nil || len(slices.DeleteFunc(ports, func(b byte) bool { return b == '\n' })) > 0 {
		t.Errorf("it listens at more than BGP's port: %s %v", ports, err)
	}
}

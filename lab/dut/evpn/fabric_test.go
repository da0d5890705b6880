package evpn_test

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

//	red1, mobile --- edge1 ==switch== edge2 --- red2, blue2
//	                           |
//	                          rr1

// Linux and FRR on both sides, in every way of routing between segments: what the fabrics
// with Selvage in them are compared with.
func TestEVPNKernel(t *testing.T) {
	gateways := []evpn.Segment{{Name: "red", Gateway: true}, {Name: "blue", Gateway: true}}
	for _, c := range []struct {
		name     string
		segments []evpn.Segment
		l3       uint32
		path     evpn.Kernel
	}{
		{"Bridged", []evpn.Segment{{Name: "red"}}, 0, evpn.Kernel{}},
		{"Flooding", []evpn.Segment{{Name: "red"}}, 0, evpn.Kernel{Flood: true}},
		{"Asymmetric", gateways, 0, evpn.Kernel{}},
		{"Symmetric", gateways, 5000, evpn.Kernel{}},
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
				guests := []evpn.GuestOptions{
					{Name: "red1", Number: 1, Edges: []int{0}},
					{Name: "mobile", Number: 9, Edges: []int{0, 1}},
					{Name: "red2", Number: 2, Edges: []int{1}},
				}
				if len(c.segments) > 1 {
					guests = append(guests, evpn.GuestOptions{Name: "blue2", Segment: 1, Number: 1, Edges: []int{1}})
				}
				n, err := evpn.New(t.Context(), lab, evpn.Options{
					SessionFamily: family, Edges: []evpn.Path{c.path, c.path}, Segments: c.segments, L3VNI: c.l3, Guests: guests,
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

func allReach(t *testing.T, n *evpn.Fabric) {
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
	edges := []evpn.Path{evpn.Kernel{}}
	for name, o := range map[string]evpn.Options{
		"family":   {Family: 5, Edges: edges},
		"no edge":  {Edges: edges, Guests: []evpn.GuestOptions{{Name: "a", Number: 1, Edges: []int{1}}}},
		"segment":  {Edges: edges, Guests: []evpn.GuestOptions{{Name: "a", Number: 1, Segment: 1, Edges: []int{0}}}},
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
			if _, err := evpn.New(t.Context(), lab, o); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

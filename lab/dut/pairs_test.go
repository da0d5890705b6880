package dut_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// Several pairs, behind two hosts or one, over every path that bridges.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, sameHost := range []bool{false, true} {
		t.Run(fmt.Sprintf("same host %t", sameHost), func(t *testing.T) {
			n := testlab.TwoHosts(t, topo.TwoHostsOptions{Pairs: 3, SameHost: sameHost})
			for name, build := range map[string]func(context.Context) (*topo.Path, error){
				"plain":  func(ctx context.Context) (*topo.Path, error) { return dut.Plain(ctx, n, dut.EndOptions{}) },
				"kernel": func(ctx context.Context) (*topo.Path, error) { return dut.Kernel(ctx, n, dut.KernelOptions{}) },
			} {
				path, err := build(t.Context()) // which has every client reach its server
				if err != nil {
					t.Fatalf("%s: %v\n%s", name, err, n.Picture())
				}
				if err := n.Pairs[2].Server.Reach(t.Context(), n.Pairs[0].ClientAddr(6)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := path.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if _, err := topo.NewTwoHosts(t.Context(), testlab.New(t), topo.TwoHostsOptions{Pairs: 2, Routed: true}); err == nil {
		t.Error("no error for two routed pairs")
	}
}

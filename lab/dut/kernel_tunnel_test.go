package dut_test

import (
	"context"
	"errors"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// The kernel's device of an encapsulation carries, or the kernel has none and that is said.
func TestKernelTunnel(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	for _, e := range []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve, overlay.NVGRE} {
		t.Run(string(e), func(t *testing.T) {
			ctx := context.Background()
			lab, err := topo.New(ctx, "kernel tunnel")
			if err != nil {
				t.Fatal(err)
			}
			defer lab.Close()
			n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{Pairs: 2})
			if err != nil {
				t.Fatal(err)
			}
			half := dut.KernelTunnel{Encapsulation: e}
			if _, err := n.Build(ctx, half, half); errors.Is(err, dut.ErrNoDevice) && e != overlay.VXLAN {
				t.Skip(err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

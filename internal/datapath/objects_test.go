package datapath

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/test/tier"
)

// The verifier accepts what is loaded besides the programs at devices. test/boot runs this on older kernels too.
func TestEveryObjectVerifies(t *testing.T) {
	tier.Root(t)
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){
		"conntrack_gc": loadConntrackGc, "nat_gc": loadNatGc, "devmap_drops": loadDevmapDrops,
	} {
		t.Run(name, func(t *testing.T) {
			if len(verified(t, specOf(t, load, ""), nil).Programs) == 0 {
				t.Error("it has no programs")
			}
		})
	}
}

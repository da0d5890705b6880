package underlay

import (
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0                     u0    p0      eth0
//
// Each offload is turned off in turn where a device could do it, so that the
// kernel has to: it may cost time but no byte.

// offloads are what a veth can do for a packet that is not on a wire yet.
var offloads = []string{
	"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "tx-tcp-segmentation", "tx-tcp6-segmentation",
	"tx-generic-segmentation", "tx-checksum-ip-generic", "tx-scatter-gather", "rx-gro", "rx-checksum",
}

// initiallyOff are those that a veth has but does not use: they are turned on.
var initiallyOff = map[string]bool{"rx-gro": true}

// Between edges, test/e2e/bridge TestThreeEncapsulationsInOneEdge.
func TestKernelVXLANOffloads(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	n.BuildRecorded(n.SelvageHalf(), dut.KernelHalf{UDP6ZeroCsumRx: true})
	offloadsInTurn(n)
}

func offloadsInTurn(n *harness.TwoHosts) {
	n.T.Helper()
	n.StopCaptures()
	noErrors := n.WatchErrors(n.Client, n.A, n.B, n.Server)
	for _, place := range []struct {
		name       string
		hosts      []*topo.Host
		interfaces string
	}{
		{"Underlay", []*topo.Host{n.A, n.B}, topo.UnderlayName},
		{"Ports", []*topo.Host{n.A, n.B}, topo.AccessName},
		{"Ends", []*topo.Host{n.Client, n.Server}, topo.EndName},
	} {
		n.T.Run(place.name, func(t *testing.T) {
			n := n.Sub(t)
			for _, offload := range offloads {
				n.With(place.hosts, place.interfaces, offload, initiallyOff[offload])
			}
		})
	}
	noErrors()
	n.NoDrops()
}

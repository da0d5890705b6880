package e2e

import (
	"errors"
	"fmt"
	"testing"

	"github.com/selvage/selvage/lab/topo"
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

func TestSelvageOffloads(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			n.build(n.selvage(), n.selvage())
			n.offloadsInTurn()
		})
	}
	t.Run("IPv6Checksums", func(t *testing.T) {
		n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
		half := n.selvage()
		half.UDPChecksum = true
		n.build(half, half)
		n.offloadsInTurn()
	})
}

func TestKernelVXLANOffloads(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			n.build(n.selvage(), topo.KernelHalf{UDP6ZeroCsumRx: true})
			n.offloadsInTurn()
		})
	}
}

func (n *twoHosts) offloadsInTurn() {
	n.t.Helper()
	n.quiet()
	noErrors := n.watchErrors(n.Client, n.A, n.B, n.Server)
	for _, place := range []struct {
		name       string
		hosts      []*topo.Host
		interfaces string
	}{
		{"Underlay", []*topo.Host{n.A, n.B}, topo.UnderlayName},
		{"Ports", []*topo.Host{n.A, n.B}, topo.AccessName},
		{"Ends", []*topo.Host{n.Client, n.Server}, topo.EndName},
	} {
		n.t.Run(place.name, func(t *testing.T) {
			n := n.sub(t)
			for _, offload := range offloads {
				n.with(place.hosts, place.interfaces, offload, initiallyOff[offload])
			}
		})
	}
	noErrors()
	n.noDrops()
}

// with transfers both ways while an offload of some interfaces is on or off.
func (n *twoHosts) with(hosts []*topo.Host, name, offload string, on bool) {
	n.t.Helper()
	var restore []func() error
	for _, h := range hosts {
		undo, err := h.SetFeatures(name, map[string]bool{offload: on})
		n.must(err)
		restore = append(restore, undo)
	}
	const size = 4_000_000
	ways := append(n.directions(4), n.directions(6)...)
	for _, d := range ways {
		n.once(fmt.Sprintf("bytes intact with %s %t, %s", offload, on, d.name), func() error { return transfer(d, size) })
	}
	var errs []error
	for _, undo := range restore {
		errs = append(errs, undo())
	}
	n.must(errors.Join(errs...))
}

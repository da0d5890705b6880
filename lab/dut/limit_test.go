package dut_test

import (
	"errors"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/limit"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// The least tunnel is VXLAN: the kernel's device at the other host reads it, and is read. Whole segments too.
func TestLimitTunnelAndTheKernels(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	path, err := n.Build(t.Context(), dut.KernelTunnel{}, dut.KernelTunnel{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	if err := n.A.Delete(dut.TunnelName); err != nil { // of what is tested it has no part
		t.Fatal(err)
	}
	access, err := n.A.Index(topo.AccessName)
	if err != nil {
		t.Fatal(err)
	}
	underlay, err := n.A.Index(topo.UnderlayName)
	if err != nil {
		t.Fatal(err)
	}
	ends := limit.Ends{Source: n.TEPA, Destination: n.TEPB, VNI: 100}
	if ends.SourceMAC, err = n.A.MAC(topo.UnderlayName); err != nil {
		t.Fatal(err)
	}
	if ends.DestinationMAC, err = n.B.MAC(topo.UnderlayName); err != nil {
		t.Fatal(err)
	}
	var wire *limit.Wire
	if err := n.A.Do(func() (err error) { wire, err = limit.Tunnel(access, underlay, ends); return err }); err != nil {
		t.Fatal(err)
	}
	defer wire.Close()
	if err := errors.Join(n.Client.Reach(t.Context(), topo.ServerV4), n.Client.Reach(t.Context(), topo.ServerV6)); err != nil {
		t.Fatalf("%v\n%s", err, n.Picture())
	}
}

func TestLimitTunnelWants(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	for _, encapsulation := range []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve} { // over IPv6; not there
		if path, err := dut.Limit(t.Context(), n, dut.LimitOptions{Encapsulation: encapsulation}); err == nil {
			t.Errorf("%s: no error", encapsulation)
			path.Close()
		}
	}
}

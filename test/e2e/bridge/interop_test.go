package bridge

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// Each case puts an edge into one host and an edge or another implementation
// into the other, and proves the same facts in the same order.

func TestSelvage(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestSelvage/IPv6Checksums, and without checksums TestKernelVXLAN/IPv6")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
			carries(n, large)
			realProgram(n)
		})
	}
	t.Run("Jumbo", func(t *testing.T) {
		tier.Long(t, "test/e2e/underlay TestMTUJumbo")
		t.Parallel()
		n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 9000})
		n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
		carries(n, large)
	})
	t.Run("FlowCacheOff", func(t *testing.T) {
		t.Parallel()
		n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
		half := n.SelvageHalf()
		half.NoFlowCache = true
		n.BuildRecorded(half, half)
		carries(n, large)
	})
	t.Run("IPv6Checksums", func(t *testing.T) {
		t.Parallel()
		n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
		half := n.SelvageHalf()
		half.UDPChecksum = true
		n.BuildRecorded(half, half)
		carries(n, large)
	})
}

// The kernel's vxlan device sends checksums unless told otherwise, and over IPv6
// accepts none but with udp6zerocsumrx, which is what an edge sends by default.
func TestKernelVXLAN(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		kernel   dut.KernelHalf
		checksum bool // the edge sends them
	}{
		{"IPv4", 4, dut.KernelHalf{}, false},
		{"IPv6", 6, dut.KernelHalf{UDP6ZeroCsumRx: true}, false},
		{"IPv6WithoutChecksums", 6, dut.KernelHalf{UDP6ZeroCsumRx: true, UDP6ZeroCsumTx: true}, false},
		{"IPv6ChecksumsDemanded", 6, dut.KernelHalf{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewTwoHosts(t, roomy(c.family))
			half := n.SelvageHalf()
			half.UDPChecksum = c.checksum
			bothRoles(n, half, c.kernel, large, nil)
		})
	}
}

func TestOpenVSwitch(t *testing.T) {
	for _, c := range []struct {
		name   string
		family int
		ovs    dut.OVSHalf
	}{
		{"IPv4", 4, dut.OVSHalf{}},
		{"IPv6", 6, dut.OVSHalf{UDPChecksum: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewTwoHosts(t, roomy(c.family))
			bothRoles(n, n.SelvageHalf(), c.ovs, small, nil)
		})
	}
}

// bothRoles has the edge on the client's side, then on the server's. In make test it is on
// one: each fact holds of both ways there, and the cases take turns. then is more of the
// first, unless nil.
func bothRoles(n *harness.TwoHosts, ours, peer topo.Half, s segments, then func(*harness.TwoHosts)) {
	roles := []struct {
		name string
		a, b topo.Half
	}{{"EdgeAtClient", ours, peer}, {"EdgeAtServer", peer, ours}}
	if !tier.IsLong() {
		first := n.Options.UnderlayFamily / 6
		roles = roles[first : first+1]
	}
	for _, c := range roles {
		n.T.Run(c.name, func(t *testing.T) {
			n := n.Sub(t)
			clear(n.Edges)
			path := n.BuildRecorded(c.a, c.b)
			defer path.Close() // says nothing new after a failure
			framesCross(n, harness.ClientMAC, harness.ServerMAC, pkttest.EtherTypeExperimental)
			framesCross(n, harness.ClientMAC, harness.Broadcast, pkttest.EtherTypeExperimental)
			carries(n, s)
			if then != nil && c.name == "EdgeAtClient" {
				then(n)
			}
			n.StopCaptures()
			n.Must(path.Close())
		})
	}
}

// segments says how TCP crosses the underlay.
type segments int

const (
	large segments = iota // whole, up to 64 kB
	small                 // cut before Open vSwitch, see dut.OVSHalf
)

// carries proves that the overlay does what a wire does.
func carries(n *harness.TwoHosts, s segments) {
	n.T.Helper()
	watched := []*topo.Host{n.Client, n.Server}
	for _, h := range []*topo.Host{n.A, n.B} {
		// The kernel beside a userspace datapath gets a copy of each tunnel packet.
		if n.Edges[h.Name] != nil || s == large {
			watched = append(watched, h)
		}
	}
	noErrors := n.WatchErrors(watched...)
	for host := range n.Edges {
		n.Resolved(host)
	}
	resolves(n)
	n.Fact("client pings server", func() error { return harness.Ping(n.Ctx, n.Client, topo.ServerV4) })
	n.Fact("client pings server over IPv6", func() error { return harness.Ping(n.Ctx, n.Client, topo.ServerV6) })
	n.Datagrams()
	n.StopCaptures() // the rest is too much to keep
	n.Streams()
	for host := range n.Edges {
		n.Fact("edge on "+host+" has both directions of TCP on the fast path", func() error { return fastPath(n.Network, host) })
	}
	if s == large {
		n.SegmentsGoWhole()
	}
	noErrors()
	n.NoDrops()
}

// resolves: ARP and ND cross, and the edges learned both ends from them.
func resolves(n *harness.TwoHosts) {
	n.T.Helper()
	for _, d := range append(n.Directions(4), n.Directions(6)...) {
		n.Fact("address of "+d.To.Name+" resolved, "+d.Name, func() error {
			want, err := d.To.MAC(topo.EndName)
			if err != nil {
				return err
			}
			if mac, err := harness.Neighbour(n.Ctx, d.From, d.Addr); err != nil || mac != want.String() {
				return errors.Join(fmt.Errorf("it is %q, want %s", mac, want), err)
			}
			return nil
		})
	}
	for host := range n.Edges {
		n.Fact("edge on "+host+" has learned both ends", func() error {
			fdb, err := n.Ask(host).FDB(n.Ctx, api.EntryQuery{})
			local, remote := 0, 0
			for _, e := range fdb.List {
				if e.Port != "" {
					local++
				} else {
					remote++
				}
			}
			if err == nil && (local != 1 || remote < 1) {
				err = fmt.Errorf("it has %+v", fdb)
			}
			return err
		})
	}
}

// realProgram sends as fast as it can, with large segments.
func realProgram(n *harness.TwoHosts) {
	n.T.Helper()
	for family, reverse := range map[int]bool{4: false, 6: true} {
		n.Once(fmt.Sprintf("iperf3 over IPv%d", family), func() error {
			run, err := measure.RunTCP(n.Ctx, measure.EndsOf(n.TwoHosts, family), measure.TCPOptions{Duration: time.Second, Reverse: reverse})
			if err == nil && run.Received < 1e6 {
				err = fmt.Errorf("%.0f bit/s", run.Received)
			}
			return err
		})
	}
	n.NoDrops()
}

// fastPath is nil when an edge has a connection with many segments in the flow cache, both
// directions of it, and used that more often than not.
func fastPath(n *harness.Network, host string) error {
	status, err := n.Ask(host).Status(n.Ctx)
	if err != nil || !status.FlowCache {
		return err
	}
	flows, err := n.Ask(host).Flows(n.Ctx, api.EntryQuery{})
	if err != nil {
		return err
	}
	fast := slices.DeleteFunc(flows.List, func(f api.FlowInfo) bool { return f.Proto != "tcp" || !f.FastPath })
	for _, there := range fast {
		if there.Packets < 100 {
			continue
		}
		for _, back := range fast {
			if back.SrcPort == there.DstPort && back.DstPort == there.SrcPort && back.In == there.Out && back.Out == there.In && back.Packets > 0 {
				if status.Hits < status.Misses {
					return fmt.Errorf("%d hits and %d misses", status.Hits, status.Misses)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("no connection with both directions in %+v", flows)
}

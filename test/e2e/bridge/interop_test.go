package bridge

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// Each case puts an edge into one host and an edge or another implementation
// into the other, and proves the same facts in the same order.

// roomy has space for a full Ethernet frame in every tunnel.
func roomy(family int) topo.TwoHostsOptions {
	return topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500, UnderlayFamily: family}
}

func TestSelvage(t *testing.T) {
	for name, family := range map[string]int{"IPv4": 4, "IPv6Checksums": 6} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			half := n.SelvageHalf()
			half.UDPChecksum = family == 6
			n.BuildRecorded(half, half)
			carries(n, large)
			realProgram(n)
			if family == 6 {
				return
			}
			for _, host := range []string{n.A.Name, n.B.Name} {
				n.Rewrite(host, "enabled: true", "enabled: false")
				n.Fact("the flow cache of "+host+" is off", func() error {
					status, err := n.Ask(host).Status(n.Ctx)
					if err == nil && status.FlowCache {
						err = errors.New("it is on")
					}
					return err
				})
			}
			carries(n, large)
		})
	}
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
		{"IPv6", 6, dut.KernelHalf{UDP6ZeroCsumRx: true, UDP6ZeroCsumTx: true}, false},
		{"IPv6ChecksumsDemanded", 6, dut.KernelHalf{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewTwoHosts(t, roomy(c.family))
			half := n.SelvageHalf()
			half.UDPChecksum = c.checksum
			interworks(n, half, c.kernel, large)
		})
	}
}

// VXLAN over IPv4 is TestMoveFromOpenVSwitch's.
func TestOpenVSwitch(t *testing.T) {
	for _, c := range []struct {
		name          string
		encapsulation overlay.Encapsulation
		family        int
		more          []string                // of our segment
		then          func(*harness.TwoHosts) // more facts
	}{
		{"VXLAN", overlay.VXLAN, 6, nil, func(*harness.TwoHosts) {}},
		{"GeneveOptions", overlay.Geneve, 4, []string{"options: " + harness.GeneveOptions}, geneveOptions},
		{"NVGRE", overlay.NVGRE, 4, nil, nvgreKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := harness.NewTwoHosts(t, roomy(c.family))
			interworks(n, n.Ours(c.encapsulation, c.more...), dut.OVSHalf{Encapsulation: c.encapsulation, UDPChecksum: c.family == 6}, small)
			c.then(n)
		})
	}
}

// interworks has our half on the client's side, and frames and all else cross both ways.
func interworks(n *harness.TwoHosts, ours, peer topo.Half, s segments) {
	n.T.Helper()
	n.BuildRecorded(ours, peer)
	framesCross(n, harness.ServerMAC)
	framesCross(n, harness.Broadcast)
	carries(n, s)
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

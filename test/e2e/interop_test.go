package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// Each case puts an edge into one host and an edge or another implementation
// into the other, and proves the same facts in the same order.

func TestSelvage(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			n.build(n.selvage(), n.selvage())
			n.carries(large)
		})
	}
	t.Run("Jumbo", func(t *testing.T) {
		n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 9000})
		n.build(n.selvage(), n.selvage())
		n.carries(large)
	})
	t.Run("FlowCacheOff", func(t *testing.T) {
		n := newTwoHosts(t, topo.TwoHostsOptions{})
		half := n.selvage()
		half.NoFlowCache = true
		n.build(half, half)
		n.carries(large)
	})
	t.Run("IPv6Checksums", func(t *testing.T) {
		n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
		half := n.selvage()
		half.UDPChecksum = true
		n.build(half, half)
		n.carries(large)
	})
}

// The kernel's vxlan device sends checksums unless told otherwise, and over IPv6
// accepts none but with udp6zerocsumrx, which is what an edge sends by default.
func TestKernelVXLAN(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		kernel   topo.KernelHalf
		checksum bool // the edge sends them
	}{
		{"IPv4", 4, topo.KernelHalf{}, false},
		{"IPv6", 6, topo.KernelHalf{UDP6ZeroCsumRx: true}, false},
		{"IPv6WithoutChecksums", 6, topo.KernelHalf{UDP6ZeroCsumRx: true, UDP6ZeroCsumTx: true}, false},
		{"IPv6ChecksumsDemanded", 6, topo.KernelHalf{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family})
			half := n.selvage()
			half.UDPChecksum = c.checksum
			n.bothRoles(half, c.kernel, large)
		})
	}
}

func TestOpenVSwitch(t *testing.T) {
	for _, c := range []struct {
		name   string
		family int
		ovs    topo.OVSHalf
	}{
		{"IPv4", 4, topo.OVSHalf{}},
		{"IPv6", 6, topo.OVSHalf{UDPChecksum: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family})
			n.bothRoles(n.selvage(), c.ovs, small)
		})
	}
}

// bothRoles has the edge on the client's side, then on the server's.
func (n *twoHosts) bothRoles(ours topo.SelvageHalf, peer topo.Half, s segments) {
	for _, c := range []struct {
		name string
		a, b topo.Half
	}{{"EdgeAtClient", ours, peer}, {"EdgeAtServer", peer, ours}} {
		n.t.Run(c.name, func(t *testing.T) {
			n := n.sub(t)
			clear(n.edges)
			path := n.build(c.a, c.b)
			defer path.Close() // says nothing new after a failure
			n.carries(s)
			n.quiet()
			n.must(path.Close())
		})
	}
}

// segments says how TCP crosses the underlay.
type segments int

const (
	large segments = iota // whole, up to 64 kB
	small                 // cut before Open vSwitch, see topo.OVSHalf
)

// carries proves that the overlay does what a wire does.
func (n *twoHosts) carries(s segments) {
	n.t.Helper()
	watched := []*topo.Host{n.Client, n.Server}
	for _, h := range []*topo.Host{n.A, n.B} {
		// The kernel beside a userspace datapath gets a copy of each tunnel packet.
		if n.edges[h.Name] != nil || s == large {
			watched = append(watched, h)
		}
	}
	noErrors := n.watchErrors(watched...)
	for host := range n.edges {
		n.resolved(host)
	}
	n.resolves()
	n.fact("client pings server", func() error { return ping(n.ctx, n.Client, topo.ServerV4) })
	n.fact("client pings server over IPv6", func() error { return ping(n.ctx, n.Client, topo.ServerV6) })
	n.datagrams()
	n.quiet() // the rest is too much to keep
	n.streams()
	n.throughput()
	if s == large {
		n.segmentsGoWhole()
	}
	noErrors()
	n.noDrops()
}

// resolves: ARP and ND cross, and the edges learned both ends from them.
func (n *twoHosts) resolves() {
	n.t.Helper()
	for _, d := range append(n.directions(4), n.directions(6)...) {
		n.fact("address of "+d.to.Name+" resolved, "+d.name, func() error {
			want, err := d.to.MAC(topo.EndName)
			if err != nil {
				return err
			}
			if mac, err := neighbour(n.ctx, d.from, d.addr); err != nil || mac != want.String() {
				return errors.Join(fmt.Errorf("it is %q, want %s", mac, want), err)
			}
			return nil
		})
	}
	for host := range n.edges {
		n.fact("edge on "+host+" has learned both ends", func() error {
			fdb, err := n.ask(host).FDB(n.ctx)
			local, remote := 0, 0
			for _, e := range fdb {
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

// datagrams of every kind of size cross both ways, large ones in fragments.
func (n *twoHosts) datagrams() {
	n.t.Helper()
	mtu, err := n.Client.MTU(topo.EndName)
	n.must(err)
	for family, headers := range map[int]int{4: 28, 6: 48} {
		for _, d := range n.directions(family) {
			n.fact("datagrams from "+d.name, func() error {
				return echo(d, 1, 18, 500, mtu-headers-1, mtu-headers, mtu-headers+1, 5000, 60000)
			})
		}
	}
}

func (n *twoHosts) streams() {
	n.t.Helper()
	for _, d := range append(n.directions(4), n.directions(6)...) {
		n.once("20 MB from "+d.name, func() error { return transfer(d, len(content)) })
	}
}

// throughput: real programs with large segments, and the flow is on the fast path.
func (n *twoHosts) throughput() {
	n.t.Helper()
	for family, reverse := range map[int]bool{4: false, 6: true} {
		n.once(fmt.Sprintf("iperf3 over IPv%d", family), func() error {
			run, err := measure.RunTCP(n.ctx, measure.EndsOf(n.TwoHosts, family), measure.TCPOptions{Duration: time.Second, Reverse: reverse})
			if err == nil && run.Received < 1e6 {
				err = fmt.Errorf("%.0f bit/s", run.Received)
			}
			return err
		})
	}
	for host := range n.edges {
		n.fact("edge on "+host+" has both directions of iperf3 on the fast path", func() error { return n.fastPath(host, 5201) })
	}
}

func (n *network) fastPath(host string, port uint16) error {
	status, err := n.ask(host).Status(n.ctx)
	if err != nil || !status.FlowCache {
		return err
	}
	flows, err := n.ask(host).Flows(n.ctx)
	if err != nil {
		return err
	}
	var to, from *edge.FlowInfo
	for i, f := range flows {
		switch {
		case f.Proto != "tcp" || !f.FastPath || f.Packets < 100:
		case f.DstPort == port && to == nil:
			to = &flows[i]
		case f.SrcPort == port && from == nil:
			from = &flows[i]
		}
	}
	if to == nil || from == nil || to.In != from.Out || to.Out != from.In {
		return fmt.Errorf("to port %d: %+v, from it: %+v", port, to, from)
	}
	if status.Hits < status.Misses {
		return fmt.Errorf("%d hits and %d misses", status.Hits, status.Misses)
	}
	return nil
}

// segmentsGoWhole: each edge's large segments cross the underlay uncut.
func (n *twoHosts) segmentsGoWhole() {
	n.t.Helper()
	for i, d := range n.directions(4) {
		receiver := []*topo.Host{n.B, n.A}[i]
		n.once("large segments cross the underlay whole from "+d.name, func() error { return n.wholeAt(receiver, d) })
	}
}

// wholeAt is nil when a host receives segments of a transfer uncut.
func (n *network) wholeAt(receiver *topo.Host, d direction) error {
	f, err := openFrames(receiver, topo.UnderlayName, false)
	if err != nil {
		return err
	}
	stop := f.watch()
	err = transfer(d, len(content))
	if largest := stop(); largest < 30_000 {
		err = errors.Join(err, fmt.Errorf("the largest packet has %d bytes", largest))
	}
	return err
}

// noProblems is a fact: an edge has nothing to complain about.
func (n *network) noProblems(host string) {
	n.t.Helper()
	n.fact("edge on "+host+" reports no problem", func() error {
		status, err := n.ask(host).Status(n.ctx)
		if err == nil && len(status.Problems) > 0 {
			err = errors.New(strings.Join(status.Problems, "; "))
		}
		return err
	})
}

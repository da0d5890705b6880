package underlay

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const ecmpPicture = `
          spine0                  spine1
        h1 / h2 | h3 \          h1 / h2 | h3 \
   Each of edge1, edge2 and kernel3 has u0 to spine0 and u1 to spine1. Its TEP is
   an address of lo, and its route to the others has both spines as next hops.
   red1 (r0) is behind edge1, red2 (r0) behind edge2, red3 (p0) behind kernel3,
   where the kernel's vxlan device is the tunnel endpoint.`

// fabric is three leaves and two spines.
type fabric struct {
	*harness.Network
	family int
	spines []*topo.Host
	leaves []*topo.Host
	red    []harness.Guest
}

// tep is the address of a leaf's lo.
func (n *fabric) tep(leaf int) netip.Addr {
	if n.family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:f::%d", leaf+1))
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(leaf + 1)})
}

// hop is the address of a spine on the link to a leaf; the leaf's is the next one.
func (n *fabric) hop(leaf, spine int) netip.Addr {
	if n.family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%d%d::1", spine, leaf))
	}
	return netip.AddrFrom4([4]byte{198, 18, byte(10*spine + leaf), 1})
}

func (n *fabric) ip(h *topo.Host, format string, args ...any) {
	n.T.Helper()
	words := append([]string{"ip", fmt.Sprintf("-%d", n.family)}, strings.Fields(fmt.Sprintf(format, args...))...)
	_, err := h.Output(n.Ctx, words...)
	n.Must(err)
}

func newFabric(t *testing.T, family int) *fabric {
	t.Helper()
	n := &fabric{Network: harness.NewNetwork(t, ecmpPicture), family: family}
	for _, name := range []string{"spine0", "spine1"} {
		h, err := n.Topo.Host(name)
		n.Must(err)
		for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
			n.Must(h.SysctlSet(key, "1"))
		}
		n.spines = append(n.spines, h)
	}
	for leaf, name := range []string{"edge1", "edge2", "kernel3"} {
		h, err := n.Topo.Host(name)
		n.Must(err)
		n.leaves = append(n.leaves, h)
		n.cable(leaf)
		guest, err := n.Topo.Host(fmt.Sprintf("red%d", leaf+1))
		n.Must(err)
		g := harness.Guest{Host: guest, Number: leaf + 1}
		n.Must(n.Topo.Link(n.Ctx, g.End(false), topo.LinkEnd{Host: h, Name: "r0"}, 1400))
		n.red = append(n.red, g)
	}
	return n
}

// cable joins a leaf to both spines. Its routes name their next hops, those of edge2 a group of next-hop objects.
func (n *fabric) cable(leaf int) {
	n.T.Helper()
	bits, whole, all := 30, 32, "192.0.2.0/24"
	if n.family == 6 {
		bits, whole, all = 64, 128, "2001:db8:f::/64"
	}
	h := n.leaves[leaf]
	n.Must(h.AddAddr("lo", netip.PrefixFrom(n.tep(leaf), whole)))
	for s, spine := range n.spines {
		hop := n.hop(leaf, s)
		n.Must(n.Topo.Link(n.Ctx,
			topo.LinkEnd{Host: h, Name: fmt.Sprintf("u%d", s), Addrs: []netip.Prefix{netip.PrefixFrom(hop.Next(), bits)}},
			topo.LinkEnd{Host: spine, Name: fmt.Sprintf("h%d", leaf+1), Addrs: []netip.Prefix{netip.PrefixFrom(hop, bits)}}, 1500))
		n.ip(spine, "route add %s via %s", netip.PrefixFrom(n.tep(leaf), whole), hop.Next())
	}
	if leaf != 1 {
		n.ip(h, "route add %s nexthop via %s dev u0 nexthop via %s dev u1", all, n.hop(leaf, 0), n.hop(leaf, 1))
		return
	}
	for s := range n.spines {
		n.ip(h, "nexthop add id %d via %s dev u%d", s+1, n.hop(leaf, s), s)
	}
	_, err := h.Output(n.Ctx, "ip", "nexthop", "add", "id", "3", "group", "1/2") // of no family
	n.Must(err)
	n.ip(h, "route add %s nhid 3", all)
}

// start starts the edge of a leaf with another leaf as its remote.
func (n *fabric) start(leaf, remote int) {
	n.T.Helper()
	h := n.leaves[leaf]
	config := fmt.Sprintf(`apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay:
    interfaces: [u0, u1]
    tep: "%s"
    bfd: {interval: 100ms, multiplier: 3}
  segments:
  - {name: red, vni: 100, remotes: ["%s"]}
  ports:
  - {name: r0, interface: r0, segment: red}
`, dut.EdgeName(h), n.tep(leaf), n.tep(remote))
	e := n.Start(h, dut.EdgeName(h), config)
	n.Once("the file of "+h.Name+" is sound", func() error {
		_, err := h.Output(n.Ctx, harness.Program, "check", e.Config)
		return err
	})
	n.Resolved(h.Name)
}

// paths are those of an edge, by u0 and by u1.
func (n *fabric) paths(leaf int) ([]api.PathInfo, error) {
	teps, err := n.Ask(n.leaves[leaf].Name).TEPs(n.Ctx)
	if err == nil && (len(teps) != 1 || len(teps[0].Paths) != 2) {
		err = fmt.Errorf("remotes %+v, want one with two paths", teps)
	}
	if err != nil {
		return nil, err
	}
	return teps[0].Paths, nil
}

// states wants the paths by u0 and u1 to be so.
func (n *fabric) states(leaf int, want ...string) error {
	paths, err := n.paths(leaf)
	for s, state := range want {
		if err == nil && (paths[s].State != state || paths[s].Interface != fmt.Sprintf("u%d", s) || paths[s].NextHop != n.hop(leaf, s)) {
			err = fmt.Errorf("paths %+v, want u%d %s", paths, s, state)
		}
	}
	return err
}

// received is how many packets each spine has from a leaf.
func (n *fabric) received(leaf int) (counts [2]uint64) {
	n.T.Helper()
	for s, spine := range n.spines {
		out, err := spine.Output(n.Ctx, "ip", "-s", "-j", "link", "show", "dev", fmt.Sprintf("h%d", leaf+1))
		n.Must(err)
		var links []struct {
			Stats64 struct{ Rx struct{ Packets uint64 } }
		}
		n.Must(json.Unmarshal(out, &links))
		counts[s] = links[0].Stats64.Rx.Packets
	}
	return counts
}

// spread sends new flows and wants the links to have their parts of them, by the spines' count and by the edge's.
func (n *fabric) spread(leaf int, d harness.Direction, port uint16) {
	n.T.Helper()
	const rounds, sources, sinks = 5, 8, 16
	b := n.NewBundle(d, port, port+5000, sources, sinks)
	before := n.received(leaf)
	was, err := n.paths(leaf)
	n.Must(err)
	inRounds(n.Network, b, rounds)
	after := n.received(leaf)
	is, err := n.paths(leaf)
	n.Must(err)
	n.Once("both links carry the flows", func() error {
		const least = rounds * sources * sinks / 3
		for s := range n.spines {
			link, path := after[s]-before[s], is[s].TxPackets-was[s].TxPackets
			n.T.Logf("IPv%d: u%d: %d packets on the link, %d on the path", n.family, s, link, path)
			if link < least || path < least {
				return fmt.Errorf("u%d: %d packets on the link and %d on the path, want %d at least", s, link, path, least)
			}
		}
		return nil
	})
}

// asPair lends the helpers of pairs of edges, with spine as the place of holes.
func (n *fabric) asPair(spine int) *pairOfEdges {
	return &pairOfEdges{Network: n.Network, family: n.family, core: n.spines[spine]}
}

// The flows between two edges with TEPs on lo take both links. One spine swallows packets while all links are up: its
// flows go by the other, and no other flow notices. They come back when it does. TestECMPToKernel is over IPv4.
func TestECMP(t *testing.T) {
	t.Parallel()
	n := newFabric(t, 6)
	n.start(0, 1)
	n.start(1, 0)
	up := func() {
		for leaf := range 2 {
			n.Fact("both next hops are up at "+n.leaves[leaf].Name, func() error { return n.states(leaf, "up", "up") })
		}
	}
	up()
	n.Pings(harness.Ways(n.red[0], n.red[1])...)
	n.spread(0, harness.Way(n.red[0], n.red[1], 4), 20000)
	n.spread(1, harness.Way(n.red[1], n.red[0], 4), 21000)
	bundles := []*harness.Bundle{
		n.NewBundle(harness.Way(n.red[0], n.red[1], 4), 22000, 32000, 8, 8),
		n.NewBundle(harness.Way(n.red[1], n.red[0], 4), 23000, 33000, 8, 8),
	}
	for _, b := range bundles {
		b.Start(10 * time.Millisecond)
		n.GoesOn(b, 20)
	}
	pair := n.asPair(1)
	hit := seenAt(n.Network, pair.core, "h2", pair.outer(), 300*time.Millisecond)
	mend := pair.hole("h2")
	for leaf := range 2 {
		n.Fact("the next hop by the hole is down at "+n.leaves[leaf].Name, func() error { return n.states(leaf, "up", "down") })
	}
	for _, b := range bundles {
		n.GoesOn(b, 50)
		pair.evaluate(b, hit)
	}
	n.Once("the edge names the dead path", func() error { return n.Problem("edge1", n.hop(0, 1).String()+" dev u1 is dead") })
	mend()
	up()
	n.spread(0, harness.Way(n.red[0], n.red[1], 4), 24000)
	n.NoProblems("edge1")
	n.Once("the doctor finds the TEP on lo and a route to its remote", func() error {
		out, err := n.leaves[0].Output(n.Ctx, harness.Program, "doctor")
		for _, word := range []string{"1 of 1 remotes have a route", "u0, u1"} {
			if err == nil && !strings.Contains(string(out), word) {
				err = fmt.Errorf("no %q in\n%s", word, out)
			}
		}
		return err
	})
	n.Once("the command shows the next hops", func() error {
		out, err := n.leaves[0].Output(n.Ctx, harness.Program, "teps", "-o", "wide", "--edge", n.Edges["edge1"].Name)
		for _, word := range []string{"NEXT-HOP", n.hop(0, 0).String(), n.hop(0, 1).String(), "50.00 %"} {
			if err == nil && !strings.Contains(string(out), word) {
				err = fmt.Errorf("no %q in\n%s", word, out)
			}
		}
		return err
	})
}

// The kernel's vxlan device as the other end speaks no BFD and reflects none. The flows to it take both
// links, and leave one that is lost.
func TestECMPToKernel(t *testing.T) {
	t.Parallel()
	n := newFabric(t, 4)
	n.Must(n.leaves[2].VXLAN(n.Ctx, "vxlan0", topo.VXLAN{VNI: 100, Local: n.tep(2), Remotes: []netip.Addr{n.tep(0)}, MTU: 1400}))
	n.Must(n.leaves[2].Bridge(n.Ctx, "br0", 1400, "r0", "vxlan0"))
	n.start(0, 2)
	n.Pings(harness.Ways(n.red[0], n.red[2])...)
	n.Transfers(len(harness.Content), harness.Ways(n.red[0], n.red[2])...)
	n.spread(0, harness.Way(n.red[0], n.red[2], 4), 20000)
	n.NoProblems("edge1")
	b := n.NewBundle(harness.Way(n.red[0], n.red[2], 4), 22000, 32000, 8, 8)
	b.Start(10 * time.Millisecond)
	n.GoesOn(b, 20)
	n.Must(n.spines[1].Down("h1"))
	n.Fact("the lost link is not used", func() error { return n.states(0, "unknown", "dead") })
	n.GoesOn(b, 50)
	n.Once("no flow had a gap of more than a second", func() error {
		gaps, _ := b.Gaps(func(harness.FlowPorts) bool { return true })
		if len(gaps) > 0 && gaps[len(gaps)-1] > time.Second {
			return fmt.Errorf("gap of %s", gaps[len(gaps)-1])
		}
		return nil
	})
	n.Must(n.spines[1].Up("h1"))
	n.Fact("both links are used", func() error { return n.states(0, "unknown", "unknown") })
	n.spread(0, harness.Way(n.red[0], n.red[2], 4), 24000)
	before := lossOf([]*harness.Bundle{b})
	n.ip(n.leaves[0], "route replace 192.0.2.0/24 via %s dev u0", n.hop(0, 0))
	n.Fact("one next hop is left", func() error {
		teps, err := n.Ask("edge1").TEPs(n.Ctx)
		if err == nil && (len(teps[0].Paths) != 1 || teps[0].Paths[0].Interface != "u0") {
			err = fmt.Errorf("%+v, want one path", teps)
		}
		return err
	})
	n.GoesOn(b, 20)
	n.ip(n.leaves[0], "route replace 192.0.2.0/24 nexthop via %s dev u0 nexthop via %s dev u1 weight 3", n.hop(0, 0), n.hop(0, 1))
	n.Fact("both links are used by their weights", func() error {
		paths, err := n.paths(0)
		if err == nil && (paths[0].Shares[0].Share != .25 || paths[1].Shares[0].Share != .75 || paths[1].Weight != 3) {
			err = fmt.Errorf("%+v, want a quarter and three", paths)
		}
		return err
	})
	n.GoesOn(b, 20)
	n.Once("nothing is lost as next hops come and go", func() error {
		if lost := lossOf([]*harness.Bundle{b}) - before; lost > 0 {
			return fmt.Errorf("%d datagrams are", lost)
		}
		return nil
	})
}

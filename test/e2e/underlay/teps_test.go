package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const tepsPicture = `
        red1   blue1                              red2   blue2
      r0 |       | b0                           r0 |       | b0
         +-edge1-+                                 +-edge2-+
        u0 /   \ u1                               u0 /   \ u1
       a0 /     \ a1                             b0 /     \ b1
         +-------------------- core -------------------+
   TEPs of edge1: a at u0, b at u1. Those of edge2 likewise. The core routes
   between all four networks, and each TEP's packets leave by its interface.`

// pairOfEdges is two edges with two TEPs each, which have four paths.
type pairOfEdges struct {
	*harness.Network
	family int
	core   *topo.Host
	hosts  []*topo.Host
	red    [2]harness.Guest // in the segment of that name, behind each edge
	blue   [2]harness.Guest
}

// tep is the address of a TEP (0: a, 1: b) of an edge.
func (n *pairOfEdges) tep(edge, number int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(64*(2*edge+number) + 1)})
}

// outer is the size of the IP header of tunnel packets.
func (n *pairOfEdges) outer() int {
	if n.family == 6 {
		return 40
	}
	return 20
}

func newPairOfEdges(t *testing.T) *pairOfEdges {
	t.Helper()
	n := &pairOfEdges{Network: harness.NewNetwork(t, tepsPicture), family: 4}
	var err error
	n.core, err = n.Topo.Host("core")
	n.Must(err)
	for i := range 2 {
		h, err := n.Topo.Host(fmt.Sprintf("edge%d", i+1))
		n.Must(err)
		n.hosts = append(n.hosts, h)
		for number := range 2 {
			n.link(i, number)
		}
		n.red[i] = n.plug(h, "red", 0, i+1, "r0")
		n.blue[i] = n.plug(h, "blue", 1, i+1, "b0")
	}
	for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		n.Must(n.core.SysctlSet(key, "1"))
	}
	return n
}

// link joins a TEP's interface to the core, with routes for what leaves from it.
func (n *pairOfEdges) link(edge, number int) {
	n.T.Helper()
	const bits = 26
	h, tep := n.hosts[edge], n.tep(edge, number)
	name := fmt.Sprintf("u%d", number)
	end := topo.LinkEnd{Host: h, Name: name, Addrs: []netip.Prefix{netip.PrefixFrom(tep, bits)}}
	if number == 0 {
		end.Gateways = []netip.Addr{tep.Next()}
	}
	n.Must(n.Topo.Link(n.Ctx, end, topo.LinkEnd{
		Host: n.core, Name: fmt.Sprintf("%c%d", 'a'+edge, number), Addrs: []netip.Prefix{netip.PrefixFrom(tep.Next(), bits)},
	}, 1500))
	ip := func(args ...string) {
		_, err := h.Output(n.Ctx, append([]string{"ip"}, args...)...)
		n.Must(err)
	}
	table := fmt.Sprint(10 + number)
	ip("route", "add", "default", "via", tep.Next().String(), "dev", name, "table", table)
	ip("rule", "add", "from", tep.String(), "lookup", table)
}

func (n *pairOfEdges) plug(h *topo.Host, segment string, subnet, number int, port string) harness.Guest {
	n.T.Helper()
	host, err := n.Topo.Host(fmt.Sprintf("%s%d", segment, number))
	n.Must(err)
	g := harness.Guest{Host: host, Subnet: subnet, Number: number}
	n.Must(n.Topo.Link(n.Ctx, g.End(false), topo.LinkEnd{Host: h, Name: port}, 1400))
	return g
}

// up starts both edges, with more of the underlay and of the segment blue, and waits
// until all paths are alive.
func (n *pairOfEdges) up(underlay, blue string) {
	n.T.Helper()
	for i, h := range n.hosts {
		n.Start(h, dut.EdgeName(h), n.yaml(i, underlay, blue))
	}
	for i, h := range n.hosts {
		n.Resolved(h.Name)
		n.Fact(fmt.Sprintf("all paths of %s are up", h.Name), func() error {
			return n.states(i, map[string]int{"up": 4})
		})
	}
}

func (n *pairOfEdges) yaml(i int, underlay, blue string) string {
	return fmt.Sprintf(`apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay:
    teps:
    - {name: a, address: "%s", interface: u0}
    - {name: b, address: "%s", interface: u1}
    bfd: {interval: 100ms, multiplier: 3}
    %s
  remotes:
  - {name: far, addresses: ["%s", "%s"]}
  segments:
  - {name: red, vni: 100, remotes: [far]}
  - {name: blue, vni: 200, remotes: [far]%s}
  ports:
  - {name: r0, interface: r0, segment: red}
  - {name: b0, interface: b0, segment: blue}
`, dut.EdgeName(n.hosts[i]), n.tep(i, 0), n.tep(i, 1), underlay, n.tep(1-i, 0), n.tep(1-i, 1), blue)
}

// paths are those of an edge to the other: a to a, a to b, b to a, b to b.
func (n *pairOfEdges) paths(i int) ([]api.PathInfo, error) {
	teps, err := n.Ask(n.hosts[i].Name).TEPs(n.Ctx)
	teps = slices.DeleteFunc(teps, func(t api.TEPInfo) bool { return t.Name != "far" }) // BGP may know others
	if err == nil && (len(teps) != 1 || len(teps[0].Paths) != 4) {
		err = fmt.Errorf("remotes %+v, want one with four paths", teps)
	}
	if err != nil {
		return nil, err
	}
	return teps[0].Paths, nil
}

// states wants so many paths in each state.
func (n *pairOfEdges) states(i int, want map[string]int) error {
	paths, err := n.paths(i)
	if err != nil {
		return err
	}
	got := map[string]int{}
	for _, p := range paths {
		got[p.State]++
	}
	for state, count := range want {
		if got[state] != count {
			return fmt.Errorf("paths %+v, want %d %s", paths, count, state)
		}
	}
	return nil
}

// sentDuring is what each path of an edge sent while do ran, in packets.
func (n *pairOfEdges) sentDuring(i int, do func()) []uint64 {
	n.T.Helper()
	before, err := n.paths(i)
	n.Must(err)
	do()
	after, err := n.paths(i)
	n.Must(err)
	sent := make([]uint64, len(after))
	for p := range after {
		sent[p] = after[p].TxPackets - before[p].TxPackets
	}
	return sent
}

// hole has the core drop what it would route in or out of an interface. The links
// stay up, and neighbours answer.
func (n *pairOfEdges) hole(name string) (mend func()) {
	n.T.Helper()
	_, err := n.core.Output(n.Ctx, "nft", fmt.Sprintf(
		"table inet hole { chain forward { type filter hook forward priority 0; iifname %s drop; oifname %s drop; }; }", name, name))
	n.Must(err)
	return func() {
		_, err := n.core.Output(n.Ctx, "nft", "delete table inet hole")
		n.Must(err)
	}
}

// TestTEPs has one thing after the other happen to the same paths.
func TestTEPs(t *testing.T) {
	t.Parallel()
	all := newPairOfEdges(t)
	all.up("teaming: flow", "")
	all.Pings(harness.Ways(all.red[0], all.red[1])...)
	for _, step := range []struct {
		name string
		do   func(*pairOfEdges)
	}{{"Spread", (*pairOfEdges).spread}, {"Blackhole", (*pairOfEdges).blackhole}, {"Restart", (*pairOfEdges).restart}, {"Failover", (*pairOfEdges).failover}} {
		if !t.Run(step.name, func(t *testing.T) {
			n := *all
			n.Network = all.In(t)
			step.do(&n)
		}) {
			return
		}
	}
}

// allUp is a fact: all paths of both edges are.
func (n *pairOfEdges) allUp() {
	n.T.Helper()
	for i, h := range n.hosts {
		n.Fact("all paths are up at "+h.Name, func() error { return n.states(i, map[string]int{"up": 4}) })
	}
}

// spread: the flows of an RFC 2544 tester, 20 × 64, are spread within ten per cent of even over four paths.
func (n *pairOfEdges) spread() {
	n.T.Helper()
	b := n.NewBundle(harness.Way(n.red[0], n.red[1], 4), 20000, 30000, 20, 64)
	const rounds = 5
	sent := n.sentDuring(0, func() { inRounds(n.Network, b, rounds) })
	n.Once("the flows are spread evenly", func() error {
		for _, packets := range sent {
			const even = 1280 * rounds / 4
			if packets < even*9/10 || packets > even*11/10 {
				return fmt.Errorf("%v packets, %d would be even", sent, even)
			}
		}
		return nil
	})
	n.NoProblems("edge1")
	n.NoDrops()
}

// blackhole: one of the links carries nothing any more, though it is up: its flows move to the other paths, no other flow
// notices, and what comes later is spread again when it is back. TCP goes on over all of it.
func (n *pairOfEdges) blackhole() {
	n.T.Helper()
	bundles := []*harness.Bundle{
		n.NewBundle(harness.Way(n.red[0], n.red[1], 4), 22000, 32000, 8, 8),
		n.NewBundle(harness.Way(n.red[1], n.red[0], 4), 23000, 33000, 8, 8),
	}
	for _, b := range bundles {
		b.Start(10 * time.Millisecond)
		n.GoesOn(b, 20)
	}
	hit := seenAt(n.Network, n.core, "a1", n.outer(), 300*time.Millisecond)
	streams := make(chan error, 4)
	for range cap(streams) {
		go func() { streams <- n.slowly(harness.Way(n.blue[0], n.blue[1], 4)) }()
	}
	mend := n.hole("a1")
	for i, h := range n.hosts {
		n.Fact("the paths by the hole are down at "+h.Name, func() error {
			return n.states(i, map[string]int{"up": 2, "down": 2})
		})
	}
	for _, b := range bundles {
		n.GoesOn(b, 50)
	}
	for _, b := range bundles {
		n.evaluate(b, hit)
	}
	n.Once("the edge names the dead paths", func() error { return n.Problem("edge1", "is dead") })
	before := lossOf(bundles)
	mend()
	n.allUp()
	for _, b := range bundles {
		n.GoesOn(b, 50)
	}
	n.Once("nothing is lost when the link is back", func() error {
		if after := lossOf(bundles); after > before {
			return fmt.Errorf("%d datagrams are", after-before)
		}
		return nil
	})
	for range cap(streams) {
		n.Once("a TCP stream is intact", func() error { return <-streams })
	}
	later := n.NewBundle(harness.Way(n.blue[0], n.blue[1], 4), 24000, 34000, 8, 16)
	sent := n.sentDuring(0, func() { inRounds(n.Network, later, 4) })
	n.Once("every path has new flows again", func() error {
		if slices.Min(sent) == 0 {
			return fmt.Errorf("packets %v", sent)
		}
		return nil
	})
	n.NoProblems("edge1")
}

// lossOf is how many datagrams of the bundles are lost by now.
func lossOf(bundles []*harness.Bundle) (lost uint64) {
	for _, b := range bundles {
		b.Mu.Lock()
		for _, f := range b.Flows {
			lost += f.Lost
		}
		b.Mu.Unlock()
	}
	return lost
}

// slowly is a TCP transfer that takes as long as a link is gone.
func (n *pairOfEdges) slowly(d harness.Direction) error {
	pace := time.NewTicker(100 * time.Millisecond)
	defer pace.Stop()
	for range 4 {
		if err := harness.Transfer(d, 2_000_000); err != nil {
			return err
		}
		<-pace.C
	}
	return nil
}

// evaluate says how long the flows of a bundle that were hit had a gap, and wants none of
// the others to have lost anything.
func (n *pairOfEdges) evaluate(b *harness.Bundle, hit map[harness.FlowPorts]bool) {
	n.T.Helper()
	_, whole := b.Gaps(func(f harness.FlowPorts) bool { return !hit[f] })
	gaps, untouched := b.Gaps(func(f harness.FlowPorts) bool { return hit[f] })
	others := len(b.Flows) - len(gaps) - untouched
	n.Once(fmt.Sprintf("flows from %s by other paths lost nothing", b.Name), func() error {
		if whole != others || others == 0 {
			return fmt.Errorf("%d of %d", whole, others)
		}
		return nil
	})
	n.Once(fmt.Sprintf("flows from %s by the hole moved within a second", b.Name), func() error {
		if len(gaps) == 0 {
			return errors.New("there was none: the test shows nothing")
		}
		n.T.Logf("IPv%d, %s: %d flows hit, gap p50 %s, max %s; %d flows by other paths lost nothing",
			n.family, b.Name, len(gaps), gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)-1].Round(time.Millisecond), whole)
		if worst := gaps[len(gaps)-1]; worst > time.Second {
			return fmt.Errorf("gap of %s", worst)
		}
		return nil
	})
}

// failover: with it one path carries everything, and a pinned segment has its own.
func (n *pairOfEdges) failover() {
	n.T.Helper()
	for i, h := range n.hosts {
		n.Must(n.Reload(h.Name, n.yaml(i, "teaming: failover", ", teps: [b, a]")))
	}
	n.Fact("the segment is pinned", func() error {
		paths, err := n.paths(0)
		if err == nil && len(paths[0].Shares) < 2 {
			err = fmt.Errorf("%+v", paths)
		}
		return err
	})
	n.allUp()
	n.Pings(harness.Way(n.red[0], n.red[1], 4), harness.Way(n.blue[0], n.blue[1], 4))
	port := uint16(26000)
	// carries sends new flows in both segments: red's are to take one path, blue's another.
	carries := func(red, blue int) {
		n.T.Helper()
		for name, want := range map[string]int{"red": red, "blue": blue} {
			pair := map[string][2]harness.Guest{"red": n.red, "blue": n.blue}[name]
			b := n.NewBundle(harness.Way(pair[0], pair[1], 4), port, port+100, 4, 8)
			port += 200
			sent := n.sentDuring(0, func() { inRounds(n.Network, b, 4) })
			n.Once(fmt.Sprintf("the flows in %s take path %d alone", name, want), func() error {
				for p, packets := range sent {
					if p == want && packets < 128 || p != want && packets > 16 { // ARP and the other segment's
						return fmt.Errorf("packets %v", sent)
					}
				}
				return nil
			})
		}
	}
	const aa, ba = 0, 2
	carries(aa, ba)
	mend := n.hole("a0")
	n.Fact("the paths from a are down", func() error { return n.states(0, map[string]int{"down": 2}) })
	carries(ba, ba)
	mend()
	n.Fact("all paths are up again", func() error { return n.states(0, map[string]int{"up": 4}) })
	carries(aa, ba)
	mend = n.hole("a1")
	n.Fact("the paths from b are down", func() error { return n.states(0, map[string]int{"down": 2}) })
	carries(aa, aa)
	mend()
	n.Once("the commands show the paths", func() error {
		out, err := n.hosts[0].Output(n.Ctx, harness.Program, "teps", "-o", "wide", "--edge", n.Edges["edge1"].Name)
		for _, word := range []string{"LOCAL", "SENT-NOW", "100.00 %; b,a: 100.00 %", "0.00 %; b,a: 0.00 %", "up", "down", n.tep(0, 1).String()} {
			if !strings.Contains(string(out), word) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", word, out))
			}
		}
		return err
	})
}

// restart: the edge is killed and started again: the other one sees all paths die at once, and goes on using them.
func (n *pairOfEdges) restart() {
	n.T.Helper()
	streams := []*harness.Stream{n.StartStream(harness.Way(n.red[0], n.red[1], 4)), n.StartStream(harness.Way(n.red[1], n.red[0], 4))}
	n.GoOn(streams)
	config, name := n.Config("edge1"), n.Edges["edge1"].Name
	n.Edges["edge1"].Kill()
	n.Fact("the other edge says that all paths are dead", func() error { return n.Problem("edge2", "all paths are dead, the last ones stay in use") })
	n.GoOn(streams)
	n.Start(n.hosts[0], name, config)
	n.allUp()
	n.GoOn(streams)
	n.LostNothing(streams)
}

package bridge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const hubPicture = `
                       switch (bridge br0)
            e1 /          e2 |          \ e3      \ e9
           u0 /           u0 |           \ u0      \ u0
          edge1            edge2          edge3     stranger
         p0 |             p0 |  \ p1     p0 |  \ p1
       eth0 |           eth0 |   \     eth0 |
          end1             end2  mobile   end3
          10.0.0.1         .2    .9       .3`

func newHub(t *testing.T, edges, family int) *harness.Hub {
	t.Helper()
	n := harness.NewUnderlay(t, hubPicture, edges, family)
	for i, host := range n.Hosts {
		end := n.Host(fmt.Sprintf("end%d", i+1))
		n.Ends = append(n.Ends, end)
		plug(n, end, host, topo.AccessName, i+1)
	}
	n.Record()
	return n
}

// endAddr is the overlay address of an end system, IPv4.
func endAddr(number int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}) }

// plug links an end system to a port.
func plug(n *harness.Hub, end, host *topo.Host, port string, number int) {
	n.T.Helper()
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: end, Name: topo.EndName, MAC: harness.EndMAC(number), Addrs: []netip.Prefix{netip.PrefixFrom(endAddr(number), 24)}},
		topo.LinkEnd{Host: host, Name: port}, 1400))
}

// run starts every edge, each with the others as remotes.
func run(n *harness.Hub) {
	n.T.Helper()
	for i, h := range n.Hosts {
		n.Start(h, dut.EdgeName(h), config(n, i).yaml())
	}
	for _, h := range n.Hosts {
		n.Resolved(h.Name)
	}
}

func config(n *harness.Hub, i int) edgeConfig {
	return edgeConfig{
		name: dut.EdgeName(n.Hosts[i]), tep: n.Teps[i], ports: []string{topo.AccessName},
		remotes: append(append([]netip.Addr{}, n.Teps[:i]...), n.Teps[i+1:]...),
	}
}

// reload gives every edge another configuration.
func reload(n *harness.Hub, change func(number int, c *edgeConfig)) {
	n.T.Helper()
	for i, h := range n.Hosts {
		c := config(n, i)
		change(i+1, &c)
		n.Must(n.Reload(h.Name, c.yaml()))
	}
}

// listening is an open packet socket at each end system and, for what the edges send,
// at the switch.
type listening struct{ ends, underlay []*harness.Frames }

func listen(n *harness.Hub) *listening {
	n.T.Helper()
	l := &listening{}
	for i, end := range n.Ends {
		at, err := harness.OpenFrames(end, topo.EndName, false)
		n.Must(err)
		under, err := harness.OpenFrames(n.Sw, fmt.Sprintf("e%d", i+1), false)
		n.Must(err)
		l.ends, l.underlay = append(l.ends, at), append(l.underlay, under)
		n.T.Cleanup(at.Close)
		n.T.Cleanup(under.Close)
	}
	return l
}

// spreads is a fact: a frame from one end reaches exactly the ends named, once
// each, and crosses the underlay once for each of them.
func spreads(n *harness.Hub, what string, from int, src, dst net.HardwareAddr, to ...int) {
	n.T.Helper()
	n.Once(what, func() error { return spread(n, from, src, dst, to, len(to)) })
}

func spread(n *harness.Hub, from int, src, dst net.HardwareAddr, to []int, copies int) error {
	l := listen(n)
	mark := fmt.Sprintf("mark %d", time.Now().UnixNano())
	if err := l.ends[from-1].Send(harness.Marked(src, dst, mark)); err != nil {
		return err
	}
	// Behind it, a broadcast from every end: when that is through, so was the frame.
	var errs []error
	for i, end := range l.ends {
		errs = append(errs, end.Send(harness.Marked(harness.EndMAC(i+1), harness.BroadcastMAC, fmt.Sprintf("end of %s from %d.", mark, i+1))))
	}
	for i := range l.ends {
		want := 0
		if slices.Contains(to, i+1) {
			want = 1
		}
		last := from
		if i+1 == from {
			last = from%len(l.ends) + 1
		}
		got, err := l.ends[i].Until(wholly(mark), harness.Has(fmt.Sprintf("end of %s from %d.", mark, last)))
		if err == nil && len(got) != want {
			err = fmt.Errorf("end%d has received the frame %d times, want %d", i+1, len(got), want)
		}
		leave := 0
		if i+1 == from {
			leave = copies
		}
		sent, more := l.underlay[i].Until(wholly(mark), harness.Has(fmt.Sprintf("end of %s from %d.", mark, i+1)))
		if more == nil && len(sent) != leave {
			more = fmt.Errorf("edge%d has sent the frame %d times, want %d", i+1, len(sent), leave)
		}
		errs = append(errs, err, more)
	}
	return errors.Join(errs...)
}

// wholly finds the marked frame, and not those that end its search.
func wholly(mark string) func([]byte) bool {
	return func(b []byte) bool { return harness.Has(mark)(b) && !harness.Has("end of ")(b) }
}

// TestThreeEdges goes from fact to fact with the same edges, whose configuration changes.
func TestThreeEdges(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestThreeEdges/IPv4; copies over IPv6 test/e2e/gateway TestGateway/IPv6")
			}
			t.Parallel()
			n := newHub(t, 3, family)
			run(n)
			for _, step := range []struct {
				name string
				do   func(*harness.Hub)
			}{{"Replicate", replicate}, {"MACMoves", macMoves}, {"HostMoves", hostMoves}, {"StaticEntries", staticEntries}, {"Ageing", ages}} {
				if !t.Run(step.name, func(t *testing.T) { step.do(n.Sub(t)) }) {
					break
				}
			}
		})
	}
}

// replicate: what has no one place to go to is everywhere once.
func replicate(n *harness.Hub) {
	unknown := harness.EndMAC(0x77)
	group := net.HardwareAddr{0x01, 0, 0x5e, 1, 2, 3}
	for from, others := range map[int][]int{1: {2, 3}, 2: {1, 3}, 3: {1, 2}} {
		spreads(n, fmt.Sprintf("broadcast of end%d is everywhere once", from), from, harness.EndMAC(from), harness.BroadcastMAC, others...)
		spreads(n, fmt.Sprintf("multicast of end%d is everywhere once", from), from, harness.EndMAC(from), group, others...)
		spreads(n, fmt.Sprintf("unknown destination of end%d is everywhere once", from), from, harness.EndMAC(from), unknown, others...)
	}
	spreads(n, "known destination is in one place", 1, harness.EndMAC(1), harness.EndMAC(2), 2)
	for i := 2; i <= 3; i++ {
		n.Fact(fmt.Sprintf("end1 pings end%d", i), func() error { return harness.Ping(n.Ctx, n.Ends[0], endAddr(i)) })
	}
	n.NoDrops()
}

// macMoves: a MAC address that turns up elsewhere takes cached flows with it.
func macMoves(n *harness.Hub) {
	guest := harness.EndMAC(0x50)
	spreads(n, "guest speaks at edge2", 2, guest, harness.BroadcastMAC, 1, 3)
	n.IsAt(guest, 2, topo.AccessName, 3)
	for range 2 { // the second time by the flow cache
		spreads(n, "frames to the guest go to edge2", 1, harness.EndMAC(1), guest, 2)
	}
	spreads(n, "guest speaks at edge3", 3, guest, harness.BroadcastMAC, 1, 2)
	n.IsAt(guest, 3, topo.AccessName, 3)
	for range 2 {
		spreads(n, "frames to the guest go to edge3", 1, harness.EndMAC(1), guest, 3)
		spreads(n, "also from where it was", 2, harness.EndMAC(2), guest, 3)
	}
	for _, h := range n.Hosts {
		n.Once("the move is counted on "+h.Name, func() error {
			e, err := n.Entry(h, guest)
			if err == nil && e.Moves != 1 {
				err = fmt.Errorf("%d moves", e.Moves)
			}
			return err
		})
	}
	spreads(n, "guest speaks at edge1", 1, guest, harness.BroadcastMAC, 2, 3)
	n.IsAt(guest, 1, topo.AccessName, 3)
	n.NoDrops()
}

// hostMoves: a host is unplugged from one edge and plugged into another.
func hostMoves(n *harness.Hub) {
	mobile := n.Host("mobile")
	plug(n, mobile, n.Hosts[1], "p1", 9)
	reload(n, func(number int, c *edgeConfig) {
		if number > 1 {
			c.ports = append(c.ports, "p1")
		}
	})
	n.Fact("end1 pings mobile at edge2", func() error { return harness.Ping(n.Ctx, n.Ends[0], endAddr(9)) })
	n.IsAt(harness.EndMAC(9), 2, "p1", 2) // edge3 has heard nothing of it
	n.Must(n.Hosts[1].Delete("p1"))
	plug(n, mobile, n.Hosts[2], "p1", 9)
	n.Fact("port p1 of edge3 is up", func() error { return n.PortState("edge3", "p1", "up") })
	n.Fact("mobile pings end1 from edge3", func() error { return harness.Ping(n.Ctx, mobile, endAddr(1)) })
	n.IsAt(harness.EndMAC(9), 3, "p1", 3)
	for i, end := range n.Ends {
		n.Fact(fmt.Sprintf("end%d pings mobile at edge3", i+1), func() error { return harness.Ping(n.Ctx, end, endAddr(9)) })
	}
}

// staticEntries are believed more than packets are.
func staticEntries(n *harness.Hub) {
	printer := harness.EndMAC(0x60)
	reload(n, func(number int, c *edgeConfig) {
		if number == 1 {
			c.static = []string{
				fmt.Sprintf(`{mac: "%s", remote: "%s"}`, printer, n.Tep(2)),
				fmt.Sprintf(`{mac: "%s", port: p0}`, harness.EndMAC(1)),
			}
		}
	})
	n.Fact("both entries are static", func() error {
		for _, mac := range []net.HardwareAddr{printer, harness.EndMAC(1)} {
			if e, err := n.Entry(n.Hosts[0], mac); err != nil || e == nil || !e.Static {
				return errors.Join(fmt.Errorf("%s: %+v", mac, e), err)
			}
		}
		return nil
	})
	spreads(n, "frames to the static address go to its remote, unheard of", 1, harness.EndMAC(1), printer, 2)
	// The other edges believe it, edge1 does not.
	n.Once("an impostor of the remote address at edge3 reaches edge2 alone", func() error {
		return spread(n, 3, printer, harness.BroadcastMAC, []int{2}, 2)
	})
	n.Fact("edge1 dropped it as static-mac-move", func() error { return dropped(n.Network, "edge1", "static-mac-move", 1) })
	n.Once("edge1 has it where it was", func() error {
		if e, err := n.Entry(n.Hosts[0], printer); err != nil || e.Remote != n.Tep(2) {
			return errors.Join(fmt.Errorf("%+v", e), err)
		}
		return nil
	})
}

func dropped(n *harness.Network, host, reason string, packets uint64) error {
	drops, err := n.Drops(host)
	if err == nil && drops[reason] != packets {
		err = fmt.Errorf("it drops %v, want %s %d", drops, reason, packets)
	}
	return err
}

// ages: who is silent is forgotten, who is not is not.
func ages(n *harness.Hub) {
	reload(n, func(_ int, c *edgeConfig) { c.ageing = "1s" })
	guest := harness.EndMAC(0x70)
	spreads(n, "guest speaks at edge2", 2, guest, harness.BroadcastMAC, 1, 3)
	spreads(n, "frames to the guest go to edge2", 1, harness.EndMAC(1), guest, 2)
	for _, h := range n.Hosts {
		n.Fact(h.Name+" has forgotten the guest", func() error {
			e, err := n.Entry(h, guest)
			if e != nil {
				err = fmt.Errorf("%+v", *e)
			}
			return err
		})
	}
	spreads(n, "frames to the guest go everywhere", 1, harness.EndMAC(1), guest, 2, 3)
	// A flow that only the cache sees keeps its source from ageing.
	s := n.StartStream(harness.Direction{Name: "end1 to end2", From: n.Ends[0], To: n.Ends[1], Addr: endAddr(2)})
	n.Fact("stream runs", func() error { return s.Received(100) })
	until := time.Now().Add(2 * time.Second)
	n.Once("the speaker does not age in two ageing times", func() error {
		for time.Now().Before(until) {
			for _, h := range n.Hosts[:2] {
				if e, err := n.Entry(h, harness.EndMAC(1)); e == nil || err != nil || e.Age > 0.9 {
					return errors.Join(fmt.Errorf("%s has %+v", h.Name, e), err)
				}
			}
		}
		return nil
	})
	n.Lost(s, 0)
}

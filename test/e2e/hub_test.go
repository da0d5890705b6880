package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
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

// hub is several edges on one underlay network.
type hub struct {
	*network
	family int
	sw     *topo.Host
	hosts  []*topo.Host // with edges
	ends   []*topo.Host // behind them
	teps   []netip.Addr
}

func newHub(t *testing.T, edges, family int) *hub {
	t.Helper()
	n := newUnderlay(t, hubPicture, edges, family)
	for i, host := range n.hosts {
		end := n.host(fmt.Sprintf("end%d", i+1))
		n.ends = append(n.ends, end)
		n.plug(end, host, topo.AccessName, i+1)
	}
	n.record()
	return n
}

// bridgeOnly has the switch look at Ethernet alone: where br_netfilter is there,
// it refuses and reassembles IP packets that the edges should see.
func (n *hub) bridgeOnly() {
	n.t.Helper()
	for _, family := range []string{"ip", "ip6"} {
		if err := n.sw.SysctlSet("net/bridge/bridge-nf-call-"+family+"tables", "0"); !errors.Is(err, fs.ErrNotExist) {
			n.must(err)
		}
	}
}

func (n *hub) host(name string) *topo.Host {
	n.t.Helper()
	h, err := n.lab.Host(name)
	n.must(err)
	return h
}

// tep is the underlay address with that number.
func (n *hub) tep(number int) netip.Addr {
	if n.family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", number))
	}
	return netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", number))
}

// join links a host to the switch.
func (n *hub) join(h *topo.Host, number int) {
	n.t.Helper()
	bits := 24
	if n.family == 6 {
		bits = 64
	}
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: h, Name: topo.UnderlayName, MAC: underlayMAC(number), Addrs: []netip.Prefix{netip.PrefixFrom(n.tep(number), bits)}},
		topo.LinkEnd{Host: n.sw, Name: fmt.Sprintf("e%d", number)}, 1500))
}

func underlayMAC(number int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 2, byte(number)} }
func endMAC(number int) net.HardwareAddr      { return net.HardwareAddr{2, 0, 0, 0, 0, byte(number)} }

// endAddr is the overlay address of an end system, IPv4.
func endAddr(number int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(number)}) }

// plug links an end system to a port.
func (n *hub) plug(end, host *topo.Host, port string, number int) {
	n.t.Helper()
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: end, Name: topo.EndName, MAC: endMAC(number), Addrs: []netip.Prefix{netip.PrefixFrom(endAddr(number), 24)}},
		topo.LinkEnd{Host: host, Name: port}, 1400))
}

// run starts every edge, each with the others as remotes.
func (n *hub) run(change func(number int, c *edgeConfig)) {
	n.t.Helper()
	for i, h := range n.hosts {
		c := edgeConfig{name: h.EdgeName(), tep: n.teps[i], ports: []string{topo.AccessName}}
		c.remotes = append(append(c.remotes, n.teps[:i]...), n.teps[i+1:]...)
		if change != nil {
			change(i+1, &c)
		}
		n.start(h, c.name, c.yaml())
	}
	for _, h := range n.hosts {
		n.resolved(h.Name)
	}
}

// entry is the FDB entry of an edge for a MAC address, nil when there is none.
func (n *hub) entry(host *topo.Host, mac net.HardwareAddr) (*edge.FDBEntry, error) {
	fdb, err := n.ask(host.Name).FDB(n.ctx)
	for i := range fdb {
		if bytes.Equal(fdb[i].MAC[:], mac) {
			return &fdb[i], err
		}
	}
	return nil, err
}

// isAt is a fact: the first edges have the address at the one edge's port or at
// that edge's TEP.
func (n *hub) isAt(mac net.HardwareAddr, number int, port string, edges int) {
	n.t.Helper()
	for i, h := range n.hosts[:edges] {
		n.fact(fmt.Sprintf("%s has %s at edge%d", h.Name, mac, number), func() error {
			e, err := n.entry(h, mac)
			if err != nil || e == nil {
				return errors.Join(errors.New("it has none"), err)
			}
			if i+1 == number && e.Port != port || i+1 != number && e.Remote != n.tep(number) {
				return fmt.Errorf("it has %+v", *e)
			}
			return nil
		})
	}
}

// listening is an open packet socket at each end system and, for what the edges send,
// at the switch.
type listening struct{ ends, underlay []*frames }

func (n *hub) listen() *listening {
	n.t.Helper()
	l := &listening{}
	for i, end := range n.ends {
		at, err := openFrames(end, topo.EndName, false)
		n.must(err)
		under, err := openFrames(n.sw, fmt.Sprintf("e%d", i+1), false)
		n.must(err)
		l.ends, l.underlay = append(l.ends, at), append(l.underlay, under)
		n.t.Cleanup(at.close)
		n.t.Cleanup(under.close)
	}
	return l
}

// marked is a frame that can be found again by its mark.
func marked(src, dst net.HardwareAddr, mark string) []byte {
	ethernet := pkttest.Ether(src.String(), dst.String())
	ethernet.Type = pkttest.EtherTypeExperimental
	return pkttest.Packet(ethernet, pkttest.Bytes(append([]byte(mark), make([]byte, 80)...)))
}

func has(mark string) func([]byte) bool {
	return func(b []byte) bool { return bytes.Contains(b, []byte(mark)) }
}

var broadcastMAC = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// spreads is a fact: a frame from one end reaches exactly the ends named, once
// each, and crosses the underlay once for each of them.
func (n *hub) spreads(what string, from int, src, dst net.HardwareAddr, to ...int) {
	n.t.Helper()
	n.once(what, func() error { return n.spread(from, src, dst, to, len(to)) })
}

func (n *hub) spread(from int, src, dst net.HardwareAddr, to []int, copies int) error {
	l := n.listen()
	mark := fmt.Sprintf("mark %d", time.Now().UnixNano())
	if err := l.ends[from-1].send(marked(src, dst, mark)); err != nil {
		return err
	}
	// Behind it, a broadcast from every end: when that is through, so was the frame.
	var errs []error
	for i, end := range l.ends {
		errs = append(errs, end.send(marked(endMAC(i+1), broadcastMAC, fmt.Sprintf("end of %s from %d.", mark, i+1))))
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
		got, err := l.ends[i].until(wholly(mark), has(fmt.Sprintf("end of %s from %d.", mark, last)))
		if err == nil && len(got) != want {
			err = fmt.Errorf("end%d has received the frame %d times, want %d", i+1, len(got), want)
		}
		leave := 0
		if i+1 == from {
			leave = copies
		}
		sent, more := l.underlay[i].until(wholly(mark), has(fmt.Sprintf("end of %s from %d.", mark, i+1)))
		if more == nil && len(sent) != leave {
			more = fmt.Errorf("edge%d has sent the frame %d times, want %d", i+1, len(sent), leave)
		}
		errs = append(errs, err, more)
	}
	return errors.Join(errs...)
}

// wholly finds the marked frame, and not those that end its search.
func wholly(mark string) func([]byte) bool {
	return func(b []byte) bool { return has(mark)(b) && !has("end of ")(b) }
}

func TestThreeEdgesReplicate(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newHub(t, 3, family)
			n.run(nil)
			unknown := endMAC(0x77)
			group := net.HardwareAddr{0x01, 0, 0x5e, 1, 2, 3}
			for from, others := range map[int][]int{1: {2, 3}, 2: {1, 3}, 3: {1, 2}} {
				n.spreads(fmt.Sprintf("broadcast of end%d is everywhere once", from), from, endMAC(from), broadcastMAC, others...)
				n.spreads(fmt.Sprintf("multicast of end%d is everywhere once", from), from, endMAC(from), group, others...)
				n.spreads(fmt.Sprintf("unknown destination of end%d is everywhere once", from), from, endMAC(from), unknown, others...)
			}
			n.spreads("known destination is in one place", 1, endMAC(1), endMAC(2), 2)
			for i := 2; i <= 3; i++ {
				n.fact(fmt.Sprintf("end1 pings end%d", i), func() error { return ping(n.ctx, n.ends[0], endAddr(i)) })
			}
			n.noDrops()
		})
	}
}

// A MAC address that turns up elsewhere takes cached flows with it.
func TestThreeEdgesMACMoves(t *testing.T) {
	n := newHub(t, 3, 4)
	n.run(nil)
	guest := endMAC(0x50)
	n.spreads("guest speaks at edge2", 2, guest, broadcastMAC, 1, 3)
	n.isAt(guest, 2, topo.AccessName, 3)
	for range 2 { // the second time by the flow cache
		n.spreads("frames to the guest go to edge2", 1, endMAC(1), guest, 2)
	}
	n.spreads("guest speaks at edge3", 3, guest, broadcastMAC, 1, 2)
	n.isAt(guest, 3, topo.AccessName, 3)
	for range 2 {
		n.spreads("frames to the guest go to edge3", 1, endMAC(1), guest, 3)
		n.spreads("also from where it was", 2, endMAC(2), guest, 3)
	}
	for _, h := range n.hosts {
		n.once("the move is counted on "+h.Name, func() error {
			e, err := n.entry(h, guest)
			if err == nil && e.Moves != 1 {
				err = fmt.Errorf("%d moves", e.Moves)
			}
			return err
		})
	}
	n.spreads("guest speaks at edge1", 1, guest, broadcastMAC, 2, 3)
	n.isAt(guest, 1, topo.AccessName, 3)
	n.noDrops()
}

// A host is unplugged from one edge and plugged into another.
func TestThreeEdgesHostMoves(t *testing.T) {
	n := newHub(t, 3, 4)
	mobile := n.host("mobile")
	n.plug(mobile, n.hosts[1], "p1", 9)
	n.run(func(number int, c *edgeConfig) {
		if number > 1 {
			c.ports = append(c.ports, "p1")
		}
	})
	n.fact("end1 pings mobile at edge2", func() error { return ping(n.ctx, n.ends[0], endAddr(9)) })
	n.isAt(endMAC(9), 2, "p1", 2) // edge3 has heard nothing of it
	n.must(n.hosts[1].Delete("p1"))
	n.plug(mobile, n.hosts[2], "p1", 9)
	n.fact("port p1 of edge3 is up", func() error { return n.portState("edge3", "p1", "up") })
	n.fact("mobile pings end1 from edge3", func() error { return ping(n.ctx, mobile, endAddr(1)) })
	n.isAt(endMAC(9), 3, "p1", 3)
	for i, end := range n.ends {
		n.fact(fmt.Sprintf("end%d pings mobile at edge3", i+1), func() error { return ping(n.ctx, end, endAddr(9)) })
	}
}

func (n *network) portState(host, port, state string) error {
	ports, err := n.ask(host).Ports(n.ctx)
	for _, p := range ports {
		if p.Name == port && p.State == state {
			return err
		}
	}
	return errors.Join(fmt.Errorf("ports %+v", ports), err)
}

func TestThreeEdgesStaticEntries(t *testing.T) {
	n := newHub(t, 3, 4)
	printer := endMAC(0x60)
	n.run(func(number int, c *edgeConfig) {
		if number == 1 {
			c.static = []string{
				fmt.Sprintf(`{mac: "%s", remote: "%s"}`, printer, n.tep(2)),
				fmt.Sprintf(`{mac: "%s", port: p0}`, endMAC(1)),
			}
		}
	})
	n.spreads("frames to the static address go to its remote, unheard of", 1, endMAC(1), printer, 2)
	n.once("both entries are static", func() error {
		for _, mac := range []net.HardwareAddr{printer, endMAC(1)} {
			if e, err := n.entry(n.hosts[0], mac); err != nil || e == nil || !e.Static {
				return errors.Join(fmt.Errorf("%s: %+v", mac, e), err)
			}
		}
		return nil
	})
	// The other edges believe it, edge1 does not.
	n.once("an impostor of the remote address at edge3 reaches edge2 alone", func() error {
		return n.spread(3, printer, broadcastMAC, []int{2}, 2)
	})
	n.fact("edge1 dropped it as static-elsewhere", func() error { return n.dropped("edge1", "static-elsewhere", 1) })
	n.once("edge1 has it where it was", func() error {
		if e, err := n.entry(n.hosts[0], printer); err != nil || e.Remote != n.tep(2) {
			return errors.Join(fmt.Errorf("%+v", e), err)
		}
		return nil
	})
}

func (n *network) dropped(host, reason string, packets uint64) error {
	drops, err := n.drops(host)
	if err == nil && drops[reason] != packets {
		err = fmt.Errorf("it drops %v, want %s %d", drops, reason, packets)
	}
	return err
}

func TestThreeEdgesAgeing(t *testing.T) {
	n := newHub(t, 3, 4)
	n.run(func(_ int, c *edgeConfig) { c.ageing = "1s" })
	guest := endMAC(0x70)
	n.spreads("guest speaks at edge2", 2, guest, broadcastMAC, 1, 3)
	n.spreads("frames to the guest go to edge2", 1, endMAC(1), guest, 2)
	for _, h := range n.hosts {
		n.fact(h.Name+" has forgotten the guest", func() error {
			e, err := n.entry(h, guest)
			if e != nil {
				err = fmt.Errorf("%+v", *e)
			}
			return err
		})
	}
	n.spreads("frames to the guest go everywhere", 1, endMAC(1), guest, 2, 3)
	// A flow that only the cache sees keeps its source from ageing.
	s := n.startStream(direction{"end1 to end2", n.ends[0], n.ends[1], endAddr(2)})
	n.fact("stream runs", func() error { return s.received(100) })
	until := time.Now().Add(2 * time.Second)
	n.once("the speaker does not age in two ageing times", func() error {
		for time.Now().Before(until) {
			for _, h := range n.hosts[:2] {
				if e, err := n.entry(h, endMAC(1)); e == nil || err != nil || e.Age > 0.9 {
					return errors.Join(fmt.Errorf("%s has %+v", h.Name, e), err)
				}
			}
		}
		return nil
	})
	n.lost(s, 0)
}

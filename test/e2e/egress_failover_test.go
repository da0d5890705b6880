package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

// worstGap is what no failover takes, on however busy a machine: how fast it is, is the
// lab's to measure.
const worstGap = 5 * time.Second

// fault is something that ends a gateway; mend undoes it.
type fault struct {
	name   string
	strike func(n *egressNet, number int) (mend func())
}

var faults = []fault{
	{"links down", func(n *egressNet, number int) func() {
		ports := map[*topo.Host]string{n.sw: fmt.Sprintf("e%d", number), n.wan: fmt.Sprintf("g%d", number)}
		for h, port := range ports {
			n.must(h.Down(port))
		}
		return func() {
			for h, port := range ports {
				n.must(h.Up(port))
			}
		}
	}},
	{"black hole", func(n *egressNet, number int) func() {
		first, second := n.swallow(n.sw, fmt.Sprintf("e%d", number)), n.swallow(n.wan, fmt.Sprintf("g%d", number))
		return func() { first(); second() }
	}},
	{"uplink down", func(n *egressNet, number int) func() {
		port := fmt.Sprintf("g%d", number)
		n.must(n.wan.Down(port))
		return func() { n.must(n.wan.Up(port)) }
	}},
	{"tunnel black hole", func(n *egressNet, number int) func() { return n.swallow(n.sw, fmt.Sprintf("e%d", number)) }},
}

// swallow has a bridge drop what comes from or goes to a port. The link stays up.
func (n *network) swallow(bridge *topo.Host, port string) (mend func()) {
	n.t.Helper()
	_, err := bridge.Output(n.ctx, "nft", fmt.Sprintf(
		"table bridge hole { chain forward { type filter hook forward priority 0; iifname %s drop; oifname %s drop; }; }", port, port))
	n.must(err)
	return func() {
		_, err := bridge.Output(n.ctx, "nft", "delete table bridge hole")
		n.must(err)
	}
}

// talks are connections and flows that should not notice what happens to gateways.
type talks struct {
	n       *egressNet
	conns   map[string]*net.TCPConn
	bundles []*bundle
	sockets []socketTo
}

// socketTo is a UDP socket, and what it was to the outside when it first asked.
type socketTo struct {
	from *topo.Host
	port uint16
	to   netip.AddrPort
	was  netip.AddrPort
}

// talk begins some of everything.
func (n *egressNet) talk() *talks {
	n.t.Helper()
	t := &talks{n: n, conns: map[string]*net.TCPConn{}}
	n.serve(guest{Host: n.out}, portAllowed)
	n.mirror(n.out)
	t.connect("at first", 10)
	for i, g := range []guest{n.red1, n.red2} {
		for _, family := range []int{4, 6} {
			to := netip.AddrPortFrom(outsideAddr(family), mirrorPort)
			s := socketTo{from: g.Host, port: uint16(45000 + i), to: to}
			n.fact("a datagram of "+g.Name+" is answered", func() (err error) {
				s.was, err = mirrored(s.from, "udp", s.port, s.to)
				return err
			})
			t.sockets = append(t.sockets, s)
		}
	}
	for i, d := range []direction{n.outward(n.red1, 4), n.outward(n.red2, 6)} {
		b := n.newBundle(d, uint16(20000+1000*i), uint16(30000+1000*i), 4, 4)
		b.start(10 * time.Millisecond)
		n.goesOn(b, 20)
		t.bundles = append(t.bundles, b)
	}
	return t
}

// connect opens connections of each guest, on each family.
func (t *talks) connect(when string, count int) {
	t.n.t.Helper()
	for _, g := range []guest{t.n.red1, t.n.red2} {
		for _, family := range []int{4, 6} {
			for i := range count {
				name := fmt.Sprintf("connection %d of %s, IPv%d, opened %s", i+1, g.Name, family, when)
				t.n.fact(name, func() error {
					conn, err := dialTCP(g.Host, netip.AddrPortFrom(outsideAddr(family), portAllowed).String())
					if err != nil {
						return err
					}
					t.n.t.Cleanup(func() { conn.Close() })
					t.conns[name] = conn
					return exchangeLine(conn, patience)
				})
			}
		}
	}
}

// goOn is the fact that all that ran still does.
func (t *talks) goOn(when string) {
	t.n.t.Helper()
	for _, b := range t.bundles {
		t.n.goesOn(b, 30)
	}
	t.live(when)
}

// live is the fact that all connections do.
func (t *talks) live(when string) {
	t.n.t.Helper()
	t.n.once("established connections live "+when, func() error {
		var errs []error
		for name, conn := range t.conns {
			if err := exchangeLine(conn, patience); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
		if len(errs) > 0 {
			errs = append(errs, fmt.Errorf("%d of %d are dead", len(errs), len(t.conns)))
		}
		return errors.Join(errs...)
	})
}

// kept is the fact that sockets are who they were.
func (t *talks) kept(when string) {
	t.n.t.Helper()
	for _, s := range t.sockets {
		t.n.once(fmt.Sprintf("a socket of %s keeps address and port %s", s.from.Name, when), func() error {
			is, err := mirrored(s.from, "udp", s.port, s.to)
			if err == nil && is != s.was {
				err = fmt.Errorf("it was %s, and is %s", s.was, is)
			}
			return err
		})
	}
}

// gap is the longest time up to now in which a flow had nothing, with how many had one.
func (t *talks) gap(what string) {
	t.n.t.Helper()
	t.n.once(fmt.Sprintf("no gap was longer than %s", worstGap), func() error {
		for _, b := range t.bundles {
			gaps, whole := b.gaps(func(flowPorts) bool { return true })
			if len(gaps) == 0 {
				t.n.t.Logf("%s, %s: all %d flows lost nothing", what, b.name, whole)
				continue
			}
			worst := gaps[len(gaps)-1]
			t.n.t.Logf("%s, %s: %d flows had a gap, p50 %s, max %s; %d lost nothing", what, b.name, len(gaps),
				gaps[len(gaps)/2].Round(time.Millisecond), worst.Round(time.Millisecond), whole)
			if worst > worstGap {
				return fmt.Errorf("one was %s", worst)
			}
		}
		return nil
	})
	for _, b := range t.bundles {
		b.forget()
	}
}

// forget has losses and gaps counted from now on.
func (b *bundle) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.flows {
		f.lost, f.gap = 0, 0
	}
}

// A gateway dies: another one takes over its addresses, and connections go on; and once
// more when it is back.
func TestEgressFailover(t *testing.T) {
	for _, mode := range []string{"active-standby", "active-active"} {
		for i, f := range faults {
			if mode == "active-active" && i%2 == 1 {
				continue // noticed as in the other mode, and in this one as the fault before it
			}
			t.Run(mode+"/"+f.name, func(t *testing.T) {
				n := newEgressNet(t, egressOptions{mode: mode, replication: true})
				defer n.confess()
				n.up()
				n.serving(2, 3)
				talks := n.talk()
				talks.goOn("before")
				talks.gap("before")
				mend := f.strike(n, 2)
				talks.goOn("after the fault")
				talks.gap("after the fault")
				n.translatedBy(3, pool4...)
				n.translatedBy(3, pool6...)
				talks.kept("after the fault")
				talks.connect("meanwhile", 2)
				mend()
				n.serving(2, 3)
				talks.goOn("when it is back")
				talks.gap("when it is back")
				if mode == "active-standby" {
					n.translatedBy(2, pool4...)
					n.translatedBy(2, pool6...)
				}
				talks.kept("when it is back")
				talks.connect("afterwards", 2)
				talks.goOn("at the end")
				talks.gap("at the end")
				n.heldTogether()
			})
		}
	}
}

// Nobody is left: packets are dropped with their reason, and the first gateway that comes
// back serves.
func TestEgressNobody(t *testing.T) {
	n := newEgressNet(t, egressOptions{})
	defer n.confess()
	n.up()
	n.mirror(n.out)
	var mends []func()
	for _, number := range []int{2, 3} {
		mends = append(mends, faults[0].strike(n, number))
	}
	n.fact("the guests' edge drops, and says why", func() error {
		_ = ping(n.ctx, n.red1.Host, outside4)
		drops, err := n.drops("edge1")
		if err == nil && drops["no-gateway"] == 0 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.fact("so says its status", func() error { return n.problem("edge1", "gws") })
	n.pings(ways(n.red1, n.red2)...)
	mends[1]()
	n.reached(n.red1, n.red2)
	n.translatedBy(3, n.seenAs(n.red1, "tcp", outside4, pool4))
	mends[0]()
	n.serving(2, 3)
	n.reached(n.red1, n.red2)
	n.heldTogether()
}

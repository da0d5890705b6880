package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// worstGap is what no failover takes, on however busy a machine: how fast it is, is the
// lab's to measure.
const worstGap = 5 * time.Second

// fault is something that ends a gateway; mend undoes it.
type fault struct {
	name   string
	strike func(n *harness.EgressNet, number int) (mend func())
}

var faults = []fault{
	{"links down", func(n *harness.EgressNet, number int) func() {
		ports := map[*topo.Host]string{n.Sw: fmt.Sprintf("e%d", number), n.Wan: fmt.Sprintf("g%d", number)}
		for h, port := range ports {
			n.Must(h.Down(port))
		}
		return func() {
			for h, port := range ports {
				n.Must(h.Up(port))
			}
		}
	}},
	{"black hole", func(n *harness.EgressNet, number int) func() {
		first, second := swallow(n.Hub.Network, n.Sw, fmt.Sprintf("e%d", number)), swallow(n.Hub.Network, n.Wan, fmt.Sprintf("g%d", number))
		return func() { first(); second() }
	}},
	{"uplink down", func(n *harness.EgressNet, number int) func() {
		port := fmt.Sprintf("g%d", number)
		n.Must(n.Wan.Down(port))
		return func() { n.Must(n.Wan.Up(port)) }
	}},
}

// swallow has a bridge drop what comes from or goes to a port. The link stays up.
func swallow(n *harness.Network, bridge *topo.Host, port string) (mend func()) {
	n.T.Helper()
	_, err := bridge.Output(n.Ctx, "nft", fmt.Sprintf(
		"table bridge hole { chain forward { type filter hook forward priority 0; iifname %s drop; oifname %s drop; }; }", port, port))
	n.Must(err)
	return func() {
		_, err := bridge.Output(n.Ctx, "nft", "delete table bridge hole")
		n.Must(err)
	}
}

// talks are connections and flows that should not notice what happens to gateways.
type talks struct {
	n       *harness.EgressNet
	conns   map[string]*net.TCPConn
	bundles []*harness.Bundle
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
func talk(n *harness.EgressNet) *talks {
	n.T.Helper()
	t := &talks{n: n, conns: map[string]*net.TCPConn{}}
	n.Serve(harness.Guest{Host: n.Out}, harness.PortAllowed)
	n.Mirror(n.Out)
	t.connect("at first", 10)
	for i, g := range []harness.Guest{n.Red1, n.Red2} {
		for _, family := range []int{4, 6} {
			to := netip.AddrPortFrom(harness.OutsideAddr(family), harness.MirrorPort)
			s := socketTo{from: g.Host, port: uint16(45000 + i), to: to}
			n.Fact("a datagram of "+g.Name+" is answered", func() (err error) {
				s.was, err = harness.Mirrored(s.from, "udp", s.port, s.to)
				return err
			})
			t.sockets = append(t.sockets, s)
		}
	}
	for i, d := range []harness.Direction{n.Outward(n.Red1, 4), n.Outward(n.Red2, 6)} {
		b := n.NewBundle(d, uint16(20000+1000*i), uint16(30000+1000*i), 4, 4)
		b.Start(10 * time.Millisecond)
		n.GoesOn(b, 20)
		t.bundles = append(t.bundles, b)
	}
	return t
}

// connect opens connections of each guest, on each family.
func (t *talks) connect(when string, count int) {
	t.n.T.Helper()
	for _, g := range []harness.Guest{t.n.Red1, t.n.Red2} {
		for _, family := range []int{4, 6} {
			for i := range count {
				name := fmt.Sprintf("connection %d of %s, IPv%d, opened %s", i+1, g.Name, family, when)
				t.n.Fact(name, func() error {
					conn, err := harness.DialTCP(g.Host, netip.AddrPortFrom(harness.OutsideAddr(family), harness.PortAllowed).String())
					if err != nil {
						return err
					}
					t.n.T.Cleanup(func() { conn.Close() })
					t.conns[name] = conn
					return harness.ExchangeLine(conn, harness.Patience)
				})
			}
		}
	}
}

// goOn is the fact that all that ran still does.
func (t *talks) goOn(when string) {
	t.n.T.Helper()
	for _, b := range t.bundles {
		t.n.GoesOn(b, 30)
	}
	t.live(when)
}

// live is the fact that all connections do.
func (t *talks) live(when string) {
	t.n.T.Helper()
	t.n.Once("established connections live "+when, func() error {
		var errs []error
		for name, conn := range t.conns {
			if err := harness.ExchangeLine(conn, harness.Patience); err != nil {
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
	t.n.T.Helper()
	for _, s := range t.sockets {
		t.n.Once(fmt.Sprintf("a socket of %s keeps address and port %s", s.from.Name, when), func() error {
			is, err := harness.Mirrored(s.from, "udp", s.port, s.to)
			if err == nil && is != s.was {
				err = fmt.Errorf("it was %s, and is %s", s.was, is)
			}
			return err
		})
	}
}

// gap is the longest time up to now in which a flow had nothing, with how many had one.
func (t *talks) gap(what string) {
	t.n.T.Helper()
	t.n.Once(fmt.Sprintf("no gap was longer than %s", worstGap), func() error {
		for _, b := range t.bundles {
			gaps, whole := b.Gaps(func(harness.FlowPorts) bool { return true })
			if len(gaps) == 0 {
				t.n.T.Logf("%s, %s: all %d flows lost nothing", what, b.Name, whole)
				continue
			}
			worst := gaps[len(gaps)-1]
			t.n.T.Logf("%s, %s: %d flows had a gap, p50 %s, max %s; %d lost nothing", what, b.Name, len(gaps),
				gaps[len(gaps)/2].Round(time.Millisecond), worst.Round(time.Millisecond), whole)
			if worst > worstGap {
				return fmt.Errorf("one was %s", worst)
			}
		}
		return nil
	})
	for _, b := range t.bundles {
		forget(b)
	}
}

// mostLost is how many packets of a flow may be lost while a gateway comes back: 100 ms of it, in
// which three processes have to run on however busy a machine. docs/decisions/0023-return.md has
// what is lost on one that is not.
const mostLost = 10

// keptAll is the fact that flows lost next to nothing since their gaps were counted last.
func (t *talks) keptAll(when string) {
	t.n.T.Helper()
	t.n.Once("no flow lost packets "+when, func() error {
		var lost, worst uint64
		for _, b := range t.bundles {
			b.Mu.Lock()
			for _, f := range b.Flows {
				lost, worst = lost+f.Lost, max(worst, f.Lost)
			}
			b.Mu.Unlock()
		}
		t.n.T.Logf("%s: %d packets of all flows are lost", when, lost)
		if worst > mostLost {
			return fmt.Errorf("one lost %d packets, %d are lost in all", worst, lost)
		}
		return nil
	})
}

// forget has losses and gaps counted from now on.
func forget(b *harness.Bundle) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	for _, f := range b.Flows {
		f.Lost, f.Gap = 0, 0
	}
}

// TestEgressGateways has things happen to the same gateways, one after the other. They are not
// too many for one: a gateway that fails often is held back.
func TestEgressGateways(t *testing.T) {
	fault := func(i int) step { return step{faults[i].name, func(n *harness.EgressNet) { failsOver(n, faults[i]) }} }
	for mode, steps := range map[string][]step{
		"active-standby": {{"drain", drained}, fault(1), fault(2), {"killed", killed}},
		"active-active":  {fault(0), {"drain", drained}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			all := harness.NewEgressNet(t, harness.EgressOptions{Mode: mode, Replication: true, Fails: true})
			all.Up()
			all.Serving(2, 3)
			for _, step := range steps {
				if !t.Run(step.name, func(t *testing.T) {
					n := all.Sub(t)
					defer n.DumpOnFailure()
					step.do(n)
					n.HeldTogether()
				}) {
					break
				}
			}
		})
	}
}

type step struct {
	name string
	do   func(*harness.EgressNet)
}

// failsOver: a gateway dies, another one takes over its addresses, and connections go on; and
// once more when it is back.
func failsOver(n *harness.EgressNet, f fault) {
	n.T.Helper()
	talks := talk(n)
	talks.goOn("before")
	talks.gap("before")
	mend := f.strike(n, 2)
	talks.goOn("after the fault")
	talks.gap("after the fault")
	translatedBy(n, 3, harness.Pool4...)
	translatedBy(n, 3, harness.Pool6...)
	talks.kept("after the fault")
	talks.connect("meanwhile", 2)
	mend()
	n.Serving(2, 3)
	talks.goOn("when it is back")
	talks.keptAll("when it is back")
	talks.gap("when it is back")
	if n.O.Mode == "active-standby" {
		translatedBy(n, 2, harness.Pool4...)
		translatedBy(n, 2, harness.Pool6...)
	}
	talks.kept("when it is back")
	talks.connect("afterwards", 2)
	talks.goOn("at the end")
	talks.gap("at the end")
}

package evpn

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	routes "github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const sessionsPicture = `
        rr1   rr2 (FRR)
           \ /
          switch
         /   |   \
     edge1 edge2 edge3     Selvage, Selvage, Linux and FRR
     red1  red2  red3      10.0.0.0/24, VNI 100
           other           behind edge2`

// newSessions is two edges of ours and one that is not, all known to each other.
func newSessions(t *testing.T) *fabric {
	t.Helper()
	// Three intervals are longer than a loaded machine stalls: each failure that is none doubles
	// the time for which edge1 holds edge2 back.
	n := newFabric(t, sessionsPicture, fabricOptions{edges: "ssk", liveness: "300ms", Options: evpn.Options{Reflectors: 2, Guests: []evpn.GuestOptions{
		{Name: "red1", Number: 1, Edges: []int{0}}, {Name: "red2", Number: 2, Edges: []int{1}},
		{Name: "red3", Number: 3, Edges: []int{2}}, {Name: "other", Number: 7, Edges: []int{1}},
	}}})
	n.up()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	n.knows(1, n.guests["other"], 2)
	n.knows(2, n.guests["red1"], 1)
	n.knows(1, n.guests["red3"], 3)
	n.knows(3, n.guests["red1"], 1)
	n.everyWay()
	return n
}

// between are streams both ways between guests.
func (n *fabric) between(a, b string) []*harness.Stream {
	n.T.Helper()
	streams := []*harness.Stream{n.StartStream(harness.Way(n.guests[a], n.guests[b], 4)), n.StartStream(harness.Way(n.guests[b], n.guests[a], 6))}
	n.GoOn(streams)
	return streams
}

// without is the fact that an edge's session with a reflector is gone, and that it goes on
// with what it was told.
func (n *fabric) without(number int, r *evpn.Reflector, stale bool) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("%s has lost its session with %s, says why, and keeps the routes", n.edge(number).Name, r.Name), func() error {
		bgp, err := n.api(number).BGP().Info(n.Ctx)
		for _, s := range bgp.Neighbours {
			if s.Address == r.Addr && (s.State == "established" || s.Why == "") {
				err = errors.Join(err, fmt.Errorf("%s %q", s.State, s.Why))
			}
		}
		if (bgp.Routes.Stale > 0) != stale || bgp.Routes.Used == 0 {
			err = errors.Join(err, fmt.Errorf("%+v", bgp.Routes))
		}
		return err
	})
}

// fresh is the fact that nothing is stale any more, some time after all was said again.
func (n *fabric) fresh(number int) {
	n.T.Helper()
	n.lingering(n.edge(number).Name+" has nothing stale", func() error {
		bgp, err := n.api(number).BGP().Info(n.Ctx)
		if err == nil && (bgp.Routes.Stale > 0 || bgp.Settling) {
			err = fmt.Errorf("%+v, settling %t", bgp.Routes, bgp.Settling)
		}
		return err
	})
}

// lingering is a fact that waits for what edges keep a while longer.
func (n *fabric) lingering(what string, try func() error) {
	n.T.Helper()
	for deadline := time.Now().Add(routes.Linger); time.Now().Before(deadline); {
		if await.That(n.Ctx, what, try) == nil {
			return
		}
	}
	n.Fact(what, try)
}

// TestEVPNSessions has one thing after the other happen to the same sessions.
func TestEVPNSessions(t *testing.T) {
	t.Parallel()
	n := newSessions(t)
	defer n.dumpOnFailure()
	n.StopCaptures()
	for _, step := range []struct {
		name string
		do   func(*fabric)
	}{{"OneReflectorIsLost", (*fabric).oneIsLost}, {"BothAreLost", (*fabric).bothAreLost}, {"EdgeIsLost", (*fabric).edgeIsLost}} {
		if !t.Run(step.name, func(t *testing.T) { step.do(n.sub(t)) }) {
			return
		}
	}
}

// oneIsLost: of two reflectors either may go; also the edge of Linux loses nothing then.
func (n *fabric) oneIsLost() {
	n.T.Helper()
	streams := append(n.between("red1", "red2"), n.between("red1", "red3")...)
	for _, r := range n.Reflectors {
		r.FRR.Kill()
		n.without(1, r, false)
		n.GoOn(streams)
		n.Once(r.Name+" starts again", func() error { return r.FRR.Start(n.Ctx) })
		n.session(r.Addr)
		n.GoOn(streams)
	}
	n.LostNothing(streams)
}

// bothAreLost: nothing is lost between edges of ours, hosts that did not speak before can, and what went meanwhile
// is forgotten afterwards.
func (n *fabric) bothAreLost() {
	n.T.Helper()
	other, streams := n.guests["other"], n.between("red1", "red2")
	n.Reflectors[0].FRR.Kill()
	n.Must(n.Switch.Down(n.Reflectors[1].Name))
	for _, number := range []int{1, 2} {
		for _, r := range n.Reflectors {
			n.without(number, r, true)
		}
	}
	n.GoOn(streams)
	_, err := n.guests["red1"].Output(n.Ctx, "ip", "neigh", "flush", "all")
	n.Must(err)
	n.Pings(harness.Ways(n.guests["red1"], other)...)
	n.Must(other.Delete(topo.EndName))
	n.GoOn(streams)
	n.Must(n.Switch.Up(n.Reflectors[1].Name))
	n.Once("the first reflector starts again", func() error { return n.Reflectors[0].FRR.Start(n.Ctx) })
	for _, r := range n.Reflectors {
		n.session(r.Addr)
	}
	n.lingering("edge1 has forgotten other", func() error { return n.forgotten(1, other) })
	for _, number := range []int{1, 2} {
		n.fresh(number)
	}
	n.GoOn(streams)
	n.LostNothing(streams)
	n.knows(1, n.guests["red2"], 2)
	n.knows(3, n.guests["red1"], 1)
	n.Pings(append(harness.Ways(n.guests["red1"], n.guests["red2"]), harness.Ways(n.guests["red1"], n.guests["red3"])...)...)
}

// Tunnel endpoints of IPv6: both edges are ours and speak with each other, for FRR has none before 10.6, and ends sessions
// with a reflector's client that has. Then an edge is killed and comes back: its data path goes on, its neighbour keeps
// its routes (FRR keeps none of EVPN for neighbours that restart), and what was gone when it came back is swept.
func TestEVPNUnderlayIPv6(t *testing.T) {
	t.Parallel()
	n := newFabric(t, meshPicture, fabricOptions{edges: "ss", change: meshed, Options: evpn.Options{
		Family: 6, L3VNI: 5000, Segments: []evpn.Segment{{Name: "red", Gateway: true}, {Name: "blue", Gateway: true}},
		Guests: append(oneEach(), evpn.GuestOptions{Name: "blue2", Segment: 1, Number: 2, Edges: []int{1}}, evpn.GuestOptions{Name: "other", Number: 7, Edges: []int{1}}),
	}})
	defer n.dumpOnFailure()
	n.meshUp()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	n.knows(1, n.guests["other"], 2)
	n.knows(2, n.guests["red1"], 1)
	for _, prefix := range []string{"10.1.0.0/24", "fd00:1::/64"} {
		n.hasPrefix(1, netip.MustParsePrefix(prefix), 2)
	}
	n.everyWay()
	n.Transfers(2_000_000, harness.Ways(n.guests["red1"], n.guests["blue2"])...)
	t.Run("Restart", func(t *testing.T) { n.sub(t).edgeRestarts() })
}

func (n *fabric) edgeRestarts() {
	n.T.Helper()
	streams := n.between("red1", "red2")
	n.edge(1).Edge.Kill()
	n.Fact("edge2 keeps what edge1 said", func() error {
		bgp, err := n.api(2).BGP().Info(n.Ctx)
		if err == nil && (bgp.Routes.Stale == 0 || bgp.Neighbours[0].State == "established") {
			err = fmt.Errorf("%+v", bgp)
		}
		return err
	})
	n.GoOn(streams)
	n.unasked(n.guests["other"])
	n.Must(n.guests["other"].Delete(topo.EndName))
	n.Fact("edge2 has taken back what it said of other", func() error {
		routes, err := n.api(2).BGP().Routes(n.Ctx, api.BGPRouteQuery{MAC: overlay.MAC(n.guests["other"].Ether())})
		if err == nil && len(routes) > 0 {
			err = fmt.Errorf("%+v", routes)
		}
		return err
	})
	n.GoOn(streams)
	n.restart(1)
	n.Adopted(n.edge(1).Name)
	n.meshUp()
	n.fresh(1)
	n.fresh(2)
	n.forgets(1, n.guests["other"])
	n.knows(1, n.guests["red2"], 2)
	n.knows(2, n.guests["red1"], 1)
	n.GoOn(streams)
	n.LostNothing(streams)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
	n.NoDrops("no-neighbour", "no-member", "unknown-remote") // one edge may know the other before it is known
}

// unasked has all others forget a guest that goes. They talked to it, so seconds later their
// kernels would ask its MAC address whether it is still there (RFC 4861 section 7.3.3). An edge
// that does not know that any more floods the question, and one that has not heard of it yet
// drops it as same-port: it comes from where it would go.
func (n *fabric) unasked(gone harness.Guest) {
	n.T.Helper()
	for _, g := range n.all() {
		if g.Host == gone.Host {
			continue
		}
		for _, family := range []int{4, 6} {
			_, err := g.Output(n.Ctx, "ip", "neigh", "flush", "to", gone.Addr(family).String())
			n.Must(err)
		}
	}
}

// edgeIsLost: an edge that dies is noticed by BFD; one that is stopped takes its routes back at once.
func (n *fabric) edgeIsLost() {
	n.T.Helper()
	n.Fact("edge1 hears edge2", func() error { return n.pathState(1, n.edge(2).TEP, "up") })
	n.Must(n.Switch.Down(n.edge(2).Name))
	n.Fact("edge1 sees edge2 dead, by BFD", func() error { return n.pathState(1, n.edge(2).TEP, "down") })
	n.Must(n.Switch.Up(n.edge(2).Name))
	n.Fact("edge1 hears edge2 again", func() error { return n.pathState(1, n.edge(2).TEP, "up") })
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)

	e := n.edge(2)
	delete(n.Network.Edges, e.Name)
	n.Must(e.Path.Down(n.Ctx, e))
	for _, number := range []int{1, 3} {
		n.forgets(number, n.guests["red2"])
	}
	n.Fact("edge1 has no tunnel to edge2", func() error {
		teps, err := n.api(1).TEPs(n.Ctx)
		for _, tep := range teps {
			if tep.Address == e.TEP {
				err = errors.Join(err, errors.New("it has"))
			}
		}
		return err
	})
	n.Once("edge2 starts again", func() error { return e.Path.Up(n.Ctx, e) })
	n.up()
	n.speak(n.guests["red2"])
	n.knows(1, n.guests["red2"], 2)
	n.Pings(harness.Ways(n.guests["red1"], n.guests["red2"])...)
}

// pathState is what BFD says of an edge's path to a TEP.
func (n *fabric) pathState(number int, tep netip.Addr, state string) error {
	teps, err := n.api(number).TEPs(n.Ctx)
	for _, t := range teps {
		for _, p := range t.Paths {
			if p.Remote == tep && p.State == state {
				return err
			}
		}
	}
	return errors.Join(fmt.Errorf("%+v", teps), err)
}

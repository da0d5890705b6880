package edge

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

func targetOf(vni overlay.VNI) []overlay.RouteTarget {
	return []overlay.RouteTarget{overlay.ASTarget(65000, uint32(vni))}
}

// fromFar is a route of another edge, as the reflector tells it.
func fromFar(to netip.Addr, r evpn.Route) evpn.Update {
	r.NextHop, r.Encapsulation, r.LocalPref = to, overlay.VXLAN, 100
	r.RD = overlay.AddrDistinguisher(to, uint16(r.VNI))
	r.Targets = targetOf(r.VNI)
	if r.L3VNI != 0 {
		r.Targets = append(r.Targets, targetOf(r.L3VNI)...)
	}
	return evpn.Update{Neighbour: rr, Route: r}
}

func joins(to netip.Addr) evpn.Update {
	return fromFar(to, evpn.Route{Key: evpn.Key{Type: evpn.Multicast, Addr: to}, VNI: 100})
}

func hostAt(to netip.Addr, m overlay.MAC, a netip.Addr, sequence uint32) evpn.Update {
	return fromFar(to, evpn.Route{Key: evpn.Key{Type: evpn.MACIP, MAC: m, Addr: a}, VNI: 100, Sequence: sequence})
}

func prefixAt(to netip.Addr, p string, routerMAC overlay.MAC) evpn.Update {
	return fromFar(to, evpn.Route{Key: evpn.Key{Type: evpn.Prefix, Prefix: prefix(p)}, VNI: 5000, RouterMAC: routerMAC})
}

// runBGP is run, until the session with the reflector is up.
func (w *world) runBGP() (*api.Client, func() error) {
	w.t.Helper()
	c, stop := w.run()
	w.within("sessions are wanted", func() bool { return w.spoken().options.Receive != nil })
	w.spoken().options.Session(evpn.Session{Neighbour: rr, Up: true, At: time.Now()})
	return c, stop
}

// spoken is what there is of BGP by now.
func (w *world) spoken() fakeFabric {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.learned
}

func (w *world) receive(updates ...evpn.Update) { w.spoken().options.Receive(updates) }

// holds reports whether the fabric is as f says.
func (w *world) has(f func(*fakeFabric) bool) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return f(&w.learned)
	}
}

func (w *world) remotesOf(segment string) []netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.tables.Segments {
		if s.Name == segment {
			return s.Remotes
		}
	}
	return nil
}

// routeTo is what the data path was last told of a prefix, by tables or alone.
func (w *world) routeTo(router string, p netip.Prefix) fib.Route {
	w.mu.Lock()
	defer w.mu.Unlock()
	if put, ok := w.learned.routes[router][p]; ok {
		return put
	}
	for _, r := range w.tables.Routers {
		for _, route := range r.Routes {
			if r.Name == router && route.Prefix == p {
				return route
			}
		}
	}
	return fib.Route{}
}

func hopsOf(r fib.Route) (list []netip.Addr) {
	for _, h := range r.Hops {
		list = append(list, h.Remote)
	}
	return list
}

func TestBGPLearns(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	w.receive(joins(far), hostAt(far, hostA, netip.Addr{}, 0), hostAt(far, hostA, addr("10.0.0.7"), 0), prefixAt(far, "10.7.0.0/16", farMAC))
	w.within("the host is known", w.has(func(f *fakeFabric) bool {
		return f.bgpMACs[hostLocation{"blue", hostA}].Remote == far && f.arpEntries[addrIn{"blue", addr("10.0.0.7")}] == hostA
	}))
	for _, segment := range []string{"blue", "tenant-l3"} {
		if got := w.remotesOf(segment); !slices.Equal(got, []netip.Addr{far}) {
			t.Errorf("remotes of %s %v", segment, got)
		}
	}
	w.mu.Lock()
	noLearning, loopbacks := w.tables.NoLearning, w.tables.Routers[0].Loopbacks
	w.mu.Unlock()
	if !slices.Equal(noLearning["blue"], []netip.Addr{far}) || !slices.Equal(loopbacks, []netip.Addr{addr("10.255.0.1")}) {
		t.Errorf("untaught %v, loopbacks %v", noLearning, loopbacks)
	}
	w.within("the prefix is routed", func() bool {
		r := w.routeTo("tenant", prefix("10.7.0.0/16"))
		return len(r.Hops) == 1 && r.Hops[0] == fib.Hop{Segment: "tenant-l3", Remote: far, MAC: farMAC}
	})
	routes, err := c.Routes(context.Background(), netip.Addr{})
	if err != nil || !slices.ContainsFunc(routes, func(r api.RouteInfo) bool { return r.Prefix == prefix("10.7.0.0/16") && r.Origin == "bgp" }) {
		t.Errorf("routes %v, %v", routes, err)
	}
	teps, err := c.TEPs(context.Background())
	if err != nil || len(teps) != 1 || teps[0].Address != far || len(teps[0].Paths) != 1 {
		t.Errorf("TEPs %+v, %v", teps, err)
	}
	gone := hostAt(far, hostA, netip.Addr{}, 0)
	gone.Withdrawn = true
	again := hostAt(far, hostA, addr("10.0.0.7"), 0)
	again.Withdrawn = true
	last := prefixAt(far, "10.7.0.0/16", farMAC)
	last.Withdrawn = true
	w.receive(gone, again, last)
	w.within("all is gone", w.has(func(f *fakeFabric) bool { return len(f.bgpMACs)+len(f.arpEntries) == 0 }))
	w.within("the prefix too", func() bool { return w.routeTo("tenant", prefix("10.7.0.0/16")).Kind == "" })
}

// A host that is behind a remote of the tables is written without a reconciliation.
func TestBGPIncremental(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.runBGP()
	w.receive(joins(far), prefixAt(far, "10.7.0.0/16", farMAC))
	w.within("the remote is known", func() bool { return len(w.remotesOf("tenant-l3")) == 1 && len(w.remotesOf("blue")) == 1 })
	w.within("tables are in force", func() bool { return len(w.routeTo("tenant", prefix("10.7.0.0/16")).Hops) == 1 })
	before := w.called("apply")
	w.receive(hostAt(far, hostB, netip.Addr{}, 0), prefixAt(far, "10.8.0.0/16", farMAC))
	w.within("the host is known", w.has(func(f *fakeFabric) bool {
		return f.bgpMACs[hostLocation{"blue", hostB}].Remote == far && len(f.routes["tenant"][prefix("10.8.0.0/16")].Hops) == 1
	}))
	if after := w.called("apply"); after != before {
		t.Errorf("%d reconciliations for a host", after-before)
	}
	// The next reconciliation has it too, as the data path forgets what it was told between.
	w.set(func() {})
	w.within("reconciled", func() bool { return w.called("apply") > before })
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.tables.Routers[0].Routes; !slices.ContainsFunc(r, func(r fib.Route) bool { return r.Prefix == prefix("10.8.0.0/16") }) {
		t.Errorf("tables without the learned route: %v", r)
	}
}

func TestBGPAnnounces(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.learned.hosts = []datapath.LocalHost{
		{Segment: "blue", Port: "p0", MAC: hostA, Origin: datapath.OriginLearned},
		{Segment: "blue", Port: "p0", MAC: hostA, Addr: addr("10.0.0.5"), Origin: datapath.OriginLearned},
		{Segment: "red", Port: "p9", MAC: hostB, Origin: datapath.OriginLearned}, // is no instance
	}
	w.runBGP()
	has := func(keys ...string) func() bool {
		return w.has(func(f *fakeFabric) bool {
			return !slices.ContainsFunc(keys, func(k string) bool { _, reported := f.announced[k]; return !reported })
		})
	}
	w.within("all is told", has("from 192.0.2.1", hostA.String(), hostA.String()+" 10.0.0.5", "10.0.0.0/24", "10.255.0.1/32"))
	if f := w.spoken(); slices.ContainsFunc([]string{hostB.String()}, func(k string) bool { _, reported := f.announced[k]; return reported }) {
		t.Errorf("a host of red was announced: %v", f.announced)
	}
	w.spoken().hostEvents <- []datapath.HostEvent{{Segment: "blue", Port: "p1", MAC: hostB}, {Segment: "blue", Port: "p1", MAC: hostB, Addr: addr("10.0.0.6")}}
	w.within("a new host is told", has(hostB.String(), hostB.String()+" 10.0.0.6"))
	flags := func(want rib.NDFlags) func() bool {
		return w.has(func(f *fakeFabric) bool { return f.announced[hostB.String()+" 2001:db8::6"].ND == want })
	}
	w.spoken().hostEvents <- []datapath.HostEvent{{Segment: "blue", Port: "p1", MAC: hostB, Addr: addr("2001:db8::6"), ND: rib.NDRouter}}
	w.within("a new router is told as one", flags(rib.NDRouter))
	w.spoken().hostEvents <- []datapath.HostEvent{{Segment: "blue", Port: "p1", MAC: hostB, Addr: addr("2001:db8::6"), ND: rib.NDOverride}}
	w.within("a router that is none any more is told", flags(0))
	if n := w.called("announce " + hostB.String()); n > 0 {
		t.Error("remotes were told by frames, of which all speak BGP")
	}
	// Of those that the data path no longer has, the rest is withdrawn: B has just come.
	w.set(func() {
		w.learned.hosts = w.learned.hosts[1:]
		w.learned.hosts[0].MAC = hostB
		delete(w.hostState.Links, "veth0")
	})
	w.within("vanished hosts are withdrawn", w.has(func(f *fakeFabric) bool {
		_, a := f.announced[hostA.String()]
		_, b := f.announced[hostB.String()]
		return !a && len(f.withdrawn) > 0 && !b
	}))
}

// A host is not at a port that lost its link.
func TestBGPLinkLost(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.hostState.Links["tap0"] = host.Link{Name: "tap0", Index: 4, MTU: 1500, Up: true}
	w.learned.hosts = []datapath.LocalHost{
		{Segment: "blue", Port: "p0", MAC: hostA, Origin: datapath.OriginLearned},
		{Segment: "blue", Port: "p0", MAC: hostA, Addr: addr("10.0.0.5"), Origin: datapath.OriginLearned},
		{Segment: "blue", Port: "p1", MAC: hostB, Origin: datapath.OriginLearned},
	}
	w.runBGP()
	w.within("the hosts are told", w.has(func(f *fakeFabric) bool { _, reported := f.announced[hostB.String()]; return reported }))
	w.set(func() {
		link := w.hostState.Links["veth0"]
		link.Up = false
		w.hostState.Links["veth0"] = link
	})
	w.within("those of the port are forgotten", w.has(func(f *fakeFabric) bool { return len(f.forgotten) > 0 }))
	if f := w.spoken(); !slices.Equal(f.forgotten, []hostLocation{{"blue", hostA}}) {
		t.Errorf("forgotten are %v", f.forgotten)
	}
}

func TestBGPMoves(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	w.receive(joins(far), hostAt(far, hostA, netip.Addr{}, 0), hostAt(far, hostA, addr("10.0.0.7"), 0))
	w.within("the host is known", w.has(func(f *fakeFabric) bool { return f.arpEntries[addrIn{"blue", addr("10.0.0.7")}] == hostA }))
	w.set(func() { w.learned.order = nil })
	w.spoken().hostEvents <- []datapath.HostEvent{{Segment: "blue", Port: "p0", MAC: hostA, WasRemote: true, Remote: far}}
	w.within("told with a higher sequence", w.has(func(f *fakeFabric) bool { return f.announced[hostA.String()].Sequence == 1 }))
	w.within("asked for the addresses that BGP knows", w.has(func(f *fakeFabric) bool { return slices.Equal(f.asked, []netip.Addr{addr("10.0.0.7")}) }))
	if order := w.spoken().order; order[0] != "tell" {
		t.Errorf("others were told after the maps were written: %v", order)
	}
	w.receive(hostAt(far, hostA, netip.Addr{}, 2))
	w.within("it is elsewhere again", w.has(func(f *fakeFabric) bool {
		return slices.Equal(f.forgotten, []hostLocation{{"blue", hostA}}) && f.bgpMACs[hostLocation{"blue", hostA}].Remote == far
	}))
	var moves api.BGPMovesInfo
	w.within("the moves are remembered", func() bool {
		var err error
		moves, err = c.BGP().Moves(context.Background())
		return err == nil && len(moves.Moves) >= 2
	})
	if moves.Moves[0].What != "moved away" || moves.Moves[0].MAC != hostA || moves.Moves[len(moves.Moves)-1].What != "moved here" {
		t.Errorf("moves %+v", moves.Moves)
	}
	if _, err := c.BGP().Thaw(context.Background(), "blue", hostA); err == nil || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("a MAC address that is not frozen was thawed: %v", err)
	}
}

// What a former process learned stays until the neighbours said all.
func TestBGPRestart(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.adopted, w.opts.Linger = true, time.Millisecond
	w.learned.previous = map[string][]netip.Addr{"blue": {far, remote}, "tenant-l3": {far}}
	w.learned.entries = []datapath.FDBEntry{
		{Segment: "blue", MAC: hostA, Remote: far, Origin: datapath.OriginBGP},
		{Segment: "blue", MAC: hostB, Remote: remote, Origin: datapath.OriginBGP},
	}
	for _, f := range w.learned.entries {
		w.learned.bgpMACs[hostLocation{f.Segment, f.MAC}] = rib.BGPMAC{Segment: f.Segment, MAC: f.MAC, Remote: f.Remote}
	}
	c, _ := w.runBGP()
	w.mu.Lock()
	first, keep, adopted := w.tables, w.tables.Keep, w.learned.options.Adopted
	w.mu.Unlock()
	if !keep || !adopted || !slices.Equal(first.NoLearning["blue"], []netip.Addr{remote, far}) {
		t.Errorf("keep %v, adopted %v, untaught %v", keep, adopted, first.NoLearning)
	}
	w.receive(joins(far), hostAt(far, hostA, netip.Addr{}, 0))
	w.within("it settles", func() bool {
		i, err := c.BGP().Info(context.Background())
		return err == nil && i.Settling && i.Routes.Used == 2
	})
	if !slices.Contains(w.remotesOf("blue"), remote) || len(w.spoken().bgpMACs) != 2 {
		t.Errorf("remotes %v, stations %v before the neighbour said all", w.remotesOf("blue"), w.spoken().bgpMACs)
	}
	w.spoken().options.Session(evpn.Session{Neighbour: rr, Up: true, Complete: true, At: time.Now()})
	w.within("the rest is gone", w.has(func(f *fakeFabric) bool {
		_, stays := f.bgpMACs[hostLocation{"blue", hostA}]
		return stays && len(f.bgpMACs) == 1
	}))
	w.within("the remote too", func() bool { return slices.Equal(w.remotesOf("blue"), []netip.Addr{far}) })
	if i, err := c.BGP().Info(context.Background()); err != nil || i.Settling {
		t.Errorf("%+v, %v", i, err)
	}
}

// Routes by a dead remote lead by the others within the event, and back.
func TestBGPDeadRemote(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.config.Routers[0].L3.Remotes = []netip.Addr{remote, far}
	w.config.Routers[0].Routes = []overlay.Route{{Prefix: prefix("10.9.0.0/16"), Kind: overlay.Unicast, Via: []overlay.NextHop{
		{Remote: remote, MAC: remoteL3}, {Remote: far, MAC: farMAC},
	}}}
	w.runBGP()
	other := prefixAt(remote, "10.7.0.0/16", remoteL3)
	w.receive(prefixAt(far, "10.7.0.0/16", farMAC), other)
	learned, static := prefix("10.7.0.0/16"), prefix("10.9.0.0/16")
	both := []netip.Addr{remote, far}
	w.within("both lead there", func() bool { return slices.Equal(hopsOf(w.routeTo("tenant", learned)), both) })
	toFar := overlay.Pair{Local: tep, Remote: far}
	live := func(state bfd.State) {
		w.mu.Lock() // not w.set: that asks for a reconciliation
		w.lives = map[overlay.Pair]bfd.Result{{Local: tep, Remote: remote}: {State: bfd.Up}, toFar: {State: state, Why: "silence"}}
		w.mu.Unlock()
		w.died <- struct{}{}
	}
	live(bfd.Up)
	w.within("it is steered", func() bool { return w.called("steer") > 0 })
	put := w.called("put routes")
	live(bfd.Down)
	for _, p := range []netip.Prefix{learned, static} {
		w.within("one leads there", func() bool { return slices.Equal(hopsOf(w.routeTo("tenant", p)), []netip.Addr{remote}) })
	}
	if w.called("put routes") == put {
		t.Error("it took a reconciliation")
	}
	live(bfd.Up)
	for _, p := range []netip.Prefix{learned, static} {
		w.within("both lead there again", func() bool { return slices.Equal(hopsOf(w.routeTo("tenant", p)), both) })
	}
}

func TestBGPNeighbourLiveness(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	pair := overlay.Pair{Local: tep, Remote: rr}
	w.within("the reflector is watched", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.peers, func(p bfd.Peer) bool { return p.Pair == pair && p.Hops == bfd.MaxHops && p.Timers.Multiplier == 3 })
	})
	live := func(r bfd.Result) {
		w.set(func() { w.lives = map[overlay.Pair]bfd.Result{pair: r} })
		w.died <- struct{}{}
		w.died <- struct{}{} // which is taken when the first has been dealt with
		w.within("the edge knows", func() bool { return len(w.died) == 0 })
	}
	live(bfd.Result{State: bfd.Up})
	w.within("it is up", func() bool {
		i, err := c.BGP().Info(context.Background())
		return err == nil && i.Neighbours[0].Liveness == "up"
	})
	live(bfd.Result{State: bfd.Down, Left: true})
	live(bfd.Result{State: bfd.Up})
	if f := w.spoken(); len(f.failed) > 0 {
		t.Errorf("a session out of use is no failure: %v", f.failed)
	}
	live(bfd.Result{State: bfd.Down, Why: "no packet for 150ms"})
	w.within("the session is ended", w.has(func(f *fakeFabric) bool {
		return slices.Equal(f.failed, []string{"192.0.2.100 BFD: no packet for 150ms"})
	}))
}

func TestBGPReload(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, stop := w.runBGP()
	w.receive(joins(far), prefixAt(far, "10.7.0.0/16", farMAC), hostAt(far, hostA, netip.Addr{}, 0))
	w.within("the remote is known", func() bool { return len(w.routeTo("tenant", prefix("10.7.0.0/16")).Hops) == 1 })
	known := w.has(func(f *fakeFabric) bool { return f.bgpMACs[hostLocation{"blue", hostA}].Remote == far })
	w.within("the host is known", known)
	w.set(func() { clear(w.learned.bgpMACs) }) // as when a static entry was in its place
	change := func(do func(*overlay.BGP)) {
		w.set(func() {
			next := *w.config.BGP
			do(&next)
			w.config.BGP = &next
		})
		w.hangup()
	}
	change(func(b *overlay.BGP) {
		b.Neighbours = append(slices.Clone(b.Neighbours), overlay.BGPNeighbour{Name: "rr2", Addr: addr("192.0.2.101"), AS: 65000})
	})
	w.within("the speaker has two neighbours", w.has(func(f *fakeFabric) bool { return len(f.config.Neighbours) == 2 && f.opened == 1 }))
	if got := w.routeTo("tenant", prefix("10.7.0.0/16")); len(got.Hops) != 1 {
		t.Errorf("a reload lost the route: %v", got)
	}
	w.within("the host is written again", known)
	change(func(b *overlay.BGP) { b.RouterID = addr("192.0.2.9") })
	w.within("it is another speaker", w.has(func(f *fakeFabric) bool { return f.opened == 2 && slices.Equal(f.kept, []bool{true}) }))
	w.set(func() {
		w.config.BGP, w.config.Segments[0].EVPN, w.config.Routers[0].L3.EVPN = nil, nil, nil
	})
	w.hangup()
	w.within("sessions end", w.has(func(f *fakeFabric) bool { return slices.Equal(f.kept, []bool{true, false}) }))
	w.within("the tables have nothing learned", func() bool {
		return len(w.remotesOf("blue")) == 0 && w.routeTo("tenant", prefix("10.7.0.0/16")).Kind == ""
	})
	if _, err := c.BGP().Info(context.Background()); err == nil || !strings.Contains(err.Error(), "spec.bgp") {
		t.Errorf("without BGP: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestBGPEnds(t *testing.T) {
	for _, keep := range []bool{true, false} {
		w := newBGPWorld(newWorld(t))
		w.opts.RemoveAtExit = !keep
		_, stop := w.runBGP()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := w.spoken().kept; !slices.Equal(got, []bool{keep}) {
			t.Errorf("kept %v, the data path %v", got, keep)
		}
	}
}

// What cannot be written is tried again as a whole.
func TestBGPWritesAgain(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	w.receive(joins(far))
	w.within("the remote is known", func() bool { return len(w.remotesOf("blue")) == 1 })
	w.set(func() { w.failing["put stations"] = errFake })
	w.receive(hostAt(far, hostA, netip.Addr{}, 0))
	w.within("it is said", func() bool { return w.problem(c, bgp.ProblemWrite, errFake.Error()) })
	w.set(func() { delete(w.failing, "put stations") })
	w.within("it is written", w.has(func(f *fakeFabric) bool { return f.bgpMACs[hostLocation{"blue", hostA}].Remote == far }))
	w.within("all is well", func() bool { return !w.problem(c, bgp.ProblemWrite) })
}

func TestBGPSpeaksLater(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.failing["speak"] = errFake
	c, _ := w.run()
	w.within("it is said", func() bool { return w.problem(c, bgp.ProblemRun, errFake.Error()) })
	w.set(func() { delete(w.failing, "speak"); w.learned.announced = map[string]evpn.Route{} })
	w.within("all is told", w.has(func(f *fakeFabric) bool { _, reported := f.announced["from 192.0.2.1"]; return reported }))
}

// A remote that speaks no BGP is told of moved hosts by frames, as without BGP.
func TestMovesAreAnnounced(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.config.Segments[0].Remotes = []netip.Addr{remote}
	w.runBGP()
	w.spoken().hostEvents <- []datapath.HostEvent{{Segment: "blue", Port: "p0", MAC: hostA, WasRemote: true}, {Segment: "red", Port: "p1", MAC: hostB}}
	w.within("mixed and old-style remotes are told", func() bool {
		return w.called("announce "+hostA.String()) == 1 && w.called("announce "+hostB.String()) == 1
	})
}

// Prefixes of egress addresses follow their owner.
func TestBGPEgress(t *testing.T) {
	w := newEgressWorld(newBGPWorld(newWorld(t)))
	w.config.Segments[0].EVPN, w.config.Segments[0].Gateway = nil, nil
	w.config.BGP.Neighbours[0].Families = []overlay.BGPFamily{overlay.FamilyIPv4}
	w.config.BGP.Neighbours[0].Uplink, w.config.BGP.Neighbours[0].Announce = "wan", []overlay.RouteSource{overlay.SourceEgress}
	w.lives = map[overlay.Pair]bfd.Result{{Local: gw1, Remote: gw2}: {State: bfd.Up}}
	c, _ := w.run()
	announced := func(f *fakeFabric) bool {
		a, ok := f.announced[pool.String()+"/32"]
		return ok && a.NextHop == addr("203.0.113.1")
	}
	w.within("the pool is announced", w.has(announced))
	applied := w.called("apply")
	if _, err := c.Egress().Drain(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	w.within("it is withdrawn", w.has(func(f *fakeFabric) bool { return !announced(f) }))
	if _, err := c.Egress().Undrain(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.within("it is announced again", w.has(announced))
	if now := w.called("apply"); now != applied {
		t.Errorf("%d reconciliations", now-applied)
	}
}

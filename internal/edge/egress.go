package edge

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/replica"
)

// mostFailovers are remembered.
const mostFailovers = 256

// retryAfter is when tables that could not be written are tried again.
const retryAfter = 100 * time.Millisecond

// gateways is who serves the sources of egress policies, and why: a part of steering, whose
// mu guards it.
type gateways struct {
	gatewayStates map[netip.Addr]gatewayStates // this edge too; nil before tables were written
	own           ownState
	owned         map[place]bool // addresses that this edge answers for
	problems      []problem.Problem
	failovers     []api.Failover
	last          int // number of the last one

	drain  *drain
	active int        // sessions with packets lately, at the last look of a drain
	saved  remembered // in the file
	file   string
	// joined: the sessions of the other gateways have come, or are not waited for any longer.
	joined, isolated bool
	joinBy           time.Time
	leaving          bool
	// remembered are the gateways that were gone when a former process ended.
	remembered map[netip.Addr]bool
	replicas   func() map[replica.ID]replica.State // nil without replication

	again  *time.Timer
	nudged chan struct{} // has a mark when gateways are to be judged anew
}

// place is an address at an uplink.
type place struct {
	uplink string
	addr   netip.Addr
}

// states are those of judged, for those who share the work.
func states(all map[netip.Addr]gatewayStates) func(netip.Addr) nat.State {
	return func(member netip.Addr) nat.State { return all[member].State }
}

// evaluate says how all gateways stand at now, and when to ask again. mu is held.
func (s *pathSelector) evaluate(g snapshot, now time.Time) (all map[netip.Addr]gatewayStates, own ownState, again time.Time) {
	results := s.known()
	maps.DeleteFunc(results, func(p overlay.Pair, _ bfd.Result) bool { return p.Via != overlay.Via{} }) // they say nothing of the gateway
	w := electionInput{
		config: g.config, results: results, watched: g.config.Underlay.Liveness != nil, patient: true,
		remembered: s.gateways.remembered, now: now,
	}
	soonest := func(t time.Time) {
		if t.After(now) && (again.IsZero() || t.Before(again)) {
			again = t
		}
	}
	if s.monitor != nil {
		w.patient = now.Sub(s.opened) < patience
		soonest(s.opened.Add(patience))
	}
	for _, r := range w.results {
		if r.State == bfd.Unknown {
			soonest(r.Since.Add(patience))
		}
	}
	all = w.evaluate()
	if !isGateway(g.config) {
		return all, ownState{}, again
	}
	target, why := s.ownTarget(w, g)
	all[self(g.config)] = gatewayStates{State: target, why: why, held: w.heldByOthers()}
	settleHeld(g.config, all)
	if settled := all[self(g.config)]; settled.State != target {
		target, why = settled.State, "it answers again, but another gateway holds it back"
	}
	soonest(s.gateways.joinBy)
	if d := s.gateways.drain; d != nil {
		soonest(d.Deadline)
	}
	own, due := s.gateways.own.follow(target, why, now)
	soonest(due)
	all[self(g.config)] = gatewayStates{State: own.heeded, why: own.why, at: own.at}
	return all, own, again
}

// ownTarget is how this edge should stand, the worst of all that speaks against it. mu is
// held.
func (s *pathSelector) ownTarget(w electionInput, g snapshot) (target nat.State, why string) {
	if isolated := w.isolated(); isolated != s.gateways.isolated {
		if s.gateways.isolated = isolated; !isolated { // others did the work meanwhile
			s.gateways.joined, s.gateways.joinBy = false, w.now.Add(joinTimeout)
		}
	}
	target, why = s.gateways.drain.state(w.now)
	if state, because := plan.OwnState(g.config, g.hostState); state > target {
		target, why = state, because
	}
	switch {
	case s.gateways.leaving:
		return nat.Gone, "its process is stopping"
	case s.gateways.isolated:
		return nat.Gone, "no remote reaches it any more, so other gateways may serve in its place"
	case s.joining(w):
		return nat.Gone, "it waits for the other gateways and their sessions"
	}
	return target, why
}

// joining reports whether this edge should leave its work to the other gateways until it has
// met them and knows their sessions. mu is held.
func (s *pathSelector) joining(w electionInput) bool {
	gateways := &s.gateways
	others := partners(w.config)
	if gateways.joined || !w.watched || len(others) == 0 || !w.now.Before(gateways.joinBy) {
		gateways.joined = true
		return false
	}
	var states map[replica.ID]replica.State
	if gateways.replicas != nil {
		states = gateways.replicas()
	}
	there, missing, gone := 0, 0, 0
	for _, other := range others {
		switch _, up := w.look(other); {
		case up && !synced(w.config, other, states):
			missing++
		case up:
			there++
		case w.remembered[other]:
			gone++
		}
	}
	gateways.joined = missing == 0 && (there > 0 || gone == len(others))
	return !gateways.joined
}

// synced reports whether all links to a gateway that there should be have brought what it has.
func synced(e overlay.Edge, gateway netip.Addr, states map[replica.ID]replica.State) bool {
	return !slices.ContainsFunc(replicaLinks(e), func(l replica.Link) bool { return l.Remote == gateway && !states[l.ID()].Synced })
}

// moveGateways judges all gateways and has sources go by those that are there. It says
// which addresses came here, for those who tell the networks. mu is held.
func (s *pathSelector) moveGateways(now time.Time) (came announcement, err error) {
	if s.snapshot.config.Egress == nil {
		return came, nil
	}
	all, own, again := s.evaluate(s.snapshot, now)
	s.say(own)
	if s.gateways.gatewayStates != nil && sameStates(all, s.gateways.gatewayStates) {
		s.gateways.keep(all, own)
		s.gateways.askAgain(again, now)
		return came, nil
	}
	list := plan.Egresses(s.snapshot.config, s.snapshot.hostState, states(all))
	leased(s.snapshot.config, list, all)
	if err := s.snapshot.dp.Egress.SteerEgress(list); err != nil {
		s.gateways.askAgain(now.Add(retryAfter), now)
		return came, err
	}
	came = s.gateways.take(s.snapshot.config, all, own, list)
	s.gateways.askAgain(again, now)
	return came, nil
}

// say tells the other edges how this one stands.
func (s *pathSelector) say(own ownState) {
	if s.monitor != nil {
		s.monitor.SetService(service(own.reported))
	}
}

func sameStates(a, b map[netip.Addr]gatewayStates) bool {
	return maps.EqualFunc(a, b, func(x, y gatewayStates) bool { return x.State == y.State })
}

// keep takes over judgements that change nothing. When they were made stays.
func (g *gateways) keep(all map[netip.Addr]gatewayStates, own ownState) {
	for member, j := range all {
		if was, ok := g.gatewayStates[member]; ok && was.State == j.State {
			j.at = was.at
			all[member] = j
		}
	}
	g.gatewayStates, g.own = all, own
}

// take takes over judgements that the tables in list obey by now.
func (g *gateways) take(config overlay.Edge, all map[netip.Addr]gatewayStates, own ownState, list []fib.Egress) (came announcement) {
	written := time.Now()
	was, owned := g.owned, make(map[place]bool)
	returned := g.returned(all)
	came.failovers = g.record(config, all, written)
	for _, e := range list {
		for _, addr := range e.Owned {
			p := place{e.Uplink, addr}
			owned[p] = true
			if !was[p] {
				came.fresh++
			}
			if !was[p] || returned {
				came.places = append(came.places, p)
			}
		}
	}
	g.keep(all, own)
	g.owned, g.problems = owned, nil
	if config.Egress != nil {
		g.problems = gatewayProblems(config, all)
	}
	return came
}

// returned reports whether a gateway that was gone is there again: it may have answered for
// addresses all the while, unheard, so the networks are told of all of them once more.
func (g *gateways) returned(all map[netip.Addr]gatewayStates) bool {
	for member, was := range g.gatewayStates {
		if is, ok := all[member]; ok && was.State == nat.Gone && is.State != nat.Gone {
			return true
		}
	}
	return false
}

// record remembers whose state changed, and returns the numbers of what it wrote.
func (g *gateways) record(config overlay.Edge, all map[netip.Addr]gatewayStates, written time.Time) (numbers []int) {
	if g.gatewayStates == nil || config.Egress == nil {
		return nil
	}
	for _, group := range config.Egress.Gateways {
		for _, m := range group.Members {
			was, known := g.gatewayStates[m]
			is := all[m]
			if !known || was.State == is.State {
				continue
			}
			g.last++
			numbers = append(numbers, g.last)
			g.failovers = append(g.failovers, api.Failover{
				Number: g.last, Group: group.Name, Gateway: m, From: was.State.String(), To: is.State.String(), Why: is.why,
				Seen: is.at, Written: written,
			})
		}
	}
	g.failovers = g.failovers[max(0, len(g.failovers)-mostFailovers):]
	return numbers
}

// announced completes the failovers by which addresses came here.
func (g *gateways) announced(numbers []int, addresses int, at time.Time) {
	for i := range g.failovers {
		if f := &g.failovers[i]; slices.Contains(numbers, f.Number) {
			f.Announced, f.Addresses = &at, addresses
		}
	}
}

// askAgain has the gateways judged anew at a time, unless that is zero.
func (g *gateways) askAgain(at, now time.Time) {
	if g.again != nil {
		g.again.Stop()
		g.again = nil
	}
	if !at.IsZero() {
		nudged := g.nudged
		g.again = time.AfterFunc(at.Sub(now), func() { wake(nudged) })
	}
}

// wake leaves a mark in a channel of capacity one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gatewayProblems are what an operator should know of groups.
func gatewayProblems(config overlay.Edge, all map[netip.Addr]gatewayStates) (problems []problem.Problem) {
	for _, g := range config.Egress.Gateways {
		if len(g.Members) < 2 {
			continue
		}
		if config.Underlay.Liveness == nil {
			problems = append(problems, problem.Warning(
				"egress: group %s has %d gateways but no liveness detection: configure spec.underlay.bfd", g.Name, len(g.Members)))
			continue
		}
		var out []string
		for _, m := range g.Members {
			if j := all[m]; j.State != nat.Serving {
				out = append(out, fmt.Sprintf("%s is %s (%s)", gatewayName(config, m), j.State, j.why))
			}
		}
		slices.Sort(out)
		switch len(g.Members) - len(out) {
		case 0:
			problems = append(problems, problem.Error("egress: no gateway of group %s is serving: %s: check them and the network to them", g.Name, strings.Join(out, ", ")))
		case 1:
			problems = append(problems, problem.Warning("egress: only one gateway of group %s is left: %s: the next failure ends its connections", g.Name, strings.Join(out, ", ")))
		}
	}
	return problems
}

func gatewayName(config overlay.Edge, member netip.Addr) string {
	if member == self(config) {
		return config.Name
	}
	if name := config.Remote(member).Name; name != "" {
		return name
	}
	return member.String()
}

// announce hands over addresses that came to this edge.
func (e *edge) announce(a announcement) {
	if len(a.places) == 0 {
		return
	}
	select {
	case e.came <- a:
	case <-e.ended:
	}
}

// judgements are those in force. They are replaced, never changed.
func (s *pathSelector) judgements() map[netip.Addr]gatewayStates {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateways.gatewayStates
}

// steerAndSave steers, and remembers the gateways for a later process.
func (e *edge) steerAndSave() {
	e.steer()
	e.saveGateways()
}

// joinGateways begins to be one of the gateways. What a former process knew counts while its
// data path does.
func (e *edge) joinGateways() error {
	e.pathSelector.mu.Lock()
	e.pathSelector.gateways.joinBy = time.Now().Add(joinTimeout)
	e.pathSelector.mu.Unlock()
	return e.loadGateways()
}

// leaveGateways gives this edge's work to the other gateways, if there are any: without a
// process nobody tells it what they do.
func (e *edge) leaveGateways() {
	s := &e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.ContainsFunc(partners(s.snapshot.config), func(m netip.Addr) bool { return s.gateways.gatewayStates[m].State != nat.Gone })
	if s.snapshot.dp != nil && s.snapshot.config.Underlay.Liveness != nil && others {
		s.gateways.leaving = true
		if _, err := s.moveGateways(time.Now()); err != nil {
			e.log.Error("release egress addresses", "err", err)
		}
	}
	s.snapshot.dp = nil
}

// stand ends all steering.
func (s *pathSelector) stand() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot.dp = nil
}

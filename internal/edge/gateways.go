package edge

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// heedAfter is how long this edge goes on taking new connections after it said that it
	// drains: until all others have heard.
	heedAfter = 200 * time.Millisecond
	// sayAfter is how long it waits before it says that it serves: until the networks of its
	// uplinks have heard.
	sayAfter = 100 * time.Millisecond
	// joinTimeout is how long after the start it waits for the other gateways and their
	// sessions.
	joinTimeout = 3 * time.Second
)

// gatewayStates is a gateway's state and the event that made it so.
type gatewayStates struct {
	nat.State
	why string
	at  time.Time
	// held: it answers again after a failure and is not relied on yet, while others are there.
	held bool
}

// electionInput is what is known when gateways are judged.
type electionInput struct {
	config  overlay.Edge
	results map[overlay.Pair]bfd.Result
	watched bool // liveness is configured
	patient bool // sessions that never answered may yet, since the watching began
	// remembered are those that were gone when a former process ended.
	remembered map[netip.Addr]bool
	now        time.Time
}

// self is this edge as a gateway.
func self(e overlay.Edge) netip.Addr { return e.Underlay.Local()[0].Addr }

// members are the gateways of all groups, sorted, each once.
func members(e overlay.Edge) (list []netip.Addr) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		list = append(list, g.Members...)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// isGateway reports whether e is a member of a group.
func isGateway(e overlay.Edge) bool { return slices.Contains(members(e), self(e)) }

// partners are the other members of groups that e is in.
func partners(e overlay.Edge) (list []netip.Addr) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		if slices.Contains(g.Members, self(e)) {
			list = append(list, g.Members...)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.DeleteFunc(slices.Compact(list), func(m netip.Addr) bool { return m == self(e) })
}

// isolated reports whether this edge has others to do its work and none of several remotes
// that answered does so now: then it is this edge that nobody hears. Of a single one it cannot
// be told which end died.
func (w electionInput) isolated() bool {
	down := make(map[netip.Addr]bool)
	for pair, r := range w.results {
		switch {
		case r.State == bfd.Up || r.Held:
			return false
		case r.State == bfd.Down:
			down[w.config.Remote(pair.Remote).Addrs[0]] = true
		}
	}
	return len(down) > 1 && w.watched && len(partners(w.config)) > 0
}

// evaluate says how the other gateways stand.
func (w electionInput) evaluate() map[netip.Addr]gatewayStates {
	all := make(map[netip.Addr]gatewayStates)
	silent := make(map[netip.Addr]gatewayStates)
	received := isGateway(w.config)
	for _, m := range members(w.config) {
		if m == self(w.config) {
			continue
		}
		j, answered := w.look(m)
		if all[m] = j; !answered {
			silent[m] = j
		}
		received = received || answered
	}
	for m, j := range silent {
		switch {
		case !w.watched:
		case w.patient && w.remembered[m]:
			j.State, j.why = nat.Gone, "it was down when this process started, and has not answered yet"
		case !w.patient && received && !w.mayAnswer(m):
			j.State, j.why = nat.Gone, "it never answered"
		}
		all[m] = j
	}
	return all
}

// mayAnswer reports whether a session with the gateway is too young for it to have answered.
func (w electionInput) mayAnswer(member netip.Addr) bool {
	return slices.ContainsFunc(w.pairsTo(member), func(p overlay.Pair) bool {
		r := w.results[p]
		return r.State == bfd.Unknown && w.now.Sub(r.Since) < patience
	})
}

// look judges a gateway by its sessions, and says whether any is up. Only other gateways hold
// one back that failed: sources go where the gateways agree that they should.
func (w electionInput) look(member netip.Addr) (j gatewayStates, answers bool) {
	var last gatewayStates // of the paths that are down
	j = gatewayStates{State: nat.Serving, why: "BFD is off", at: w.now}
	if w.watched {
		j.why = "it has not answered yet"
	}
	unknown, used := false, false
	for _, pair := range w.pairsTo(member) {
		switch r := w.results[pair]; {
		case r.State == bfd.Up || r.Held:
			if reported := reportedBy(r); !answers || reported.outweighs(j) {
				j = reported
			}
			answers, used = true, used || !r.Held
		case r.State == bfd.Down:
			if !r.Since.Before(last.at) {
				last = gatewayStates{State: nat.Gone, why: r.Why, at: r.Since}
			}
		default:
			unknown = true
		}
	}
	if answers {
		if j.held = !used && isGateway(w.config); j.held {
			j.why = "it answers again, and is held back"
		}
		return j, true
	}
	if unknown || last.at.IsZero() {
		return j, false
	}
	return last, true
}

// pairsTo are the sessions with a gateway, sorted.
func (w electionInput) pairsTo(member netip.Addr) []overlay.Pair {
	pairs := slices.SortedFunc(maps.Keys(w.results), overlay.Pair.Compare)
	return slices.DeleteFunc(pairs, func(p overlay.Pair) bool { return w.config.Remote(p.Remote).Addrs[0] != member })
}

// heldByOthers reports whether another gateway says that it holds this edge back.
func (w electionInput) heldByOthers() bool {
	others := partners(w.config)
	for pair, r := range w.results {
		if r.Holds && slices.Contains(others, w.config.Remote(pair.Remote).Addrs[0]) {
			return true
		}
	}
	return false
}

// settleHeld says which of the gateways that are held back serve all the same: those of a
// group in which nobody else does. The others count as gone.
func settleHeld(config overlay.Edge, all map[netip.Addr]gatewayStates) {
	needed := make(map[netip.Addr]bool)
	for _, g := range config.Egress.Gateways {
		relied := slices.ContainsFunc(g.Members, func(m netip.Addr) bool { return !all[m].held && all[m].State != nat.Gone })
		for _, m := range g.Members {
			needed[m] = needed[m] || !relied
		}
	}
	for m, j := range all {
		if j.held && !needed[m] {
			j.State = nat.Gone
			all[m] = j
		}
	}
}

// reportedBy is what a gateway that is alive says of itself.
func reportedBy(r bfd.Result) gatewayStates {
	j := gatewayStates{State: nat.Serving, why: "it reports so itself", at: r.Since}
	if r.ServiceSince.After(j.at) {
		j.at = r.ServiceSince
	}
	switch r.Service {
	case bfd.Draining:
		j.State = nat.Draining
	case bfd.OutOfService:
		j.State = nat.Gone
	}
	return j
}

// outweighs: the worst that a gateway says counts, and of the same the last.
func (j gatewayStates) outweighs(o gatewayStates) bool {
	return j.State > o.State || j.State == o.State && j.at.After(o.at)
}

// service is what others are told of a state.
func service(s nat.State) bfd.Service {
	switch s {
	case nat.Draining:
		return bfd.Draining
	case nat.Gone:
		return bfd.OutOfService
	}
	return bfd.InService
}

// ownState is this edge's: what it should be, what others are told and what its tables
// obey. Who goes says so first; who comes has its tables first.
type ownState struct {
	target, reported, heeded nat.State
	why                      string
	at                       time.Time // of target
}

// follow is the own state at now, with target from then on, and when it changes again
// by itself; zero when it does not.
func (o ownState) follow(target nat.State, why string, now time.Time) (next ownState, again time.Time) {
	next = o
	if target != o.target || o.at.IsZero() {
		next.target, next.at = target, now
	}
	next.why = why
	if o.at.IsZero() { // nobody has heard of it
		next.reported, next.heeded = target, target
		return next, time.Time{}
	}
	late := func(after time.Duration) bool {
		if due := next.at.Add(after); now.Before(due) {
			again = due
			return false
		}
		return true
	}
	if target >= o.reported || late(sayAfter) {
		next.reported = target
	}
	if target != nat.Draining || o.heeded > nat.Draining || late(heedAfter) {
		next.heeded = target
	}
	return next, again
}

// drain is the operator's wish that this edge gives its work away.
type drain struct {
	Asked    time.Time `json:"asked"`
	Deadline time.Time `json:"deadline"`
	Done     bool      `json:"done"`
}

// state is what the wish asks for.
func (d *drain) state(now time.Time) (s nat.State, why string) {
	switch {
	case d == nil:
		return nat.Serving, "it serves"
	case d.Done || !now.Before(d.Deadline):
		return nat.Gone, "it was drained: `selvage egress undrain` brings it back"
	}
	return nat.Draining, fmt.Sprintf("it drains, until %s at the latest", d.Deadline.Format(time.TimeOnly))
}

package gateway

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// Patience is how long after the start sessions that never answered may yet: they begin with
// a packet a second (RFC 5880 section 6.8.3).
const Patience = 3 * time.Second

// Status is a gateway's state and the event that made it so.
type Status struct {
	nat.State
	Why string
	At  time.Time
	// held: it answers again after a failure and is not relied on yet, while others are there.
	held bool
	// apart is since when it says that it serves and takes another gateway for gone; zero: it does not say so.
	apart time.Time
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
func (w electionInput) evaluate() map[netip.Addr]Status {
	all := make(map[netip.Addr]Status)
	silent := make(map[netip.Addr]Status)
	received := IsMember(w.config)
	for _, m := range Members(w.config) {
		if m == Self(w.config) {
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
			j.State, j.Why = nat.Gone, "it was down when this process started, and has not answered yet"
		case !w.patient && received && !w.mayAnswer(m):
			j.State, j.Why = nat.Gone, "it never answered"
		}
		all[m] = j
	}
	return all
}

// mayAnswer reports whether a session with the gateway is too young for it to have answered.
func (w electionInput) mayAnswer(member netip.Addr) bool {
	return slices.ContainsFunc(w.pairsTo(member), func(p overlay.Pair) bool {
		r := w.results[p]
		return r.State == bfd.Unknown && w.now.Sub(r.Since) < Patience
	})
}

// look judges a gateway by its sessions, and says whether any is up. Only other gateways hold
// one back that failed: sources go where the gateways agree that they should.
func (w electionInput) look(member netip.Addr) (j Status, answers bool) {
	var last Status // of the paths that are down
	j = Status{State: nat.Serving, Why: "BFD is off", At: w.now}
	if w.watched {
		j.Why = "it has not answered yet"
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
			if at := turned(r); !at.Before(last.At) {
				last = Status{State: nat.Gone, Why: r.Why, At: at}
			}
		default:
			unknown = true
		}
	}
	if answers {
		if j.held = !used && IsMember(w.config); j.held {
			j.Why = "it answers again, and is held back"
		}
		return j, true
	}
	if unknown || last.At.IsZero() {
		return j, false
	}
	return last, true
}

// pairsTo are the sessions with a gateway, sorted.
func (w electionInput) pairsTo(member netip.Addr) []overlay.Pair {
	pairs := slices.SortedFunc(maps.Keys(w.results), overlay.Pair.Compare)
	return slices.DeleteFunc(pairs, func(p overlay.Pair) bool { return w.config.Remote(p.Remote).Addrs[0] != member })
}

// apart reports whether this edge takes another gateway of its groups for gone which does not answer, so that it may serve too.
func (w electionInput) apart(all map[netip.Addr]Status) bool {
	return w.watched && slices.ContainsFunc(partners(w.config), func(m netip.Addr) bool { return all[m].State == nat.Gone && !w.answers(m) })
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
func settleHeld(config overlay.Edge, all map[netip.Addr]Status) {
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
func reportedBy(r bfd.Result) Status {
	j := Status{State: nat.Serving, Why: "it reports so itself", At: turned(r)}
	if r.ServiceSince.After(j.At) {
		j.At = r.ServiceSince
	}
	switch r.Service {
	case bfd.Apart:
		j.apart = r.ServiceSince
	case bfd.Draining:
		j.State = nat.Draining
	case bfd.OutOfService:
		j.State = nat.Gone
	}
	return j
}

// turned is when a gateway began to answer, or ceased to. One that is held back may do both while its pair stays down.
func turned(r bfd.Result) time.Time {
	if r.Turned.After(r.Since) {
		return r.Turned
	}
	return r.Since
}

// outweighs: the worst that a gateway says counts, and of the same the last.
func (j Status) outweighs(o Status) bool {
	return j.State > o.State || j.State == o.State && j.At.After(o.At)
}

package gateway

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// Decision is how all gateways stand at a time.
type Decision struct {
	States map[netip.Addr]Status

	config overlay.Edge
	own    ownState
	apart  bool // another gateway of its groups does not answer to this edge
	// withheld are addresses that another host has, for which this edge does not answer.
	withheld map[Place]bool
	left     map[Place]bool // of these, that this edge would answer for
	now      time.Time
	again    time.Time // when to ask again; zero: not by itself
}

// State is that of a gateway, for those who share the work.
func (d Decision) State(member netip.Addr) nat.State { return d.States[member].State }

// Service is what others are told of this edge.
func (d Decision) Service() bfd.Service { return service(d.own.reported, d.apart) }

// Same reports whether tables of both are the same.
func (d Decision) Same(o Decision) bool { return sameStates(d.States, o.States) }

// Lease marks what this edge answers for only while its process lives, and leaves out what is another host's.
func (d Decision) Lease(list []fib.Egress) {
	if d.config.Egress == nil {
		return
	}
	leased(d.config, list, d.States)
	for i := range list {
		e := &list[i]
		if len(d.withheld) > 0 {
			e.Owned = slices.DeleteFunc(slices.Clone(e.Owned), func(a netip.Addr) bool {
				p := Place{e.Uplink, a}
				d.left[p] = d.left[p] || d.withheld[p]
				return d.withheld[p]
			})
		}
	}
}

// Evaluate says how all gateways stand at now, and when to ask again.
func (r *Role) Evaluate(f Facts, now time.Time) Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := maps.Clone(f.Results)
	maps.DeleteFunc(results, func(p overlay.Pair, _ bfd.Result) bool { return p.Via != overlay.Via{} }) // they say nothing of the gateway
	w := electionInput{
		config: f.Config, results: results, watched: f.Config.Underlay.Liveness != nil, patient: true,
		remembered: r.remembered, now: now,
	}
	d := Decision{config: f.Config, withheld: r.Claims.note(f), left: map[Place]bool{}, now: now}
	if !f.Watched.IsZero() {
		w.patient = now.Sub(f.Watched) < Patience
		d.soonest(f.Watched.Add(Patience))
	}
	for _, result := range w.results {
		if result.State == bfd.Unknown {
			d.soonest(result.Since.Add(Patience))
		}
	}
	d.States = w.evaluate()
	if IsMember(f.Config) {
		r.evaluateOwn(w, f, &d)
	}
	return d
}

// soonest has the gateways judged anew at t, if nothing comes before that.
func (d *Decision) soonest(t time.Time) {
	if t.After(d.now) && (d.again.IsZero() || t.Before(d.again)) {
		d.again = t
	}
}

// evaluateOwn adds this edge. mu is held.
func (r *Role) evaluateOwn(w electionInput, f Facts, d *Decision) {
	self := Self(f.Config)
	target, why := r.target(w, f)
	if target == nat.Gone || !r.own.at.IsZero() && r.own.heeded != nat.Gone {
		r.resolved, r.resolveBy = false, time.Time{} // it does not come
	} else if wait := cmp.Or(r.awaitNextHops(w), r.Sessions.await(w)); wait != "" {
		target, why = nat.Gone, wait
	}
	d.States[self] = Status{State: target, Why: why, held: w.heldByOthers()}
	settleHeld(f.Config, d.States)
	if settled := d.States[self]; settled.State == target {
		r.heldSince = time.Time{}
	} else if !r.goesOnHeld(d) {
		target, why = settled.State, "it answers again, but another gateway holds it back"
	}
	d.soonest(r.joinBy)
	d.soonest(r.resolveBy)
	if r.drain != nil {
		d.soonest(r.drain.Deadline)
	}
	own, due := r.own.follow(target, why, d.now)
	d.soonest(due)
	d.own = own
	d.apart = w.apart(d.States)
	d.States[self] = Status{State: own.heeded, Why: own.why, At: own.at}
}

// goesOnHeld reports whether this edge serves on although another gateway that serves holds it back. Two
// that held each other back stop at the same moment, and the word of that is on its way: each would
// leave its work to the other. mu is held.
func (r *Role) goesOnHeld(d *Decision) bool {
	if r.own.at.IsZero() || r.own.heeded == nat.Gone {
		return false
	}
	if r.heldSince.IsZero() {
		r.heldSince = d.now
	}
	due := r.heldSince.Add(holdGrace)
	d.soonest(due)
	return d.now.Before(due)
}

// target is how this edge should stand, the worst of all that speaks against it. mu is held.
func (r *Role) target(w electionInput, f Facts) (target nat.State, why string) {
	if isolated := w.isolated(); isolated != r.isolated {
		if r.isolated = isolated; !isolated { // others may have done the work meanwhile
			r.joined, r.joinBy = false, w.now.Add(joinTimeout)
		}
	}
	target, why = r.drain.state(w.now)
	if state, because := plan.OwnState(f.Config, f.HostState); state > target {
		target, why = state, because
	}
	if because := unreached(f.Config, f.Dead); because != "" && target < nat.Gone {
		target, why = nat.Gone, because
	}
	switch {
	case r.leaving:
		return nat.Gone, "its process is stopping"
	case r.isolated:
		return nat.Gone, "no remote reaches it any more, so other gateways may serve in its place"
	}
	if wait := r.joining(w); wait != "" {
		return nat.Gone, wait
	}
	return target, why
}

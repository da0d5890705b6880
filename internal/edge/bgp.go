package edge

import (
	"context"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/writer"
)

func openSpeaker(ctx context.Context, o speaker.Options) (bgp.Speaker, error) {
	s, err := speaker.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// learned is what BGP has the goroutine of Run do, and what that remembers of it.
type learned struct {
	remotes  chan struct{} // has a mark when there are other remotes
	missed   chan struct{} // when hosts may have come that nobody told of
	complete chan struct{} // when neighbours said all after a restart
	// known is what is merged into the edge's config, as of the last reconciliation.
	known rib.Snapshot
	// left are the routes that the tables in force have no room for.
	left     []rib.Place
	problems []problem.Problem // at the last look
	ports    []string          // likewise
	// nextLook is that of a look at all hosts because some events were lost; the age tick looks, too.
	nextLook time.Time
}

func newLearned() learned {
	return learned{remotes: make(chan struct{}, 1), missed: make(chan struct{}, 1), complete: make(chan struct{}, 1)}
}

// bgpEvents has the goroutine of Run do what BGP asks for.
type bgpEvents struct{ e *edge }

func (b bgpEvents) RemotesChanged()                { wake(b.e.learned.remotes) }
func (b bgpEvents) Settled()                       { wake(b.e.learned.complete) }
func (b bgpEvents) HostsMissed()                   { wake(b.e.learned.missed) }
func (b bgpEvents) Problem(what string, err error) { b.e.faults.report(what, err) }

// followBGP has the edge speak BGP if the configuration asks for that. It is called when
// tables are in force.
func (e *edge) followBGP() {
	if e.state.configured.BGP == nil || e.bgp.Load() != nil {
		return
	}
	b := bgp.Start(bgp.Options{
		Edge: e.state.configured, NextHop: self(e.state.configured), Settling: e.learned.known.IsSettling(), Linger: e.opts.Linger,
		Open: e.opts.OpenSpeaker, Writer: e.writer, Hosts: bgpHosts{e}, Events: bgpEvents{e}, Enter: e.ns.enter, Log: e.log,
	})
	e.bgp.Store(b)
	e.offerPrefixes()
	e.lookHosts()
	b.Speak()
}

// configureBGP follows a change of the configuration, before the tables do.
func (e *edge) configureBGP() {
	b := e.bgp.Load()
	switch {
	case b == nil:
		return
	case e.state.configured.BGP == nil:
		e.faults.report(bgp.ProblemRun, e.endBGP(false))
		e.learned.known.Previous = nil
		e.writer.ReplaceRoutes(nil)
	default:
		b.Configure(e.state.configured)
		e.lookHosts()
	}
}

// endBGP ends the sessions. With keep neighbours go by what they heard for the time of a
// graceful restart.
func (e *edge) endBGP(keep bool) error {
	if b := e.bgp.Swap(nil); b != nil {
		return b.Close(keep)
	}
	return nil
}

// rememberLearned has the remotes of a former process stay until BGP said all anew.
func (e *edge) rememberLearned() {
	if e.adopted && e.state.configured.BGP != nil {
		previous, err := e.state.dp.Ports.PreviousRemotes(plan.Segments(e.state.configured))
		e.faults.report("read the remotes of a previous process", err)
		if e.learned.known.Previous = previous; previous == nil {
			e.learned.known.Previous = make(map[string][]netip.Addr)
		}
	}
}

// mergeLearned has config be what is configured and what BGP told of other edges.
func (e *edge) mergeLearned() {
	known := rib.Snapshot{Configured: e.state.configured, Previous: e.learned.known.Previous}
	if b := e.bgp.Load(); b != nil {
		known.Learned = b.State().Learned()
	}
	e.learned.known = known
	merged := known.Edge()
	e.state.mu.Lock()
	e.state.config = merged
	e.state.mu.Unlock()
}

// tellBGP lets BGP know that tables are in force which took so long to make.
func (e *edge) tellBGP(took time.Duration) {
	e.offerPrefixes()
	if b := e.bgp.Load(); b != nil {
		b.Applied(took, e.learned.left)
	}
}

// offerPrefixes says what the routers may tell others.
func (e *edge) offerPrefixes() {
	b := e.bgp.Load()
	if b == nil {
		return
	}
	b.Offer(prefixes(e.writer.InForce().Snapshot, e.role.Owned()))
}

// prefixes are what the routers may tell others.
func prefixes(s writer.Snapshot, places map[gateway.Place]bool) map[string]map[overlay.RouteSource][]netip.Prefix {
	owned := make([]plan.OwnedAddress, 0, len(places))
	for p := range places {
		owned = append(owned, plan.OwnedAddress{Uplink: p.Uplink, Addr: p.Addr})
	}
	all := make(map[string]map[overlay.RouteSource][]netip.Prefix)
	for _, r := range s.Edge.Routers {
		all[r.Name] = plan.Prefixes(s.Edge, s.HostState, r, owned)
	}
	return all
}

// sweepBGP has go what a former process learned and no neighbour said again.
func (e *edge) sweepBGP() {
	b := e.bgp.Load()
	if b == nil || !e.learned.known.IsSettling() {
		return
	}
	err := b.Sweep()
	e.faults.report("remove what a previous process learned", err)
	if err == nil {
		e.learned.known.Previous = nil
		e.reconcile()
	}
}

// bgpProblems are those of BGP, where the edge speaks it.
func (e *edge) bgpProblems() []problem.Problem {
	if b := e.bgp.Load(); b != nil {
		return b.State().Problems(time.Now())
	}
	return nil
}

// watchBGP logs problems that come and go.
func (e *edge) watchBGP() {
	now := e.bgpProblems()
	alarm.LogChanges(e.log, e.learned.problems, now)
	e.learned.problems = now
}

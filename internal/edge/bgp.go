package edge

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/fault"
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

// peering is the BGP of an edge: whether it speaks it, what BGP has the goroutine of Run do, and
// what that remembers of it.
type peering struct {
	log    *slog.Logger
	state  *state
	faults *fault.Faults
	writer *writer.Writer
	role   *gateway.Role
	linger time.Duration
	open   func(context.Context, speaker.Options) (bgp.Speaker, error)
	enter  func() error                 // the network namespace of the edge
	failed func() map[netip.Addr]string // the neighbours whose liveness sessions failed just now, and why

	process atomic.Pointer[bgp.Process] // nil without BGP

	remotes  chan struct{} // has a mark when there are other remotes
	missed   chan struct{} // when hosts may have come that nobody told of
	complete chan struct{} // when neighbours said all after a restart
	// known is what is merged into the edge's config, as of the last reconciliation.
	known rib.Snapshot
	// left are the routes that the tables in force have no room for.
	left   []rib.Place
	logged []problem.Problem // at the last look
	ports  []string          // likewise
	// nextLook is that of a look at all hosts because some events were lost; the age tick looks, too.
	nextLook time.Time
}

func newPeering(e *edge) peering {
	return peering{
		log: e.log, state: &e.state, faults: e.faults, writer: e.writer, role: e.egress.role, linger: e.opts.Linger, open: e.opts.OpenSpeaker,
		enter: e.ns.Enter, failed: e.liveness.Failed,
		remotes: make(chan struct{}, 1), missed: make(chan struct{}, 1), complete: make(chan struct{}, 1),
	}
}

// bgpEvents has the goroutine of Run do what BGP asks for.
type bgpEvents struct{ p *peering }

func (b bgpEvents) RemotesChanged()                { background.Notify(b.p.remotes) }
func (b bgpEvents) Settled()                       { background.Notify(b.p.complete) }
func (b bgpEvents) HostsMissed()                   { b.p.HostsMissed() }
func (b bgpEvents) Problem(what string, err error) { b.p.faults.Report(what, err) }

// follow has the edge speak BGP if the configuration asks for that. It is called when
// tables are in force.
func (p *peering) follow() {
	if p.state.configured.BGP == nil || p.process.Load() != nil {
		return
	}
	b := bgp.Start(bgp.Options{
		Edge: p.state.configured, NextHop: self(p.state.configured), Settling: p.known.IsSettling(), Linger: p.linger,
		Open: p.open, Writer: p.writer, Hosts: bgpHosts{p}, Events: bgpEvents{p}, Enter: p.enter, Log: p.log,
	})
	p.process.Store(b)
	p.offerPrefixes()
	p.lookHosts()
	b.Speak()
}

// configure follows a change of the configuration, before the tables do.
func (p *peering) configure() {
	b := p.process.Load()
	switch {
	case b == nil:
		return
	case p.state.configured.BGP == nil:
		p.faults.Report(bgp.ProblemRun, p.end(false))
		p.known.Previous = nil
		p.writer.ReplaceRoutes(nil)
	default:
		b.Configure(p.state.configured)
		p.lookHosts()
	}
}

// end ends the sessions. With keep neighbours go by what they heard for the time of a
// graceful restart.
func (p *peering) end(keep bool) error {
	if b := p.process.Swap(nil); b != nil {
		return b.Close(keep)
	}
	return nil
}

// remember has the remotes of a former process stay until BGP said all anew.
func (p *peering) remember(adopted bool) {
	if adopted && p.state.configured.BGP != nil {
		previous, err := p.state.dp.Ports.PreviousRemotes(plan.Segments(p.state.configured))
		p.faults.Report("read the remotes of a previous process", err)
		if p.known.Previous = previous; previous == nil {
			p.known.Previous = make(map[string][]netip.Addr)
		}
	}
}

// merge has config be what is configured and what BGP told of other edges.
func (p *peering) merge() {
	known := rib.Snapshot{Configured: p.state.configured, Previous: p.known.Previous}
	if b := p.process.Load(); b != nil {
		known.Learned = b.State().Learned()
	}
	p.known = known
	merged := known.Edge()
	p.state.mu.Lock()
	p.state.config = merged
	p.state.mu.Unlock()
}

// applied lets BGP know that tables are in force which took so long to make.
func (p *peering) applied(took time.Duration) {
	p.offerPrefixes()
	if b := p.process.Load(); b != nil {
		b.Applied(took, p.left)
	}
}

// offerPrefixes says what the routers may tell others.
func (p *peering) offerPrefixes() {
	b := p.process.Load()
	if b == nil {
		return
	}
	b.Offer(prefixes(p.writer.InForce().Snapshot, p.role.Owned()))
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

// sweep has go what a former process learned and no neighbour said again. It reports whether that
// takes a reconciliation.
func (p *peering) sweep() (swept bool) {
	b := p.process.Load()
	if b == nil || !p.known.IsSettling() {
		return false
	}
	err := b.Sweep()
	p.faults.Report("remove what a previous process learned", err)
	if err == nil {
		p.known.Previous = nil
	}
	return err == nil
}

// problems are those of BGP, where the edge speaks it.
func (p *peering) problems() []problem.Problem {
	if b := p.process.Load(); b != nil {
		return b.State().Problems(time.Now())
	}
	return nil
}

// watch logs problems that come and go.
func (p *peering) watch() {
	now := p.problems()
	alarm.LogChanges(p.log, p.logged, now)
	p.logged = now
}

// failNeighbours ends the BGP sessions of neighbours whose liveness sessions failed.
func (p *peering) failNeighbours() {
	b := p.process.Load()
	if b == nil {
		return
	}
	for neighbour, why := range p.failed() {
		b.Fail(neighbour, "BFD: "+why)
	}
}

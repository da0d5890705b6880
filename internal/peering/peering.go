// Package peering has an edge speak BGP as its configuration asks: it starts, changes and ends bgp.Process, gives it the
// hosts of the data path, and merges what it learned into the configuration that is planned.
//
// Its one invariant: what BGP asks for is done by the goroutine of the edge, which BGP never waits for. Do not decide here
// what a route means (evpn), nor how it is written (writer).
package peering

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/writer"
)

// OpenSpeaker opens that of GoBGP.
func OpenSpeaker(ctx context.Context, o speaker.Options) (bgp.Speaker, error) {
	s, err := speaker.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Edge is whose BGP it is. Its methods are called by the goroutine that calls Follow.
type Edge interface {
	// Configured is the configuration that is wanted.
	Configured() overlay.Edge
	// SetConfig takes that, with what BGP told of other edges.
	SetConfig(merged overlay.Edge)
	// Hosts are those of the data path in force.
	Hosts() Hosts
	// PreviousRemotes are remotes, by segment, that a former process knew by BGP alone.
	PreviousRemotes(segments []overlay.Segment) (map[string][]netip.Addr, error)
}

// Hosts are where a data path knows addresses to be.
type Hosts interface {
	// Hosts are those at ports.
	Hosts() ([]datapath.LocalHost, error)
	FDB() ([]datapath.FDBEntry, error)
	Neighbours() ([]datapath.Neighbour, error)
}

// Options are what a Peering needs.
type Options struct {
	Edge   Edge
	Writer *writer.Writer
	// Owned are the addresses that this edge answers for as a gateway.
	Owned func() map[gateway.Place]bool
	// Failed are the neighbours whose liveness sessions failed since it was asked last, and why.
	Failed func() map[netip.Addr]string
	// Session says whether there is one with a neighbour.
	Session func(neighbour netip.Addr, up bool)
	Linger  time.Duration // see bgp.Options
	Open    func(context.Context, speaker.Options) (bgp.Speaker, error)
	Enter   func() error // the network namespace of the edge
	Log     *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// Peering is the BGP of an edge. But for HostsCame, HostsMissed, OfferPrefixes, FailNeighbours, Process and Problems its
// methods are called by one goroutine.
type Peering struct {
	o       Options
	process atomic.Pointer[bgp.Process] // nil without BGP

	remotes  chan struct{} // has a mark when there are other remotes
	missed   chan struct{} // when hosts may have come that nobody told of
	complete chan struct{} // when neighbours said all after a restart
	// known is what is merged into the edge's config, as of the last reconciliation.
	known    rib.Snapshot
	previous []netip.Addr // neighbours of the former process, nil: unknown
	// left are the routes that the tables in force have no room for.
	left   []rib.Place
	logged []problem.Problem // at the last look
	ports  []string          // likewise
	// configured: hosts are to be looked for when the tables of another configuration are in force.
	configured bool
	// nextLook is that of a look at all hosts because some events were lost; the age tick looks, too.
	nextLook time.Time
	// lost are the outages, by segment, of the last offer.
	lostMu sync.Mutex
	lost   map[string]string
}

// New speaks with nobody yet.
func New(o Options) *Peering {
	return &Peering{o: o, remotes: make(chan struct{}, 1), missed: make(chan struct{}, 1), complete: make(chan struct{}, 1)}
}

// Remotes has a mark when there are other remotes, and the edge is to reconcile.
func (p *Peering) Remotes() <-chan struct{} { return p.remotes }

// Missed has a mark when LookMissedHosts is to be called.
func (p *Peering) Missed() <-chan struct{} { return p.missed }

// Complete has a mark when neighbours said all after a restart, and Sweep is to be called.
func (p *Peering) Complete() <-chan struct{} { return p.complete }

// Process is nil where the edge speaks no BGP.
func (p *Peering) Process() *bgp.Process { return p.process.Load() }

// IsSettling reports whether what a former process learned stays for now.
func (p *Peering) IsSettling() bool { return p.known.IsSettling() }

// SetLeftOut says which routes the tables in force have no room for.
func (p *Peering) SetLeftOut(left []rib.Place) { p.left = left }

// events has the goroutine of Run do what BGP asks for.
type events struct{ p *Peering }

func (b events) RemotesChanged()                { background.Notify(b.p.remotes) }
func (b events) Settled()                       { background.Notify(b.p.complete) }
func (b events) Session(s evpn.Session)         { b.p.o.Session(s.Neighbour, s.Up) }
func (b events) HostsMissed()                   { b.p.HostsMissed() }
func (b events) Problem(what string, err error) { b.p.o.Report(what, err) }

// Follow has the edge speak BGP if the configuration asks for that. It is called when
// tables are in force.
func (p *Peering) Follow() {
	if p.o.Edge.Configured().BGP == nil || p.process.Load() != nil {
		return
	}
	config := p.o.Edge.Configured()
	b := bgp.Start(bgp.Options{
		Edge: config, NextHop: gateway.Self(config), Settling: p.known.IsSettling(), Linger: p.o.Linger,
		Open: p.o.Open, Writer: p.o.Writer, Hosts: hosts{p}, Events: events{p}, Enter: p.o.Enter, Log: p.o.Log,
	})
	p.process.Store(b)
	p.OfferPrefixes()
	p.LookHosts()
	b.Speak()
}

// Configure follows a change of the configuration, before the tables do.
func (p *Peering) Configure() {
	b := p.process.Load()
	switch {
	case b == nil:
		return
	case p.o.Edge.Configured().BGP == nil:
		p.o.Report(bgp.ProblemRun, p.End(false))
		p.known.Previous = nil
		p.o.Writer.ReplaceRoutes(nil)
	default:
		b.Configure(p.o.Edge.Configured())
		if !sharesNeighbour(p.previous, *p.o.Edge.Configured().BGP) {
			p.Sweep()
		}
		p.LookHosts()
		p.configured = true
	}
}

// End ends the sessions. With keep neighbours go by what they heard for the time of a
// graceful restart.
func (p *Peering) End(keep bool) error {
	if b := p.process.Swap(nil); b != nil {
		return b.Close(keep)
	}
	return nil
}

// sharesNeighbour reports whether a neighbour of a former configuration is still one. Without, none is left to say again
// what was learned by that; unknown neighbours may be any.
func sharesNeighbour(previous []netip.Addr, now overlay.BGP) bool {
	return previous == nil || slices.ContainsFunc(now.Neighbours, func(n overlay.BGPNeighbour) bool { return slices.Contains(previous, n.Addr) })
}

// Remember has the remotes of a former process stay until BGP said all anew, by one of its neighbours; nil: they are unknown.
func (p *Peering) Remember(adopted bool, neighbours []netip.Addr) {
	p.previous = neighbours
	if c := p.o.Edge.Configured().BGP; adopted && c != nil && sharesNeighbour(neighbours, *c) {
		previous, err := p.o.Edge.PreviousRemotes(plan.Segments(p.o.Edge.Configured()))
		p.o.Report("read the remotes of a previous process", err)
		if p.known.Previous = previous; previous == nil {
			p.known.Previous = make(map[string][]netip.Addr)
		}
	}
}

// Merge has the configuration that is planned be what is configured and what BGP told of other edges.
func (p *Peering) Merge() {
	known := rib.Snapshot{Configured: p.o.Edge.Configured(), Previous: p.known.Previous}
	if b := p.process.Load(); b != nil {
		known.Learned = b.State().Learned()
	}
	p.known = known
	p.o.Edge.SetConfig(known.Edge())
}

// Applied lets BGP know that tables are in force which took so long to make. Those of another configuration may have forgotten
// hosts, which are withdrawn then.
func (p *Peering) Applied(took time.Duration) {
	p.OfferPrefixes()
	if b := p.process.Load(); b != nil {
		b.Applied(took, p.left)
	}
	if p.configured {
		p.configured = false
		p.LookHosts()
	}
}

// OfferPrefixes says what the routers may tell others.
func (p *Peering) OfferPrefixes() {
	b := p.process.Load()
	if b == nil {
		return
	}
	inForce := p.o.Writer.InForce()
	b.Offer(prefixes(inForce, p.o.Owned()))
	p.failLostUplinks(b, inForce)
}

// failLostUplinks ends the sessions with neighbours at uplinks that have lost their links since it was called last: what they
// told leads nowhere, and their hold time is long.
func (p *Peering) failLostUplinks(b *bgp.Process, inForce *writer.Published) {
	if inForce.Edge.BGP == nil {
		return
	}
	p.lostMu.Lock()
	was := p.lost
	p.lost = inForce.Outages.Segments
	p.lostMu.Unlock()
	for _, n := range inForce.Edge.BGP.Neighbours {
		if why := inForce.Outages.Segments[n.Uplink]; why != "" && was[n.Uplink] == "" {
			b.Fail(n.Addr, fmt.Sprintf("uplink %s: %s", n.Uplink, why))
		}
	}
}

// prefixes are what the routers may tell others.
func prefixes(s *writer.Published, places map[gateway.Place]bool) map[string]map[overlay.RouteSource][]netip.Prefix {
	owned := make([]plan.OwnedAddress, 0, len(places))
	for p := range places {
		owned = append(owned, plan.OwnedAddress{Uplink: p.Uplink, Addr: p.Addr})
	}
	all := make(map[string]map[overlay.RouteSource][]netip.Prefix)
	for _, r := range s.Edge.Routers {
		all[r.Name] = plan.Prefixes(s.Edge, s.Outages, r, owned)
	}
	return all
}

// Sweep has go what a former process learned and no neighbour said again. It reports whether that
// takes a reconciliation.
func (p *Peering) Sweep() (swept bool) {
	b := p.process.Load()
	if b == nil || !p.known.IsSettling() {
		return false
	}
	err := b.Sweep()
	p.o.Report("remove what a previous process learned", err)
	if err == nil {
		p.known.Previous = nil
	}
	return err == nil
}

// Problems are those of BGP, where the edge speaks it.
func (p *Peering) Problems() []problem.Problem {
	if b := p.process.Load(); b != nil {
		return b.State().Problems(time.Now())
	}
	return nil
}

// Watch logs problems that come and go.
func (p *Peering) Watch() {
	now := p.Problems()
	alarm.LogKinds(p.o.Log, p.logged, now)
	p.logged = now
}

// FailNeighbours ends the BGP sessions of neighbours whose liveness sessions failed.
func (p *Peering) FailNeighbours() {
	b := p.process.Load()
	if b == nil {
		return
	}
	for neighbour, why := range p.o.Failed() {
		b.Fail(neighbour, "BFD: "+why)
	}
}

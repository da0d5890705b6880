// Package failover has flows leave paths and gateways that died, and return to those that are back.
//
// Its one invariant: flows are steered before anything is told, remembered or logged of it. Do not decide here what is
// dead (liveness, gateway), nor how it is written (writer).
package failover

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/writer"
)

const (
	rememberGateways = "save the states of gateways"
	announceProblem  = "announce egress addresses"
	resolveProblem   = "resolve the next hops of uplinks"
	steerProblem     = "steer the flows"
)

// IsMinor reports whether a fault is one with which packets still go where they should.
func IsMinor(what string) bool { return what == rememberGateways || what == resolveProblem }

// Edge is whose flows are steered.
type Edge interface {
	// Neighbours are those that the data path knows.
	Neighbours() ([]datapath.Neighbour, error)
	// OfferPrefixes has BGP neighbours hear of addresses that moved.
	OfferPrefixes()
	// Enter has the calling thread be in the network namespace of the edge.
	Enter() error
}

// Options are what a Failover needs.
type Options struct {
	Edge        Edge
	Writer      *writer.Writer
	Role        *gateway.Role
	Replication *gateway.Replication
	NAT         gateway.NAT
	Log         *slog.Logger
	// Prober says which addresses other hosts have; nil: none.
	Prober gateway.Prober
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
	// Steered is told how long it took to lead packets another way; nil: nobody counts.
	Steered func(took time.Duration)
}

// Failover moves flows. Its methods may be called by any goroutine.
type Failover struct {
	o         Options
	announcer *gateway.Announcer
}

// New has steered nothing yet.
func New(o Options) *Failover {
	f := &Failover{o: o}
	f.announcer = gateway.NewAnnouncer(o.Role, uplinks{f}, o.Prober)
	return f
}

// Join has gateways remember from files what a former process knew; see gateway.Role.
func (f *Failover) Join(file, drainFile string, goesOn bool) {
	f.o.Report(rememberGateways, f.o.Role.Join(file, drainFile, goesOn))
}

// Announce tells the networks of uplinks of addresses that came here.
func (f *Failover) Announce(came gateway.Announcement) { f.announcer.Announce(came) }

// SetDrain gives the work of this edge as a gateway away, or with nil takes it back.
func (f *Failover) SetDrain(ctx context.Context, wish *gateway.Drain) {
	f.o.Role.SetDrain(ctx, wish)
	f.Steer()
}

// Watch judges the gateways anew when time or replication calls for it, until ctx ends.
func (f *Failover) Watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.o.Role.Due():
		case <-f.o.Replication.Changed():
		}
		f.Steer()
	}
}

// LinkLost has flows leave a link, by its index.
func (f *Failover) LinkLost(ifindex int) {
	if f.o.Writer.LinkLost(ifindex) {
		f.Steer()
	}
}

// Steer moves flows from paths and gateways that died, or to those that came back, and remembers the gateways for a
// later process.
func (f *Failover) Steer() {
	begin := time.Now()
	s := f.o.Writer.Steer()
	if s.Changed && f.o.Steered != nil {
		f.o.Steered(time.Since(begin))
	}
	f.announcer.Announce(s.Came)
	if s.Moved {
		f.o.Edge.OfferPrefixes()
	}
	if s.Err != nil || s.Failed {
		f.o.Report(steerProblem, s.Err)
	}
	alarm.LogChanges(f.o.Log, s.Was, s.Now)
	f.o.Report(rememberGateways, f.o.Role.Save())
}

// ResolveNextHops runs in the network namespace, until ctx ends.
func (f *Failover) ResolveNextHops(ctx context.Context) {
	f.enter(resolveProblem)
	gateway.NewNextHops(f.o.Role, f.o.NAT, uplinks{f}).Run(ctx)
}

// AnnounceAddresses runs the announcer in the network namespace, until ctx ends.
func (f *Failover) AnnounceAddresses(ctx context.Context) {
	f.enter(announceProblem)
	f.announcer.Run(ctx)
}

// enter has the goroutine be in the network namespace for good.
func (f *Failover) enter(what string) {
	runtime.LockOSThread()
	if err := f.o.Edge.Enter(); err != nil {
		f.o.Log.Error(what, "err", err) // the uplinks may still be found from here
	}
}

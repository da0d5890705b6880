// Package liveness has the paths of an edge, and its BGP neighbours, watched over by BFD as the configuration asks.
//
// Its one invariant: who asks what lives waits for nothing, as failover asks. Do not decide here what follows from a
// session that fails: which paths are used is planned (plan), and written by the writer.
package liveness

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

const (
	// leaveTimeout bounds how long the remotes are told that this edge goes.
	leaveTimeout = 2 * time.Second
	// WatchRemotes names the fault of sessions that cannot be had.
	WatchRemotes = "watch remotes by BFD"
)

// Sessions are with the far ends of paths, and with BGP neighbours.
type Sessions interface {
	// Set says which there are. It must be called in the network namespace of the underlay.
	Set(peers []bfd.Peer) error
	// SetService says what this edge does for others, which all remotes are told.
	SetService(service bfd.Service)
	Results() map[overlay.Pair]bfd.Result
	// LinkLost ends the sessions that go by a link, by its index, and no other way.
	LinkLost(ifindex int)
}

// Monitor has sessions until it is closed.
type Monitor interface {
	Sessions
	// Changed has a mark when there is news of a session.
	Changed() <-chan struct{}
	// Leave tells the remotes that the paths are no longer used.
	Leave(ctx context.Context) error
	// Close ends without a word. A second one does nothing.
	Close() error
}

// OpenMonitor opens that of BFD.
func OpenMonitor(log *slog.Logger) (Monitor, error) {
	m, err := bfd.NewMonitor(log)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Gateway is what remotes are told that this edge does for them.
type Gateway interface {
	Service() bfd.Service
	// Wake has the gateways be judged anew.
	Wake()
}

// Options are what a Watch needs.
type Options struct {
	Open    func(*slog.Logger) (Monitor, error)
	Gateway Gateway
	Changed func() // is called after news of a session, by a goroutine of its own
	Log     *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// Watch is what is watched over. Follow and Close are called by one goroutine.
type Watch struct {
	o Options

	mu      sync.Mutex // held for nothing that waits
	monitor Monitor    // nil where nothing is watched
	opened  time.Time
	end     func() // ends the goroutine and waits for it
	// neighbours are BGP's that are watched over, and lives what was last known of them. No
	// path is by those that are strangers.
	neighbours map[overlay.Pair]netip.Addr
	lives      map[netip.Addr]bfd.Result
	strangers  map[overlay.Pair]bool
}

// New watches over nothing yet.
func New(o Options) *Watch { return &Watch{o: o, lives: make(map[netip.Addr]bfd.Result)} }

// Results are what liveness knows of paths by now; nil where nothing is watched.
func (w *Watch) Results() map[overlay.Pair]bfd.Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.monitor == nil {
		return nil
	}
	results := w.monitor.Results()
	maps.DeleteFunc(results, func(p overlay.Pair, _ bfd.Result) bool { return w.strangers[p] })
	return results
}

// Since is when the watching began; zero: nothing is watched.
func (w *Watch) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.monitor == nil {
		return time.Time{}
	}
	return w.opened
}

// SetService tells the other edges what this one does for them.
func (w *Watch) SetService(service bfd.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.monitor != nil {
		w.monitor.SetService(service)
	}
}

// LinkLost ends the sessions that go by a link that was lost, by its index.
func (w *Watch) LinkLost(ifindex int) {
	w.mu.Lock()
	monitor := w.monitor
	w.mu.Unlock()
	if monitor != nil {
		monitor.LinkLost(ifindex)
	}
}

// set says which sessions are with BGP neighbours, and which with them alone.
func (w *Watch) set(neighbours map[overlay.Pair]netip.Addr, alone []bfd.Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.neighbours, w.strangers = neighbours, make(map[overlay.Pair]bool)
	for _, p := range alone {
		w.strangers[p.Pair] = true
	}
}

// Failed are the neighbours that were up when this was asked last, and why they no longer are.
func (w *Watch) Failed() map[netip.Addr]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	failed := make(map[netip.Addr]string)
	if w.monitor == nil {
		return failed
	}
	results := w.monitor.Results()
	for pair, neighbour := range w.neighbours {
		r := results[pair]
		if r.State == bfd.Down && !r.Left && w.lives[neighbour].State == bfd.Up {
			failed[neighbour] = cmp.Or(r.Why, "it is down")
		}
		w.lives[neighbour] = r
	}
	return failed
}

// Dead are the neighbours that answered and no longer do, and why. One that took its session out of use is none of them.
func (w *Watch) Dead() map[netip.Addr]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := make(map[netip.Addr]string)
	if w.monitor == nil {
		return dead
	}
	results := w.monitor.Results()
	for pair, neighbour := range w.neighbours {
		if r := results[pair]; r.State == bfd.Down && !r.Left && !r.Held {
			dead[neighbour] = cmp.Or(r.Why, "it is down")
		}
	}
	return dead
}

// Neighbours are the states of the sessions with watched neighbours, in words.
func (w *Watch) Neighbours() map[netip.Addr]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lives := make(map[netip.Addr]string)
	if w.monitor == nil {
		return lives
	}
	results := w.monitor.Results()
	for pair, neighbour := range w.neighbours {
		lives[neighbour] = string(cmp.Or(results[pair].State, bfd.Unknown))
	}
	return lives
}

// Follow has the paths watched if the configuration asks for that. paths are those in force, routes what the host has to
// their far ends. It must be called in the network namespace of the underlay.
func (w *Watch) Follow(config overlay.Edge, paths plan.PathPolicies, routes map[overlay.Pair]host.Path) {
	if config.Underlay.Liveness == nil {
		w.o.Report(WatchRemotes, w.Close(true))
		return
	}
	if w.monitor == nil {
		monitor, err := w.o.Open(w.o.Log)
		w.o.Report(WatchRemotes, err)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.monitor, w.opened, w.end = monitor, time.Now(), background.OnEach(monitor.Changed(), func(struct{}) { w.o.Changed() })
		w.mu.Unlock()
		w.SetService(w.o.Gateway.Service())
		if config.Egress != nil {
			w.o.Gateway.Wake() // sessions that never answer are judged when patience ends
		}
	}
	peers := plan.Peers(config, paths, routes)
	more, neighbours, err := neighbourPeers(config, peers)
	w.set(neighbours, more)
	w.o.Report(WatchRemotes, errors.Join(err, w.monitor.Set(append(peers, more...))))
}

// Close ends the watching. With leave the remotes are told first, for whom it is
// no failure then; without they see one on all paths at once, and use them on.
func (w *Watch) Close(leave bool) error {
	w.mu.Lock()
	monitor, end := w.monitor, w.end
	w.monitor = nil
	w.mu.Unlock()
	if monitor == nil {
		return nil
	}
	end()
	var left error
	if leave {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		left = monitor.Leave(ctx)
	}
	return errors.Join(left, monitor.Close())
}

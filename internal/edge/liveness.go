package edge

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
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/writer"
)

const (
	// leaveTimeout bounds how long the remotes are told that this edge goes.
	leaveTimeout = 2 * time.Second
	// watchLiveness names the fault of sessions that cannot be had.
	watchLiveness = "watch remotes by BFD"
)

// watched is what liveness watches over. Its lock is held for nothing that waits, as failover asks
// for it.
type watched struct {
	log     *slog.Logger
	state   *state
	faults  *fault.Faults
	role    *gateway.Role
	open    func(*slog.Logger) (Liveness, error)
	inForce func() *writer.Published
	changed func() // after news of a session

	mu      sync.Mutex
	monitor Liveness // nil without liveness
	opened  time.Time
	end     func() // ends the goroutine and waits for it
	// neighbours are BGP's that are watched over, and lives what was last known of them. No
	// path is by those that are strangers.
	neighbours map[overlay.Pair]netip.Addr
	lives      map[netip.Addr]bfd.Result
	strangers  map[overlay.Pair]bool
}

func newWatched(e *edge, changed func()) watched {
	return watched{
		log: e.log, state: &e.state, faults: e.faults, role: e.egress.role, open: e.opts.OpenLiveness, inForce: e.writer.InForce, changed: changed,
	}
}

// Results are what liveness knows of paths by now; nil where nothing is watched.
func (w *watched) Results() map[overlay.Pair]bfd.Result {
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
func (w *watched) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.monitor == nil {
		return time.Time{}
	}
	return w.opened
}

// SetService tells the other edges what this one does for them.
func (w *watched) SetService(service bfd.Service) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.monitor != nil {
		w.monitor.SetService(service)
	}
}

// set says which sessions are with BGP neighbours, and which with them alone.
func (w *watched) set(neighbours map[overlay.Pair]netip.Addr, alone []bfd.Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.neighbours, w.strangers = neighbours, make(map[overlay.Pair]bool)
	for _, p := range alone {
		w.strangers[p.Pair] = true
	}
	if w.lives == nil {
		w.lives = make(map[netip.Addr]bfd.Result)
	}
}

// failed are the neighbours that were up when this was asked last, and why they no longer are.
func (w *watched) failed() map[netip.Addr]string {
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

// neighbourLives are what is known of watched neighbours.
func (w *watched) neighbourLives() map[netip.Addr]string {
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

// watchOver has the paths watched, if the configuration asks for that.
func (w *watched) watchOver(hostState host.State) {
	if w.state.config.Underlay.Liveness == nil {
		w.faults.Report(watchLiveness, w.close(true))
		return
	}
	if w.monitor == nil {
		monitor, err := w.open(w.log)
		w.faults.Report(watchLiveness, err)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.monitor, w.opened, w.end = monitor, time.Now(), background.OnEach(monitor.Changed(), func(struct{}) { w.changed() })
		w.mu.Unlock()
		w.SetService(w.role.Service())
		if w.state.config.Egress != nil {
			w.role.Wake() // sessions that never answer are judged when patience ends
		}
	}
	peers := plan.Peers(w.state.config, w.inForce().Paths.PathPolicies, hostState.Routes)
	more, neighbours, err := neighbourPeers(w.state.config, peers)
	w.set(neighbours, more)
	w.faults.Report(watchLiveness, errors.Join(err, w.monitor.Set(append(peers, more...))))
}

// close ends the watching. With leave the remotes are told first, for whom it is
// no failure then; without they see one on all paths at once, and use them on.
func (w *watched) close(leave bool) error {
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

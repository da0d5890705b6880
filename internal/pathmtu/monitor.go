package pathmtu

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// raiseInterval is PMTU_RAISE_TIMER of RFC 8899 section 5.1.1.
	raiseInterval = 600 * time.Second
	// firstInterval follows a search that found something new but not the
	// ceiling; it doubles up to raiseInterval as long as nothing changes.
	firstInterval = 60 * time.Second
	// firstPause is the least time from a search that Recheck asked for, and that
	// found nothing new, to the next: packets of others make that happen. It doubles
	// up to maxPause as long as nothing changes.
	firstPause = time.Second
	maxPause   = 10 * time.Second
	// confirmInterval is the least time between confirmations of a path that is used: CONFIRMATION_TIMER
	// of RFC 8899 section 5.1.1.
	confirmInterval = 5 * time.Second
	// maxSearches is how many paths are searched at once.
	maxSearches = 16
)

// prober is what a Monitor needs of a Prober.
type prober interface {
	Probe(ctx context.Context, remote netip.Addr, ceiling, hint int) (Result, error)
	Confirm(ctx context.Context, remote netip.Addr, size int) (Result, error)
}

// Monitor keeps the path MTUs of a set of remotes up to date. Its methods may be
// called from many goroutines.
type Monitor struct {
	prober prober
	log    *slog.Logger

	mu      sync.Mutex
	paths   map[netip.Addr]*path
	running int

	changed chan struct{}
	wake    chan struct{}
	cancel  context.CancelFunc
	owned   sync.WaitGroup
}

// path is a remote with one ceiling. Another ceiling makes another path, so that
// a search that is under way cannot report for it.
type path struct {
	remote   netip.Addr
	ceiling  int // bytes
	result   Result
	due      time.Time          // of the next search
	interval time.Duration      // the one before due, without jitter
	cancel   context.CancelFunc // of the search that runs; nil when none does
	again    bool               // Recheck was called meanwhile
	asked    bool               // Recheck asked for the search that runs, or is due
	hint     int                // what was reported with that, in bytes
	pause    time.Duration      // before the next search that Recheck asks for
	failure  string             // why the last search could not send, or ""

	confirm   bool      // what falls due is a confirmation
	confirmed time.Time // when the last one succeeded
	search    time.Time // with confirm: when the next search is due
}

// NewMonitor starts a Monitor of no remotes. The caller closes it before the
// prober.
func NewMonitor(p prober, log *slog.Logger) *Monitor {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Monitor{
		prober:  p,
		log:     log,
		paths:   map[netip.Addr]*path{},
		changed: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		cancel:  cancel,
	}
	m.owned.Go(func() { m.run(ctx) })
	return m
}

// Close cancels what runs and waits for its end.
func (m *Monitor) Close() {
	m.cancel()
	m.owned.Wait()
}

// Changed receives after a state or an MTU of Results changed. Changes close to
// each other are one.
func (m *Monitor) Changed() <-chan struct{} { return m.changed }

// Results returns what is known of every remote.
func (m *Monitor) Results() map[netip.Addr]Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make(map[netip.Addr]Result, len(m.paths))
	for remote, p := range m.paths {
		results[remote] = p.result
	}
	return results
}

// Set says which remotes there are, and the ceiling of each in bytes. A remote
// that is new or has another ceiling is probed at once. What was confirmed stays
// known, as far as the ceiling allows.
func (m *Monitor) Set(ceilings map[netip.Addr]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for remote, p := range m.paths {
		if ceiling, ok := ceilings[remote]; ok && ceiling == p.ceiling {
			continue
		}
		if p.cancel != nil {
			p.cancel()
		}
		if _, ok := ceilings[remote]; !ok {
			delete(m.paths, remote)
		}
	}
	for remote, ceiling := range ceilings {
		known := m.paths[remote]
		if known != nil && known.ceiling == ceiling {
			continue
		}
		p := &path{remote: remote, ceiling: ceiling, result: Result{State: Probing}, due: now}
		if known != nil {
			p.result = known.result
			p.result.MTU = min(p.result.MTU, ceiling)
		}
		m.paths[remote] = p
	}
	notify(m.wake)
}

// Recheck probes remote now, or soon when it just was for nothing: an error about
// a packet of the tunnel says that the path may have changed, to reported bytes.
// It ignores unknown remotes.
func (m *Monitor) Recheck(remote netip.Addr, reported int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.paths[remote]
	if p == nil {
		return
	}
	p.hint = reported
	if p.cancel != nil {
		p.again = true
	} else {
		p.recheck(time.Now())
		notify(m.wake)
	}
}

// Used says that packets were sent to remote. What is confirmed is confirmed again soon: a link that
// shrank may say nothing (RFC 8899 section 4.3). It ignores unknown remotes, and those that answer no probes.
func (m *Monitor) Used(remote netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.paths[remote]
	if p == nil || p.cancel != nil || p.confirm || p.result.State != Confirmed ||
		now.Sub(p.result.When) < confirmInterval || now.Sub(p.confirmed) < confirmInterval || !p.due.After(now) {
		return
	}
	p.confirm, p.search, p.due = true, p.due, now
	notify(m.wake)
}

func (p *path) recheck(now time.Time) {
	p.confirm = false // a search confirms too
	soon := p.result.When.Add(p.pause)
	if soon.Before(now) {
		soon = now
	}
	if soon.Before(p.due) {
		p.due = soon
	}
	p.interval, p.asked = 0, true
}

// run starts searches as they fall due until ctx ends.
func (m *Monitor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-time.After(m.startDue(ctx)):
		}
	}
}

// startDue starts what is due, the longest due first, as far as maxSearches
// allows, and returns how long nothing else is. The end of a search wakes run.
func (m *Monitor) startDue(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var idle []*path
	for _, p := range m.paths {
		if p.cancel == nil {
			idle = append(idle, p)
		}
	}
	slices.SortFunc(idle, func(a, b *path) int {
		return cmp.Or(a.due.Compare(b.due), a.remote.Compare(b.remote))
	})
	for _, p := range idle {
		if m.running == maxSearches {
			break
		}
		if wait := time.Until(p.due); wait > 0 {
			return wait
		}
		m.start(ctx, p)
	}
	return raiseInterval
}

// start is called with m.mu held.
func (m *Monitor) start(ctx context.Context, p *path) {
	ctx, p.cancel = context.WithCancel(ctx)
	hint, mtu, confirm := p.hint, p.result.MTU, p.confirm
	p.hint, p.confirm = 0, false
	m.running++
	m.owned.Go(func() {
		if !confirm {
			r, err := m.prober.Probe(ctx, p.remote, p.ceiling, hint)
			m.finish(ctx, p, r, err)
			return
		}
		r, err := m.prober.Confirm(ctx, p.remote, mtu)
		if r.State == Confirmed && r.MTU == mtu {
			m.confirmed(ctx, p)
			return
		}
		m.finish(ctx, p, r, err)
	})
}

// end ends what runs for a path. It reports whether the path is still wanted; m.mu is held.
func (m *Monitor) end(ctx context.Context, p *path) bool {
	wanted := ctx.Err() == nil // else closed, or Set took the path away
	p.cancel()
	p.cancel = nil
	m.running--
	notify(m.wake)
	return wanted
}

// confirmed ends a confirmation that succeeded.
func (m *Monitor) confirmed(ctx context.Context, p *path) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.end(ctx, p) {
		return
	}
	p.confirmed, p.due = time.Now(), p.search
	if p.again {
		p.again = false
		p.recheck(p.confirmed)
	}
}

func (m *Monitor) finish(ctx context.Context, p *path, r Result, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.end(ctx, p) {
		return
	}
	m.report(p, err)
	if r.State != Confirmed {
		r = Result{State: Unanswered, MTU: p.result.MTU}
	}
	r.When = time.Now()
	change := r.State != p.result.State || r.MTU != p.result.MTU
	p.result = r
	p.schedule(change)
	if change {
		notify(m.changed)
	}
}

// report logs an error once for as long as it stays.
func (m *Monitor) report(p *path, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != p.failure {
		m.log.Warn("a path MTU cannot be probed, the interface's is kept", "remote", p.remote, "err", err)
	}
	p.failure = failure
}

// schedule says when to search again after p.result.
func (p *path) schedule(change bool) {
	switch {
	case change || !p.asked:
		p.pause = 0
	default:
		p.pause = min(max(2*p.pause, firstPause), maxPause)
	}
	p.asked = false
	switch {
	case p.result.State == Confirmed && p.result.MTU == p.ceiling:
		p.interval = raiseInterval
	case change || p.interval == 0:
		p.interval = firstInterval
	default:
		p.interval = min(2*p.interval, raiseInterval)
	}
	// Between 7/8 and 9/8, so that edges that started together do not stay so.
	jitter := rand.N(p.interval/4) - p.interval/8
	p.due = p.result.When.Add(p.interval + jitter)
	if p.again {
		p.again = false
		p.recheck(p.result.When)
	}
}

// notify leaves a mark in a channel of capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

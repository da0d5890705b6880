package edge

import (
	"context"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// runBGP names the fault of sessions that cannot be had.
	runBGP = "run BGP"
	// tickBGP is how often the table is told the time.
	tickBGP = time.Second
	// flood is how many updates leave so much garbage that it is worth a collection.
	flood = 50_000
	// settleMost bounds how long neighbours may take to say all after a restart.
	settleMost = 2 * time.Minute
)

// Speaker has sessions with BGP neighbours.
type Speaker interface {
	Configure(c overlay.BGP) error
	Announce(routes []evpn.Route) error
	Withdraw(keys []evpn.Key) error
	// Neighbours are the sessions with numbers of received routes, which take long to count;
	// Sessions are without.
	Neighbours() []speaker.Neighbour
	Sessions() []speaker.Neighbour
	Refresh(neighbour netip.Addr, soft bool) error
	Fail(neighbour netip.Addr, why string)
	Close(keep bool) error
}

func openSpeaker(ctx context.Context, o speaker.Options) (Speaker, error) {
	s, err := speaker.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// learned is what BGP has the goroutine of Run do.
type learned struct {
	remotes  chan struct{} // has a mark when there are other remotes
	missed   chan struct{} // when hosts may have come that nobody told of
	complete chan struct{} // when neighbours said all after a restart
	// previous are the remotes of a former process by segment; nil when BGP said all anew.
	previous map[string][]netip.Addr
	problems []problem.Problem // at the last look
	ports    []string          // likewise
}

func newLearned() learned {
	return learned{remotes: make(chan struct{}, 1), missed: make(chan struct{}, 1), complete: make(chan struct{}, 1)}
}

// bgp is an edge's part in BGP: a goroutine that has the table of routes, the maps follow it
// and the neighbours hear of hosts here. It waits for locks but never for the goroutine of
// Run, which may wait for it.
type bgp struct {
	e     *edge
	tep   netip.Addr
	inbox inbox
	end   func() // ends the goroutine and waits for it

	ended  chan struct{}  // closed when the goroutine has
	beside sync.WaitGroup // what it has others do

	// mu is held for no other lock and no call but the table's.
	mu      sync.Mutex
	table   *evpn.Table
	config  overlay.BGP
	speaker Speaker // nil until it could be had
	moves   []api.BGPMove
	spread  spread
	updates uint64 // received
	moved   uint64 // hosts
	settles bool   // what a former process learned stays until the neighbours said all

	// The goroutine's own:
	segments  map[string]bool // that are EVPN instances
	sessions  map[netip.Addr]evpn.Session
	deadline  time.Time // of settling
	complete  time.Time // when all neighbours were; zero: they are not
	reported  map[string]map[overlay.RouteSource][]netip.Prefix
	local     map[evpn.Host]localHost // without their flags
	waiting   waiting
	again     bool // all has to be written again: some could not, or the tables are others
	rateLimit rateLimit
	burstGC   burstGC
	failing   map[string]bool
}

// inbox is what is left for the goroutine to do. Nobody waits to leave something.
type inbox struct {
	mu        sync.Mutex
	list      []func()
	natEvents chan struct{} // has a mark when there is something
}

// post has do done by the goroutine, after what was posted before.
func (b *bgp) post(do func()) {
	b.inbox.mu.Lock()
	b.inbox.list = append(b.inbox.list, do)
	b.inbox.mu.Unlock()
	wake(b.inbox.natEvents)
}

// wait is post, and waits until it was done. It reports whether it was: BGP may end before.
func (b *bgp) wait(do func()) bool {
	done := make(chan struct{})
	b.post(func() { defer close(done); do() })
	select {
	case <-done:
		return true
	case <-b.ended:
		return false
	}
}

func (i *inbox) take() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := i.list
	i.list = nil
	return list
}

// followBGP has the edge speak BGP if the configuration asks for that. It is called when
// tables are in force.
func (e *edge) followBGP() {
	if e.configured.BGP == nil || e.bgp.Load() != nil {
		return
	}
	now := time.Now()
	b := &bgp{
		e: e, tep: self(e.configured), ended: make(chan struct{}), inbox: inbox{natEvents: make(chan struct{}, 1)}, table: evpn.NewTable(e.configured), config: *e.configured.BGP,
		settles: e.learned.previous != nil, deadline: now.Add(settleTime(e.configured.BGP.Restart)), spread: newSpread(),
		segments: instances(e.configured), sessions: make(map[netip.Addr]evpn.Session),
		reported: make(map[string]map[overlay.RouteSource][]netip.Prefix), local: make(map[evpn.Host]localHost),
		waiting: newWaiting(), failing: make(map[string]bool),
	}
	e.bgp.Store(b)
	b.end = goWait(context.Background(), b.run)
	config := e.configured
	// Before the first session: what neighbours hear first is all that there is.
	b.post(func() {
		b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Configure(config, now) }), time.Time{})
	})
	e.tellBGP(0)
	e.lookHosts()
	b.post(b.speak)
}

// settleTime is how long after a restart what was learned before stays unconfirmed.
func settleTime(r overlay.BGPRestart) time.Duration {
	if r.Time > 0 && r.Time < settleMost {
		return r.Time
	}
	return settleMost
}

// instances are the segments of hosts that are EVPN instances.
func instances(e overlay.Edge) map[string]bool {
	list := make(map[string]bool)
	for _, s := range e.Segments {
		if s.EVPN != nil {
			list[s.Name] = true
		}
	}
	return list
}

// run does what was posted, in order, until ctx ends.
func (b *bgp) run(ctx context.Context) {
	defer close(b.ended)
	runtime.LockOSThread() // for good: the thread is in the edge's network namespace
	if err := b.e.ns.enter(); err != nil {
		b.e.log.Error(runBGP, "err", err)
	}
	tick := time.NewTicker(tickBGP)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.inbox.natEvents:
			for _, do := range b.inbox.take() {
				do()
			}
		case now := <-tick.C:
			b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Tick(now) }), time.Time{})
			b.settle(now)
			if b.burstGC.after(b.updates) {
				b.beside.Go(debug.FreeOSMemory) // which takes its time
			}
		}
	}
}

// burstGC is when a flood of updates is over, after which the memory goes back that it took.
type burstGC struct{ last, freed uint64 } // updates at the last look, and when it was given back

// after takes another look.
func (c *burstGC) after(updates uint64) bool {
	is := updates == c.last && updates-c.freed > flood
	if c.last = updates; is {
		c.freed = updates
	}
	return is
}

// change changes the table.
func (b *bgp) change(do func(*evpn.Table) evpn.Changes) evpn.Changes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return do(b.table)
}

// speak opens the sessions, unless they are, and says all that the table has.
func (b *bgp) speak() {
	if b.speaker != nil {
		return
	}
	s, err := b.e.opts.OpenSpeaker(context.Background(), speaker.Options{
		Config: b.config, NextHop: b.tep, Adopted: b.settles, Log: b.e.log, Receive: b.receive, Session: b.session,
	})
	b.reportProblem(runBGP, err)
	if err != nil {
		return
	}
	b.setSpeaker(s)
	b.mu.Lock()
	var own []evpn.Route
	for _, r := range b.table.Select(func(neighbour netip.Addr, _ *evpn.Route) bool { return !neighbour.IsValid() }) {
		own = append(own, r.Route)
	}
	b.mu.Unlock()
	b.reportProblem(announceBGP, s.Announce(own))
}

// receive takes updates of the speaker.
func (b *bgp) receive(updates []evpn.Update) {
	now := time.Now()
	b.post(func() {
		b.act(b.change(func(t *evpn.Table) evpn.Changes {
			b.updates += uint64(len(updates))
			return t.Receive(updates, now)
		}), now)
	})
}

// session takes the change of a session.
func (b *bgp) session(s evpn.Session) { b.post(func() { b.changed(s) }) }

// changed takes over how a session is.
func (b *bgp) changed(s evpn.Session) {
	b.sessions[s.Neighbour] = s
	b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Session(s) }), time.Now())
	b.settle(time.Now())
}

// settle ends the time in which what a former process learned is kept: some time after the
// neighbours said all, as one that has just started says so before it knows all.
func (b *bgp) settle(now time.Time) {
	if !b.settles {
		return
	}
	for _, n := range b.config.Neighbours {
		if !b.sessions[n.Addr].Complete {
			b.complete = time.Time{}
			if now.Before(b.deadline) {
				return
			}
		}
	}
	if b.complete.IsZero() {
		b.complete = now
	}
	if now.Sub(b.complete) < b.e.opts.Linger && now.Before(b.deadline) {
		return
	}
	b.mu.Lock()
	b.settles = false
	b.mu.Unlock()
	wake(b.e.learned.complete)
}

// configureBGP follows a change of the configuration, before the tables do.
func (e *edge) configureBGP() {
	b := e.bgp.Load()
	switch {
	case b == nil:
		return
	case e.configured.BGP == nil:
		e.reportProblem(runBGP, e.endBGP(false))
		e.learned.previous = nil
		s := &e.pathSelector
		s.mu.Lock()
		s.routing.Forget()
		s.mu.Unlock()
	default:
		config := e.configured
		b.wait(func() { b.configure(config) })
		e.lookHosts()
	}
}

func (b *bgp) configure(config overlay.Edge) {
	was := b.config
	b.segments = instances(config)
	b.again = true             // when the tables are in force: a static entry that goes leaves its place to BGP's
	if b.table.IsFor(config) { // there may be many routes, and a port that goes must not wait for them
		return
	}
	clear(b.reported) // a router may have become an instance
	b.mu.Lock()
	b.config = *config.BGP
	changes := b.table.Configure(config, time.Now())
	all := b.table.All()
	b.mu.Unlock()
	// The table says nothing of what it no longer has a place for.
	s := &b.e.pathSelector
	s.mu.Lock()
	s.routing.Forget()
	s.routing.Learn(all.Routes)
	s.mu.Unlock()
	b.act(changes, time.Time{})
	b.reconfigure(was)
}

// reconfigure has the sessions be those of the configuration.
func (b *bgp) reconfigure(was overlay.BGP) {
	if b.speaker == nil {
		return
	}
	if was.AS == b.config.AS && was.RouterID == b.config.RouterID && slices.Equal(was.Listen, b.config.Listen) && was.Restart == b.config.Restart {
		b.reportProblem(runBGP, b.speaker.Configure(b.config))
		return
	}
	err := b.speaker.Close(true) // it is another speaker
	b.setSpeaker(nil)
	for neighbour := range b.sessions {
		b.changed(evpn.Session{Neighbour: neighbour, At: time.Now()})
	}
	b.reportProblem("end BGP sessions", err)
	b.speak()
}

func (b *bgp) setSpeaker(s Speaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.speaker = s
}

// endBGP ends the sessions. With keep neighbours go by what they heard for the time of a
// graceful restart.
func (e *edge) endBGP(keep bool) error {
	b := e.bgp.Swap(nil)
	if b == nil {
		return nil
	}
	b.end()
	b.beside.Wait()
	if b.speaker == nil {
		return nil
	}
	return b.speaker.Close(keep)
}

// reportProblem is the edge's, whose lock readers may keep for long, where there is news.
func (b *bgp) reportProblem(what string, err error) {
	if err != nil || b.failing[what] {
		b.failing[what] = err != nil
		b.e.reportProblem(what, err)
	}
}

// rememberLearned has the remotes of a former process stay until BGP said all anew.
func (e *edge) rememberLearned() {
	if e.adopted && e.configured.BGP != nil {
		previous, err := e.dp.Ports.PreviousRemotes(plan.Segments(e.configured))
		e.reportProblem("read the remotes of a previous process", err)
		if e.learned.previous = previous; previous == nil {
			e.learned.previous = make(map[string][]netip.Addr)
		}
	}
}

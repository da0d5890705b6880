package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

const (
	// tick is how often the table is told the time, and tickIdle while nothing in it lasts for a time only.
	tick     = time.Second
	tickIdle = 10 * time.Second
	// burst is how many updates leave so much garbage that it is worth a collection.
	burst = 50_000
	// settleMost bounds how long neighbours may take to say all after a restart.
	settleMost = 2 * time.Minute
	// coalesce is the least time between two reconciliations for new remotes.
	coalesce = 20 * time.Millisecond
)

// Process is BGP of an edge: a goroutine that has the table of routes. It waits for locks, but never
// for who calls it, who may wait for it.
type Process struct {
	o     Options
	inbox *inbox
	state *State
	ended chan struct{} // closed when the goroutine has

	cancel context.CancelFunc
	beside sync.WaitGroup // what the goroutine has others do

	// The goroutine's own:
	sessions  map[netip.Addr]evpn.Session
	deadline  time.Time // of settling
	complete  time.Time // when all neighbours were; zero: they are not
	reported  map[string]map[overlay.RouteSource][]netip.Prefix
	local     localHosts
	claims    claimWatch
	installer *installer
	rateLimit rateLimit
	burstGC   burstGC
	problems  problems
}

// Start runs BGP. Speak opens the sessions.
func Start(o Options) *Process {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	now := o.Now()
	p := &Process{
		o: o, inbox: newInbox(o.MaxWaiting), state: newState(o), ended: make(chan struct{}),
		sessions: make(map[netip.Addr]evpn.Session), deadline: now.Add(settleTime(o.Edge.BGP.Restart)),
		reported: make(map[string]map[overlay.RouteSource][]netip.Prefix), local: make(localHosts),
		problems: problems{o.Events, make(map[string]bool)},
	}
	p.claims = claimWatch{p.state}
	p.installer = newInstaller(o, p.state, p.problems)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
	// Before the first session: what neighbours hear first is all that there is.
	p.inbox.post(func() {
		p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Configure(o.Edge, now) }), time.Time{})
	})
	return p
}

// State is what others read of the process.
func (p *Process) State() *State { return p.state }

// Speak opens the sessions when all that was left before is done.
func (p *Process) Speak() { p.inbox.post(p.speak) }

// settleTime is how long after a restart what was learned before stays unconfirmed.
func settleTime(r overlay.BGPRestart) time.Duration {
	if r.Time > 0 && r.Time < settleMost {
		return r.Time
	}
	return settleMost
}

// wait has do done by the goroutine, and waits until it was. It reports whether it was: BGP may end
// before.
func (p *Process) wait(do func()) bool {
	done := make(chan struct{})
	p.inbox.post(func() { defer close(done); do() })
	select {
	case <-done:
		return true
	case <-p.ended:
		return false
	}
}

// run does what was posted, in order, until ctx ends.
func (p *Process) run(ctx context.Context) {
	defer close(p.ended)
	runtime.LockOSThread() // for good: the thread is in the edge's network namespace
	if p.o.Enter != nil {
		if err := p.o.Enter(); err != nil {
			p.o.Log.Error(ProblemRun, "err", err)
		}
	}
	ticker := background.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.inbox.wake:
			p.work()
			if ticker.Every() == tick {
				continue // the next tick says whether that is often enough
			}
		case <-ticker.C:
			p.pass(p.o.Now())
		}
		ticker.Set(p.tickEvery())
	}
}

// tickEvery is how often time is to pass.
func (p *Process) tickEvery() time.Duration {
	if updates, lastsForTime := p.state.received(); lastsForTime || p.burstGC.last != updates {
		return tick
	}
	return tickIdle
}

// work does some of what was posted, so that time passes while there is much.
func (p *Process) work() {
	do, updates, at := p.inbox.take()
	switch {
	case do != nil:
		do()
	case len(updates) > 0:
		p.act(p.state.receive(updates, at), at)
	default:
		return
	}
	p.inbox.mark() // there may be more
}

// pass has time pass.
func (p *Process) pass(now time.Time) {
	p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Tick(now) }), time.Time{})
	p.settle(now)
	if updates, _ := p.state.received(); p.burstGC.after(updates) {
		p.beside.Go(debug.FreeOSMemory) // which takes its time
	}
}

// burstGC is when a burst of updates is over, after which the memory goes back that it took.
type burstGC struct{ last, freed uint64 } // updates at the last look, and when it was given back

// after takes another look.
func (c *burstGC) after(updates uint64) bool {
	is := updates == c.last && updates-c.freed > burst
	if c.last = updates; is {
		c.freed = updates
	}
	return is
}

// speak opens the sessions, unless they are, and says all that the table has.
func (p *Process) speak() {
	if p.state.speaks() != nil {
		return
	}
	config, settling := p.state.configuration()
	s, err := p.o.Open(context.Background(), speaker.Options{
		Config: config, NextHop: p.o.NextHop, Adopted: settling, Log: p.o.Log, Receive: p.receive, Session: p.session,
	})
	p.problems.report(ProblemRun, err)
	if err != nil {
		return
	}
	p.state.setSpeaker(s)
	p.problems.report(problemAnnounce, s.Announce(p.state.own()))
}

// receive takes updates of the speaker. A neighbour that says more than can wait begins anew.
func (p *Process) receive(updates []evpn.Update) {
	for _, neighbour := range p.inbox.receive(updates, p.o.Now()) {
		p.state.overflowed(neighbour, p.o.Now())
		p.Fail(neighbour, fmt.Sprintf("more than %d of its updates waited for the data path: have it advertise fewer routes (maximumPrefixes, import), "+
			"and look for what keeps the edge busy", p.o.MaxWaiting))
	}
}

// Fail ends the session with a neighbour, for a cause that is not BGP's to see.
func (p *Process) Fail(neighbour netip.Addr, why string) {
	if s := p.state.speaks(); s != nil {
		s.Fail(neighbour, why)
	}
}

// session takes the change of a session.
func (p *Process) session(s evpn.Session) { p.inbox.postSession(s.Neighbour, func() { p.changed(s) }) }

// changed takes over how a session is.
func (p *Process) changed(s evpn.Session) {
	p.sessions[s.Neighbour] = s
	p.o.Events.Session(s)
	now := p.o.Now()
	p.act(p.state.change(func(t *evpn.Table) evpn.Changes { return t.Session(s) }), now)
	p.settle(now)
}

// settle ends the time in which what a former process learned is kept: some time after the
// neighbours said all, as one that has just started says so before it knows all.
func (p *Process) settle(now time.Time) {
	config, settling := p.state.configuration()
	if !settling {
		return
	}
	for _, n := range config.Neighbours {
		if !p.sessions[n.Addr].Complete {
			p.complete = time.Time{}
			if now.Before(p.deadline) {
				return
			}
		}
	}
	if p.complete.IsZero() {
		p.complete = now
	}
	if now.Sub(p.complete) < p.o.Linger && now.Before(p.deadline) {
		return
	}
	p.state.settled()
	p.o.Events.Settled()
}

// Configure follows a change of the configuration, before the tables of the data path do.
func (p *Process) Configure(config overlay.Edge) { p.wait(func() { p.configure(config) }) }

func (p *Process) configure(config overlay.Edge) {
	was, _ := p.state.configuration()
	p.installer.again = true // when the tables are in force: a static entry that goes leaves its place to BGP's
	changes, all, changed := p.state.configure(config, p.o.Now())
	if !changed { // there may be many routes, and a port that goes must not wait for them
		return
	}
	clear(p.reported) // a router may have become an instance
	// The table says nothing of what it no longer has a place for.
	p.o.Writer.ReplaceRoutes(all.Routes)
	p.act(changes, time.Time{})
	p.reconfigure(was)
}

// reconfigure has the sessions be those of the configuration.
func (p *Process) reconfigure(was overlay.BGP) {
	s := p.state.speaks()
	if s == nil {
		return
	}
	config, _ := p.state.configuration()
	if was.AS == config.AS && was.RouterID == config.RouterID && slices.Equal(was.Listen, config.Listen) && was.Restart == config.Restart {
		p.problems.report(ProblemRun, s.Configure(config))
		return
	}
	err := s.Close(true) // it is another speaker
	p.state.setSpeaker(nil)
	for neighbour := range p.sessions {
		p.changed(evpn.Session{Neighbour: neighbour, At: p.o.Now()})
	}
	p.problems.report(problemEnd, err)
	p.speak()
}

// Close ends the sessions, and the goroutine. With keep neighbours go by what they heard for the
// time of a graceful restart.
func (p *Process) Close(keep bool) error {
	p.cancel()
	<-p.ended
	p.rateLimit.stop()
	p.beside.Wait()
	if s := p.state.speaks(); s != nil {
		return s.Close(keep)
	}
	return nil
}

// act does what follows from a change of the table, of which updates were received at a time;
// zero: something here changed, of which others are told first.
func (p *Process) act(c evpn.Changes, when time.Time) {
	p.state.note(c.Events, p.o.Now())
	if when.IsZero() {
		p.tell(c)
	}
	if c.Remotes {
		p.rateLimit.want(p)
	}
	p.tell(p.installer.put(c, when))
	if !when.IsZero() {
		p.tell(c)
	}
	p.forget(c.Forget)
}

// tell tells the neighbours.
func (p *Process) tell(c evpn.Changes) {
	s := p.state.speaks()
	if s == nil || len(c.Announce)+len(c.Withdraw) == 0 {
		return // at its start it is told all
	}
	var errs []error
	if len(c.Announce) > 0 {
		errs = append(errs, s.Announce(c.Announce))
	}
	if len(c.Withdraw) > 0 {
		errs = append(errs, s.Withdraw(c.Withdraw))
	}
	p.problems.report(problemAnnounce, errors.Join(errs...))
}

// Thaw lets a frozen MAC address move again.
func (p *Process) Thaw(segment string, mac overlay.MAC) error {
	var err error
	done := p.wait(func() {
		p.act(p.state.change(func(t *evpn.Table) (c evpn.Changes) {
			c, err = t.Thaw(segment, mac, p.o.Now())
			return c
		}), time.Time{})
	})
	switch {
	case !done:
		return errors.New("BGP is stopping")
	case err != nil:
		return api.BadRequest{Err: err}
	}
	return nil
}

// Applied says that tables are in force which took so long to make, and which routes they had no
// room for.
func (p *Process) Applied(took time.Duration, left []rib.Place) {
	p.inbox.postLast("applied", func() {
		p.rateLimit.least = took
		p.tell(p.state.change(func(t *evpn.Table) evpn.Changes { return t.RoutesLeftOut(left) }))
		p.installer.flush()
		p.speak()
	})
}

// problems reports what is news of problems: who keeps them may be busy.
type problems struct {
	events  Events
	failing map[string]bool
}

func (p problems) report(what string, err error) {
	if err != nil || p.failing[what] {
		p.failing[what] = err != nil
		p.events.Problem(what, err)
	}
}

// rateLimit is when reconciliations for new remotes were wanted.
type rateLimit struct {
	last  time.Time
	least time.Duration // between two: no less than one takes
	timer *time.Timer   // nil when none is wanted later
}

// want says that there are other remotes, at once or when it is time.
func (r *rateLimit) want(p *Process) {
	if r.timer != nil {
		return
	}
	now := p.o.Now()
	if wait := r.last.Add(max(coalesce, r.least)).Sub(now); wait > 0 {
		r.timer = time.AfterFunc(wait, func() { p.inbox.post(func() { r.timer = nil; r.want(p) }) })
		return
	}
	r.last = now
	p.o.Events.RemotesChanged()
}

func (r *rateLimit) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

// Package gateway is what an edge does as a gateway of egress policies: it judges which gateways
// serve, follows a drain, answers for the addresses of pools, and replicates NAT sessions.
//
// Its one invariant: who goes says so first, and who comes has sessions and tables first. So
// there is always a gateway that translates. It knows nothing of the edge around it. What it
// needs is handed in at construction or with each call. Do not decide here which source goes by
// which gateway (nat), nor how a table is written (datapath).
package gateway

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/replica"
)

// retryAfter is when tables that could not be written are tried again.
const retryAfter = 100 * time.Millisecond

// Steering obeys what a Role decides.
type Steering interface {
	// SetService says what this edge does for others, which all remotes are told.
	SetService(service bfd.Service)
	// SteerEgress changes which gateways there are, and what this edge does as one.
	SteerEgress(list []fib.Egress) error
}

// Links says how far replication is.
type Links interface {
	// States are nil without replication.
	States() map[replica.ID]replica.State
}

// Facts are what gateways are judged by.
type Facts struct {
	Config    overlay.Edge
	HostState host.State
	Results   map[overlay.Pair]bfd.Result // what BFD knows
	Watched   time.Time                   // since when it watches; zero: it does not
	Dead      map[netip.Addr]string       // BGP neighbours that answered to BFD, and why they no longer do
}

// Role is who serves the sources of egress policies, and why. Evaluate and Take, and Move,
// are for one goroutine at a time; the rest may be called from many.
type Role struct {
	// Sessions are with the routers that are to hear where addresses are.
	Sessions *RouterSessions
	// Claims are the addresses that this edge may answer for.
	Claims *Claims

	log    *slog.Logger
	links  Links
	signal chan struct{} // has a mark when gateways are to be judged anew
	asks   chan struct{} // has a mark when next hops are to be asked for

	saving sync.Mutex // one write of the file at a time

	mu        sync.Mutex
	self      netip.Addr            // as of the last decision
	config    overlay.Edge          // likewise
	states    map[netip.Addr]Status // this edge too; nil before tables were written. Replaced, never changed
	own       ownState
	rewrite   bool           // the tables are others than those that obey states
	owned     map[Place]bool // addresses that this edge answers for. Replaced, never changed
	failovers []api.Failover
	last      int // number of the last one

	drain           *Drain
	active          int        // sessions with packets lately, at the last look of a drain
	saved           remembered // in the file
	file, drainFile string
	// joined: the sessions of the other gateways have come, or are not waited for any longer.
	joined, isolated bool
	apart            bool
	// whole: it has joined once, so it has the sessions of what it served.
	whole   bool
	joinBy  time.Time
	leaving bool
	// heldSince is since when another one that serves holds this one back, which serves too.
	heldSince time.Time
	// resolved: the next hops are known. They are not waited for after resolveBy.
	resolved  bool
	resolveBy time.Time
	// remembered are the gateways that were gone when a former process ended.
	remembered map[netip.Addr]bool
	again      *time.Timer
}

// NewRole makes the role of an edge that knows no other gateway yet.
func NewRole(log *slog.Logger, links Links) *Role {
	r := &Role{log: log, links: links, signal: make(chan struct{}, 1), asks: make(chan struct{}, 1)}
	r.Claims = newClaims(r.Wake)
	r.Sessions = &RouterSessions{wake: r.Wake, established: make(map[netip.Addr]bool)}
	return r
}

// Due has a mark when the gateways are to be judged anew.
func (r *Role) Due() <-chan struct{} { return r.signal }

// Wake has them judged anew.
func (r *Role) Wake() { background.Notify(r.signal) }

// Move judges all gateways and has sources go by those that are there. It says which addresses
// came here, for those who tell the networks.
func (r *Role) Move(f Facts, to Steering, now time.Time) (came Announcement, err error) {
	if f.Config.Egress == nil {
		return came, nil
	}
	d := r.Evaluate(f, now)
	to.SetService(d.Service())
	r.mu.Lock()
	if r.states != nil && !r.rewrite && !r.Claims.isStale() && sameStates(d.States, r.states) {
		r.keep(d)
		r.askAgain(d.again, now)
		r.mu.Unlock()
		return came, nil
	}
	r.mu.Unlock()
	list := plan.Egresses(f.Config, f.HostState, d.State)
	d.Lease(list)
	if err := to.SteerEgress(list); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.askAgain(now.Add(retryAfter), now)
		return came, err
	}
	return r.Take(d, list), nil
}

func sameStates(a, b map[netip.Addr]Status) bool {
	return maps.EqualFunc(a, b, func(x, y Status) bool { return x.State == y.State })
}

// Take takes over a decision that the tables in list obey by now.
func (r *Role) Take(d Decision, list []fib.Egress) (came Announcement) {
	written := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	was, owned := r.owned, make(map[Place]bool)
	returned := r.returned(d.States)
	came.failovers = r.record(d.config, d.States, written)
	for _, e := range list {
		for _, addr := range e.Owned {
			p := Place{e.Uplink, addr}
			owned[p] = true
			if !was[p] {
				came.fresh++
			}
			if !was[p] || returned {
				came.places = append(came.places, p)
			}
			if r.Claims.isUnproven(p, e.Name) {
				came.unproven = append(came.unproven, p)
			}
		}
	}
	r.keep(d)
	r.Claims.take(d, owned)
	r.owned, r.rewrite = owned, false
	r.askAgain(d.again, d.now)
	if len(came.places) == 0 {
		r.endedWithout(came.failovers, written)
	}
	return came
}

// Rewrite has the next Move write what it decides, also when nothing changed: tables are being
// replaced by others. Take ends that.
func (r *Role) Rewrite() {
	r.mu.Lock()
	r.rewrite = true
	r.mu.Unlock()
}

// Rewrites reports whether nothing was taken since Rewrite.
func (r *Role) Rewrites() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rewrite
}

// keep takes over judgements. When one was made that changes nothing stays. mu is held.
func (r *Role) keep(d Decision) {
	for member, j := range d.States {
		if was, ok := r.states[member]; ok && was.State == j.State {
			j.At = was.At
			d.States[member] = j
		}
	}
	r.states, r.own, r.apart, r.self, r.config = d.States, d.own, d.apart, Self(d.config), d.config
}

// returned reports whether a gateway is there that was gone, or none of the group's: it may have answered for
// addresses all the while, unheard, so the networks are told of all of them once more. mu is held.
func (r *Role) returned(all map[netip.Addr]Status) bool {
	for member, is := range all {
		if was, known := r.states[member]; is.State != nat.Gone && (!known || was.State == nat.Gone) {
			return true
		}
	}
	return false
}

// askAgain has the gateways judged anew at a time, unless that is zero. mu is held.
func (r *Role) askAgain(at, now time.Time) {
	if r.again != nil {
		r.again.Stop()
		r.again = nil
	}
	if !at.IsZero() {
		r.again = time.AfterFunc(at.Sub(now), r.Wake)
	}
}

// Leave gives this edge's work to the other gateways, if there are any: without a process
// nobody tells it what they do.
func (r *Role) Leave(f Facts, to Steering) error {
	states := r.States()
	others := slices.ContainsFunc(partners(f.Config), func(m netip.Addr) bool { return states[m].State != nat.Gone })
	if f.Config.Underlay.Liveness == nil || !others {
		return nil
	}
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	_, err := r.Move(f, to, time.Now())
	return err
}

// States are those in force.
func (r *Role) States() map[netip.Addr]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states
}

// Service is what others are told of this edge.
func (r *Role) Service() bfd.Service {
	r.mu.Lock()
	defer r.mu.Unlock()
	return service(r.own.reported, r.apart)
}

// Problems are what an operator should know of groups.
func (r *Role) Problems() []problem.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return groupProblems(r.config, r.states, time.Now())
}

// Owned are the addresses that this edge answers for.
func (r *Role) Owned() map[Place]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned
}

// Overview is what the documents tell of a role.
type Overview struct {
	States    map[netip.Addr]Status
	Drain     *Drain // nil: none
	Active    int    // sessions that a drain waits for
	Failovers []api.Failover
	Changes   int // of states, that this edge acted on
	Owned     int // addresses
	Problems  []problem.Problem
}

// Overview is how things stand.
func (r *Role) Overview() Overview {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Overview{
		States: r.states, Drain: r.drain, Active: r.active, Failovers: slices.Clone(r.failovers), Changes: r.last,
		Owned: len(r.owned), Problems: groupProblems(r.config, r.states, time.Now()),
	}
}

package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/replica"
)

// Replicator carries sessions to other gateways.
type Replicator interface {
	Set(links []replica.Link) error
	States() map[replica.ID]replica.State
	// Refused counts connections that were refused.
	Refused() map[replica.Refusal]uint64
	Changed() <-chan struct{}
	Close() error
	Teller
}

// Teller tells other gateways of sessions.
type Teller interface {
	Put(link replica.ID, records []byte)
	Delete(link replica.ID, records []byte)
	// Resync has all told again, after something was missed.
	Resync(why string)
}

// ReplicationOptions are what Replication needs.
type ReplicationOptions struct {
	NAT  NAT
	Log  *slog.Logger
	Open func(replica.Options) (Replicator, error)
	// Enter has the thread of the calling goroutine, which is locked to it, be in the network
	// namespace of the edge for good.
	Enter func() error
	// Report keeps err as a problem of what until that works again.
	Report func(what string, err error)
}

// Replication tells the other gateways of sessions, and writes the log of translations. Set and
// Close are for one goroutine at a time; the rest may be called from many.
type Replication struct {
	o       ReplicationOptions
	store   *store
	logLost atomic.Uint64
	changed chan struct{}
	// Marks for Follow and Refresh, that there may be something to do.
	follows, refreshes chan struct{}

	mu  sync.Mutex
	now Replicator // nil: there is none
	end func()     // of the goroutine that follows it
}

// NewReplication makes one that has no links yet.
func NewReplication(o ReplicationOptions) *Replication {
	return &Replication{
		o: o, store: &store{nat: o.NAT}, changed: make(chan struct{}, 1), follows: make(chan struct{}, 1), refreshes: make(chan struct{}, 1),
	}
}

// Changed has a mark after a link was connected, synchronised or lost.
func (p *Replication) Changed() <-chan struct{} { return p.changed }

// LogLost is how many lines of the log of translations were not written.
func (p *Replication) LogLost() uint64 { return p.logLost.Load() }

// Set has the links be those of the configuration, which is in force.
func (p *Replication) Set(e overlay.Edge) error {
	defer background.Notify(p.follows)
	links := replicaLinks(e)
	r := p.replicator()
	if r == nil && len(links) == 0 {
		return nil
	}
	if r == nil {
		var err error
		if r, err = p.o.Open(replica.Options{
			Format: replica.Format{Len: datapath.NATRecordSize, Version: recordVersion}, Store: p.store, Log: p.o.Log, Enter: p.o.Enter,
		}); err != nil {
			return err
		}
		p.mu.Lock()
		p.now, p.end = r, background.OnEach(r.Changed(), func(struct{}) { background.Notify(p.changed) })
		p.mu.Unlock()
		background.Notify(p.refreshes)
	}
	return r.Set(described(e, links))
}

func (p *Replication) replicator() Replicator {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// Close ends it. A second call does nothing.
func (p *Replication) Close() error {
	p.mu.Lock()
	r, end := p.now, p.end
	p.now, p.end = nil, nil
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	end()
	return r.Close()
}

// States are those of all links, nil without replication.
func (p *Replication) States() map[replica.ID]replica.State {
	if r := p.replicator(); r != nil {
		return r.States()
	}
	return nil
}

// Info is the links of a configuration.
func (p *Replication) Info(e overlay.Edge) []api.ReplicationInfo {
	list := []api.ReplicationInfo{}
	states := p.States()
	if states == nil {
		return list
	}
	for _, l := range replicaLinks(e) {
		s := states[l.ID()]
		list = append(list, api.ReplicationInfo{
			Gateway: l.Remote, Port: l.Port, Connected: s.Connected, Since: s.Since, Synced: s.Synced, Why: s.Why,
			Sent: s.Sent, Received: s.Received, Resyncs: s.Resyncs, Conflicts: p.store.conflictsOf(l.ID()), Differs: s.Differs,
		})
	}
	return list
}

// Refused counts the connections that were refused, by each reason that there is.
func (p *Replication) Refused() []api.RefusedInfo {
	r := p.replicator()
	if r == nil {
		return nil
	}
	counts := r.Refused()
	var list []api.RefusedInfo
	for _, why := range replica.Refusals() {
		list = append(list, api.RefusedInfo{Why: string(why), Connections: counts[why]})
	}
	return list
}

// Problems are links that do not work though the other gateway is there, and gateways that are
// configured differently.
func (p *Replication) Problems(e overlay.Edge, all map[netip.Addr]Status, now time.Time) (problems []problem.Problem) {
	states := p.States()
	for _, l := range p.Info(e) {
		if !l.Connected && now.Sub(l.Since) > Patience && all[l.Gateway].State != nat.Gone {
			advice := fmt.Sprintf(": check TCP port %d between both", l.Port)
			if states[replica.ID{Remote: l.Gateway, Port: l.Port}].Refusal != "" {
				advice = "" // they reach each other
			}
			problems = append(problems, problem.Warning(
				"egress: sessions are not replicated with %s, so its connections would not survive its failure: %s%s", Name(e, l.Gateway), l.Why, advice))
		}
		for _, what := range l.Differs {
			problems = append(problems, problem.Warning("egress: gateway %s has another configuration of %s, so both or none of them may own an address: "+
				"give all gateways the same spec.egress.gateways and policies", Name(e, l.Gateway), what))
		}
	}
	return problems
}

// RefreshReplicas names the fault of replicas that cannot be refreshed, ReadEvents that of events
// that cannot be read.
const (
	RefreshReplicas = "refresh replicas of sessions"
	ReadEvents      = "read the events of sessions"
	readLost        = "read the events of the data path"
)

const (
	// refreshLeast is the least time between two refreshes, refreshIdle that until the next where no session is told of.
	refreshLeast = 200 * time.Millisecond
	refreshIdle  = 500 * time.Millisecond
)

// Refresh has replicas at other gateways live on until ctx ends. Without a replicator it sleeps until Set.
func (p *Replication) Refresh(ctx context.Context) {
	due := time.NewTimer(refreshLeast)
	defer due.Stop()
	tells := false // the first time is the begin of the interval that the second one tells of
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-p.refreshes:
		}
		begin := time.Now()
		interval, err := p.refresh(tells)
		p.o.Report(RefreshReplicas, err)
		if interval > 0 {
			due.Reset(max(time.Until(begin.Add(interval)), refreshLeast))
		}
		tells = interval > 0
	}
}

// refresh tells other gateways which sessions had packets since the last time, with some slack
// for the walk. It says when to do so again; 0: when there is a replicator.
func (p *Replication) refresh(tell bool) (again time.Duration, err error) {
	r := p.replicator()
	if r == nil {
		return 0, nil
	}
	again = refreshIdle
	err = p.o.NAT.WithSessions(func(e overlay.Edge, all Sessions) error {
		if e.Egress == nil {
			return nil
		}
		again = max(refreshInterval(e.Egress.Timeouts), refreshLeast)
		hears, since := audiences(e), again+again/4
		if !tell || len(hears) == 0 {
			return nil
		}
		out := make(outbox)
		err := all.EachNATRecord(func(n *datapath.NATRecord) bool {
			if n.IdleNS <= uint64(since) && !n.Replica {
				out.add(hears[n.Policy], n)
				out.flush(r.Put, outboxMost)
			}
			return true
		})
		out.flush(r.Put, 0)
		return err
	})
	return again, err
}

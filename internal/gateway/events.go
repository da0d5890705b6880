package gateway

import (
	"context"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

const (
	// natEventsEvery is how often events of sessions are taken over where somebody hears of them, and
	// natEventsMost how many at a time. The ring has room for some 16,000.
	natEventsEvery = 10 * time.Millisecond
	natEventsMost  = 20_000
)

// EventsLost is the event of bpf/core/reasons.h that counts events that found no room.
const EventsLost = "nat-event-lost"

// Follow writes the log of translations and tells other gateways of sessions, until ctx ends. While nobody hears of them it
// sleeps until Set.
func (p *Replication) Follow(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var log translationLog
	var lost lostEvents
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-p.follows:
		}
		if p.pass(&log) {
			p.o.Report(readLost, p.look(&lost))
			pause.Reset(natEventsEvery)
		}
	}
}

// pass takes over the events that there are, and says whether somebody hears of them.
func (p *Replication) pass(log *translationLog) (heard bool) {
	r := p.replicator()
	err := p.o.NAT.WithSessions(func(e overlay.Edge, all Sessions) error {
		if heard = e.Egress != nil && (e.Egress.Log || r != nil); !heard {
			return nil
		}
		log.begin(time.Now(), e.Egress.LogRate)
		to := newReports(r, audiences(e))
		defer to.flush()
		return all.ReadNATEvents(natEventsMost, func(n *datapath.NATEvent) {
			if e.Egress.Log {
				log.take(n)
			}
			to.take(n)
		})
	})
	if !heard {
		return false
	}
	log.write(p.o.Log)
	p.logLost.Store(log.lost)
	p.o.Report(ReadEvents, err)
	return true
}

// reports are events on their way to other gateways.
type reports struct {
	to        Teller // nil: nobody hears
	hears     map[uint32][]replica.ID
	put, gone outbox
}

func newReports(to Replicator, hears map[uint32][]replica.ID) *reports {
	p := &reports{hears: hears, put: make(outbox), gone: make(outbox)}
	if to != nil {
		p.to = to
	}
	return p
}

func (p *reports) take(n *datapath.NATEvent) {
	if p.to == nil || !isReported(n) {
		return
	}
	if n.Event == datapath.NATDeleted {
		p.put.flush(p.to.Put, 0) // so that nothing is overtaken
		p.gone.add(p.hears[n.Record.Policy], &n.Record)
		p.gone.flush(p.to.Delete, outboxMost)
		return
	}
	p.gone.flush(p.to.Delete, 0)
	p.put.add(p.hears[n.Record.Policy], &n.Record)
	p.put.flush(p.to.Put, outboxMost)
}

func (p *reports) flush() {
	if p.to != nil {
		p.put.flush(p.to.Put, 0)
		p.gone.flush(p.to.Delete, 0)
	}
}

// isReported leaves out what other gateways need not know: connections without an answer, and
// replicas, which are others' to tell of.
func isReported(n *datapath.NATEvent) bool {
	return !n.Session.Replica && (n.Event != datapath.NATCreated || n.Session.Mapping) && (n.Session.Answered || n.Session.Mapping)
}

// lostEvents is how many events the data path could not tell of.
type lostEvents struct {
	count uint64
	known bool
	next  time.Time
}

// look has other gateways told all again when some are missing.
func (p *Replication) look(l *lostEvents) error {
	now := time.Now()
	if now.Before(l.next) {
		return nil
	}
	l.next = now.Add(time.Second)
	events, err := p.o.NAT.Events()
	if err != nil {
		return err
	}
	n := events[EventsLost]
	if r := p.replicator(); l.known && n > l.count && r != nil {
		r.Resync("session events were lost here, so all sessions are sent again")
	}
	l.count, l.known = n, true
	return nil
}

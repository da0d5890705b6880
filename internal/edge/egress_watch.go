package edge

import (
	"context"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

const (
	// natEventsEvery is how often news of sessions are taken over where somebody hears of them, and
	// natEventsMost how many at a time. The ring has room for some 16,000.
	natEventsEvery = 10 * time.Millisecond
	natEventsMost  = 20_000
	// natEventsIdle is how often it is looked whether somebody does.
	natEventsIdle = 500 * time.Millisecond
	// natSweep is the least time between two sweeps over the sessions.
	natSweep = 10 * time.Second
)

// watchGateways judges the gateways anew when time or replication calls for it, until ctx
// ends.
func (e *edge) watchGateways(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.pathSelector.gateways.nudged:
			e.steerAndSave()
		}
	}
}

// watchNAT has sessions expire, raises alarms and refreshes replicas until ctx ends.
func (e *edge) watchNAT(ctx context.Context) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	var sweepAt, refreshAt time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if begin := time.Now(); !begin.Before(sweepAt) {
			took, err := timed(func() error {
				e.sweepNAT()
				return e.watchDrain()
			})
			e.reportProblem("check the sessions of a drain", err)
			sweepAt = begin.Add(max(e.opts.NATSweep, watchShare*took))
		}
		if begin := time.Now(); !begin.Before(refreshAt) {
			interval := e.refreshInterval()
			if !refreshAt.IsZero() {
				// What had a packet since the last time, and some slack for the walk.
				e.reportProblem(refreshReplicas, e.refresh(interval+interval/4))
			}
			refreshAt = begin.Add(interval)
		}
	}
}

func (e *edge) refreshInterval() time.Duration {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.config.Egress == nil || e.replication == nil {
		return natEventsIdle
	}
	return max(refreshInterval(e.config.Egress.Timeouts), logEvery)
}

// followNATEvents writes the log of translations and tells other gateways of sessions, until ctx
// ends.
func (e *edge) followNATEvents(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var log translationLog
	var lost lostNATEvents
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		wait := natEventsIdle
		if e.passNATEvents(&log) {
			wait = natEventsEvery
			e.reportProblem("read the events of the data path", lost.look(e))
		}
		pause.Reset(wait)
	}
}

// passNATEvents takes over what there is, and says whether somebody hears of it.
func (e *edge) passNATEvents(log *translationLog) bool {
	e.mu.RLock()
	if e.dp == nil || e.config.Egress == nil || !e.config.Egress.Log && e.replication == nil {
		e.mu.RUnlock()
		return false
	}
	hears, replication := audiences(e.config), e.replication
	written, rate := e.config.Egress.Log, e.config.Egress.LogRate
	put, gone := make(outbox), make(outbox)
	log.begin(time.Now(), rate)
	err := e.dp.NAT.ReadNATEvents(natEventsMost, func(n *datapath.NATEvent) {
		if written {
			log.take(n)
		}
		if replication == nil || !reportedOf(n) {
			return
		}
		box, tell, other, first := put, replication.Put, gone, replication.Delete
		if n.Event == datapath.NATDeleted {
			box, tell, other, first = gone, replication.Delete, put, replication.Put
		}
		other.flush(first, 0) // so that nothing is overtaken
		for _, id := range hears[n.Record.Policy] {
			box[id] = appendRecord(box[id], &n.Record)
		}
		box.flush(tell, outboxMost)
	})
	if replication != nil {
		put.flush(replication.Put, 0)
		gone.flush(replication.Delete, 0)
	}
	e.mu.RUnlock()
	log.write(e.log)
	e.logLost.Store(log.lost)
	e.reportProblem("read the events of sessions", err)
	return true
}

// reportedOf leaves out what other gateways need not know: connections without an answer, and
// replicas, which are others' to tell of.
func reportedOf(n *datapath.NATEvent) bool {
	return !n.Session.Replica && (n.Event != datapath.NATCreated || n.Session.Mapping) && (n.Session.Answered || n.Session.Mapping)
}

// lostNATEvents is how many news the data path could not tell of.
type lostNATEvents struct {
	count uint64
	known bool
	next  time.Time
}

// eventNATEventsLost is the event of bpf/core/reasons.h that counts them.
const eventNATEventsLost = "nat-event-lost"

// look has other gateways told all again when some are missing.
func (l *lostNATEvents) look(e *edge) error {
	if now := time.Now(); now.Before(l.next) {
		return nil
	}
	l.next = time.Now().Add(time.Second)
	_, err := read(e, "events", func() (struct{}, error) {
		events, err := e.dp.Drops.Events()
		if err != nil {
			return struct{}{}, err
		}
		n := events[eventNATEventsLost]
		if l.known && n > l.count && e.replication != nil {
			e.replication.Resync("session events were lost here, so all sessions are sent again")
		}
		l.count, l.known = n, true
		return struct{}{}, nil
	})
	return err
}

package edge

import (
	"context"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

const (
	// newsEvery is how often news of bindings are taken over where somebody hears of them, and
	// newsMost how many at a time. The ring has room for some 16,000.
	newsEvery = 10 * time.Millisecond
	newsMost  = 20_000
	// newsIdle is how often it is looked whether somebody does.
	newsIdle = 500 * time.Millisecond
	// natSweep is the least time between two sweeps over the bindings.
	natSweep = 10 * time.Second
)

// watchGateways judges the gateways anew when time or replication calls for it, until ctx
// ends.
func (e *edge) watchGateways(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.steering.gate.nudged:
			e.steerAndSave()
		}
	}
}

// watchNAT has bindings expire, raises alarms and refreshes replicas until ctx ends.
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
			e.fault("look at the bindings of a drain", err)
			sweepAt = begin.Add(max(e.opts.NATSweep, watchShare*took))
		}
		if begin := time.Now(); !begin.Before(refreshAt) {
			pace := e.refreshPace()
			if !refreshAt.IsZero() {
				// What had a packet since the last time, and some slack for the walk.
				e.fault("refresh replicas of bindings", e.refresh(pace+pace/4))
			}
			refreshAt = begin.Add(pace)
		}
	}
}

func (e *edge) refreshPace() time.Duration {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.config.Egress == nil || e.replication == nil {
		return newsIdle
	}
	return max(refreshPace(e.config.Egress.Timeouts), logEvery)
}

// followNews writes the log of translations and tells other gateways of bindings, until ctx
// ends.
func (e *edge) followNews(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var log translationLog
	var lost lostNews
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		wait := newsIdle
		if e.passNews(&log) {
			wait = newsEvery
			e.fault("read the events of the data path", lost.look(e))
		}
		pause.Reset(wait)
	}
}

// passNews takes over what there is, and says whether somebody hears of it.
func (e *edge) passNews(log *translationLog) bool {
	e.mu.RLock()
	if e.dp == nil || e.config.Egress == nil || !e.config.Egress.Log && e.replication == nil {
		e.mu.RUnlock()
		return false
	}
	hears, replication := audiences(e.config), e.replication
	written, rate := e.config.Egress.Log, e.config.Egress.LogRate
	put, gone := make(outbox), make(outbox)
	log.begin(time.Now(), rate)
	err := e.dp.News(newsMost, func(n *datapath.News) {
		if written {
			log.take(n)
		}
		if replication == nil || !toldOf(n) {
			return
		}
		box, tell, other, first := put, replication.Put, gone, replication.Delete
		if n.Event == datapath.BindingEnded {
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
	e.fault("read the news of bindings", err)
	return true
}

// toldOf leaves out what other gateways need not know: connections without an answer, and
// replicas, which are others' to tell of.
func toldOf(n *datapath.News) bool {
	return !n.Binding.Replica && (n.Event != datapath.BindingBegan || n.Binding.Mapping) && (n.Binding.Answered || n.Binding.Mapping)
}

// lostNews is how many news the data path could not tell of.
type lostNews struct {
	count uint64
	known bool
	next  time.Time
}

// eventNewsLost is the event of bpf/core/reasons.h that counts them.
const eventNewsLost = "news-lost"

// look has other gateways told all again when some are missing.
func (l *lostNews) look(e *edge) error {
	if now := time.Now(); now.Before(l.next) {
		return nil
	}
	l.next = time.Now().Add(time.Second)
	_, err := read(e, "events", func() (struct{}, error) {
		events, err := e.dp.Events()
		if err != nil {
			return struct{}{}, err
		}
		n := events[eventNewsLost]
		if l.known && n > l.count && e.replication != nil {
			e.replication.Resync("news of bindings were lost here, and it is told all again")
		}
		l.count, l.known = n, true
		return struct{}{}, nil
	})
	return err
}

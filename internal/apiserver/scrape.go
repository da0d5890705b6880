package apiserver

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/metrics"
)

// Scraped is an edge whose counters are read for scrapes.
type Scraped interface {
	// TryRead is Edge.Read, unless the edge is being changed: then nothing is done.
	TryRead(what string, do func(*State) error) (done bool, err error)
}

const (
	// scrapeShare is how many times as long as a reading takes there is none: scrapes cost one per cent of a core at most,
	// however often somebody scrapes.
	scrapeShare = 100
	// scrapeQuick is a reading that takes so little that a scrape waits for it.
	scrapeQuick = 2 * time.Millisecond
)

// Scrapes have the counters of an edge ready for scrapes, in groups of which each is read by itself. A group that takes
// long is read beside the scrapes, and they have it as it was.
type Scrapes struct {
	groups  []*scrapeGroup
	now     func(*metrics.Page) // what costs nothing to read
	wanted  chan *scrapeGroup
	handler http.Handler
}

// scrapeGroup are metrics that are read together.
type scrapeGroup struct {
	name string
	// read is false when the edge is being changed.
	read   func(*metrics.Page) (done bool, err error)
	turn   sync.Mutex // of who reads
	last   atomic.Pointer[scrapeReading]
	queued atomic.Bool
}

// scrapeReading is never changed.
type scrapeReading struct {
	page *metrics.Page
	err  error
	at   time.Time
	took time.Duration // of a core
}

// NewScrapes have read nothing. bgp is nil without BGP; now waits for nothing, and is read with each scrape.
func NewScrapes(e Scraped, bgp func() *BGP, i *metrics.Instruments, now func(*metrics.Page)) *Scrapes {
	s := &Scrapes{now: now}
	of := func(name string, read func(*State, *metrics.Page) error) {
		s.add(name, func(p *metrics.Page) (bool, error) {
			return e.TryRead("metrics", func(state *State) error { return read(state, p) })
		})
	}
	of("counters", counterMetrics)
	of("owners", new(ownerSeries).metrics)
	of("limits", limitMetrics)
	of("rules", ruleMetricsOf)
	of("problems", problemMetrics)
	s.add("bgp", func(p *metrics.Page) (bool, error) {
		if b := bgp(); b != nil {
			bgpMetrics(b, p)
		}
		return true, nil
	})
	s.wanted = make(chan *scrapeGroup, len(s.groups))
	s.handler = metrics.Handler(s.pages, i)
	return s
}

func (s *Scrapes) add(name string, read func(*metrics.Page) (bool, error)) {
	s.groups = append(s.groups, &scrapeGroup{name: name, read: read})
}

// Prime reads all, so that the first scrape has it.
func (s *Scrapes) Prime() {
	for _, g := range s.groups {
		g.renew()
	}
}

// Run reads what takes long, until ctx ends.
func (s *Scrapes) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case g := <-s.wanted:
			g.queued.Store(false)
			g.renew()
		}
	}
}

// ServeHTTP implements http.Handler.
func (s *Scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, g := range s.groups {
		s.refresh(g)
		if last := g.last.Load(); last != nil && last.err != nil {
			api.Answer(w, http.StatusInternalServerError, api.Refusal{Error: last.err.Error()})
			return
		}
	}
	s.handler.ServeHTTP(w, r)
}

// refresh has a group be read again when it is time: at once where that is quick.
func (s *Scrapes) refresh(g *scrapeGroup) {
	last := g.last.Load()
	switch {
	case last != nil && time.Since(last.at) < scrapeShare*last.took:
	case last == nil || last.took <= scrapeQuick:
		g.renew()
	case !g.queued.Swap(true):
		s.wanted <- g // it has room for all
	}
}

// renew reads a group, unless another one does.
func (g *scrapeGroup) renew() {
	if !g.turn.TryLock() {
		return
	}
	defer g.turn.Unlock()
	next, done := &scrapeReading{page: new(metrics.Page), at: time.Now()}, false
	next.took, next.err = alarm.Timed(func() (err error) {
		done, err = g.read(next.page)
		return err
	})
	if !done && next.err == nil {
		return // it is being changed: what was read before must do
	}
	g.last.Store(next)
}

// pages are the last ones, and when they were read.
func (s *Scrapes) pages() []*metrics.Page {
	read, list := new(metrics.Page), []*metrics.Page{}
	read.Family(metrics.Gauge, "selvage_metrics_read_time_seconds", "When the counters of the group were read, in seconds since 1970.")
	for _, g := range s.groups {
		if last := g.last.Load(); last != nil {
			read.Sample(float64(last.at.UnixMilli())/1000, "group", g.name)
			list = append(list, last.page)
		}
	}
	s.now(read)
	return append(list, read)
}

package alarm

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Kinds of alarm of the flow cache.
const (
	CacheOff       = "off"
	CacheThrashing = "thrashing"
)

// A flow cache thrashes when flows that still send lose their decisions to each
// other. All three must hold from one reading to the next:
//
//   - at least busyLookUps a second: below, a slow path for each costs nothing that
//     is felt, and ratios of few packets are noise;
//   - fewer than poorHits of the look-ups hit: one packet in ten on the slow path is
//     where it begins to be a large part of all work;
//   - a cache replaces as many decisions as it holds in less than turnover. A decision
//     is taken again after 10 s at the latest, however large the cache, so evictions
//     that are slower than this cost nothing. A share of the look-ups would not tell:
//     of many short flows each is a miss, and evicts one that has ended.
//
// The alarm ends at limits that are clearly better, and both begin and end take
// several intervals in a row, so that it does not flap.
const (
	busyLookUps = 1000 // a second
	poorHits    = 0.90
	turnover    = 10 // seconds

	clearLookUps  = busyLookUps / 2
	goodHits      = 0.95
	clearTurnover = 2 * turnover

	raiseAfter = 2 // intervals between readings
	endAfter   = 3
)

// thrashes reports whether the flow cache did between two readings.
func thrashes(r *api.CacheRates, caches []api.CacheInfo) bool {
	return r.LookUps >= busyLookUps && r.HitRatio < poorHits && turns(r, caches, turnover)
}

// isClear is clearly not thrashing.
func isClear(r *api.CacheRates, caches []api.CacheInfo) bool {
	return r.LookUps < clearLookUps || r.HitRatio >= goodHits || !turns(r, caches, clearTurnover)
}

// turns reports whether a cache replaces all its decisions in the seconds.
func turns(r *api.CacheRates, caches []api.CacheInfo, seconds float64) bool {
	return slices.ContainsFunc(caches, func(c api.CacheInfo) bool {
		evicted := r.Evicted[c.Name]
		return evicted > 0 && evicted*seconds >= float64(c.Used)
	})
}

// Flows are the cached decisions.
type Flows interface {
	Totals() (datapath.Stats, error) // with entries as of the last ageing: this watch walks no table
}

// FlowCache watches over the flow cache.
type FlowCache struct {
	o         Options
	notBefore time.Time // of the next reading
	mu        sync.Mutex
	watch     cacheWatch
}

// NewFlowCache has seen nothing.
func NewFlowCache(o Options) *FlowCache { return &FlowCache{o: o} }

// Look takes a reading when it is time.
func (f *FlowCache) Look(config overlay.FlowCache, flows Flows) {
	at, was := time.Now(), f.now()
	if at.Before(f.notBefore) {
		return
	}
	next, notBefore := cacheWatch{}, time.Time{}
	if config.Enabled { // off is no matter of readings
		var stats datapath.Stats
		took, err := Timed(func() (err error) {
			stats, err = flows.Totals()
			return err
		})
		f.o.Report(WatchFlowCache, err)
		if err != nil {
			return
		}
		next = was.after(ReadFlowCache(at, stats))
		notBefore = at.Add(TimeShare * took)
	}
	f.notBefore = notBefore
	f.mu.Lock()
	f.watch = next
	f.mu.Unlock()
	switch {
	case next.thrashing && !was.thrashing:
		Raised(f.o.Log, problem.Warning("%s", next.problem(config.Size)))
	case was.thrashing && !next.thrashing:
		Cleared(f.o.Log, "flow cache: thrashing")
	}
}

func (f *FlowCache) now() cacheWatch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watch
}

// Alarm is what is wrong with the flow cache, and what to do; both are "" where all is well.
func (f *FlowCache) Alarm(config overlay.FlowCache) (kind, text string) {
	watch := f.now()
	switch {
	case !config.Enabled:
		return CacheOff, "flow cache: off, so each packet takes the slow path: set spec.flowCache.enabled, off is for comparison only"
	case watch.thrashing:
		return CacheThrashing, watch.problem(config.Size)
	}
	return "", ""
}

// Flows is how many decisions the flow cache held at the last reading.
func (f *FlowCache) Flows() (n int) {
	for _, c := range f.now().last.Caches {
		n += c.Used
	}
	return n
}

// cacheWatch is what was seen of the flow cache. Its zero value has seen nothing.
type cacheWatch struct {
	last      api.FlowCacheInfo // the last reading, with the rates since the one before
	thrashing bool
	contrary  int // intervals in a row that say otherwise
}

// after is the watch with one more reading. One that cannot be compared with the last
// only replaces it.
func (w cacheWatch) after(next api.FlowCacheInfo) cacheWatch {
	first := w.last.ReadAt.IsZero()
	before := w.last
	w.last = next
	if first {
		return w
	}
	r, err := api.Rates(before, next)
	if err != nil {
		return w
	}
	w.last.Rates = r
	contrary, enough := thrashes(r, next.Caches), raiseAfter
	if w.thrashing {
		contrary, enough = isClear(r, next.Caches), endAfter
	}
	if !contrary {
		w.contrary = 0
		return w
	}
	if w.contrary++; w.contrary >= enough {
		w.thrashing, w.contrary = !w.thrashing, 0
	}
	return w
}

// problem puts the last interval into words.
func (w cacheWatch) problem(size uint32) string {
	now := ""
	if r := w.last.Rates; r != nil {
		now = fmt.Sprintf(" (%.0f %% hits of %.0f look-ups/s", 100*r.HitRatio, r.LookUps)
		for _, c := range w.last.Caches {
			most := ""
			if c.Evicted == nil {
				most = "up to "
			}
			if r.Evicted[c.Name] > 0 {
				now += fmt.Sprintf("; %s has %d of %d entries and evicts %s%.0f/s", c.Name, c.Used, c.Size, most, r.Evicted[c.Name])
			}
		}
		now += ")"
	}
	return fmt.Sprintf("flow cache: thrashing, active flows evict each other's decisions%s: raise spec.flowCache.size, now %d, "+
		"unless `selvage flows` shows a scan or flood", now, size)
}

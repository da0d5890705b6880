package edge

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// Kinds of alarm of the flow cache.
const alarmOff, alarmThrashing = "off", "thrashing"

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

// cacheWatch is what the loop saw of the flow cache. Its zero value has seen nothing.
type cacheWatch struct {
	last      api.FlowCacheInfo // the last reading, with the rates since the one before
	notBefore time.Time         // of the next reading
	thrashing bool
	contrary  int // intervals in a row that say otherwise
}

// watchShare is the time between readings, or sweeps, in the processor time that one takes:
// they walk all the memory of large tables, and cost one per cent of a core at most. Waiting
// for a core costs nothing, and must not put an alarm off.
const watchShare = 100

// timed does f, and says how long a core was busy with it.
func timed(f func() error) (time.Duration, error) {
	runtime.LockOSThread() // the clock is the thread's
	defer runtime.UnlockOSThread()
	var began, ended unix.Timespec
	clock := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &began)
	err := f()
	clock = errors.Join(clock, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ended))
	if clock != nil {
		clock = fmt.Errorf("processor time of a thread: %w", clock)
	}
	return time.Duration(ended.Nano() - began.Nano()), errors.Join(err, clock)
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

// watchLog tells of lines of the log that were lost since the last look.
func (e *edge) watchLog() {
	if e.opts.LostLogLines == nil {
		return
	}
	var err error
	lost := e.opts.LostLogLines()
	if n := lost - e.linesLost; n > 0 {
		err = fmt.Errorf("%d lines are lost: nobody reads them fast enough, or at all", n)
	}
	e.linesLost = lost
	e.reportProblem(writeLog, err)
}

// watchCache takes a reading when it is time.
func (e *edge) watchCache() {
	was, at := e.cache, time.Now()
	if at.Before(was.notBefore) {
		return
	}
	next := cacheWatch{}
	if e.config.FlowCache.Enabled { // off is no matter of readings
		var stats datapath.Stats
		took, err := timed(func() (err error) {
			stats, err = e.dp.Flows.Stats()
			return err
		})
		e.reportProblem(watchCache, err)
		if err != nil {
			return
		}
		next = was.after(FlowCacheInfo(at, stats))
		next.notBefore = at.Add(watchShare * took)
	}
	e.mu.Lock()
	e.cache = next
	_, problem := e.cacheAlarm()
	e.mu.Unlock()
	switch {
	case next.thrashing && !was.thrashing:
		e.log.Warn("problem", "what", problem)
	case was.thrashing && !next.thrashing:
		e.log.Info("problem cleared", "what", "flow cache: thrashing")
	}
}

// cacheAlarm is what is wrong with the flow cache, and what to do. mu is held.
func (e *edge) cacheAlarm() (alarm, problem string) {
	switch {
	case !e.config.FlowCache.Enabled:
		return alarmOff, "flow cache: off, so each packet takes the slow path: set spec.flowCache.enabled, off is for comparison only"
	case e.cache.thrashing:
		return alarmThrashing, e.cache.problem(e.config.FlowCache.Size)
	}
	return "", ""
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

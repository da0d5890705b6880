package edge

import (
	"errors"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

// cacheEvents are the events of bpf/core/reasons.h that are about the flow cache; the ones
// that are outcomes of a look-up come first. A test compares names and texts.
var cacheEvents = []EventInfo{
	{Name: eventHit, Description: "packets that found a valid decision", LookUp: true},
	{Name: eventMiss, Description: "packets without a decision", LookUp: true},
	{Name: "stale", Description: "packets whose decision a change had invalidated", LookUp: true},
	{Name: "revalidated", Description: "packets whose decision had reached its age", LookUp: true},
	{Name: "flow-full", Description: "decisions not kept because the flow cache was full"},
	{Name: eventEvicted, Description: "transit flows evicted by others"},
	{Name: "transit", Description: "packets forwarded by a transit program"},
}

const eventHit, eventMiss, eventEvicted = "hit", "miss", "evicted"

// lookUps is how many packets asked the flow cache. Those that are always decided
// anew do not.
func lookUps(s datapath.Stats) (n uint64) {
	for _, e := range cacheEvents {
		if e.LookUp {
			n += s.Events[e.Name]
		}
	}
	return n
}

func (e *edge) flowCacheDocument() (FlowCacheInfo, error) {
	return read(e, "flow cache", func() (FlowCacheInfo, error) {
		at := time.Now() // counters are read before entries are counted
		stats, err := e.dp.Stats()
		if err != nil {
			return FlowCacheInfo{}, err
		}
		info := flowCacheInfo(at, stats)
		info.Enabled = e.config.FlowCache.Enabled
		info.Alarm, info.Problem = e.cacheAlarm()
		return info, nil
	})
}

func flowCacheInfo(at time.Time, stats datapath.Stats) FlowCacheInfo {
	info := FlowCacheInfo{
		ReadAt: at, LookUps: lookUps(stats),
		Caches: make([]CacheInfo, 0, len(stats.Caches)), Events: make([]EventInfo, 0, len(cacheEvents)),
	}
	info.HitRatio = ratio(stats.Events[eventHit], info.LookUps)
	for _, c := range stats.Caches {
		cache := CacheInfo{Name: c.Name, Used: c.Used, Size: c.Size, Bytes: c.Bytes}
		if c.Name == datapath.CacheTransit {
			evicted := stats.Events[eventEvicted]
			cache.Evicted = &evicted
		}
		info.Caches = append(info.Caches, cache)
	}
	for _, event := range cacheEvents {
		event.Count = stats.Events[event.Name]
		info.Events = append(info.Events, event)
	}
	return info
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// count is the counter of one event.
func (f FlowCacheInfo) count(event string) uint64 {
	for _, e := range f.Events {
		if e.Name == event {
			return e.Count
		}
	}
	return 0
}

// rates is what happened between two readings of one data path.
func rates(before, after FlowCacheInfo) (*CacheRates, error) {
	r := &CacheRates{Seconds: after.ReadAt.Sub(before.ReadAt).Seconds(), Events: map[string]float64{}, Evicted: map[string]float64{}}
	if r.Seconds <= 0 {
		return nil, errors.New("the clock was set back between two readings of the flow cache: read it again")
	}
	for _, event := range after.Events {
		was := before.count(event.Name)
		if event.Count < was {
			return nil, errors.New("the data path was loaded again between two readings of the flow cache: read it again")
		}
		r.Events[event.Name] = float64(event.Count-was) / r.Seconds
	}
	r.LookUps = float64(after.LookUps-before.LookUps) / r.Seconds
	r.HitRatio = ratio(after.count(eventHit)-before.count(eventHit), after.LookUps-before.LookUps)
	for _, c := range after.Caches {
		r.Evicted[c.Name] = r.Events[eventEvicted]
		if c.Evicted == nil {
			r.Evicted[c.Name] = r.unaccounted(before, after, c)
		}
	}
	return r, nil
}

// fullCache is the filling, in percent, from which the kernel may evict from an LRU map:
// each core keeps up to 128 free entries to itself, all together half of the map at most.
const fullCache = 50

// unaccounted is the rate of misses that neither grew a cache nor evicted from that of
// transit: of an LRU map, at most so many decisions made room for others. Misses
// of packets that left no decision are among them, such as dropped ones and those that
// a transit program leaves to tc.
func (r *CacheRates) unaccounted(before, after FlowCacheInfo, cache CacheInfo) float64 {
	if cache.Used*100 < cache.Size*fullCache {
		return 0
	}
	rate := r.Events[eventMiss] - r.Events[eventEvicted]
	for i, c := range after.Caches {
		if i < len(before.Caches) && c.Used > before.Caches[i].Used {
			rate -= float64(c.Used-before.Caches[i].Used) / r.Seconds
		}
	}
	return max(rate, 0)
}

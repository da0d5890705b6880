package api

import "errors"

// Events of the flow cache.
const (
	EventHit     = "hit"
	EventMiss    = "miss"
	EventEvicted = "evicted"
)

// Ratio is part of whole, 0 of nothing.
func Ratio(part, whole uint64) float64 {
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

// Rates is what happened between two readings of one data path.
func Rates(before, after FlowCacheInfo) (*CacheRates, error) {
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
	r.HitRatio = Ratio(after.count(EventHit)-before.count(EventHit), after.LookUps-before.LookUps)
	for _, c := range after.Caches {
		r.Evicted[c.Name] = r.Events[EventEvicted]
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
	rate := r.Events[EventMiss] - r.Events[EventEvicted]
	for i, c := range after.Caches {
		if i < len(before.Caches) && c.Used > before.Caches[i].Used {
			rate -= float64(c.Used-before.Caches[i].Used) / r.Seconds
		}
	}
	return max(rate, 0)
}

package edge

import (
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// cacheEvents are the events of bpf/core/reasons.h that are about the flow cache; the ones
// that are outcomes of a look-up come first. A test compares names and texts.
var cacheEvents = []api.EventInfo{
	{Name: api.EventHit, Description: "packets that found a valid decision", LookUp: true},
	{Name: api.EventMiss, Description: "packets without a decision", LookUp: true},
	{Name: "stale", Description: "packets whose decision a change had invalidated", LookUp: true},
	{Name: "revalidated", Description: "packets whose decision had reached its age", LookUp: true},
	{Name: "flow-full", Description: "decisions not kept because the flow cache was full"},
	{Name: api.EventEvicted, Description: "transit flows evicted by others"},
	{Name: "transit", Description: "packets forwarded by a transit program"},
}

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

func (e *edge) flowCacheDocument() (api.FlowCacheInfo, error) {
	return read(e, "flow cache", func() (api.FlowCacheInfo, error) {
		at := time.Now() // counters are read before entries are counted
		stats, err := e.dp.Flows.Stats()
		if err != nil {
			return api.FlowCacheInfo{}, err
		}
		info := FlowCacheInfo(at, stats)
		info.Enabled = e.config.FlowCache.Enabled
		info.Alarm, info.Problem = e.cacheAlarm()
		return info, nil
	})
}

// FlowCacheInfo is the flow cache as documents have it, less what the configuration and alarms say.
func FlowCacheInfo(at time.Time, stats datapath.Stats) api.FlowCacheInfo {
	info := api.FlowCacheInfo{
		ReadAt: at, LookUps: lookUps(stats),
		Caches: make([]api.CacheInfo, 0, len(stats.Caches)), Events: make([]api.EventInfo, 0, len(cacheEvents)),
	}
	info.HitRatio = api.Ratio(stats.Events[api.EventHit], info.LookUps)
	for _, c := range stats.Caches {
		cache := api.CacheInfo{Name: c.Name, Used: c.Used, Size: c.Size, Bytes: c.Bytes}
		if c.Name == datapath.CacheTransit {
			evicted := stats.Events[api.EventEvicted]
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

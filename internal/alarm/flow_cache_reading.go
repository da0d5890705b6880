package alarm

import (
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// CacheEvents are the events of bpf/core/reasons.h that are about the flow cache; the ones
// that are outcomes of a look-up come first. A test compares names and texts.
var CacheEvents = []api.EventInfo{
	{Name: api.EventHit, Description: "packets that found a valid decision", LookUp: true},
	{Name: api.EventMiss, Description: "packets without a decision", LookUp: true},
	{Name: "stale", Description: "packets whose decision a change had invalidated", LookUp: true},
	{Name: "revalidated", Description: "packets whose decision had reached its age", LookUp: true},
	{Name: "flow-full", Description: "decisions not kept because the flow cache was full"},
	{Name: "flow-not-admitted", Description: "decisions not kept because the port is at its limit"},
	{Name: api.EventEvicted, Description: "transit flows evicted by others"},
	{Name: "transit", Description: "packets forwarded by a transit program"},
}

// LookUps is how many packets asked the flow cache. Those that are always decided
// anew do not.
func LookUps(s datapath.Stats) (n uint64) {
	for _, e := range CacheEvents {
		if e.LookUp {
			n += s.Events[e.Name]
		}
	}
	return n
}

// ReadFlowCache is a reading of the flow cache, without its alarm.
func ReadFlowCache(at time.Time, stats datapath.Stats) api.FlowCacheInfo {
	info := api.FlowCacheInfo{
		ReadAt: at, LookUps: LookUps(stats),
		Caches: make([]api.CacheInfo, 0, len(stats.Caches)), Events: make([]api.EventInfo, 0, len(CacheEvents)),
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
	for _, event := range CacheEvents {
		event.Count = stats.Events[event.Name]
		info.Events = append(info.Events, event)
	}
	return info
}

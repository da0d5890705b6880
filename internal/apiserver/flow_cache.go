package apiserver

import (
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
)

func (d documents) flowCache() (api.FlowCacheInfo, error) {
	return read(d.o.Edge, "flow cache", func(e *State) (api.FlowCacheInfo, error) {
		at := time.Now() // counters are read before entries are counted
		stats, err := e.DataPath.Flows.Stats()
		if err != nil {
			return api.FlowCacheInfo{}, err
		}
		info := alarm.ReadFlowCache(at, stats)
		info.Enabled = e.Config.FlowCache.Enabled
		info.Alarm, info.Problem = e.Alarms.FlowCache.Alarm(e.Config.FlowCache)
		return info, nil
	})
}

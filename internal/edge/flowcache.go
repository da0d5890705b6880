package edge

import (
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
)

func (e *edge) flowCacheDocument() (api.FlowCacheInfo, error) {
	return read(e, "flow cache", func() (api.FlowCacheInfo, error) {
		at := time.Now() // counters are read before entries are counted
		stats, err := e.dp.Flows.Stats()
		if err != nil {
			return api.FlowCacheInfo{}, err
		}
		info := alarm.ReadFlowCache(at, stats)
		info.Enabled = e.config.FlowCache.Enabled
		info.Alarm, info.Problem = e.alarms.flowCache.Alarm(e.config.FlowCache)
		return info, nil
	})
}

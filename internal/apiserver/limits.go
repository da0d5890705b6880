package apiserver

import (
	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/metrics"
)

// portLimits are those of ports, by name.
func portLimits(e *State) (map[string][]api.LimitInfo, error) {
	all, err := alarm.ReadLimits(e.DataPath.Limits)
	limits := map[string][]api.LimitInfo{}
	for _, l := range all {
		if l.Kind == string(datapath.OwnerPort) {
			limits[l.Owner] = append(limits[l.Owner], l)
		}
	}
	return limits, err
}

func (d documents) limits() ([]api.LimitInfo, error) {
	return read(d.o.Edge, "limits", func(e *State) ([]api.LimitInfo, error) {
		list, err := alarm.ReadLimits(e.DataPath.Limits)
		return append([]api.LimitInfo{}, list...), err
	})
}

// limitMetrics have series of what is used, or was exceeded: they are as many as there is to see.
func limitMetrics(e *State, p *metrics.Page) error {
	limits, err := alarm.ReadLimits(e.DataPath.Limits)
	if err != nil {
		return err
	}
	const used, most, exceeded, raised = "selvage_limit_used", "selvage_limit_max", "selvage_limit_exceeded_total", "selvage_limit_alarm"
	isUsed := func(l api.LimitInfo) bool { return l.Used > 0 }
	isExceeded := func(l api.LimitInfo) bool { return l.Exceeded > 0 }
	for _, m := range []struct {
		kind       metrics.Kind
		name, help string
		shown      func(api.LimitInfo) bool
		value      func(api.LimitInfo) uint64
	}{
		{metrics.Gauge, used, "Entries that a port or segment has of what has a limit.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Used) }},
		{metrics.Gauge, most, "The limit of a port or segment of which some is used.", isUsed, func(l api.LimitInfo) uint64 { return uint64(l.Max) }},
		{metrics.Counter, exceeded, "Entries and packets above the limit of a port or segment.", isExceeded, func(l api.LimitInfo) uint64 { return l.Exceeded }},
		{metrics.Gauge, raised, "1 while a port or segment exceeds the limit.", isExceeded, func(l api.LimitInfo) uint64 {
			return flag(e.Alarms.Limits.IsExceeded(l))
		}},
	} {
		p.Family(m.kind, m.name, m.help)
		for _, l := range limits {
			if m.shown(l) {
				p.Count(m.value(l), "kind", l.Kind, "owner", l.Owner, "limit", l.Limit)
			}
		}
	}
	return nil
}

package edge

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
)

// someLimits are those of a port that observes, and of a segment; so many broadcast frames of the
// port were above its rate.
func someLimits(exceeded uint64) []datapath.LimitUsage {
	usage := func(kind datapath.OwnerKind, owner string, observe bool, n uint64) datapath.LimitUsage {
		return datapath.LimitUsage{
			Kind: kind, Owner: owner, Observe: observe,
			Counts: []datapath.CountUsage{{Name: "macs", Used: 3, Limit: 10}},
			Rates:  []datapath.RateUsage{{Name: "broadcast", Limit: 1000, Exceeded: n, Sent: true}, {Name: "resets", Limit: 50}},
		}
	}
	return []datapath.LimitUsage{usage(datapath.OwnerPort, "p0", true, exceeded), usage(datapath.OwnerSegment, "blue", false, 0)}
}

// The alarm is a problem of the status and a metric, and is logged.
func TestLimitAlarmIsReported(t *testing.T) {
	w := newWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	w.within("the alarm begins", func() bool {
		w.mu.Lock()
		w.limits[0].Rates[0].Exceeded++
		w.mu.Unlock()
		return w.problem(c, "port p0 exceeds its limit")
	})
	w.exports(c, `selvage_limit_used{kind="port",limit="macs",owner="p0"} 3`, `selvage_limit_max{kind="segment",limit="macs",owner="blue"} 10`,
		`selvage_owner_drops_total{kind="port",owner="p0",reason="no-underlay-route"} 4`)
	w.within("the alarm ends", func() bool { return !w.problem(c, "port p0 exceeds its limit") })
}

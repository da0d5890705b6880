package edge

import (
	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/overlay"
)

// alarms are what watches over the data path.
type alarms struct {
	nextHops  *alarm.NextHops
	flowCache *alarm.FlowCache
	limits    *alarm.Limits
	balance   *alarm.Balance
	log       *alarm.LogLines
	firewall  *alarm.Firewall // has a goroutine of its own
}

func newAlarms(e *edge) alarms {
	o := alarm.Options{Log: e.log, Report: e.reportProblem}
	return alarms{
		nextHops: alarm.NewNextHops(o), flowCache: alarm.NewFlowCache(o), limits: alarm.NewLimits(o), balance: alarm.NewBalance(o),
		log: alarm.NewLogLines(o, e.opts.LostLogLines), firewall: alarm.NewFirewall(o, firewallOf{e}),
	}
}

// look has those look that have no goroutine of their own.
func (a alarms) look(e *edge) {
	a.nextHops.Look(e.dp.Drops)
	a.flowCache.Look(e.config.FlowCache, e.dp.Flows)
	a.limits.Look(e.dp.Limits)
	inForce := e.pathSelector.inForce()
	a.balance.Look(e.dp.Counters, inForce.PathPolicies, inForce.Moves, a.flowCache.Flows())
	e.watchBGP()
	a.log.Look()
}

// firewallOf lends the firewall of an edge.
type firewallOf struct{ e *edge }

func (f firewallOf) WithFirewall(do func(overlay.Firewall, alarm.Conntrack) error) (bool, error) {
	f.e.mu.RLock()
	defer f.e.mu.RUnlock()
	if f.e.dp == nil || f.e.config.Firewall == nil {
		return false, nil
	}
	return true, do(*f.e.config.Firewall, conntrack{f.e.dp.Firewall, f.e.dp.Drops})
}

// conntrack is the firewall of a data path, and what it counts.
type conntrack struct {
	Firewall
	Drops
}

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
	o := alarm.Options{Log: e.log, Report: e.faults.Report}
	return alarms{
		nextHops: alarm.NewNextHops(o), flowCache: alarm.NewFlowCache(o), limits: alarm.NewLimits(o), balance: alarm.NewBalance(o),
		log: alarm.NewLogLines(o, e.opts.LostLogLines), firewall: alarm.NewFirewall(o, firewallOf{e}),
	}
}

// look has those look that have no goroutine of their own.
func (a alarms) look(e *edge) {
	a.nextHops.Look(e.state.dp.Drops)
	a.flowCache.Look(e.state.config.FlowCache, e.state.dp.Flows)
	a.limits.Look(e.state.dp.Limits)
	inForce := e.writer.InForce().Paths
	a.balance.Look(e.state.dp.Counters, inForce.PathPolicies, inForce.Moves, a.flowCache.Flows())
	e.bgp.watch()
	a.log.Look()
}

// firewallOf lends the firewall of an edge.
type firewallOf struct{ e *edge }

func (f firewallOf) WithFirewall(do func(overlay.Firewall, alarm.Conntrack) error) (bool, error) {
	f.e.state.mu.RLock()
	defer f.e.state.mu.RUnlock()
	if f.e.state.dp == nil || f.e.state.config.Firewall == nil {
		return false, nil
	}
	return true, do(*f.e.state.config.Firewall, conntrack{f.e.state.dp.Firewall, f.e.state.dp.Drops})
}

// conntrack is the firewall of a data path, and what it counts.
type conntrack struct {
	Firewall
	Drops
}

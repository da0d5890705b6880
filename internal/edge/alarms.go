package edge

import (
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/logging"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// alarms are what watches over the data path.
type alarms struct {
	nextHops  *alarm.NextHops
	flowCache *alarm.FlowCache
	limits    *alarm.Limits
	balance   *alarm.Balance
	log       *alarm.LogLines
	vnis      *alarm.UnknownVNIs
	silent    *alarm.Silent
	firewall  *alarm.Firewall // has a goroutine of its own
	nat       *alarm.NAT      // likewise
}

func newAlarms(e *edge) alarms {
	o := alarm.Options{Log: logging.For(e.log, "alarms"), Report: e.faults.Report}
	packets := alarm.Options{Log: logging.For(e.log, "firewall"), Report: e.faults.Report}
	return alarms{
		nextHops: alarm.NewNextHops(o), flowCache: alarm.NewFlowCache(o), limits: alarm.NewLimits(o), balance: alarm.NewBalance(o),
		vnis: alarm.NewUnknownVNIs(o), silent: alarm.NewSilent(o),
		log: alarm.NewLogLines(o, e.opts.LostLogLines), firewall: alarm.NewFirewall(packets, firewallOf{e}), nat: alarm.NewNAT(o, natOf{e}),
	}
}

// look has those look that have no goroutine of their own.
func (a alarms) look(e *edge) {
	a.nextHops.Look(e.state.dp.Drops)
	a.flowCache.Look(e.state.config.FlowCache, e.state.dp.Flows)
	a.limits.Look(e.state.dp.Limits)
	inForce := e.writer.InForce().Paths
	a.balance.Look(e.state.dp.Counters, inForce.PathPolicies, inForce.Moves, a.flowCache.Flows())
	a.remotes(e)
	e.bgp.Watch()
	a.log.Look()
	e.changes.lookProblems()
}

// remotes has those look that watch what remotes send.
func (a alarms) remotes(e *edge) {
	now := time.Now()
	e.state.mu.RLock()
	defer e.state.mu.RUnlock()
	a.vnis.Look(e.state.dp.Drops, watchedMonitors{e.state.dp.Monitors}.orNone(), now)
	a.silent.Look(e.state.configured, e.state.dp.Counters, now)
}

// watchedMonitors are those of a data path.
type watchedMonitors struct{ apiserver.Monitors }

func (m watchedMonitors) orNone() alarm.Monitors {
	if m.Monitors == nil {
		return nil
	}
	return m
}

// StartMonitor implements alarm.Monitors.
func (m watchedMonitors) StartMonitor(o datapath.MonitorOptions) (alarm.MonitorSession, error) {
	return m.Monitors.StartMonitor(o)
}

// answersPings reports whether one of the paths to a remote has been answered.
func answersPings(e *edge, known discovery.Readings) func(netip.Addr) bool {
	return func(remote netip.Addr) bool {
		return slices.ContainsFunc(plan.Pairs(e.state.config), func(pair overlay.Pair) bool {
			return slices.Contains(e.state.config.Remote(remote).Addrs, pair.Remote) && known.IsAnswered(pair)
		})
	}
}

// remoteProblems are those that watch what remotes send.
func remoteProblems(e *edge) []problem.Problem {
	list := e.alarms.vnis.Problems(e.state.config)
	if e.state.dp == nil {
		return list
	}
	known, err := e.mtus.Read(e.state.dp.Paths)
	if err != nil { // a fault already
		return list
	}
	return append(list, e.alarms.silent.Problems(e.state.config, answersPings(e, known), time.Now())...)
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

// natOf lends the NAT of an edge.
type natOf struct{ e *edge }

func (n natOf) WithNAT(do func(overlay.Egress, alarm.NATTables) error) (bool, error) {
	n.e.state.mu.RLock()
	defer n.e.state.mu.RUnlock()
	if n.e.state.dp == nil || n.e.state.config.Egress == nil {
		return false, nil
	}
	return true, do(*n.e.state.config.Egress, natTables{n.e.state.dp.NAT, n.e.state.dp.Egress, n.e.state.dp.Drops})
}

func (n natOf) ReplicationProblems(now time.Time) []problem.Problem {
	n.e.state.mu.RLock()
	defer n.e.state.mu.RUnlock()
	return n.e.replication.Problems(n.e.state.config, n.e.role.States(), now)
}

// Swept looks whether a drain is over.
func (n natOf) Swept() {
	n.e.faults.Report("check the sessions of a drain", n.e.role.WatchDrain(sessionsOf{&n.e.state}))
}

// natTables are the NAT sessions of a data path, and what it counts.
type natTables struct {
	NAT
	Egress
	counts Drops
}

func (t natTables) Drops() ([]datapath.Drop, error)    { return t.counts.Drops() }
func (t natTables) Events() (map[string]uint64, error) { return t.counts.Events() }

package apiserver

import (
	"cmp"
	"net/netip"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// fullAt is the filling of the FDB, in percent, that is a problem.
const fullAt = 95

// States of ports and TEPs, ways of delivery, and what is sent everywhere.
const (
	stateUp, stateDown, stateAbsent                 = "up", "down", "absent"
	stateResolved, stateUnresolved, stateNoRoute    = "resolved", "unresolved", "no route"
	deliverPeer, deliverRedirect, hookTCX, outFlood = "peer", "redirect", "tcx", "flood"
)

func (d documents) status() (api.Status, error) {
	return read(d.o.Edge, "status", func(e *State) (api.Status, error) {
		stats, err := e.DataPath.Flows.Stats()
		if err != nil {
			return api.Status{}, err
		}
		netns, err := e.Process.NetNS()
		if err != nil {
			return api.Status{}, err
		}
		s := api.Status{
			Name: e.Config.Name, Version: e.Process.Version, PID: os.Getpid(), NetNS: netns, Started: e.Process.Started,
			Config: e.Process.ConfigPath, Adopted: e.Process.Adopted, TEP: e.Config.Underlay.TEP,
			Segments:  segmentInfos(e.Config, e.Host, stats.Generations),
			FDB:       api.Usage{Used: stats.FDBUsed, Size: e.Config.FDB.Size},
			FlowCache: e.Config.FlowCache.Enabled, LookUps: alarm.LookUps(stats),
			Hits: stats.Hits, Misses: stats.Misses, Dropped: stats.Dropped,
			Problems: append([]problem.Problem{}, e.Problems()...),
		}
		CountFlows(&s, stats.Caches)
		s.Firewall, s.NAT, s.BGP = firewallUse(e), natUse(e), bgpUse(e)
		for _, a := range plan.Attachments(e.Config) {
			s.Ports.Count(portState(e.Host, a) == stateUp)
		}
		for _, remote := range plan.Remotes(e.Config) {
			s.TEPs.Count(tepState(e.Config, e.Host, remote) == stateResolved)
		}
		unresolved, err := unresolvedHops(e)
		if err != nil {
			return api.Status{}, err
		}
		s.Problems = append(s.Problems, unresolved...)
		s.Problems = append(s.Problems, cheapProblems(e, s.FDB.Used)...)
		slices.SortStableFunc(s.Problems, worstFirst)
		s.Problems = problem.Fold(s.Problems)
		s.Verdict = problem.Sum(s.Problems)
		return s, nil
	})
}

// cheapProblems are those of the data path that are found without a look at entries.
func cheapProblems(e *State, fdb int) (list []problem.Problem) {
	if fdb*100 >= int(e.Config.FDB.Size)*fullAt {
		list = append(list, problem.Warning(
			"FDB: %d of %d entries are in use: raise spec.fdb.size, or frames to hosts that do not fit are flooded", fdb, e.Config.FDB.Size))
	}
	for _, warning := range e.Config.Warnings {
		list = append(list, problem.Warning("%s", warning))
	}
	switch kind, text := e.Alarms.FlowCache.Alarm(e.Config.FlowCache); kind {
	case "":
	case alarm.CacheOff: // somebody wanted it
		list = append(list, problem.Note("%s", text))
	default:
		list = append(list, problem.Warning("%s", text))
	}
	return list
}

// severities are all, the worst first.
var severities = []problem.Severity{problem.SeverityError, problem.SeverityWarning, problem.SeverityNote}

// worstFirst orders problems by severity.
func worstFirst(a, b problem.Problem) int {
	return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
}

// CountFlows notes how full the flow caches are.
func CountFlows(s *api.Status, caches []datapath.Cache) {
	for _, c := range caches {
		usage := api.Usage{Used: c.Used, Size: uint32(c.Size)}
		if c.Name == datapath.CacheTransit {
			s.Transit = &usage
			continue
		}
		s.Flows = usage
	}
}

// firewallUse is nil without one.
func firewallUse(e *State) *api.FirewallUse {
	fw := e.Config.Firewall
	if fw == nil {
		return nil
	}
	return &api.FirewallUse{
		Rules:       len(e.Rules.Firewall.Rules()),
		Connections: api.Usage{Used: e.Alarms.Firewall.GCStats.Connections, Size: fw.Sizes.Connections},
		HalfOpen:    api.Usage{Used: e.Alarms.Firewall.GCStats.Waiting, Size: fw.Sizes.HalfOpen},
	}
}

func segmentInfos(e overlay.Edge, v host.State, generations map[string]uint32) []api.SegmentInfo {
	ports := make(map[string]int)
	for _, a := range plan.Attachments(e) {
		ports[a.Segment]++
	}
	segments := plan.AllSegments(e, v)
	list := make([]api.SegmentInfo, 0, len(segments))
	for _, s := range segments {
		info := api.SegmentInfo{
			Name: s.Name, VNI: s.VNI, Encapsulation: s.Tunnel.Encapsulation, UDPPort: s.Tunnel.UDPPort,
			Ports: ports[s.Name], Remotes: len(s.Remotes), Gateway: []netip.Prefix{}, Generation: generations[s.Name], ClampMSS: s.ClampMSS,
		}
		if s.Gateway != nil {
			info.Router, info.Gateway = s.Gateway.Router, append(info.Gateway, s.Gateway.Addresses...)
		}
		list = append(list, info)
	}
	return list
}

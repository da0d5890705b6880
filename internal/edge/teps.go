package edge

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// States of paths, besides those of bfd.
const (
	pathDead = "dead" // out of use, though not for what liveness says of it
)

// pathReadings is what a document about paths is made of.
type pathReadings struct {
	known
	counters map[overlay.Pair]datapath.Counters
	lives    map[overlay.Pair]bfd.Result
	plan     pathPlan
	now      time.Time
}

// readPathReadings reads it. mu is held.
func (e *edge) readPathReadings() (r pathReadings, err error) {
	if r.known, err = e.readPaths(); err != nil {
		return r, err
	}
	r.counters, err = e.dp.Counters.Paths()
	r.lives, r.plan, r.now = e.pathSelector.results(), e.pathSelector.inForce(), time.Now()
	return r, err
}

// pathInfos are the paths to remote, in the order of preference. mu is held.
func (e *edge) pathInfos(remote netip.Addr, r pathReadings) []api.PathInfo {
	list := []api.PathInfo{}
	for _, p := range r.plan.pathPolicies.Paths {
		if p.Edge != remote {
			continue
		}
		way, c, life, all := e.hostState.Routes[p.Pair], r.counters[p.Pair], r.lives[p.Pair], p.Endpoints()
		info := api.PathInfo{
			Local: p.Local, Remote: p.Remote, Interface: way.Interface, NextHop: way.Addr, MTU: way.MTU, Weight: p.Weight,
			State: string(bfd.Unknown), Failures: life.Failures, Shares: r.plan.shares(remote, p.Pair),
			TxPackets: c.Packets, TxBytes: c.Bytes,
		}
		info.PathMTU, info.PathMTUState, info.ReportedMTU = p.MTU, r.state(all), r.reported[all].MTU
		info.Offload = e.offloads.info(all, e.config)
		if share, ok := e.alarms.balance.Shares()[p.Pair]; ok {
			info.PacketShare = &share
		}
		since := r.plan.since[p.Pair]
		if life.State == bfd.Unknown && r.lives[all].State == bfd.Up {
			life.Why = "the remote answers, and does not say by which next hop"
		}
		switch {
		case p.Down != "" && life.State != bfd.Down:
			info.State, info.Why = pathDead, p.Down
		case life.State != "":
			info.State, info.Why, since = string(life.State), life.Why, life.Since
		default:
			info.Why = "BFD is off"
		}
		if !since.IsZero() {
			info.Age = r.now.Sub(since).Seconds()
		}
		list = append(list, info)
	}
	slices.SortStableFunc(list, func(a, b api.PathInfo) int {
		return cmp.Or(cmp.Compare(e.rank(a), e.rank(b)), a.Remote.Compare(b.Remote))
	})
	return list
}

// rank is the place of a path's TEP among those of the edge.
func (e *edge) rank(p api.PathInfo) int {
	return slices.IndexFunc(e.config.Underlay.Local(), func(t overlay.TEP) bool { return t.Addr == p.Local })
}

// shares are the parts of the flows to remote that a path takes, one for each team.
func (p pathPlan) shares(remote netip.Addr, pair overlay.Pair) []api.ShareInfo {
	list := []api.ShareInfo{}
	for _, pathPolicy := range p.pathPolicies.PathPolicies {
		for _, s := range pathPolicy.PathGroups {
			if s.Remote != remote {
				continue
			}
			n := 0
			for _, b := range s.Buckets {
				if int(b) < len(s.Paths) && s.Paths[b] == pair {
					n++
				}
			}
			list = append(list, api.ShareInfo{TEPs: append([]string{}, pathPolicy.TEPs...), Share: float64(n) / plan.Buckets})
		}
	}
	return list
}

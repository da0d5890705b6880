package apiserver

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

func (d documents) teps() ([]api.TEPInfo, error) {
	return read(d.o.Edge, "TEPs", func(e *State) ([]api.TEPInfo, error) {
		counters, err := e.DataPath.Counters.TEPs()
		if err != nil {
			return nil, err
		}
		readings, err := readPathReadings(e)
		if err != nil {
			return nil, err
		}
		remotes := plan.Remotes(e.Config)
		list := make([]api.TEPInfo, 0, len(remotes))
		for _, remote := range remotes {
			info, c := tepInfo(e.Config, e.Host, remote), counters[remote]
			info.Paths = pathInfos(e, remote, readings)
			for _, p := range info.Paths {
				if info.PathMTU == 0 || p.PathMTU < info.PathMTU {
					info.PathMTU, info.PathMTUState = p.PathMTU, p.PathMTUState
				}
				if info.ReportedMTU == 0 || p.ReportedMTU != 0 && p.ReportedMTU < info.ReportedMTU {
					info.ReportedMTU = p.ReportedMTU
				}
			}
			info.InnerMTU = plan.InnerMTU(e.Config, remote, info.PathMTU)
			info.RxPackets, info.RxBytes = c.Rx.Packets, c.Rx.Bytes
			info.TxPackets, info.TxBytes = c.Tx.Packets, c.Tx.Bytes
			list = append(list, info)
		}
		return list, nil
	})
}

// tepInfo is what configuration and host say about remote.
func tepInfo(e overlay.Edge, v host.State, remote netip.Addr) api.TEPInfo {
	info := api.TEPInfo{Address: remote, Name: e.Remote(remote).Name, Segments: []string{}, State: tepState(e, v, remote)}
	for _, s := range plan.Segments(e) {
		if plan.SendsTo(s, remote) {
			info.Segments = append(info.Segments, s.Name)
		}
	}
	path, ok := plan.Path(e, v, remote)
	if !ok {
		return info
	}
	info.Interface, info.NextHop, info.MTU = path.Interface, path.NextHop.Addr, path.MTU
	if (path.NextMAC != overlay.MAC{}) {
		info.NextMAC = path.NextMAC.String()
	}
	return info
}

func tepState(e overlay.Edge, v host.State, remote netip.Addr) string {
	path, ok := plan.Path(e, v, remote)
	switch {
	case !ok:
		return stateNoRoute
	case path.NextMAC == overlay.MAC{}:
		return stateUnresolved
	}
	return stateResolved
}

// States of paths, besides those of bfd.
const (
	pathDead = "dead" // out of use, though not for what liveness says of it
)

// pathReadings is what a document about paths is made of.
type pathReadings struct {
	PathReadings
	counters map[overlay.Pair]datapath.Counters
	now      time.Time
}

// readPathReadings reads it.
func readPathReadings(e *State) (r pathReadings, err error) {
	if r.PathReadings, err = e.Paths.Read(); err != nil {
		return r, err
	}
	r.counters, err = e.DataPath.Counters.Paths()
	r.now = time.Now()
	return r, err
}

// pathInfos are the paths to remote, in the order of preference.
func pathInfos(e *State, remote netip.Addr, r pathReadings) []api.PathInfo {
	list := []api.PathInfo{}
	for _, p := range r.InForce.Paths {
		if p.Edge != remote {
			continue
		}
		way, c, life, all := e.Host.Routes[p.Pair], r.counters[p.Pair], r.Lives[p.Pair], p.Endpoints()
		info := api.PathInfo{
			Local: p.Local, Remote: p.Remote, Interface: way.Interface, NextHop: way.Addr, MTU: way.MTU, Weight: p.Weight,
			State: string(bfd.Unknown), Failures: life.Failures, Shares: flowShares(r.InForce, remote, p.Pair),
			TxPackets: c.Packets, TxBytes: c.Bytes,
		}
		info.PathMTU, info.PathMTUState, info.ReportedMTU = p.MTU, r.MTUStates[all], r.Reported[all]
		if share, ok := e.Alarms.PacketShares[p.Pair]; ok {
			info.PacketShare = &share
		}
		since := r.Since[p.Pair]
		if life.State == bfd.Unknown && r.Lives[all].State == bfd.Up {
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
		return cmp.Or(cmp.Compare(rank(e, a), rank(e, b)), a.Remote.Compare(b.Remote))
	})
	return list
}

// rank is the place of a path's TEP among those of the edge.
func rank(e *State, p api.PathInfo) int {
	return slices.IndexFunc(e.Config.Underlay.Local(), func(t overlay.TEP) bool { return t.Addr == p.Local })
}

// flowShares are the parts of the flows to remote that a path takes, one for each team.
func flowShares(inForce plan.PathPolicies, remote netip.Addr, pair overlay.Pair) []api.ShareInfo {
	list := []api.ShareInfo{}
	for _, pathPolicy := range inForce.PathPolicies {
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

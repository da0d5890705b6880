package apiserver

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

// stateConnected is that of a hop whose next hop is the destination.
const stateConnected = "connected"

func (d documents) neighbours(v url.Values) (api.Entries[api.NeighbourInfo], error) {
	q, err := api.EntryQueryOf(v, api.ArgAddr, api.ArgOrigin)
	if err != nil {
		return api.Entries[api.NeighbourInfo]{}, err
	}
	return read(d.o.Edge, "neighbours", func(e *State) (api.Entries[api.NeighbourInfo], error) {
		neighbours, err := e.DataPath.Hosts.Neighbours()
		if err != nil {
			return api.Entries[api.NeighbourInfo]{}, err
		}
		return NeighbourEntries(neighbours, q), nil
	})
}

// NeighbourEntries are the hosts that a query chooses, by segment and address.
func NeighbourEntries(neighbours []datapath.Neighbour, q api.EntryQuery) api.Entries[api.NeighbourInfo] {
	list := []api.NeighbourInfo{}
	for i := range neighbours {
		n := &neighbours[i]
		if !choosesNeighbour(q, n) {
			continue
		}
		list = append(list, api.NeighbourInfo{
			Segment: n.Segment, Address: n.Addr, MAC: n.MAC, Port: n.Port, Remote: n.Remote, Static: n.Static, Origin: string(n.Origin), Age: seconds(n.AgeNS),
		})
	}
	slices.SortFunc(list, func(a, b api.NeighbourInfo) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), a.Address.Compare(b.Address))
	})
	return limited(list, q.Limit)
}

// choosesNeighbour reports whether the query asks for a host.
func choosesNeighbour(q api.EntryQuery, n *datapath.Neighbour) bool {
	return (q.Segment == "" || n.Segment == q.Segment) && (q.Port == "" || isPort(n.Port, q.Port)) && (!q.Remote.IsValid() || n.Remote == q.Remote) &&
		(q.MAC == overlay.MAC{} || n.MAC == q.MAC) && (!q.Addr.IsValid() || q.Addr.Contains(n.Addr)) && (q.Origin == "" || string(n.Origin) == q.Origin)
}

// segmentAddr is an IP address in a segment.
type segmentAddr struct {
	segment string
	addr    netip.Addr
}

// neighbourMACs are the MAC addresses that the data path knows.
func neighbourMACs(e *State) (map[segmentAddr]overlay.MAC, error) {
	neighbours, err := e.DataPath.Hosts.Neighbours()
	if err != nil {
		return nil, err
	}
	macs := make(map[segmentAddr]overlay.MAC, len(neighbours))
	for _, n := range neighbours {
		macs[segmentAddr{n.Segment, n.Addr}] = n.MAC
	}
	return macs, nil
}

func (d documents) routes(v url.Values) ([]api.RouteInfo, error) {
	a := api.Arguments{Values: v}
	to := a.Addr(api.ArgTo)
	if err := a.End(); err != nil {
		return nil, err
	}
	return read(d.o.Edge, "routes", func(e *State) ([]api.RouteInfo, error) {
		macs, err := neighbourMACs(e)
		if err != nil {
			return nil, err
		}
		list := []api.RouteInfo{}
		for _, t := range e.Paths.Routes() {
			for _, r := range routesTo(t.Routes, to) {
				info := api.RouteInfo{
					Router: t.Router, Prefix: r.Prefix, Kind: r.Kind, Origin: string(r.Origin), From: r.From, Hops: []api.HopInfo{},
				}
				for _, hop := range r.Hops {
					info.Hops = append(info.Hops, hopInfo(e, hop, macs))
				}
				for _, down := range r.Down {
					info.Hops = append(info.Hops, downInfo(e, down, macs))
				}
				list = append(list, info)
			}
		}
		slices.SortFunc(list, func(a, b api.RouteInfo) int {
			return cmp.Or(cmp.Compare(a.Router, b.Router), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()))
		})
		return list, nil
	})
}

// routesTo is the route that counts, of a router, with the longest prefix with an address in it, if
// any, or all for the zero address.
func routesTo(list []plan.Route, to netip.Addr) (best []plan.Route) {
	if !to.IsValid() {
		return list
	}
	for i, r := range list {
		if r.Counts() && r.Prefix.Contains(to) && (len(best) == 0 || r.Prefix.Bits() > best[0].Prefix.Bits()) {
			best = list[i : i+1]
		}
	}
	return best
}

func hopInfo(e *State, hop fib.Hop, macs map[segmentAddr]overlay.MAC) api.HopInfo {
	info := api.HopInfo{Segment: hop.Segment, Address: hop.Addr, Remote: hop.Remote, State: stateConnected}
	switch {
	case hop.Remote.IsValid():
		info.MAC, info.State = hop.MAC.String(), tepState(e.Config, e.Host, hop.Remote)
	case hop.Addr.IsValid():
		info.State = stateUnresolved
		if mac, ok := macs[segmentAddr{hop.Segment, hop.Addr}]; ok {
			info.MAC, info.State = mac.String(), stateResolved
		}
	}
	return info
}

// downInfo is a next hop that is out of use.
func downInfo(e *State, down plan.DownHop, macs map[segmentAddr]overlay.MAC) api.HopInfo {
	info := hopInfo(e, down.Hop, macs)
	info.State, info.Why = stateDown, down.Why
	return info
}

// unresolvedHops names the next hops of static and learned routes that have no MAC address
// while packets want some: a next hop is asked when a packet needs it, so one that
// nobody needs is no problem.
func unresolvedHops(e *State) (problems []problem.Problem, err error) {
	missing, err := e.Alarms.NextHops.AreMissing(e.DataPath.Drops)
	if err != nil || !missing {
		return nil, err
	}
	macs, err := neighbourMACs(e)
	if err != nil {
		return nil, err
	}
	for _, t := range e.Paths.Routes() {
		for _, r := range t.Routes {
			if r.Origin != plan.Static && r.Origin != plan.Learned {
				continue
			}
			for _, hop := range r.Hops {
				if !hop.Addr.IsValid() || hopInfo(e, hop, macs).State != stateUnresolved {
					continue
				}
				unresolved := problem.Warning("router %s: next hop %s in %s has no MAC address, so packets were just dropped (%s): check that it is up and answers",
					t.Router, hop.Addr, hop.Segment, alarm.NoNeighbour)
				if !slices.Contains(problems, unresolved) { // of another route
					problems = append(problems, unresolved)
				}
			}
		}
	}
	return problems, nil
}

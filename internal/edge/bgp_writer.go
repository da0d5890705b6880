package edge

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/rib"
)

// bgpWriter writes what BGP learned into the tables that are in force, while no others are applied.
type bgpWriter struct{ s *pathSelector }

// PutBGPMACs leaves for later those behind remotes that the tables do not have.
func (w bgpWriter) PutBGPMACs(list []rib.BGPMAC) (later []rib.BGPMAC, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	ready := make([]rib.BGPMAC, 0, len(list))
	for _, m := range list {
		if w.s.snapshot.dp == nil || m.Remote.IsValid() && !w.s.reach[m.Segment][m.Remote] {
			later = append(later, m)
		} else {
			ready = append(ready, m)
		}
	}
	if len(ready) > 0 {
		err = w.s.snapshot.dp.Learner.PutBGPMACs(ready)
	}
	return later, err
}

// PutARPEntries leaves all for later until there are tables.
func (w bgpWriter) PutARPEntries(list []rib.ARPEntry) (later []rib.ARPEntry, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.snapshot.dp == nil {
		return list, nil
	}
	return nil, w.s.snapshot.dp.Learner.PutARPEntries(list)
}

// PutRoutes has routes by remotes that the tables do not have wait in the routing, of which the
// next tables are made.
func (w bgpWriter) PutRoutes(list []rib.LearnedRoute) (later []rib.Place, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	places := w.s.routing.Learn(list)
	if w.s.snapshot.dp != nil && len(places) > 0 {
		err = w.s.snapshot.dp.Routes.PutRoutes(w.s.routing.Rewritten(places, w.s.dead))
	}
	for _, route := range list {
		at := rib.Place{Router: route.Router, Prefix: route.Prefix}
		if inForce, _ := w.s.routing.At(at); w.s.snapshot.dp == nil || len(inForce.Hops) < len(route.Via) {
			later = append(later, at)
		}
	}
	return later, err
}

// ReplaceRoutes has these be all that was learned.
func (w bgpWriter) ReplaceRoutes(list []rib.LearnedRoute) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.routing.Forget()
	w.s.routing.Learn(list)
}

// Forget forgets the MAC addresses of hosts; IP addresses go with them.
func (w bgpWriter) Forget(hosts []evpn.Host) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	var errs []error
	for _, h := range hosts {
		if w.s.snapshot.dp != nil && !h.Addr.IsValid() {
			errs = append(errs, w.s.snapshot.dp.Hosts.Forget(h.Segment, h.MAC))
		}
	}
	return errors.Join(errs...)
}

// bgpHosts reads hosts from the data path.
type bgpHosts struct{ e *edge }

// AtPorts is called by the goroutine of Run.
func (b bgpHosts) AtPorts() ([]bgp.Host, error) {
	list, err := b.e.dp.Hosts.Hosts()
	hosts := make([]bgp.Host, 0, len(list))
	for _, h := range list {
		hosts = append(hosts, bgp.Host{
			Host: evpn.Host{Segment: h.Segment, MAC: h.MAC, Addr: h.Addr, ND: h.ND},
			Port: h.Port, ByBGP: h.Origin == datapath.OriginBGP, Static: h.Static, Idle: time.Duration(h.IdleNS),
		})
	}
	return hosts, err
}

// ByBGP is called by the goroutine of Run.
func (b bgpHosts) ByBGP() (macs []rib.BGPMAC, arpEntries []rib.ARPEntry, err error) {
	entries, err := b.e.dp.Hosts.FDB()
	if err != nil {
		return nil, nil, err
	}
	neighbours, err := b.e.dp.Hosts.Neighbours()
	for _, f := range entries {
		if f.Origin == datapath.OriginBGP {
			macs = append(macs, rib.BGPMAC{Segment: f.Segment, MAC: f.MAC, Remote: f.Remote, Sticky: f.Sticky})
		}
	}
	for _, n := range neighbours {
		if n.Origin == datapath.OriginBGP {
			arpEntries = append(arpEntries, rib.ARPEntry{Segment: n.Segment, Addr: n.Addr, MAC: n.MAC})
		}
	}
	return macs, arpEntries, err
}

// Solicit must be called in the network namespace.
func (b bgpHosts) Solicit(list []bgp.Solicitation) error {
	s := &b.e.pathSelector
	var errs []error
	for some := range slices.Chunk(list, askSome) {
		s.mu.Lock()
		for _, a := range some {
			if s.snapshot.dp != nil {
				errs = append(errs, s.snapshot.dp.HostEvents.SolicitHost(a.Segment, a.Port, a.MAC, a.Addrs))
			}
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

// route takes over the routes of tables in force. mu is held.
func (s *pathSelector) route(routing *plan.Routing, config overlay.Edge, pathPolicies plan.PathPolicies) {
	s.routing, s.dead, s.reach = routing, plan.DeadRemotes(pathPolicies), plan.Reach(config)
}

// reroute has routes by remotes that died lead by their other next hops, and back. mu is held.
func (s *pathSelector) reroute(pathPolicies plan.PathPolicies) error {
	dead, changed := plan.DeadRemotes(pathPolicies), make(map[netip.Addr]bool)
	if maps.Equal(dead, s.dead) {
		return nil
	}
	for remote := range dead {
		changed[remote] = !s.dead[remote]
	}
	for remote := range s.dead {
		changed[remote] = !dead[remote]
	}
	places := s.routing.SharedBy(changed)
	if len(places) > 0 {
		if err := s.snapshot.dp.Routes.PutRoutes(s.routing.Rewritten(places, dead)); err != nil {
			return err
		}
	}
	s.dead = dead
	return nil
}

// askSome are asked before others may change tables again.
const askSome = 32

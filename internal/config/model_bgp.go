package config

import (
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// bgp turns a checked spec.bgp into the model; nil without it.
func (d *document) bgp() *overlay.BGP {
	b := d.Spec.BGP
	if b == nil {
		return nil
	}
	m := &overlay.BGP{
		AS:       b.AS,
		RouterID: d.routerID().Addr,
		Listen:   each(b.Listen, listenAddress.model),
		Restart:  overlay.BGPRestart{Time: time.Duration(b.Restart.Time), Stale: time.Duration(b.Restart.Stale)},
		Policies: each(b.Policies, routePolicy.model),
		Targets:  overlay.TargetStyle(b.Targets),
		Duplicates: overlay.Duplicates{
			Moves: int(b.Duplicates.Moves), Within: time.Duration(b.Duplicates.Within), Freeze: time.Duration(b.Duplicates.Freeze),
		},
		MostPrefixes: int(d.Spec.Tables.Routes) * overlay.LearnedShare / 100,
	}
	for _, n := range b.Neighbours {
		m.Neighbours = append(m.Neighbours, d.neighbour(n))
	}
	return m
}

// routerID is the given one or the first tunnel endpoint where that is IPv4, else unset.
func (d *document) routerID() (id routerID) {
	if d.Spec.BGP.RouterID.IsValid() {
		return d.Spec.BGP.RouterID
	}
	if tep := d.Spec.Underlay.model().TEP; tep.Is4() {
		id.Addr = tep
	}
	return id
}

func (d *document) neighbour(n bgpNeighbour) overlay.BGPNeighbour {
	m := overlay.BGPNeighbour{
		Name: string(n.Name), Addr: n.Address.Addr, Port: n.Port, AS: n.AS, Local: n.LocalAddress.Addr,
		Families: d.families(n), Uplink: string(n.Uplink),
		Password: string(n.Password), Hops: uint8(n.Multihop), Passive: n.Passive,
		Timers: n.Timers.model(), MaxPrefixes: n.MaxPrefixes, Liveness: n.Liveness,
		Import: each(n.Import, objectName.model), Export: each(n.Export, objectName.model),
	}
	if m.AS == 0 {
		m.AS = d.Spec.BGP.AS
	}
	if n.Security > 0 {
		m.Hops, m.Security = uint8(n.Security), true
	}
	if m.Unicast() {
		m.Announce = sources(n.Announce, unicastSource.model, overlay.SourceConnected, overlay.SourceLoopback, overlay.SourceEgress)
	}
	return m
}

// families are the given ones, or those of the uplink's addresses, or EVPN.
func (d *document) families(n bgpNeighbour) (list []overlay.BGPFamily) {
	if len(n.Families) > 0 {
		return each(n.Families, bgpFamily.model)
	}
	_, u := d.uplink(n.Uplink)
	if u == nil {
		return []overlay.BGPFamily{overlay.FamilyEVPN}
	}
	for _, f := range []overlay.BGPFamily{overlay.FamilyIPv4, overlay.FamilyIPv6} {
		if u.has(f) {
			list = append(list, f)
		}
	}
	return list
}

// uplink finds the one of that name and its router, nil where there is none.
func (d *document) uplink(name objectName) (*router, *uplink) {
	for i := range d.Spec.Routers {
		r := &d.Spec.Routers[i]
		for j := range r.Uplinks {
			if r.Uplinks[j].Name == name && name != "" {
				return r, &r.Uplinks[j]
			}
		}
	}
	return nil, nil
}

// has reports whether the uplink can carry routes of the family: has an address of it.
func (u uplink) has(f overlay.BGPFamily) bool {
	return slices.ContainsFunc(u.Addresses, func(a interfacePrefix) bool {
		return a.IsValid() && a.Addr().Is4() == (f == overlay.FamilyIPv4)
	})
}

// sources are the given ones, which may be none, else the presets.
func sources[T any](given []T, model func(T) overlay.RouteSource, presets ...overlay.RouteSource) []overlay.RouteSource {
	if given == nil {
		return presets
	}
	return each(given, model)
}

func (l listenAddress) model() netip.AddrPort { return l.AddrPort }

func (t bgpTimers) model() overlay.BGPTimers {
	m := overlay.BGPTimers{Hold: time.Duration(t.Hold), Keepalive: time.Duration(t.Keepalive), ConnectRetry: time.Duration(t.ConnectRetry)}
	if m.Keepalive == 0 {
		m.Keepalive = (m.Hold / 3).Truncate(time.Second)
	}
	return m
}

func (p routePolicy) model() overlay.RoutePolicy {
	return overlay.RoutePolicy{Name: string(p.Name), Statements: each(p.Statements, routeStatement.model)}
}

func (s routeStatement) model() overlay.RouteStatement {
	return overlay.RouteStatement{
		Prefixes: each(s.Prefixes, prefixRange.model), Communities: each(s.Communities, community.model), Reject: s.Reject,
		LocalPref: s.LocalPref, MED: s.MED, Add: each(s.Add, community.model), Prepend: uint8(s.Prepend),
	}
}

func (r prefixRange) model() overlay.PrefixRange {
	m := overlay.PrefixRange{Prefix: r.Prefix.Prefix, Min: r.Prefix.Bits(), Max: r.Prefix.Bits()}
	if r.Min != nil {
		m.Min, m.Max = int(*r.Min), r.Prefix.Addr().BitLen()
	}
	if r.Max != nil {
		m.Max = int(*r.Max)
	}
	return m
}

func (e *evpn) model() *overlay.EVPNInstance {
	if e == nil {
		return nil
	}
	return &overlay.EVPNInstance{
		RD: e.RD.RouteDistinguisher, Import: each(e.Import, routeTarget.model), Export: each(e.Export, routeTarget.model),
	}
}

func (e *routerEVPN) model() *overlay.EVPNInstance {
	if e == nil {
		return nil
	}
	m := e.evpn.model()
	m.Announce = sources(e.Announce, evpnSource.model, evpnSources...)
	return m
}

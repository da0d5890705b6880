package config

import (
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// edge turns a checked document into the model.
func (d *document) edge(policies []policySource) overlay.Edge {
	s := d.Spec
	e := overlay.Edge{
		Name:      string(d.Metadata.Name),
		Underlay:  s.Underlay.model(),
		FlowCache: overlay.FlowCache{Enabled: s.FlowCache.Enabled, Size: s.FlowCache.Size},
		FDB: overlay.FDB{Size: s.FDB.Size, Ageing: time.Duration(s.FDB.Ageing), Duplicates: overlay.Duplicates{
			Moves: int(s.FDB.Duplicates.Moves), Within: time.Duration(s.FDB.Duplicates.Within), Freeze: time.Duration(s.FDB.Duplicates.Freeze),
		}},
		Tables:  overlay.Tables(s.Tables),
		Transit: overlay.Transit{Mode: overlay.TransitMode(s.Transit.Mode)},
		Remotes: each(s.Remotes, func(r remote) overlay.Remote {
			return overlay.Remote{Name: string(r.Name), Addrs: each(r.Addresses, address.model)}
		}),
		Segments: each(s.Segments, segment.model),
		Routers:  each(s.Routers, router.model),
		Ports:    each(s.Ports, port.model),
		Patterns: each(s.PortPatterns, portPattern.model),
		Firewall: d.firewall(policies),
		Egress:   d.egress(policies),
		BGP:      d.bgp(),
	}
	d.setLimits(&e)
	d.setNATLimits(&e)
	return e
}

func (u underlay) model() overlay.Underlay {
	m := overlay.Underlay{
		Interfaces: each(u.Interfaces, func(n interfaceName) string { return string(n) }),
		TEP:        u.TEP.Addr,
		TEPs: each(u.TEPs, func(t tep) overlay.TEP {
			return overlay.TEP{Name: string(t.Name), Addr: t.Address.Addr, Interface: string(t.Interface)}
		}),
		Teaming:  overlay.Teaming(u.Teaming),
		ProbeMTU: u.ProbeMTU,
	}
	for _, t := range m.TEPs {
		if !slices.Contains(m.Interfaces, t.Interface) {
			m.Interfaces = append(m.Interfaces, t.Interface)
		}
	}
	if len(m.TEPs) > 0 {
		m.TEP = m.TEPs[0].Addr
	}
	if l := u.Liveness; l != nil {
		m.Liveness = &overlay.Liveness{Interval: time.Duration(l.Interval), Multiplier: uint8(l.Multiplier), Hops: uint8(l.Hops)}
	}
	return m
}

// each is nil for an empty list.
func each[A, B any](list []A, f func(A) B) []B {
	var out []B
	for _, a := range list {
		out = append(out, f(a))
	}
	return out
}

func (a address) model() netip.Addr           { return a.Addr }
func (r remoteRef) model() netip.Addr         { return r.Addr }
func (n objectName) model() string            { return string(n) }
func (a hostAddress) model() netip.Addr       { return a.Addr }
func (m macAddress) model() overlay.MAC       { return m.MAC }
func (n network) model() netip.Prefix         { return n.Prefix }
func (i interfacePrefix) model() netip.Prefix { return i.Prefix }

func (s segment) model() overlay.Segment {
	g := overlay.Segment{
		Name:     string(s.Name),
		VNI:      overlay.VNI(s.VNI),
		Tunnel:   s.tunnel(),
		Remotes:  each(s.Remotes, remoteRef.model),
		TEPs:     each(s.TEPs, objectName.model),
		KeepTags: s.KeepTags,
		Wire:     s.Wire,
		Static: each(s.FDB, func(f staticMAC) overlay.StaticMAC {
			return overlay.StaticMAC{MAC: f.MAC.MAC, Port: string(f.Port), Remote: f.Remote.Addr}
		}),
		Neighbours: each(s.Neighbours, func(n neighbour) overlay.Neighbour {
			return overlay.Neighbour{Addr: n.Address.Addr, MAC: n.MAC.MAC}
		}),
		Suppress:   s.Suppress,
		ClampMSS:   s.ClampMSS,
		TooBigFrom: each(s.TooBigFrom, hostAddress.model),
		EVPN:       s.EVPN.model(),
	}
	if s.Gateway != nil {
		g.Gateway = &overlay.Gateway{
			Router: string(s.Gateway.Router), MAC: s.Gateway.MAC.MAC, Addresses: each(s.Gateway.Addresses, interfacePrefix.model),
		}
	}
	return g
}

func (n overlayNetwork) tunnel() overlay.Tunnel {
	return overlay.Tunnel{
		Encapsulation: overlay.Encapsulation(n.Encapsulation),
		UDPPort:       n.udpPort(),
		UDPChecksum:   n.UDPChecksum,
		Options:       n.Options,
		DSCP:          int(n.Outer.DSCP),
		TTL:           int(n.Outer.TTL),
		DF:            overlay.DontFragment(n.Outer.DF),
	}
}

// udpPort is the given one or that of the encapsulation; 0 with nvgre, and when
// the encapsulation could not be read.
func (n overlayNetwork) udpPort() uint16 {
	if n.UDPPort != 0 {
		return n.UDPPort
	}
	return overlay.Encapsulation(n.Encapsulation).DefaultUDPPort()
}

func (r router) model() overlay.Router {
	m := overlay.Router{
		Name:      string(r.Name),
		Loopbacks: each(r.Loopbacks, hostAddress.model),
		Routes:    each(r.Routes, r.route),
		Leaks: each(r.Leaks, func(l leak) overlay.Leak {
			return overlay.Leak{From: string(l.From), Prefixes: each(l.Prefixes, network.model)}
		}),
		Uplinks: each(r.Uplinks, func(u uplink) overlay.Uplink {
			return overlay.Uplink{
				Name: string(u.Name), Interface: string(u.Interface), VLAN: u.VLAN, MAC: u.MAC.MAC,
				Addresses: each(u.Addresses, interfacePrefix.model), ReversePath: overlay.ReversePath(u.RPF), NAT: u.nat(),
			}
		}),
	}
	if r.L3 != nil {
		m.L3 = &overlay.L3{
			VNI: overlay.VNI(r.L3.VNI), Tunnel: r.L3.tunnel(), MAC: r.L3.MAC.MAC,
			Remotes: each(r.L3.Remotes, remoteRef.model), TEPs: each(r.L3.TEPs, objectName.model),
			EVPN: r.L3.EVPN.model(),
		}
	}
	return m
}

func (r router) route(route route) overlay.Route {
	return overlay.Route{
		Prefix: route.Prefix.Prefix, Kind: overlay.RouteKind(route.Type),
		Via: each(route.Via, func(h nextHop) overlay.NextHop {
			return overlay.NextHop{Addr: h.Address.Addr, Uplink: string(r.uplinkOf(h)), Remote: h.Remote.Addr, MAC: h.MAC.MAC}
		}),
	}
}

// uplinkOf is the uplink that is named for a next hop; of a link-local one the only one with an IPv6 address.
func (r router) uplinkOf(h nextHop) objectName {
	if h.Uplink != "" || !h.Address.IsLinkLocalUnicast() || h.Address.Is4() {
		return h.Uplink
	}
	only := objectName("")
	for _, u := range r.Uplinks {
		if !u.speaks(h.Address.Addr) {
			continue
		}
		if only != "" {
			return ""
		}
		only = u.Name
	}
	return only
}

// speaks reports whether u has an address of the family of addr.
func (u uplink) speaks(addr netip.Addr) bool {
	return slices.ContainsFunc(u.Addresses, func(p interfacePrefix) bool { return p.IsValid() && p.Addr().Is4() == addr.Is4() })
}

func (p port) model() overlay.Port {
	m := overlay.Port{
		Name: string(p.Name), Interface: string(p.Interface), Segment: string(p.Segment),
		VLANs: each(p.VLANs, func(v portVLAN) overlay.PortVLAN {
			return overlay.PortVLAN{VLAN: v.VLAN, Segment: string(v.Segment)}
		}),
		AllowRA: p.RA == "allow", DHCPServer: p.DHCP == "server",
		Labels: p.Labels,
	}
	if p.Allowed != nil {
		m.Allowed = &overlay.Allowed{
			MACs: each(p.Allowed.MACs, macAddress.model), Addresses: each(p.Allowed.Addresses, network.model),
		}
	}
	return m
}

package config

import (
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// egress turns a checked egress into the model; nil where nothing is translated.
func (d *document) egress(policies []policySource) *overlay.Egress {
	e := d.Spec.Egress
	if e == nil {
		if !slices.ContainsFunc(d.Spec.Routers, func(r router) bool {
			return slices.ContainsFunc(r.Uplinks, func(u uplink) bool { return u.NAT != nil })
		}) {
			return nil
		}
		return &overlay.Egress{
			NATSessions: overlay.DefaultNATSessions, Timeouts: overlay.DefaultNATTimeouts, DNSTimeout: overlay.DefaultDNSTimeout, LogRate: overlay.DefaultNATLogRate,
		}
	}
	m := &overlay.Egress{
		NATSessions: e.NATSessions, Timeouts: e.Timeouts.model(), DNSTimeout: time.Duration(e.Timeouts.DNS), Log: e.Log.Enabled, LogRate: e.Log.Rate,
		Gateways: each(e.Gateways, gatewayGroup.model),
	}
	for _, p := range policies {
		for _, g := range p.Groups {
			m.Groups = append(m.Groups, overlay.Group{Name: g.Name.text, Members: models(g.Members)})
		}
	}
	for _, p := range e.Policies {
		m.Policies = append(m.Policies, p.model(d.Spec))
	}
	return m
}

// setNATLimits gives uplinks the limits of their own translation.
func (d *document) setNATLimits(e *overlay.Edge) {
	for i, r := range d.Spec.Routers {
		for j, u := range r.Uplinks {
			if n := e.Routers[i].Uplinks[j].NAT; n != nil {
				n.Limit, n.InboundLimit = u.NAT.limits(d.Spec.natSessions())
			}
		}
	}
}

// natSessions is how many there may be in all.
func (s spec) natSessions() uint32 {
	if s.Egress == nil {
		return overlay.DefaultNATSessions
	}
	return s.Egress.NATSessions
}

func (t natTimeouts) model() overlay.Timeouts {
	return timeouts{
		Opening: t.Opening, Established: t.Established, HalfClosed: t.HalfClosed, TimeWait: t.TimeWait,
		Closed: t.Closed, UDP: t.UDP, UDPReplied: t.UDPReplied, UDPStream: t.UDPStream, ICMP: t.ICMP,
	}.model()
}

// limits are how many of so many sessions a source may have, and how many may be opened to it from
// outside. That is not limited by itself: outsiders could use it up.
func (n natRange) limits(sessions uint32) (limit, inbound uint32) {
	if n.Limit == nil {
		return sessions / overlay.DefaultNATShare, 0
	}
	return *n.Limit, *n.Limit
}

func (g gatewayGroup) model() overlay.GatewayGroup {
	m := overlay.GatewayGroup{
		Name: string(g.Name), Mode: overlay.GatewayMode(g.Mode),
		Members: each(g.Members, func(r memberRef) netip.Addr { return r.Addr }),
	}
	if r := g.Replication; r != nil {
		m.Replication = &overlay.Replication{Port: r.Port}
		if r.Key != "" {
			m.Replication.Key = []byte(r.Key)
		}
	}
	return m
}

func (p egressPolicy) model(s spec) overlay.EgressPolicy {
	limit, inbound := p.limits(s.natSessions())
	m := overlay.EgressPolicy{
		Name: string(p.Name), Router: string(p.Router),
		VNI: overlay.VNI(p.VNI), Tunnel: p.tunnel(), Remotes: p.edges(s), TEPs: each(p.TEPs, objectName.model),
		From: models(p.From), To: each(p.To, network.model), Except: each(p.Except, network.model),
		Gateways: string(p.Gateways), Uplink: string(p.Uplink), UplinkAddress: p.getsUplinkAddress(),
		PerConnection: p.AddressPooling == addressPoolingArbitrary,
		Independent:   p.Mapping == endpointIndependent, Open: p.Filtering == endpointIndependent,
		Ports: p.Ports.PortRange, Limit: limit, InboundLimit: inbound,
	}
	if !m.UplinkAddress {
		m.Pool = each(p.Pool, poolRange.model)
	}
	return m
}

// getsUplinkAddress reports whether sources get the address of their gateway's uplink.
func (p egressPolicy) getsUplinkAddress() bool {
	return slices.ContainsFunc(p.Pool, func(r poolRange) bool { return r.uplink })
}

// edges are the remotes of a policy: those that are listed, or all that have a name, and
// the gateways.
func (p egressPolicy) edges(s spec) []netip.Addr {
	list := each(p.Remotes, remoteRef.model)
	if len(list) == 0 {
		for _, r := range s.Remotes {
			if len(r.Addresses) > 0 { // limits are counted of bad files too
				list = append(list, r.Addresses[0].Addr)
			}
		}
	}
	self := s.Underlay.model().TEP
	for _, g := range s.Egress.Gateways {
		if g.Name != p.Gateways {
			continue
		}
		for _, m := range g.Members {
			if m.Addr != self && !slices.Contains(list, m.Addr) {
				list = append(list, m.Addr)
			}
		}
	}
	return list
}

// nat is u's own translation, without its limits, or nil.
func (u uplink) nat() *overlay.UplinkNAT {
	if u.NAT == nil {
		return nil
	}
	return &overlay.UplinkNAT{
		Masquerade: u.NAT.Masquerade, Required: u.NAT.Required, Ports: u.NAT.Ports.PortRange,
		PortForwards: each(u.NAT.PortForwards, func(f portForward) overlay.PortForward {
			m := overlay.PortForward{Protocol: protocols[f.Protocol], Addr: u.forwarded(f), Ports: f.Port.PortRange, To: f.To.Addr, ToPort: f.ToPort}
			if m.ToPort == 0 {
				m.ToPort = m.Ports.First
			}
			return m
		}),
	}
}

// forwarded is the address of f: the given one, or the uplink's first of the family of the
// host; unset when there is none.
func (u uplink) forwarded(f portForward) netip.Addr {
	if f.Address.IsValid() {
		return f.Address.Addr
	}
	for _, a := range u.Addresses {
		if a.IsValid() && f.To.IsValid() && a.Addr().Is4() == f.To.Is4() {
			return a.Addr()
		}
	}
	return netip.Addr{}
}

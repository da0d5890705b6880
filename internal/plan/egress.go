package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// UplinkEgress is the name of an uplink's own translation.
func UplinkEgress(uplink string) string { return "uplink/" + uplink }

// egressSegments are those between edges and gateways, one a policy.
func egressSegments(e overlay.Edge) (segments []overlay.Segment) {
	if e.Egress == nil {
		return nil
	}
	for _, p := range e.Egress.Policies {
		segments = append(segments, overlay.Segment{
			Name: p.SegmentName(), VNI: p.VNI, Tunnel: p.Tunnel, Remotes: p.Remotes, TEPs: p.TEPs,
			Gateway:  &overlay.Gateway{Router: p.Router, MAC: overlay.EgressMAC},
			ClampMSS: true,
		})
	}
	return segments
}

// EgressRules are the egress policies of e as rules, and the places that they may name, for
// policy.Compile. They are of no use where e has no policies.
func EgressRules(e overlay.Edge) (overlay.Firewall, []policy.Place) {
	if e.Egress == nil {
		return overlay.Firewall{}, nil
	}
	routers := make([]string, 0, len(e.Routers))
	for _, r := range e.Routers {
		routers = append(routers, r.Name)
	}
	fw, places := nat.Rules(*e.Egress, routers)
	return fw, append(places, Places(e)...)
}

// Translate adds to t what translates addresses, when the gateways stand as state says,
// but the rules.
func Translate(t *fib.Tables, e overlay.Edge, v host.State, state func(netip.Addr) nat.State) {
	t.Egress = Egresses(e, v, state)
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			if u.NAT == nil {
				continue
			}
			if u.NAT.Required {
				t.Translated = append(t.Translated, u.Name)
			}
			for _, f := range u.NAT.PortForwards {
				t.PortForwards = append(t.PortForwards, portForwards(e, r, u, f)...)
			}
		}
	}
}

// Egresses are the policies of e and the translation of its uplinks, when the gateways
// stand as state says. state is asked about all members by their first addresses,
// about e too, except for policies that have no other gateway: there the uplink says.
func Egresses(e overlay.Edge, v host.State, state func(netip.Addr) nat.State) (list []fib.Egress) {
	self := e.Underlay.Local()[0].Addr
	if e.Egress != nil {
		for _, p := range e.Egress.Policies {
			g, stands := groupOf(*e.Egress, p), state
			if slices.Equal(g.Members, []netip.Addr{self}) {
				stands = func(netip.Addr) nat.State { return uplinkState(uplinkProblem(e, v, p)) }
			}
			list = append(list, policyEgress(e, p, g, stands))
		}
	}
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			if u.NAT != nil {
				list = append(list, uplinkEgress(r, u, self))
			}
		}
	}
	return list
}

// groupOf is the group of p's gateways.
func groupOf(e overlay.Egress, p overlay.EgressPolicy) overlay.GatewayGroup {
	for _, g := range e.Gateways {
		if g.Name == p.Gateways {
			return g
		}
	}
	return overlay.GatewayGroup{}
}

// Shared is how the gateways of a policy of e share the work.
func Shared(e overlay.Edge, p overlay.EgressPolicy, state func(netip.Addr) nat.State) nat.Plan {
	return nat.NewPlan(p, groupOf(*e.Egress, p), e.Underlay.Local()[0].Addr, uplinkAddresses(e, p), state)
}

// uplinkAddresses are the first of each family of p's uplink.
func uplinkAddresses(e overlay.Edge, p overlay.EgressPolicy) (own [2]netip.Addr) {
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			if r.Name != p.Router || u.Name != p.Uplink {
				continue
			}
			for _, a := range slices.Backward(u.Addresses) {
				own[nat.Family(a.Addr())] = a.Addr()
			}
		}
	}
	return own
}

func policyEgress(e overlay.Edge, p overlay.EgressPolicy, g overlay.GatewayGroup, state func(netip.Addr) nat.State) fib.Egress {
	self := e.Underlay.Local()[0].Addr
	out := planned(Shared(e, p, state))
	out.Name, out.Router, out.Segment = p.Name, p.Router, p.SegmentName()
	out.PerConnection, out.Independent, out.Open = p.PerConnection, p.Independent, p.Open
	out.Ports, out.Limit, out.InboundLimit = p.Ports, p.Limit, p.InboundLimit
	if slices.Contains(g.Members, self) {
		out.Uplink, out.Leased = p.Uplink, len(g.Members) > 1
	}
	return out
}

// planned is what of an egress depends on its gateways.
func planned(plan nat.Plan) fib.Egress {
	out := fib.Egress{Pool: plan.Pool, Owned: plan.Owned, Kept: plan.Kept}
	for f := range plan.Servers {
		for b, path := range plan.Servers[f] {
			out.Ways[f][b] = fib.EgressNexthop(path)
		}
	}
	return out
}

// uplinkEgress gives sources the addresses of the uplink itself; none where it only has
// forwards.
func uplinkEgress(r overlay.Router, u overlay.Uplink, self netip.Addr) fib.Egress {
	var own overlay.EgressPolicy
	if u.NAT.Masquerade {
		for _, a := range u.Addresses {
			own.Pool = append(own.Pool, overlay.AddrRange{First: a.Addr(), Last: a.Addr()})
		}
	}
	alone := overlay.GatewayGroup{Mode: overlay.ActiveStandby, Members: []netip.Addr{self}}
	out := planned(nat.NewPlan(own, alone, self, [2]netip.Addr{}, func(netip.Addr) nat.State { return nat.Serving }))
	out.Owned = nil // it answers for them as any uplink does
	out.Name, out.Router, out.Uplink = UplinkEgress(u.Name), r.Name, u.Name
	out.Ports, out.Limit, out.InboundLimit = u.NAT.Ports, u.NAT.Limit, u.NAT.InboundLimit
	return out
}

// portForwards are those of f, one a port.
func portForwards(e overlay.Edge, r overlay.Router, u overlay.Uplink, f overlay.PortForward) (list []fib.Forward) {
	out := fib.Forward{Router: r.Name, Egress: ownerOf(e, r, u, f.Addr), Proto: uint8(f.Protocol), Addr: f.Addr, To: f.To}
	for port := int(f.Ports.First); port <= int(f.Ports.Last); port++ {
		out.Port, out.ToPort = uint16(port), f.ToPort+uint16(port-int(f.Ports.First))
		list = append(list, out)
	}
	return list
}

// ownerOf is the name of the egress whose address addr is.
func ownerOf(e overlay.Edge, r overlay.Router, u overlay.Uplink, addr netip.Addr) string {
	if e.Egress != nil {
		for _, p := range e.Egress.Policies {
			has := func(n overlay.AddrRange) bool { return n.First.Compare(addr) <= 0 && addr.Compare(n.Last) <= 0 }
			if p.Router == r.Name && slices.ContainsFunc(p.Pool, has) {
				return p.Name
			}
		}
	}
	return UplinkEgress(u.Name)
}

// OwnState says whether e can be a gateway with the uplinks that it has now, and what is
// wrong when it cannot: Serving or Gone. Other edges know one state of an edge, so one
// bad uplink of a policy is enough, if there is somebody else to take over.
func OwnState(e overlay.Edge, v host.State) (nat.State, string) {
	if e.Egress == nil {
		return nat.Serving, ""
	}
	self := e.Underlay.Local()[0].Addr
	for _, p := range e.Egress.Policies {
		members := groupOf(*e.Egress, p).Members
		if len(members) < 2 || !slices.Contains(members, self) {
			continue
		}
		if problem := uplinkProblem(e, v, p); problem != "" {
			return uplinkState(problem), problem
		}
	}
	return nat.Serving, ""
}

func uplinkState(problem string) nat.State {
	if problem != "" {
		return nat.Gone
	}
	return nat.Serving
}

// uplinkProblem is why p's uplink carries nothing, "" when it does.
func uplinkProblem(e overlay.Edge, v host.State, p overlay.EgressPolicy) string {
	for _, a := range Attachments(e) {
		if a.Router == "" || a.Name != p.Uplink {
			continue
		}
		if why := linkDown(v, a.Interface); why != "" {
			return fmt.Sprintf("uplink %s: %s", a.Name, why)
		}
	}
	return ""
}

package apiserver

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/problem"
)

// noEgress is the answer to a question about translation that there is none.
func noEgress() error {
	return api.BadRequest{Err: errors.New("this edge translates nothing: configure spec.egress, or nat of an uplink")}
}

func (d documents) egress() (api.EgressInfo, error) {
	return read(d.o.Edge, "egress", func(e *State) (api.EgressInfo, error) {
		if e.Config.Egress == nil {
			return api.EgressInfo{}, noEgress()
		}
		counts, err := countNATSessions(e)
		if err != nil {
			return api.EgressInfo{}, err
		}
		v := e.Gateways.Overview()
		all := v.States
		info := api.EgressInfo{
			Policies: []api.EgressPolicyInfo{}, Groups: []api.GatewayGroupInfo{}, Failovers: append([]api.Failover{}, v.Failovers...),
			Replication: e.Replication.Info(e.Config), Problems: append([]problem.Problem{}, v.Problems...),
		}
		for _, r := range e.Replication.Refused() {
			if r.Connections > 0 {
				info.Refused = append(info.Refused, r)
			}
		}
		info.Problems = problem.Fold(append(info.Problems, e.NAT.Problems...))
		if v.Drain != nil {
			info.Drain = &api.DrainInfo{Asked: v.Drain.Asked, Deadline: v.Drain.Deadline, Done: v.Drain.Done}
			if !e.NAT.SweptAt.IsZero() && !v.Drain.Done {
				info.Drain.Active = &v.Active
			}
		}
		for _, g := range e.Config.Egress.Gateways {
			info.Groups = append(info.Groups, groupInfo(e, g, all))
		}
		for _, p := range e.Config.Egress.Policies {
			info.Policies = append(info.Policies, policyInfo(e, p, all, counts))
		}
		for _, r := range e.Config.Routers {
			for _, u := range r.Uplinks {
				if u.NAT != nil && u.NAT.Masquerade {
					info.Policies = append(info.Policies, uplinkInfo(e, r, u, counts))
				}
			}
		}
		return info, nil
	})
}

// natSessionCounts are how many sessions there are, by policy and by egress address.
type natSessionCounts struct {
	policies  map[string]int
	addresses map[policyAddr]int
}

type policyAddr struct {
	policy string
	addr   netip.Addr
}

// countNATSessions walks all sessions.
func countNATSessions(e *State) (c natSessionCounts, err error) {
	c = natSessionCounts{make(map[string]int), make(map[policyAddr]int)}
	return c, e.DataPath.NAT.EachNATSession(func(b *datapath.NATSession) bool {
		if !b.Mapping {
			c.policies[b.Policy]++
			c.addresses[policyAddr{b.Policy, b.Egress.Addr()}]++
		}
		return true
	})
}

func groupInfo(e *State, g overlay.GatewayGroup, all map[netip.Addr]gateway.Status) api.GatewayGroupInfo {
	info := api.GatewayGroupInfo{Name: g.Name, Mode: g.Mode, Members: []api.GatewayInfo{}}
	for _, m := range g.Members {
		j := all[m]
		info.Members = append(info.Members, api.GatewayInfo{
			Address: m, Name: gateway.Name(e.Config, m), Self: m == gateway.Self(e.Config), State: j.State.String(), Since: j.At, Why: j.Why,
		})
	}
	return info
}

// policyInfo is one policy as its gateways share it.
func policyInfo(e *State, p overlay.EgressPolicy, all map[netip.Addr]gateway.Status, counts natSessionCounts) api.EgressPolicyInfo {
	info := api.EgressPolicyInfo{
		Name: p.Name, Router: p.Router, VNI: p.VNI, Gateways: p.Gateways, Uplink: p.Uplink, Matches: matches(e.Rules.Egress, p.Name), Except: p.Except,
		Mapping: "address-and-port-dependent", AddressPooling: "paired", Ports: p.Ports, Limit: p.Limit, Sessions: counts.policies[p.Name],
		UplinkAddress: p.UplinkAddress, Sources: []api.EgressSourcesInfo{}, Addresses: []api.EgressAddressInfo{},
	}
	if p.Independent {
		info.Mapping = "endpoint-independent"
	}
	if p.PerConnection {
		info.AddressPooling = "arbitrary"
	}
	shared := plan.Shared(e.Config, p, func(member netip.Addr) nat.State { return all[member].State })
	for f, name := range []string{"ipv4", "ipv6"} {
		hasFamily := slices.ContainsFunc(shared.Addresses, func(a nat.Address) bool { return a.Addr.Is4() == (f == 0) })
		if hasFamily || p.UplinkAddress { // of others' uplinks nothing is known
			info.Sources = append(info.Sources, sourceShares(shared, f, name, gateway.Self(e.Config))...)
		}
	}
	for _, a := range shared.Addresses {
		info.Addresses = append(info.Addresses, api.EgressAddressInfo{
			Address: a.Addr, Owner: a.Owner, Server: a.Server, Here: a.Owner == gateway.Self(e.Config),
			Sessions: counts.addresses[policyAddr{p.Name, a.Addr}], Other: e.Others[gateway.Place{Uplink: p.Uplink, Addr: a.Addr}],
		})
	}
	return info
}

// sourceShares are who serves which part of the sources of a family.
func sourceShares(plan nat.Plan, f int, family string, here netip.Addr) (list []api.EgressSourcesInfo) {
	counts := make(map[netip.Addr]int)
	for _, way := range plan.Servers[f] {
		if way.Here {
			way.Remote = here
		}
		counts[way.Remote]++
	}
	for gateway, n := range counts {
		list = append(list, api.EgressSourcesInfo{Gateway: gateway, Family: family, Share: float64(n) / nat.Buckets})
	}
	slices.SortFunc(list, func(a, b api.EgressSourcesInfo) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), a.Gateway.Compare(b.Gateway))
	})
	return list
}

func uplinkInfo(e *State, r overlay.Router, u overlay.Uplink, counts natSessionCounts) api.EgressPolicyInfo {
	name := plan.UplinkEgress(u.Name)
	info := api.EgressPolicyInfo{
		Name: name, Router: r.Name, Uplink: u.Name, Matches: "what leaves by the uplink and matches no policy",
		Mapping: "address-and-port-dependent", AddressPooling: "paired", Ports: u.NAT.Ports, Limit: u.NAT.Limit, Sessions: counts.policies[name],
		Sources: []api.EgressSourcesInfo{}, Addresses: []api.EgressAddressInfo{},
	}
	for _, a := range u.Addresses {
		info.Addresses = append(info.Addresses, api.EgressAddressInfo{
			Address: a.Addr(), Owner: gateway.Self(e.Config), Server: gateway.Self(e.Config), Here: true, Sessions: counts.addresses[policyAddr{name, a.Addr()}],
		})
	}
	return info
}

// matches is which packets go by an egress policy, in words.
func matches(rules *policy.Policy, name string) string {
	if rules == nil {
		return ""
	}
	for _, rule := range rules.Rules() {
		if rule.Section == nat.SectionPolicy && rule.Name == name {
			return strings.TrimPrefix(rule.Text, string(overlay.Both)+", ")
		}
	}
	return ""
}

// natUse is nil where nothing is translated.
func natUse(e *State) *api.NATUse {
	if e.Config.Egress == nil {
		return nil
	}
	c := e.NAT.GCStats
	use := &api.NATUse{Sessions: api.Usage{Used: c.Sessions + c.Mappings, Size: e.Config.Egress.NATSessions}, Policies: len(e.Config.Egress.Policies)}
	if gateway.IsMember(e.Config) {
		use.State = e.Gateways.States()[gateway.Self(e.Config)].State.String()
	}
	return use
}

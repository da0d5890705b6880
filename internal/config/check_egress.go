package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// What the data path's tables hold (bpf/abi/abi.h), less the unused first entry of policies.
const (
	maxPolicies     = 1023 // of one edge, with the uplinks that translate by themselves
	maxPools        = 65536
	maxPortForwards = 65536
)

// The words of the fields spread, mapping and filtering that are not their defaults.
const (
	addressPoolingArbitrary = "arbitrary"
	endpointIndependent     = "endpoint-independent"
)

// egressChecker checks groups of gateways and policies.
type egressChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
	members  *memberChecker
}

func (c egressChecker) check() {
	e := c.doc.Spec.Egress
	if e == nil {
		return
	}
	ports := unique[uint16]{}
	for i, g := range e.Gateways {
		path := fmt.Sprintf("spec.egress.gateways[%d]", i)
		if r := g.Replication; r != nil && c.doc.isGateway(g) {
			ports.add(c.file, r.Port, 0, path+".replication.port", fmt.Sprintf("port %d belongs to another group of this edge", r.Port),
				"give each group a port of its own")
		}
	}
	source := policySource{c.file, "spec.egress.", nil}
	for i := range e.Policies {
		c.policy(source, i)
	}
}

func (c egressChecker) policy(s policySource, i int) {
	policy := &c.doc.Spec.Egress.Policies[i]
	at := fmt.Sprintf("spec.egress.policies[%d]", i)
	c.router(at, policy)
	c.gateways(at, policy)
	from := c.members.list(s, policy.From, "from", func(field string) string { return fmt.Sprintf("policies[%d].%s", i, field) })
	families := c.poolFamilies(at, policy)
	if families != 0 && from&families == 0 {
		c.file.problem(at+".from", "sources and pool are of different families", "add addresses of the sources' family to the pool")
	}
	for j, n := range policy.To {
		if n.IsValid() && families != 0 && families&familyOf(overlay.Member{Prefix: n.Prefix}) == 0 {
			c.file.problem(fmt.Sprintf("%s.to[%d]", at, j), fmt.Sprintf("the pool has no %s address, so packets to %s would be dropped", family(n.Addr()), n),
				"add one to the pool, or remove the network")
		}
	}
	if policy.Filtering == endpointIndependent && policy.Mapping != endpointIndependent && policy.Mapping != "" {
		c.file.problem(at+".filtering", "only endpoint-independent mappings accept packets from anybody", "write mapping: endpoint-independent too, or remove the line")
	}
	natPorts(c.file, at, policy.natRange)
}

// poolFamilies are those of the pool of a policy, 0 where it could not be read.
func (c egressChecker) poolFamilies(path string, policy *egressPolicy) (families int) {
	if c.file.failed[path+".pool"] {
		return 0
	}
	for j, r := range policy.Pool {
		at := fmt.Sprintf("%s.pool[%d]", path, j)
		if policy.getsUplinkAddress() {
			if j != slices.IndexFunc(policy.Pool, func(r poolRange) bool { return r.uplink }) && !c.file.failed[at] {
				c.file.problem(at, "sources get the address of the uplink already", "write [uplink] alone, or addresses without it")
			}
			continue
		}
		if !r.First.IsValid() || c.file.failed[at] {
			return 0
		}
		families |= familyOf(overlay.Member{Range: r.AddrRange})
	}
	return families
}

func (c egressChecker) router(path string, policy *egressPolicy) {
	names, complete := c.declared.routerNames()
	if complete && policy.Router != "" && !slices.Contains(names, string(policy.Router)) {
		c.file.problem(path+".router", fmt.Sprintf("there is no router %q", policy.Router), suggest(string(policy.Router), names, "routers"))
	}
}

// gateways checks the group, and the uplink that a gateway needs.
func (c egressChecker) gateways(path string, policy *egressPolicy) {
	e := c.doc.Spec.Egress
	names := each(e.Gateways, func(g gatewayGroup) string { return string(g.Name) })
	i := slices.Index(names, string(policy.Gateways))
	complete := !c.file.failed["spec.egress.gateways"] && !c.file.failed["spec.egress"] && !slices.Contains(names, "")
	if policy.Gateways != "" && i < 0 && complete {
		c.file.problem(path+".gateways", fmt.Sprintf("there is no group %q of gateways", policy.Gateways), suggest(string(policy.Gateways), names, "groups"))
	}
	_, given := c.file.seen[path+".uplink"]
	if !given && !c.file.failed[path] && i >= 0 && policy.Gateways != "" && c.doc.isGateway(e.Gateways[i]) {
		c.file.problem(path+".uplink", fmt.Sprintf("is missing, and this edge is a gateway of %q", policy.Gateways),
			"add it: name of the router's uplink that the packets leave by")
	}
	if policy.Uplink != "" {
		c.uplink(path, policy)
	}
}

func (c egressChecker) uplink(path string, policy *egressPolicy) {
	i := slices.IndexFunc(c.doc.Spec.Routers, func(r router) bool { return r.Name == policy.Router && r.Name != "" })
	if i < 0 {
		return
	}
	r := c.doc.Spec.Routers[i]
	names := each(r.Uplinks, func(u uplink) string { return string(u.Name) })
	j := slices.Index(names, string(policy.Uplink))
	switch {
	case j >= 0:
		c.uplinkFamilies(path, policy, r.Uplinks[j])
	case !slices.Contains(names, "") && !c.file.failedIn(fmt.Sprintf("spec.routers[%d]", i), "uplinks"):
		c.file.problem(path+".uplink", fmt.Sprintf("router %q has no uplink %q", r.Name, policy.Uplink), suggest(string(policy.Uplink), names, "uplinks of the router"))
	}
}

// uplinkFamilies checks that the uplink can carry what the pool has.
func (c egressChecker) uplinkFamilies(path string, policy *egressPolicy, u uplink) {
	has := 0
	for _, a := range u.Addresses {
		if !a.IsValid() {
			return
		}
		has |= familyOf(overlay.Member{Prefix: a.Prefix})
	}
	for j, r := range policy.Pool {
		if has != 0 && r.First.IsValid() && has&familyOf(overlay.Member{Range: r.AddrRange}) == 0 {
			c.file.problem(fmt.Sprintf("%s.pool[%d]", path, j), fmt.Sprintf("uplink %q has no %s address", u.Name, family(r.First)),
				"add one to the uplink, or remove this from the pool")
		}
	}
}

// policySegment is the name of the segment between edges and gateways, "" without a name.
func policySegment(name objectName) string {
	if name == "" {
		return ""
	}
	return overlay.EgressPolicy{Name: string(name)}.SegmentName()
}

// poolWith is the path of the router's pool range that has addr, "" when none does.
func (e *egress) poolWith(router objectName, addr netip.Addr) string {
	if e == nil || router == "" || !addr.IsValid() {
		return ""
	}
	for i, p := range e.Policies {
		for j, r := range p.Pool {
			if p.Router == router && r.First.IsValid() && r.First.Compare(addr) <= 0 && addr.Compare(r.Last) <= 0 {
				return fmt.Sprintf("spec.egress.policies[%d].pool[%d]", i, j)
			}
		}
	}
	return ""
}

// isGateway reports whether this edge is a member of g.
func (d *document) isGateway(g gatewayGroup) bool {
	own := d.Spec.Underlay.firstTEP()
	return own.IsValid() && slices.ContainsFunc(g.Members, func(m memberRef) bool { return m.Addr == own })
}

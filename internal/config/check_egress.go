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

// policySegment is the name of the segment between edges and gateways, "" without a name.
func policySegment(name objectName) string {
	if name == "" {
		return ""
	}
	return overlay.EgressPolicy{Name: string(name)}.SegmentName()
}

// policySegments are the names of all policies' segments.
func (c checker) policySegments() (list []string, complete bool) {
	e := c.doc.Spec.Egress
	if e == nil {
		return nil, !c.file.failed["spec.egress"]
	}
	complete = !c.file.failedIn("spec.egress", "policies")
	for _, p := range e.Policies {
		complete = complete && p.Name != ""
		list = append(list, policySegment(p.Name))
	}
	return list, complete
}

// egressNames checks that each name means one thing.
func (c checker) egressNames(segments unique[string]) {
	e := c.doc.Spec.Egress
	if e == nil {
		return
	}
	policies, groups := unique[objectName]{}, unique[objectName]{}
	for i, g := range e.Gateways {
		groups.add(c.file, g.Name, "", fmt.Sprintf("spec.egress.gateways[%d].name", i),
			fmt.Sprintf("group %q already exists", g.Name), "names are unique")
	}
	for i, p := range e.Policies {
		path := fmt.Sprintf("spec.egress.policies[%d].name", i)
		policies.add(c.file, p.Name, "", path, fmt.Sprintf("policy %q already exists", p.Name), "names are unique")
		if policies[p.Name] == path {
			name := policySegment(p.Name)
			segments.add(c.file, name, "", path, fmt.Sprintf("the policy's segment would be called %q, which already exists", name),
				"give the policy or the other another name")
		}
	}
}

// gatewayMembers makes every member of a group its edge's first address.
func (c checker) gatewayMembers(d directory) {
	if c.doc.Spec.Egress == nil {
		return
	}
	for i, g := range c.doc.Spec.Egress.Gateways {
		path := fmt.Sprintf("spec.egress.gateways[%d]", i)
		if len(g.Members) > overlay.MaxGateways {
			c.file.problem(path+".members", fmt.Sprintf("%d members, at most %d", len(g.Members), overlay.MaxGateways), "make several groups, with a policy each")
		}
		listed := unique[netip.Addr]{}
		for j := range g.Members {
			at, m := fmt.Sprintf("%s.members[%d]", path, j), &g.Members[j]
			c.gatewayMember(at, m, d)
			listed.add(c.file, m.Addr, netip.Addr{}, at, fmt.Sprintf("gateway %s is already listed", m), "keep one")
		}
	}
}

func (c checker) gatewayMember(path string, m *memberRef, d directory) {
	first, listed := d.byAddress[m.Addr]
	own := string(c.doc.Metadata.Name)
	named := slices.Contains(d.names, m.text)
	switch {
	case m.IsValid() && c.isOwn(m.Addr):
		m.Addr = c.ownTEP()
	case m.IsValid() && listed:
		m.Addr = first
	case m.IsValid():
		c.notOurs(path, m.Addr)
	case m.text == own && named:
		c.file.problem(path, fmt.Sprintf("both this edge and a remote are called %q", own), "give the remote another name, or write an address")
	case m.text == own:
		m.Addr = c.ownTEP()
	case named:
		m.Addr = d.byName[m.text]
	case m.text != "" && own != "" && d.complete:
		c.file.problem(path, fmt.Sprintf("there is no edge %q", m), suggest(m.text, append(slices.Clone(d.names), own), "names"))
	}
}

// isOwn reports whether addr is a tunnel endpoint of this edge.
func (c checker) isOwn(addr netip.Addr) bool {
	u := c.doc.Spec.Underlay
	return addr == u.TEP.Addr || slices.ContainsFunc(u.TEPs, func(t tep) bool { return t.Address.Addr == addr })
}

// egress checks groups and policies.
func (p *policyChecker) egress() {
	e := p.doc.Spec.Egress
	if e == nil {
		return
	}
	ports := unique[uint16]{}
	for i, g := range e.Gateways {
		path := fmt.Sprintf("spec.egress.gateways[%d]", i)
		if r := g.Replication; r != nil && p.isGateway(g) {
			ports.add(p.file, r.Port, 0, path+".replication.port", fmt.Sprintf("port %d belongs to another group of this edge", r.Port),
				"give each group a port of its own")
		}
	}
	source := policySource{p.file, "spec.egress.", nil}
	for i := range e.Policies {
		p.egressPolicy(source, i)
	}
	p.pools()
}

// isGateway reports whether this edge is a member of g.
func (c checker) isGateway(g gatewayGroup) bool {
	own := c.ownTEP()
	return own.IsValid() && slices.ContainsFunc(g.Members, func(m memberRef) bool { return m.Addr == own })
}

func (p *policyChecker) egressPolicy(s policySource, i int) {
	policy := &p.doc.Spec.Egress.Policies[i]
	at := fmt.Sprintf("spec.egress.policies[%d]", i)
	p.policyRouter(at, policy)
	p.policyGateways(at, policy)
	from := p.memberList(s, policy.From, "from", func(field string) string { return fmt.Sprintf("policies[%d].%s", i, field) })
	families := p.poolFamilies(at, policy)
	if families != 0 && from&families == 0 {
		p.file.problem(at+".from", "sources and pool are of different families", "add addresses of the sources' family to the pool")
	}
	for j, n := range policy.To {
		if n.IsValid() && families != 0 && families&familyOf(overlay.Member{Prefix: n.Prefix}) == 0 {
			p.file.problem(fmt.Sprintf("%s.to[%d]", at, j), fmt.Sprintf("the pool has no %s address, so packets to %s would be dropped", family(n.Addr()), n),
				"add one to the pool, or remove the network")
		}
	}
	if policy.Filtering == endpointIndependent && policy.Mapping != endpointIndependent && policy.Mapping != "" {
		p.file.problem(at+".filtering", "only endpoint-independent mappings accept packets from anybody", "write mapping: endpoint-independent too, or remove the line")
	}
	p.natPorts(at, policy.natRange)
}

// natPorts refuses port 0, from which nothing comes.
func (c checker) natPorts(path string, n natRange) {
	if n.Ports.First == 0 && c.file.given(path+".ports") {
		c.file.problem(path+".ports", "port 0 is not valid", "begin with 1, or better 1024")
	}
}

// poolFamilies are those of the pool of a policy, 0 where it could not be read.
func (p *policyChecker) poolFamilies(path string, policy *egressPolicy) (families int) {
	if p.file.failed[path+".pool"] {
		return 0
	}
	for j, r := range policy.Pool {
		if !r.First.IsValid() || p.file.failed[fmt.Sprintf("%s.pool[%d]", path, j)] {
			return 0
		}
		families |= familyOf(overlay.Member{Range: r.AddrRange})
	}
	return families
}

func (p *policyChecker) policyRouter(path string, policy *egressPolicy) {
	names, complete := p.routerNames()
	if complete && policy.Router != "" && !slices.Contains(names, string(policy.Router)) {
		p.file.problem(path+".router", fmt.Sprintf("there is no router %q", policy.Router), suggest(string(policy.Router), names, "routers"))
	}
}

// policyGateways checks the group, and the uplink that a gateway needs.
func (p *policyChecker) policyGateways(path string, policy *egressPolicy) {
	e := p.doc.Spec.Egress
	names := each(e.Gateways, func(g gatewayGroup) string { return string(g.Name) })
	i := slices.Index(names, string(policy.Gateways))
	complete := !p.file.failed["spec.egress.gateways"] && !p.file.failed["spec.egress"] && !slices.Contains(names, "")
	if policy.Gateways != "" && i < 0 && complete {
		p.file.problem(path+".gateways", fmt.Sprintf("there is no group %q of gateways", policy.Gateways), suggest(string(policy.Gateways), names, "groups"))
	}
	_, given := p.file.seen[path+".uplink"]
	if !given && !p.file.failed[path] && i >= 0 && policy.Gateways != "" && p.isGateway(e.Gateways[i]) {
		p.file.problem(path+".uplink", fmt.Sprintf("is missing, and this edge is a gateway of %q", policy.Gateways),
			"add it: name of the router's uplink that the packets leave by")
	}
	if policy.Uplink != "" {
		p.policyUplink(path, policy)
	}
}

func (p *policyChecker) policyUplink(path string, policy *egressPolicy) {
	i := slices.IndexFunc(p.doc.Spec.Routers, func(r router) bool { return r.Name == policy.Router && r.Name != "" })
	if i < 0 {
		return
	}
	r := p.doc.Spec.Routers[i]
	names := each(r.Uplinks, func(u uplink) string { return string(u.Name) })
	j := slices.Index(names, string(policy.Uplink))
	switch {
	case j >= 0:
		p.uplinkFamilies(path, policy, r.Uplinks[j])
	case !slices.Contains(names, "") && !p.file.failedIn(fmt.Sprintf("spec.routers[%d]", i), "uplinks"):
		p.file.problem(path+".uplink", fmt.Sprintf("router %q has no uplink %q", r.Name, policy.Uplink), suggest(string(policy.Uplink), names, "uplinks of the router"))
	}
}

// uplinkFamilies checks that the uplink can carry what the pool has.
func (p *policyChecker) uplinkFamilies(path string, policy *egressPolicy, u uplink) {
	has := 0
	for _, a := range u.Addresses {
		if !a.IsValid() {
			return
		}
		has |= familyOf(overlay.Member{Prefix: a.Prefix})
	}
	for j, r := range policy.Pool {
		if has != 0 && r.First.IsValid() && has&familyOf(overlay.Member{Range: r.AddrRange}) == 0 {
			p.file.problem(fmt.Sprintf("%s.pool[%d]", path, j), fmt.Sprintf("uplink %q has no %s address", u.Name, family(r.First)),
				"add one to the uplink, or remove this from the pool")
		}
	}
}

// egressLimits counts what does not fit, and adds gateways to the remotes.
func (c checker) egressLimits(remotes map[netip.Addr]bool, tooMany func(path string, have, limit int, what, hint string)) {
	e, policies, portForwards := c.doc.Spec.Egress, 0, 0
	for _, r := range c.doc.Spec.Routers {
		for _, u := range r.Uplinks {
			if u.NAT == nil {
				continue
			}
			policies++
			for _, f := range u.NAT.PortForwards {
				portForwards += int(f.Port.Last) - int(f.Port.First) + 1
			}
		}
	}
	if e != nil {
		policies += len(e.Policies)
		for i, p := range e.Policies {
			edges := p.edges(c.doc.Spec)
			for _, addr := range edges {
				remotes[addr] = true
			}
			if most := int(c.doc.Spec.Tables.SegmentMembers); most > 0 {
				tooMany(fmt.Sprintf("spec.egress.policies[%d]", i), len(edges), most, "remotes in one segment", "list those that have sources in remotes, or "+raise("segmentMembers"))
			}
		}
	}
	tooMany("spec.egress", policies, maxPolicies, "policies and uplinks that translate", "divide them among several edges")
	tooMany("spec.routers", portForwards, maxPortForwards, "ports to forward", "forward fewer")
}

package config

import (
	"fmt"
	"slices"
)

// nameChecker compares the names of objects.
type nameChecker struct {
	file *fileErrors
	doc  *document
}

// check refuses a name that means two things: those of segments, also of the
// ones that routers and uplinks make, of routers, and of ports and uplinks.
func (c nameChecker) check() {
	segments, routers, ports := unique[string]{}, unique[string]{}, unique[string]{}
	for i, s := range c.doc.Spec.Segments {
		segments.add(c.file, string(s.Name), "", fmt.Sprintf("spec.segments[%d].name", i),
			fmt.Sprintf("segment %q already exists", s.Name), "names are unique")
	}
	for i, r := range c.doc.Spec.Routers {
		path := fmt.Sprintf("spec.routers[%d]", i)
		routers.add(c.file, string(r.Name), "", path+".name", fmt.Sprintf("router %q already exists", r.Name), "names are unique")
		if r.L3 != nil && r.Name != "" {
			name := r.model().SegmentName()
			segments.add(c.file, name, "", path+".l3", fmt.Sprintf("the l3 segment would be called %q, which already exists", name),
				"give the router or the other another name")
		}
		for j, u := range r.Uplinks {
			at := fmt.Sprintf("%s.uplinks[%d].name", path, j)
			segments.add(c.file, string(u.Name), "", at, fmt.Sprintf("the uplink's network would be called %q, which already exists", u.Name),
				"names of segments and uplinks are unique")
			ports[string(u.Name)] = at
		}
	}
	c.egress(segments)
	delete(ports, "")
	for i, p := range c.doc.Spec.Ports {
		path := fmt.Sprintf("spec.ports[%d]", i)
		ports.add(c.file, string(p.Name), "", path+".name", fmt.Sprintf("port %q already exists", p.Name), "names are unique")
		for j, v := range p.VLANs {
			again := slices.ContainsFunc(p.VLANs[:j], func(o portVLAN) bool { return o.VLAN == v.VLAN })
			if p.Name == "" || v.VLAN == 0 || again { // again: a mistake about the interface
				continue
			}
			name := memberName(p.Name, v.VLAN)
			ports.add(c.file, name, "", fmt.Sprintf("%s.vlans[%d].vlan", path, j),
				fmt.Sprintf("the member would be called %q, which already exists", name), "names are unique")
		}
	}
}

// memberName is how commands and static MAC addresses call a VLAN of a trunk.
func memberName(port objectName, vlan uint16) string { return fmt.Sprintf("%s.%d", port, vlan) }

// egress checks the names of groups and policies, and adds the segments of policies.
func (c nameChecker) egress(segments unique[string]) {
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

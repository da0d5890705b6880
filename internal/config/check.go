package config

import (
	"fmt"
	"slices"
)

// checker compares the fields of a document with each other. A field that was
// missing or did not decode is zero, already reported, and not compared.
type checker struct {
	file    *fileErrors
	doc     *document
	members [][]member // of each port
}

func checkDocument(file *fileErrors, doc *document, policies []policySource) {
	c := checker{file, doc, each(doc.Spec.Ports, port.members)}
	c.underlay()
	c.interfaces()
	c.names()
	c.remotes()
	c.pins()
	c.tunnels()
	for i := range doc.Spec.Segments {
		c.segment(i)
	}
	c.routers()
	c.ports()
	c.limits()
	p := c.firewall(policies)
	p.egress()
	c.portForwards()
	c.bgp()
}

// unique knows the path of every value and reports one that comes again.
type unique[T comparable] map[T]string

func (u unique[T]) add(file *fileErrors, value, zero T, path, message, hint string) {
	if value == zero {
		return
	}
	first, twice := u[value]
	if !twice {
		u[value] = path
		return
	}
	file.problem(path, fmt.Sprintf("%s (%s, line %d)", message, first, file.at(first).Line), hint)
}

// attachment is an interface, or a VLAN of it (0: untagged frames).
type attachment struct {
	name interfaceName
	vlan uint16
}

// interfaces checks that each frame has one owner.
func (c checker) interfaces() {
	const hint = "an interface, or one of its VLANs, can be only one port, uplink or underlay"
	used, underlays := unique[attachment]{}, unique[interfaceName]{}
	add := func(name interfaceName, vlan uint16, path string) {
		message := fmt.Sprintf("interface %q is already used", name)
		if vlan != 0 {
			message = fmt.Sprintf("VLAN %d of interface %q is already used", vlan, name)
		}
		at := attachment{name, vlan}
		if name == "" {
			at = attachment{}
		}
		used.add(c.file, at, attachment{}, path, message, hint)
	}
	c.underlayInterfaces(used, underlays)
	for i, r := range c.doc.Spec.Routers {
		for j, u := range r.Uplinks {
			path := fmt.Sprintf("spec.routers[%d].uplinks[%d].interface", i, j)
			if !c.file.failed[fmt.Sprintf("spec.routers[%d].uplinks[%d].vlan", i, j)] {
				add(u.Interface, u.VLAN, path)
			}
		}
	}
	for i, p := range c.doc.Spec.Ports {
		path := fmt.Sprintf("spec.ports[%d]", i)
		if _, ok := underlays[p.Interface]; ok && p.Interface != "" {
			underlays.add(c.file, p.Interface, "", path+".interface", fmt.Sprintf("interface %q is already used", p.Interface), hint)
			continue
		}
		if p.Segment != "" || len(p.VLANs) == 0 {
			add(p.Interface, 0, path+".interface")
		}
		for j, v := range p.VLANs {
			if v.VLAN != 0 {
				add(p.Interface, v.VLAN, fmt.Sprintf("%s.vlans[%d].vlan", path, j))
			}
		}
	}
}

// underlayInterfaces adds those of the underlay, of which several TEPs may share one.
func (c checker) underlayInterfaces(used unique[attachment], underlays unique[interfaceName]) {
	for i, name := range c.doc.Spec.Underlay.Interfaces {
		path := fmt.Sprintf("spec.underlay.interfaces[%d]", i)
		underlays.add(c.file, name, "", path, fmt.Sprintf("interface %q is already used", name), "keep one")
		used[attachment{name, 0}] = path
	}
	for i, t := range c.doc.Spec.Underlay.TEPs {
		if path := fmt.Sprintf("spec.underlay.teps[%d].interface", i); underlays[t.Interface] == "" && t.Interface != "" {
			underlays[t.Interface], used[attachment{t.Interface, 0}] = path, path
		}
	}
}

// names checks that each name means one thing: those of segments, also of the
// ones that routers and uplinks make, of routers, and of ports and uplinks.
func (c checker) names() {
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
	c.egressNames(segments)
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

// segmentNames returns the names and whether they are all that the file has.
func (c checker) segmentNames() (list []string, complete bool) {
	for _, s := range c.doc.Spec.Segments {
		if s.Name == "" {
			return nil, false
		}
		list = append(list, string(s.Name))
	}
	return list, !c.file.failed["spec.segments"]
}

// routerNames returns the names and whether they are all that the file has.
func (c checker) routerNames() (list []string, complete bool) {
	for _, r := range c.doc.Spec.Routers {
		if r.Name == "" {
			return nil, false
		}
		list = append(list, string(r.Name))
	}
	return list, !c.file.failed["spec.routers"]
}

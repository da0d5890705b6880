package config

import "fmt"

// attachment is an interface, or a VLAN of it (0: untagged frames).
type attachment struct {
	name interfaceName
	vlan uint16
}

// interfaceChecker compares the interfaces of underlay, uplinks and ports.
type interfaceChecker struct {
	file *fileErrors
	doc  *document
}

// check refuses a second owner of the same frames.
func (c interfaceChecker) check() {
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
	c.underlay(used, underlays)
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

// underlay adds those of the underlay, of which several TEPs may share one.
func (c interfaceChecker) underlay(used unique[attachment], underlays unique[interfaceName]) {
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

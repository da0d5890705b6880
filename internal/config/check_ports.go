package config

import (
	"fmt"
	"slices"
)

// member is what of a port is in one segment: its untagged frames or a VLAN.
type member struct {
	name    string
	segment objectName
}

// members are the parts of p that could be read.
func (p port) members() []member {
	var list []member
	if p.Segment != "" {
		list = append(list, member{string(p.Name), p.Segment})
	}
	for _, v := range p.VLANs {
		if v.VLAN != 0 {
			list = append(list, member{memberName(p.Name, v.VLAN), v.Segment})
		}
	}
	return list
}

// portChecker checks the segments of ports.
type portChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c portChecker) check() {
	segments, complete := c.declared.segmentNames()
	exists := func(path string, name objectName) {
		if name != "" && complete && !slices.Contains(segments, string(name)) {
			c.file.problem(path, fmt.Sprintf("there is no segment %q", name), suggest(string(name), segments, "segments"))
		}
	}
	for i, p := range c.doc.Spec.Ports {
		path := fmt.Sprintf("spec.ports[%d]", i)
		_, untagged := c.file.seen[path+".segment"]
		_, tagged := c.file.seen[path+".vlans"]
		if !c.file.failed[path] && !untagged && (!tagged || len(p.VLANs) == 0 && !c.file.failed[path+".vlans"]) {
			c.file.problem(path+".segment", "is missing", "add it: name of the segment that the port belongs to, or vlans")
		}
		exists(path+".segment", p.Segment)
		for j, v := range p.VLANs {
			exists(fmt.Sprintf("%s.vlans[%d].segment", path, j), v.Segment)
		}
		if p.Allowed != nil && len(p.Allowed.MACs)+len(p.Allowed.Addresses) == 0 && !c.file.failedIn(path+".allowed", "macs", "addresses") {
			c.file.problem(path+".allowed", "neither macs nor addresses are given", "add those that may send, or remove the line")
		}
	}
	c.vlanHopping()
}

// vlanHopping refuses a segment that keeps tags as the untagged part of an interface with
// VLANs: by the tag of its sender a frame would become one of another segment, or the host's.
func (c portChecker) vlanHopping() {
	transparent, vlans := map[objectName]bool{}, map[interfaceName]string{}
	for _, s := range c.doc.Spec.Segments {
		transparent[s.Name] = s.KeepTags && s.Name != ""
	}
	for i, r := range c.doc.Spec.Routers {
		for j, u := range r.Uplinks {
			vlans[u.Interface] = fmt.Sprintf("spec.routers[%d].uplinks[%d]", i, j)
		}
	}
	for i, p := range c.doc.Spec.Ports {
		if len(p.VLANs) > 0 {
			vlans[p.Interface] = fmt.Sprintf("spec.ports[%d].vlans[0]", i)
		}
	}
	for i, p := range c.doc.Spec.Ports {
		other, ok := vlans[p.Interface]
		if !transparent[p.Segment] || !ok || p.Interface == "" {
			continue
		}
		c.file.problem(fmt.Sprintf("spec.ports[%d].segment", i),
			fmt.Sprintf("%s keeps tags, and interface %q has other VLANs (%s), of which a frame could become one by its own tag", p.Segment, p.Interface, c.file.place(fmt.Sprintf("spec.ports[%d].segment", i), other)),
			"give one of them an interface of its own, or remove vlanTransparent")
	}
}

package config

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// memberChecker checks that what the members of groups, rules and egress policies name exists.
type memberChecker struct {
	ports, uplinks, segments, groups nameSet
	hints                            suggester
}

// newMemberChecker knows ports, also VLANs of trunks, and segments, also those that routers and
// uplinks make.
func newMemberChecker(d declared) *memberChecker {
	c := &memberChecker{}
	segments, complete := d.segmentNames()
	uplinks, l3, good := d.routed()
	policies, all := d.policySegments()
	segments = slices.Concat(segments, l3, uplinks, policies)
	c.segments, c.uplinks = newNames(segments, complete && good && all), newNames(uplinks, true)
	var ports []string
	complete = !d.file.failed["spec.ports"]
	for i, port := range d.doc.Spec.Ports {
		at := fmt.Sprintf("spec.ports[%d]", i)
		complete = complete && port.Name != "" && !d.file.failedIn(at, "vlans") && len(d.members[i]) >= len(port.VLANs)
		ports = append(ports, string(port.Name))
		for _, m := range d.members[i] {
			if m.name != string(port.Name) {
				ports = append(ports, m.name)
			}
		}
	}
	c.ports = newNames(ports, complete)
	return c
}

// pathTo builds the path of a field, when there is something to say about it.
type pathTo func(field string) string

func isAddress(m overlay.Member) bool {
	return m.Prefix.IsValid() || m.Range.First.IsValid() || m.MAC != nil
}

// The families that packets may have that a list of members matches, as bits.
const (
	onlyIPv4     = 1
	onlyIPv6     = 2
	eitherFamily = onlyIPv4 | onlyIPv6
)

func familyOf(m overlay.Member) int {
	addr := m.Range.First
	if m.Prefix.IsValid() {
		addr = m.Prefix.Addr()
	}
	switch {
	case addr.Is4():
		return onlyIPv4
	case addr.Is6():
		return onlyIPv6
	}
	return eitherFamily
}

// list checks the members of a rule and returns the families of packets that they match.
func (c *memberChecker) list(s policySource, list []groupMember, field string, path pathTo) (families int) {
	for k := range list {
		m := &list[k]
		c.member(s, m, func() string { return path(fmt.Sprintf("%s[%d]", field, k)) })
		if m.any && len(list) > 1 {
			s.complain(m.located, path(fmt.Sprintf("%s[%d]", field, k)), "any includes all the others", "keep any alone, or remove it")
		}
		families |= familyOf(m.model)
	}
	if len(list) == 0 {
		return eitherFamily
	}
	return families
}

// member checks one, and makes a member of the model of its form.
func (c *memberChecker) member(s policySource, m *groupMember, path func() string) {
	w := m.written
	if w == nil {
		w = &memberForm{}
	}
	given := []string{}
	for _, f := range []struct {
		name string
		set  bool
	}{{"segment", w.Segment != ""}, {"port", w.Port != ""}, {"labels", w.Labels != nil}, {"group", w.Group != ""}} {
		if f.set {
			given = append(given, f.name)
		}
	}
	word := m.any || m.model.Group != "" || isAddress(m.model)
	switch {
	case len(given) > 1:
		s.complain(m.located, path(), fmt.Sprintf("both %s and %s are given", given[0], given[1]), "make them two members: one of them has to match")
	case len(given) == 1:
		m.model = overlay.Member{Segment: string(w.Segment), Port: string(w.Port), Labels: w.Labels, Group: string(w.Group)}
	case !word && !s.file.failedIn(s.prefix+path(), "segment", "port", "labels", "group"):
		s.complain(m.located, path(), "none of segment, port, labels and group is given", memberHint)
	}
	c.refers(s, m, path)
}

// refers checks that what a member names exists.
func (c *memberChecker) refers(s policySource, m *groupMember, path func() string) {
	switch g := m.model; {
	case c.groups.lacks(g.Group):
		s.complain(m.located, path(), fmt.Sprintf("there is no group %q", g.Group), c.hints.suggest(g.Group, c.groups, "groups"))
	case c.segments.lacks(g.Segment):
		s.complain(m.located, path(), fmt.Sprintf("there is no segment %q", g.Segment), c.hints.suggest(g.Segment, c.segments, "segments"))
	case c.ports.lacks(g.Port) && c.uplinks.known[g.Port]:
		s.complain(m.located, path(), fmt.Sprintf("%q is an uplink", g.Port), fmt.Sprintf("write {segment: %s}: its network", g.Port))
	case c.ports.lacks(g.Port):
		s.complain(m.located, path(), fmt.Sprintf("there is no port %q", g.Port), c.hints.suggest(g.Port, c.ports, "ports"))
	}
}

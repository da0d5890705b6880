package config

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// maxRules is what the data path's table of counters holds (bpf/abi/abi.h), less its unused
// first entry. The defaults are rules too.
const maxRules = 131072 - 1

// Counters and logs call the defaults of segments and of the edge like rules.
const (
	defaultSection = "default"
	edgeDefault    = "edge"
)

// nameSet is the names of one kind of objects.
type nameSet struct {
	list     []string
	known    map[string]bool
	complete bool // the file has no others
}

func newNames(list []string, complete bool) nameSet {
	n := nameSet{list, make(map[string]bool, len(list)), complete}
	for _, name := range list {
		n.known[name] = true
	}
	return n
}

func (n nameSet) lacks(name string) bool { return n.complete && name != "" && !n.known[name] }

// policyChecker compares the parts of the policy with each other and with the edge.
type policyChecker struct {
	checker
	ports, uplinks, segments nameSet
	groupNames, serviceNames nameSet
	groups                   map[string]*groupCheck
	rules                    int
	compared                 int // names with one that is misspelled
}

// firewall also collects the names that egress policies refer to.
func (c checker) firewall(policies []policySource) *policyChecker {
	p := &policyChecker{checker: c}
	p.edgeNames()
	p.collectGroups(policies)
	fw := c.doc.Spec.Firewall
	if fw == nil {
		c.defaultsWithoutFirewall()
		return p
	}
	p.collectServices(policies)
	p.checkGroups()
	p.sections(policies)
	p.limit()
	return p
}

func (c checker) defaultsWithoutFirewall() {
	for i, s := range c.doc.Spec.Segments {
		if s.Firewall != "" && !c.file.failed["spec.firewall"] {
			c.file.problem(fmt.Sprintf("spec.segments[%d].firewall", i), "the edge has no firewall", "add spec.firewall, which may be empty: {}")
		}
	}
}

// edgeNames are what members refer to: ports, also VLANs of trunks, and segments, also
// those that routers and uplinks make.
func (p *policyChecker) edgeNames() {
	segments, complete := p.segmentNames()
	uplinks, l3, good := p.routed()
	policies, all := p.policySegments()
	segments = slices.Concat(segments, l3, uplinks, policies)
	p.segments, p.uplinks = newNames(segments, complete && good && all), newNames(uplinks, true)
	var ports []string
	complete = !p.file.failed["spec.ports"]
	for i, port := range p.doc.Spec.Ports {
		at := fmt.Sprintf("spec.ports[%d]", i)
		complete = complete && port.Name != "" && !p.file.failedIn(at, "vlans") && len(p.members[i]) >= len(port.VLANs)
		ports = append(ports, string(port.Name))
		for _, m := range p.members[i] {
			if m.name != string(port.Name) {
				ports = append(ports, m.name)
			}
		}
	}
	p.ports = newNames(ports, complete)
}

// routed are the names of uplinks, and those of l3 segments.
func (c checker) routed() (uplinks, l3 []string, complete bool) {
	_, complete = c.routerNames()
	for i, r := range c.doc.Spec.Routers {
		if r.L3 != nil {
			l3 = append(l3, r.model().SegmentName())
		}
		complete = complete && !c.file.failed[fmt.Sprintf("spec.routers[%d]", i)] && !c.file.failed[fmt.Sprintf("spec.routers[%d].uplinks", i)]
		for _, u := range r.Uplinks {
			complete = complete && u.Name != ""
			uplinks = append(uplinks, string(u.Name))
		}
	}
	return uplinks, l3, complete
}

// suggest is for files that have the same mistake a hundred thousand times.
func (p *policyChecker) suggest(word string, n nameSet, noun string) string {
	const most = 1e6
	if p.compared += 1 + len(n.list); p.compared > most {
		return fmt.Sprintf("there are %d %s", len(n.list), noun)
	}
	return suggest(word, n.list, noun)
}

// complain reports about an item of a source.
func (s policySource) complain(at located, path, message, hint string) {
	s.file.report(s.place(at), s.prefix+path, message, hint)
}

// twice complains about the name of the item at path, which the first one has too.
func (s policySource) twice(name ownName, path, noun string, first Position) {
	s.complain(name.located, path+".name", fmt.Sprintf("%s %q already exists (%s)", noun, name.text, first), "names of "+noun+"s are unique")
}

func (s policySource) place(at located) Position {
	return Position{s.file.name, max(1, int(at.line)), max(1, int(at.column))}
}

func (p *policyChecker) sections(policies []policySource) {
	known := map[string]Position{}
	for _, s := range policies {
		for i := range s.Sections {
			sec, path := &s.Sections[i], fmt.Sprintf("sections[%d]", i)
			name := sec.Name.text
			switch first, twice := known[name]; {
			case name == "":
			case twice:
				s.twice(sec.Name, path, "section", first)
			case name == defaultSection:
				s.complain(sec.Name.located, path+".name", fmt.Sprintf("counters use the name %q for the defaults", name), "choose another name")
			default:
				known[name] = s.place(sec.Name.located)
			}
			p.sectionRules(s, path, sec)
		}
	}
	for i, g := range p.doc.Spec.Segments {
		if g.Firewall != "" && g.Name == edgeDefault {
			p.file.problem(fmt.Sprintf("spec.segments[%d].firewall", i), fmt.Sprintf("counters also use the name %q for the edge's own default", edgeDefault),
				"give the segment another name, or write rules")
		}
	}
}

func (p *policyChecker) sectionRules(s policySource, path string, sec *section) {
	known := make(map[string]int32, len(sec.Rules))
	for j := range sec.Rules {
		r := &sec.Rules[j]
		first, twice := known[r.Name.text]
		if twice && r.Name.text != "" {
			s.complain(r.Name.located, fmt.Sprintf("%s.rules[%d].name", path, j),
				fmt.Sprintf("rule %q already exists in the section (line %d)", r.Name.text, first), "names of rules are unique in their section")
		}
		known[r.Name.text] = r.Name.line
		if !r.Disabled {
			p.rules++
		}
		p.rule(s, r, func(field string) string { return fmt.Sprintf("%s.rules[%d].%s", path, j, field) })
	}
}

// pathTo builds the path of a field, when there is something to say about it.
type pathTo func(field string) string

func (p *policyChecker) rule(s policySource, r *entry, path pathTo) {
	from := p.memberList(s, r.From, "from", path)
	to := p.memberList(s, r.To, "to", path)
	if from&to == 0 {
		s.complain(r.To[0].located, path("to"), "source and destination are of different families", "no packet can match; make them the same")
	}
	p.memberList(s, r.AppliedTo, "appliedTo", path)
	for k := range r.AppliedTo {
		p.applied(s, &r.AppliedTo[k], func() string { return path(fmt.Sprintf("appliedTo[%d]", k)) })
	}
	for k := range r.Services {
		p.service(s, &r.Services[k], func() string { return path(fmt.Sprintf("services[%d]", k)) })
		if r.Services[k].any && len(r.Services) > 1 {
			s.complain(r.Services[k].located, path(fmt.Sprintf("services[%d]", k)), "any includes all the others", "keep any alone, or remove it")
		}
	}
}

// applied refuses what does not select ports.
func (p *policyChecker) applied(s policySource, m *groupMember, path func() string) {
	const hint = "name ports, labels or segments here, and addresses in from or to"
	if isAddress(m.model) {
		s.complain(m.located, path(), "a rule is applied to ports, not addresses", hint)
		return
	}
	if g := p.groups[m.model.Group]; g != nil && g.address != nil {
		s.complain(m.located, path(), fmt.Sprintf("group %q has addresses (%s), but a rule is applied to ports", m.model.Group, *g.address), hint)
	}
}

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

// memberList checks the members of a rule and returns the families of packets that they match.
func (p *policyChecker) memberList(s policySource, list []groupMember, field string, path pathTo) (families int) {
	for k := range list {
		m := &list[k]
		p.member(s, m, func() string { return path(fmt.Sprintf("%s[%d]", field, k)) })
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
func (p *policyChecker) member(s policySource, m *groupMember, path func() string) {
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
	p.refers(s, m, path)
}

// refers checks that what a member names exists.
func (p *policyChecker) refers(s policySource, m *groupMember, path func() string) {
	switch g := m.model; {
	case p.groupNames.lacks(g.Group):
		s.complain(m.located, path(), fmt.Sprintf("there is no group %q", g.Group), p.suggest(g.Group, p.groupNames, "groups"))
	case p.segments.lacks(g.Segment):
		s.complain(m.located, path(), fmt.Sprintf("there is no segment %q", g.Segment), p.suggest(g.Segment, p.segments, "segments"))
	case p.ports.lacks(g.Port) && p.uplinks.known[g.Port]:
		s.complain(m.located, path(), fmt.Sprintf("%q is an uplink", g.Port), fmt.Sprintf("write {segment: %s}: its network", g.Port))
	case p.ports.lacks(g.Port):
		s.complain(m.located, path(), fmt.Sprintf("there is no port %q", g.Port), p.suggest(g.Port, p.ports, "ports"))
	}
}

func (p *policyChecker) limit() {
	defaults := 1
	for _, g := range p.doc.Spec.Segments {
		if g.Firewall != "" {
			defaults++
		}
	}
	if p.rules+defaults > maxRules {
		p.file.problem("spec.firewall", fmt.Sprintf("%d rules and %d defaults, at most %d together", p.rules, defaults, maxRules),
			"use groups and lists of services: a rule may have many of each")
	}
}

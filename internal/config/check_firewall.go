package config

import "fmt"

// maxRules is what the data path's table of counters holds (bpf/abi/abi.h), less its unused
// first entry. The defaults are rules too.
const maxRules = 131072 - 1

// Counters and logs call the defaults of segments and of the edge like rules.
const (
	defaultSection = "default"
	edgeDefault    = "edge"
)

// firewallChecker compares the parts of the policy with each other and with the edge.
type firewallChecker struct {
	file     *fileErrors
	doc      *document
	members  *memberChecker
	groups   *groupChecker
	services *serviceChecker
	rules    int
}

// checkFirewall also gives members the names of groups, to which egress policies refer too.
func checkFirewall(d declared, members *memberChecker, policies []policySource) *groupChecker {
	groups := &groupChecker{declared: d, members: members}
	groups.collect(policies)
	if d.doc.Spec.Firewall == nil {
		defaultsWithoutFirewall(d.file, d.doc)
		return groups
	}
	services := &serviceChecker{declared: d, hints: &members.hints}
	services.collect(policies)
	groups.check()
	c := &firewallChecker{file: d.file, doc: d.doc, members: members, groups: groups, services: services}
	c.sections(policies)
	c.limit()
	return groups
}

func defaultsWithoutFirewall(file *fileErrors, doc *document) {
	for i, s := range doc.Spec.Segments {
		if s.Firewall != "" && !file.failed["spec.firewall"] {
			file.problem(fmt.Sprintf("spec.segments[%d].firewall", i), "the edge has no firewall", "add spec.firewall, which may be empty: {}")
		}
	}
}

func (c *firewallChecker) sections(policies []policySource) {
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
			c.section(s, path, sec)
		}
	}
	for i, g := range c.doc.Spec.Segments {
		if g.Firewall != "" && g.Name == edgeDefault {
			c.file.problem(fmt.Sprintf("spec.segments[%d].firewall", i), fmt.Sprintf("counters also use the name %q for the edge's own default", edgeDefault),
				"give the segment another name, or write rules")
		}
	}
}

func (c *firewallChecker) section(s policySource, path string, sec *section) {
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
			c.rules++
		}
		c.rule(s, r, func(field string) string { return fmt.Sprintf("%s.rules[%d].%s", path, j, field) })
	}
}

func (c *firewallChecker) rule(s policySource, r *entry, path pathTo) {
	from := c.members.list(s, r.From, "from", path)
	to := c.members.list(s, r.To, "to", path)
	if from&to == 0 {
		s.complain(r.To[0].located, path("to"), "source and destination are of different families", "no packet can match; make them the same")
	}
	c.members.list(s, r.AppliedTo, "appliedTo", path)
	for k := range r.AppliedTo {
		c.applied(s, &r.AppliedTo[k], func() string { return path(fmt.Sprintf("appliedTo[%d]", k)) })
	}
	for k := range r.Services {
		c.services.service(s, &r.Services[k], func() string { return path(fmt.Sprintf("services[%d]", k)) })
		if r.Services[k].any && len(r.Services) > 1 {
			s.complain(r.Services[k].located, path(fmt.Sprintf("services[%d]", k)), "any includes all the others", "keep any alone, or remove it")
		}
	}
}

// applied refuses what does not select ports.
func (c *firewallChecker) applied(s policySource, m *groupMember, path func() string) {
	const hint = "name ports, labels or segments here, and addresses in from or to"
	if isAddress(m.model) {
		s.complain(m.located, path(), "a rule is applied to ports, not addresses", hint)
		return
	}
	if g := c.groups.byName[m.model.Group]; g != nil && g.address != nil {
		s.complain(m.located, path(), fmt.Sprintf("group %q has addresses (%s), but a rule is applied to ports", m.model.Group, *g.address), hint)
	}
}

func (c *firewallChecker) limit() {
	defaults := 1
	for _, g := range c.doc.Spec.Segments {
		if g.Firewall != "" {
			defaults++
		}
	}
	if c.rules+defaults > maxRules {
		c.file.problem("spec.firewall", fmt.Sprintf("%d rules and %d defaults, at most %d together", c.rules, defaults, maxRules),
			"use groups and lists of services: a rule may have many of each")
	}
}

package config

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// groupCheck is a group while it is checked.
type groupCheck struct {
	*group
	source  policySource
	path    string
	visited visit
	// address is where the group, or one that it has, has an address; nil: nowhere.
	address *Position
}

type visit uint8

const (
	unvisited visit = iota
	underWay
	done
)

func (p *policyChecker) collectGroups(policies []policySource) {
	p.groups = map[string]*groupCheck{}
	var list []string
	complete := p.complete(policies, "groups")
	for _, s := range policies {
		for i := range s.Groups {
			g, path := &s.Groups[i], fmt.Sprintf("groups[%d]", i)
			name := g.Name.text
			if first := p.groups[name]; first != nil {
				s.twice(g.Name, path, "group", first.source.place(first.Name.located))
				continue
			}
			if name == "" {
				complete = false
				continue
			}
			p.groups[name] = &groupCheck{group: g, source: s, path: path}
			list = append(list, name)
		}
	}
	p.groupNames = newNames(list, complete)
}

// complete reports whether all files could be read, and the list that each has in field.
func (p *policyChecker) complete(policies []policySource, field string) bool {
	if p.doc.Spec.Firewall == nil {
		return !p.file.failed["spec.firewall"] && !p.file.failed["spec"]
	}
	if p.file.failed["spec.firewall.include"] || len(policies) != 1+len(p.doc.Spec.Firewall.Include) {
		return false
	}
	for _, s := range policies {
		if s.file.failed[strings.TrimSuffix(s.prefix, ".")] || s.file.failed[s.prefix+field] {
			return false
		}
	}
	return true
}

func (p *policyChecker) checkGroups() {
	for _, name := range p.groupNames.list {
		g := p.groups[name]
		for k := range g.Members {
			m := &g.Members[k]
			path := func() string { return fmt.Sprintf("%s.members[%d]", g.path, k) }
			if m.any {
				g.source.complain(m.located, path(), "a group of everything restricts nothing", "leave out from or to in the rule instead")
			}
			p.member(g.source, m, path)
		}
	}
	for _, name := range p.groupNames.list {
		p.visit(p.groups[name], nil)
	}
}

// visit finds out whether g has itself as a member, and whether it has addresses.
func (p *policyChecker) visit(g *groupCheck, way []string) {
	if g.visited == done {
		return
	}
	g.visited = underWay
	way = append(way, g.Name.text)
	for k := range g.Members {
		m := &g.Members[k]
		if g.address == nil && isAddress(m.model) {
			at := g.source.place(m.located)
			g.address = &at
		}
		inner := p.groups[m.model.Group]
		switch {
		case inner == nil:
		case inner.visited == underWay:
			g.source.complain(m.located, fmt.Sprintf("%s.members[%d]", g.path, k), "the group contains itself: "+cycle(way, m.model.Group), "remove one of these")
			m.model = overlay.Member{}
		default:
			p.visit(inner, way)
			if g.address == nil {
				g.address = inner.address
			}
		}
	}
	g.visited = done
}

// cycle is the end of way that begins with name, and name again.
func cycle(way []string, name string) string {
	for len(way) > 0 && way[0] != name {
		way = way[1:]
	}
	const most = 8
	if len(way) > most {
		way = append(append([]string{}, way[:most]...), "…")
	}
	return strings.Join(append(append([]string{}, way...), name), " > ")
}

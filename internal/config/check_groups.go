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

// groupChecker checks what groups contain.
type groupChecker struct {
	declared declared
	members  *memberChecker
	byName   map[string]*groupCheck
}

func (c *groupChecker) collect(policies []policySource) {
	c.byName = map[string]*groupCheck{}
	var list []string
	complete := c.declared.wholePolicy(policies, "groups")
	for _, s := range policies {
		for i := range s.Groups {
			g, path := &s.Groups[i], fmt.Sprintf("groups[%d]", i)
			name := g.Name.text
			if len(g.Members) == 0 && !g.Live && !s.file.failed[s.prefix+path+".members"] {
				s.complain(g.located, path+".members", "is missing, or empty", "give what belongs to it, or make it live: true and add members while the edge runs")
			}
			if first := c.byName[name]; first != nil {
				s.twice(g.Name, path, "group", first.source.place(first.Name.located))
				continue
			}
			if name == "" {
				complete = false
				continue
			}
			c.byName[name] = &groupCheck{group: g, source: s, path: path}
			list = append(list, name)
		}
	}
	c.members.groups = newNames(list, complete)
}

func (c *groupChecker) check() {
	for _, name := range c.members.groups.list {
		g := c.byName[name]
		for k := range g.Members {
			m := &g.Members[k]
			path := func() string { return fmt.Sprintf("%s.members[%d]", g.path, k) }
			if m.any {
				g.source.complain(m.located, path(), "a group of everything restricts nothing", "leave out from or to in the rule instead")
			}
			c.members.member(g.source, m, path)
		}
	}
	for _, name := range c.members.groups.list {
		c.visit(c.byName[name], nil)
	}
}

// visit finds out whether g has itself as a member, and whether it has addresses.
func (c *groupChecker) visit(g *groupCheck, way []string) {
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
		inner := c.byName[m.model.Group]
		switch {
		case inner == nil:
		case inner.visited == underWay:
			g.source.complain(m.located, fmt.Sprintf("%s.members[%d]", g.path, k), "the group contains itself: "+cycle(way, m.model.Group), "remove one of these")
			m.model = overlay.Member{}
		default:
			c.visit(inner, way)
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

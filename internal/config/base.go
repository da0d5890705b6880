package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// Base is a configuration that was read, to which live objects can be added. It is never changed.
//
// What it adds to is valid without them. So a file alone always starts an edge, whatever became of its live objects.
type Base struct {
	edge     overlay.Edge
	doc      document
	file     *fileErrors
	policies []policySource // without their sections: live objects change no rule
	applied  []string       // groups that rules are applied to, and may have no addresses
}

func newBase(edge overlay.Edge, doc document, file *fileErrors, policies []policySource) *Base {
	b := &Base{edge: edge, doc: doc, file: file}
	applied := map[string]bool{}
	for _, p := range policies {
		for _, sec := range p.Sections {
			for _, r := range sec.Rules {
				for _, m := range r.AppliedTo {
					if m.model.Group != "" {
						applied[m.model.Group] = true
					}
				}
			}
		}
		b.policies = append(b.policies, policySource{p.file, p.prefix, &policy{Groups: p.Groups, Services: p.Services}})
	}
	b.applied = slices.Sorted(maps.Keys(applied))
	if fw := doc.Spec.Firewall; fw != nil {
		slim := *fw
		slim.Sections = nil
		b.doc.Spec.Firewall = &slim
	}
	return b
}

// ErrNoBase is of a source that was not read.
var ErrNoBase = errors.New("configuration: its text was not kept, so that live objects cannot be added: reload it")

// With is the configuration with live objects, which are checked as if they stood in the file. An error is an Errors:
// its problems name the file's place, or the live object, or both.
func (b *Base) With(objects []Object) (overlay.Edge, error) {
	if len(objects) == 0 {
		return b.edge, nil
	}
	m := newMerge(b)
	m.add(objects)
	groups := checkDocument(m.file, &m.doc, m.policies)
	m.appliedTo(groups)
	if errs := m.errors(); len(errs) > 0 {
		return overlay.Edge{}, errs
	}
	edge := m.doc.edge(m.policies)
	edge.Warnings, edge.HTTP = b.edge.Warnings, b.edge.HTTP
	if edge.Firewall != nil {
		edge.Firewall.Rules = b.edge.Firewall.Rules
	}
	for i := range objects {
		m.origin(&edge, objects[i])
	}
	return edge, nil
}

// Settle is With, and leaves out the objects that do not fit, with why.
func (b *Base) Settle(objects []Object) (edge overlay.Edge, kept []Object, left map[string]error) {
	kept, left = slices.Clone(objects), map[string]error{}
	SortObjects(kept)
	drop := 1
	for {
		edge, err := b.With(kept)
		var errs Errors
		switch {
		case err == nil:
			return edge, kept, left
		case !errors.As(err, &errs):
			errs = Errors{{Message: err.Error()}}
		}
		wrong := map[string]Error{}
		for _, e := range errs {
			if _, known := wrong[e.File]; !known {
				wrong[e.File] = e
			}
		}
		before := len(kept)
		if before == 0 {
			return b.edge, nil, left
		}
		kept = slices.DeleteFunc(kept, func(o Object) bool {
			e, is := wrong[o.Label()]
			if is {
				left[o.Label()] = e
			}
			return is
		})
		if len(kept) == before { // they are too many together: the last ones go
			from := max(0, before-drop)
			for _, o := range kept[from:] {
				left[o.Label()] = errs
			}
			kept, drop = kept[:from], 2*drop
		}
	}
}

// merge is a document to which live objects are added.
type merge struct {
	base     *Base
	doc      document
	file     *fileErrors
	policies []policySource
	places   map[string]string // where an object was put, by its path
	segments map[objectName]int
	named    map[string]bool // groups of the file: whether they are live
}

func newMerge(b *Base) *merge {
	m := &merge{
		base: b, doc: b.doc.clone(), policies: slices.Clone(b.policies), places: map[string]string{}, segments: map[objectName]int{}, named: map[string]bool{},
		file: &fileErrors{name: b.file.name, seen: maps.Clone(b.file.seen), failed: map[string]bool{}},
	}
	for i := range m.policies {
		p := m.policies[i]
		f := m.file
		if p.file != b.file {
			f = newFileErrors(p.file.name)
		}
		groups := slices.Clone(p.Groups)
		for g := range groups {
			groups[g].Members = slices.Clone(groups[g].Members)
			m.named[groups[g].Name.text] = groups[g].Live
		}
		m.policies[i] = policySource{f, p.prefix, &policy{Groups: groups, Services: p.Services}}
	}
	return m
}

// clone copies what checks change, or live objects are appended to.
func (d *document) clone() document {
	c := *d
	s := &c.Spec
	s.Ports, s.Remotes = slices.Clone(s.Ports), slices.Clone(s.Remotes)
	s.Segments, s.Routers = slices.Clone(s.Segments), slices.Clone(s.Routers)
	for i := range s.Segments {
		g := &s.Segments[i]
		g.Remotes, g.FDB, g.Neighbours = slices.Clone(g.Remotes), slices.Clone(g.FDB), slices.Clone(g.Neighbours)
	}
	for i := range s.Routers {
		r := &s.Routers[i]
		if r.L3 != nil {
			l3 := *r.L3
			l3.Remotes = slices.Clone(l3.Remotes)
			r.L3 = &l3
		}
		r.Routes = slices.Clone(r.Routes)
		for j := range r.Routes {
			r.Routes[j].Via = slices.Clone(r.Routes[j].Via)
		}
	}
	if s.Egress != nil {
		e := *s.Egress
		e.Policies, e.Gateways = slices.Clone(e.Policies), slices.Clone(e.Gateways)
		for i := range e.Policies {
			e.Policies[i].Remotes = slices.Clone(e.Policies[i].Remotes)
		}
		for i := range e.Gateways {
			e.Gateways[i].Members = slices.Clone(e.Gateways[i].Members)
		}
		s.Egress = &e
	}
	return c
}

// add puts objects where those of their kind stand.
func (m *merge) add(objects []Object) {
	list := slices.Clone(objects)
	SortObjects(list)
	s := &m.doc.Spec
	for _, o := range list {
		if g, ok := o.value.(*segment); ok {
			m.adopt(o, fmt.Sprintf("spec.segments[%d]", len(s.Segments)))
			one := *g
			one.Remotes, one.FDB, one.Neighbours = slices.Clone(g.Remotes), slices.Clone(g.FDB), slices.Clone(g.Neighbours)
			s.Segments = append(s.Segments, one)
		}
	}
	for i, g := range s.Segments {
		m.segments[g.Name] = i
	}
	for _, o := range list {
		switch v := o.value.(type) {
		case *port:
			m.adopt(o, fmt.Sprintf("spec.ports[%d]", len(s.Ports)))
			s.Ports = append(s.Ports, *v)
		case *liveRemote:
			m.addRemote(o, v)
		case *liveFDB:
			if g, path, ok := m.segment(o, v.Segment, "fdb"); ok {
				m.adopt(o, fmt.Sprintf("%s[%d]", path, len(g.FDB)))
				g.FDB = append(g.FDB, v.staticMAC)
			}
		case *liveNeighbour:
			if g, path, ok := m.segment(o, v.Segment, "neighbours"); ok {
				m.adopt(o, fmt.Sprintf("%s[%d]", path, len(g.Neighbours)))
				g.Neighbours = append(g.Neighbours, v.neighbour)
			}
		case *liveGroup:
			m.addGroup(o, v)
		}
	}
}

// adopt has the fields of an object stand at path.
func (m *merge) adopt(o Object, path string) {
	for field, at := range o.seen {
		if field == "" {
			m.file.seen[path] = at
		} else {
			m.file.seen[path+"."+field] = at
		}
	}
	m.places[path] = o.Label()
}

// segment is that of a name, and the path of its list.
func (m *merge) segment(o Object, name objectName, list string) (*segment, string, bool) {
	i, ok := m.segments[name]
	if !ok {
		names, _ := declared{file: m.file, doc: &m.doc}.segmentNames()
		m.complain(o, "segment", fmt.Sprintf("there is no segment %q", name), suggest(string(name), names, "segments"))
		return nil, "", false
	}
	return &m.doc.Spec.Segments[i], fmt.Sprintf("spec.segments[%d].%s", i, list), true
}

func (m *merge) complain(o Object, path, message, hint string) {
	m.file.report(Position{File: o.Label()}, path, message, hint)
}

func (m *merge) addRemote(o Object, r *liveRemote) {
	s := &m.doc.Spec
	named := !r.Name.IsValid()
	switch {
	case named && len(r.Addresses) == 0:
		m.complain(o, "addresses", "is missing", "give the addresses of its tunnel endpoints, or an address in the place of the name")
		return
	case !named && len(r.Addresses) > 0:
		m.complain(o, "addresses", "an edge that is called by its address has no others", "give it a name")
		return
	case !named && len(r.Segments) == 0:
		m.complain(o, "segments", "is missing", "give the segments that the edge is in, or give it a name, by which live objects may refer to it")
		return
	case named:
		m.adopt(o, fmt.Sprintf("spec.remotes[%d]", len(s.Remotes)))
		s.Remotes = append(s.Remotes, remote{Name: objectName(r.Name.text), Addresses: r.Addresses})
	}
	for _, name := range r.Segments {
		if g, path, ok := m.segment(o, name, "remotes"); ok {
			at := fmt.Sprintf("%s[%d]", path, len(g.Remotes))
			m.file.seen[at], m.places[at] = Position{File: o.Label()}, o.Label()
			g.Remotes = append(g.Remotes, r.Name)
		}
	}
}

// moreOf is the name of the group that has the live members of one of the file. Nobody can write it.
func moreOf(name string) string { return name + " (live)" }

func (m *merge) addGroup(o Object, g *liveGroup) {
	live, inFile := m.named[g.Name.text]
	switch {
	case m.doc.Spec.Firewall == nil:
		m.complain(o, "name", "the edge has no firewall", "add spec.firewall to its file, which may be empty: {}")
		return
	case inFile && !live:
		at := m.groupPlace(g.Name.text)
		m.complain(o, "name", fmt.Sprintf("group %q stands in %s line %d, and is not live", g.Name.text, at.File, at.Line), "add live: true to it there, and reload the file")
		return
	}
	own := *g
	if inFile {
		own.Name.text = moreOf(g.Name.text)
		for i := range m.policies {
			for j := range m.policies[i].Groups {
				if in := &m.policies[i].Groups[j]; in.Name.text == g.Name.text {
					in.Members = append(in.Members, groupMember{model: overlay.Member{Group: own.Name.text}})
				}
			}
		}
	}
	f := newFileErrors(o.Label())
	f.live = true
	m.policies = append(m.policies, policySource{f, "", &policy{Groups: []group{{Name: own.Name, Members: slices.Clone(own.Members), Live: true}}}})
}

// groupPlace is where the file has a group.
func (m *merge) groupPlace(name string) Position {
	for _, p := range m.policies {
		for _, g := range p.Groups {
			if g.Name.text == name {
				return p.place(g.Name.located)
			}
		}
	}
	return Position{}
}

// appliedTo refuses addresses in groups that rules of the file are applied to.
func (m *merge) appliedTo(groups *groupChecker) {
	for _, name := range m.base.applied {
		if g := groups.byName[name]; g != nil && g.address != nil {
			m.file.report(*g.address, "members", fmt.Sprintf("group %q has addresses, but a rule of the file is applied to it, to ports", name), "name ports, labels or segments")
		}
	}
}

// errors are all, with paths of live objects below these.
func (m *merge) errors() Errors {
	errs := m.file.errs
	for _, p := range m.policies {
		if p.file != m.file {
			errs = append(errs, p.file.errs...)
		}
	}
	for i := range errs {
		e := &errs[i]
		if e.Line != 0 {
			continue
		}
		for path, label := range m.places {
			if rest, ok := strings.CutPrefix(e.Path, path); ok && label == e.File && (rest == "" || rest[0] == '.') {
				e.Path = strings.TrimPrefix(rest, ".")
				break
			}
		}
		e.Path = strings.TrimPrefix(e.Path, "groups[0].")
	}
	return errs
}

// origin notes where ports come from.
func (m *merge) origin(e *overlay.Edge, o Object) {
	v, ok := o.value.(*port)
	if !ok {
		return
	}
	for i := len(e.Ports) - 1; i >= len(m.base.doc.Spec.Ports); i-- { // they are behind those of the file
		if e.Ports[i].Name == string(v.Name) {
			e.Ports[i].Origin = overlay.OriginLive
			if o.Alias {
				e.Ports[i].Origin = overlay.OriginAlias
			}
			return
		}
	}
}

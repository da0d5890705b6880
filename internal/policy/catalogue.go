package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// catalogue knows the sets of a policy, and the groups and places that they come from.
type catalogue struct {
	places    []Place
	byName    map[string]int   // places
	byPort    map[string][]int // by both of their names
	bySegment map[string][]int
	groups    map[string]*group
	sets      []*set           // by setID
	next      []setID          // by setID: another one with the same hash
	ids       map[uint64]setID // by hash
	// Members that many rules name are looked up once.
	prefixes map[netip.Prefix]setID
	ranges   map[overlay.AddrRange]setID
	named    map[string]setID // groups
	labelled map[string]*set  // by the labels' text
}

type group struct {
	members []overlay.Member
	set     *set // nil before it was resolved
	open    bool // being resolved: to meet it again is a cycle
}

func newCatalogue(groups []overlay.Group, places []Place) (*catalogue, error) {
	c := &catalogue{
		places: places, byName: make(map[string]int, len(places)), groups: make(map[string]*group, len(groups)), ids: map[uint64]setID{},
		prefixes: map[netip.Prefix]setID{}, ranges: map[overlay.AddrRange]setID{}, named: map[string]setID{},
		labelled: map[string]*set{}, byPort: map[string][]int{}, bySegment: map[string][]int{},
	}
	c.sets, c.next = []*set{nil, {spans: []span{{u128{}, lastAddr}}}}, make([]setID, 2)
	for i, p := range places {
		c.byPort[p.Port] = append(c.byPort[p.Port], i)
		if p.Name != p.Port {
			c.byPort[p.Name] = append(c.byPort[p.Name], i)
		}
		c.bySegment[p.Segment] = append(c.bySegment[p.Segment], i)
		if _, twice := c.byName[p.Name]; twice {
			return nil, fmt.Errorf("place %s is there twice", p.Name)
		}
		c.byName[p.Name] = i
	}
	for _, g := range groups {
		if c.groups[g.Name] != nil {
			return nil, fmt.Errorf("group %s is there twice", g.Name)
		}
		c.groups[g.Name] = &group{members: g.Members}
	}
	for _, g := range groups { // also those that no rule names
		if _, err := c.group(g.Name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// intern names a set, which must not change any more.
func (c *catalogue) intern(s *set) setID {
	s.normalise()
	if s.all() {
		return anySet
	}
	h := s.hash()
	for id := c.ids[h]; id != 0; id = c.next[id] {
		if c.sets[id].equal(s) {
			return id
		}
	}
	id := setID(len(c.sets))
	c.sets = append(c.sets, s)
	c.next = append(c.next, c.ids[h])
	c.ids[h] = id
	return id
}

// id names the set that m is.
func (c *catalogue) id(m overlay.Member) (setID, error) {
	id := setID(0)
	switch {
	case m.Prefix.IsValid():
		id = c.prefixes[m.Prefix]
	case m.Range.First.IsValid():
		id = c.ranges[m.Range]
	case m.Group != "":
		id = c.named[m.Group]
	}
	if id != 0 {
		return id, nil
	}
	s := &set{}
	if err := c.resolve(m, s); err != nil {
		return 0, err
	}
	id = c.intern(s)
	switch {
	case m.Prefix.IsValid():
		c.prefixes[m.Prefix] = id
	case m.Range.First.IsValid():
		c.ranges[m.Range] = id
	case m.Group != "":
		c.named[m.Group] = id
	}
	return id, nil
}

// resolve adds what m is.
func (c *catalogue) resolve(m overlay.Member, into *set) error {
	if err := wellFormed(m); err != nil {
		return err
	}
	switch {
	case m.Prefix.IsValid():
		into.addSpan(prefixSpan(m.Prefix), m.Prefix.Addr().Is4())
	case m.Range.First.IsValid():
		into.addSpan(span{addrOf(m.Range.First), addrOf(m.Range.Last)}, m.Range.First.Is4())
	case m.MAC != nil:
		into.macs = append(into.macs, macOf(*m.MAC))
	case m.Segment != "":
		into.segments = append(into.segments, m.Segment)
	case m.Port != "":
		into.places = append(into.places, c.byPort[m.Port]...)
	case m.Labels != nil:
		into.add(c.withLabels(m.Labels))
	default:
		s, err := c.group(m.Group)
		if err != nil {
			return err
		}
		into.add(s)
	}
	return nil
}

func (c *catalogue) withLabels(labels map[string]string) *set {
	text := textOfLabels(labels)
	s := c.labelled[text]
	if s == nil {
		s = &set{}
		for i, p := range c.places {
			if hasLabels(p, labels) {
				s.places = append(s.places, i)
			}
		}
		c.labelled[text] = s
	}
	return s
}

func (c *catalogue) group(name string) (*set, error) {
	g := c.groups[name]
	switch {
	case g == nil:
		return nil, fmt.Errorf("there is no group %s", name)
	case g.open:
		return nil, fmt.Errorf("group %s is a member of itself", name)
	case g.set != nil:
		return g.set, nil
	}
	g.open = true
	defer func() { g.open = false }()
	whole := &set{spans: make([]span, 0, len(g.members))}
	for i, m := range g.members {
		if err := c.resolve(m, whole); err != nil {
			return nil, fmt.Errorf("group %s: member %d: %w", name, i+1, err)
		}
	}
	whole.normalise()
	g.set = whole
	return whole, nil
}

func hasLabels(p Place, labels map[string]string) bool {
	for name, value := range labels {
		if has, found := p.Labels[name]; !found || has != value {
			return false
		}
	}
	return true
}

func macOf(m overlay.MAC) uint64 {
	return uint64(m[0])<<40 | uint64(m[1])<<32 | uint64(m[2])<<24 | uint64(m[3])<<16 | uint64(m[4])<<8 | uint64(m[5])
}

// wellFormed checks what the model cannot say by its types.
func wellFormed(m overlay.Member) error {
	fields := 0
	for _, set := range []bool{m.Prefix.IsValid(), m.Range != overlay.AddrRange{}, m.MAC != nil, m.Segment != "",
		m.Port != "", m.Labels != nil, m.Group != ""} {
		if set {
			fields++
		}
	}
	r := m.Range
	switch {
	case fields != 1:
		return fmt.Errorf("a member is one of prefix, range, MAC, segment, port, labels and group; this one has %d", fields)
	case m.Prefix.Addr().Is4In6() || r.First.Is4In6() || r.Last.Is4In6():
		return fmt.Errorf("an IPv4 address is written as IPv6: write it as IPv4")
	case r == overlay.AddrRange{}:
		return nil
	case r.First.BitLen() != r.Last.BitLen() || r.First.BitLen() == 0:
		return fmt.Errorf("range %s-%s is not of one family", r.First, r.Last)
	case r.First.Zone() != "" || r.Last.Zone() != "":
		return fmt.Errorf("range %s-%s has a zone, which packets do not carry", r.First, r.Last)
	case r.Last.Less(r.First):
		return fmt.Errorf("range %s-%s ends before it begins", r.First, r.Last)
	}
	return nil
}

// all are the sets of a rule's side. split makes each a prefix, a MAC, a segment or a place.
func (c *catalogue) all(members []overlay.Member, split bool) ([]setID, error) {
	if len(members) == 0 {
		return []setID{anySet}, nil
	}
	ids := make([]setID, 0, len(members))
	for i, m := range members {
		id, err := c.id(m)
		if err != nil {
			return nil, fmt.Errorf("member %d: %w", i+1, err)
		}
		ids = append(ids, id)
	}
	if slices.Contains(ids, anySet) {
		return []setID{anySet}, nil
	}
	if split {
		ids = c.split(ids)
	}
	if len(ids) > 1 {
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	return ids, nil
}

func (c *catalogue) split(ids []setID) []setID {
	var parts []setID
	for _, id := range ids {
		s := c.sets[id]
		for _, sp := range s.spans {
			for _, prefix := range prefixes(sp) {
				parts = append(parts, c.intern(&set{spans: []span{prefix}}))
			}
		}
		for i := range s.macs {
			parts = append(parts, c.intern(&set{macs: s.macs[i : i+1]}))
		}
		for i := range s.segments {
			parts = append(parts, c.intern(&set{segments: s.segments[i : i+1]}))
		}
		for i := range s.places {
			parts = append(parts, c.intern(&set{places: s.places[i : i+1]}))
		}
	}
	return parts
}

// union is one set in the place of several.
func (c *catalogue) union(ids []setID) []setID {
	whole := &set{}
	for _, id := range ids {
		whole.add(c.sets[id])
	}
	return []setID{c.intern(whole)}
}

// appliedTo is the set of places that have a rule.
func (c *catalogue) appliedTo(members []overlay.Member) (setID, error) {
	ids, err := c.all(members, false)
	if err != nil || len(members) == 0 {
		return anySet, err
	}
	applied := &set{}
	for _, id := range ids {
		s := c.sets[id]
		if len(s.spans)+len(s.macs) > 0 {
			return 0, fmt.Errorf("an address or MAC says nothing about ports; name ports, labels or segments")
		}
		applied.places = append(applied.places, s.places...)
		for _, name := range s.segments {
			applied.places = append(applied.places, c.bySegment[name]...)
		}
	}
	return c.intern(applied), nil
}

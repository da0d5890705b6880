package policy

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// Evaluate asks rule after rule: what a policy means, as plainly as can be said. It is
// slow, shares nothing with Compile, and tests hold the data path against it. The
// indices are those of Rules: the firewall's rules, its segments with a default by name,
// the edge's default.
func Evaluate(fw overlay.Firewall, places []Place, o Query) Match {
	e := evaluator{groups: map[string][]overlay.Member{}, places: map[string]Place{}, o: o}
	for _, g := range fw.Groups {
		e.groups[g.Name] = g.Members
	}
	for _, p := range places {
		e.places[p.Name] = p
	}
	j := Match{LogOnly: -1}
	for i, r := range fw.Rules {
		if !e.matches(r) {
			continue
		}
		if r.Verdict != overlay.LogOnly {
			j.Rule, j.Verdict, j.Log = i, r.Verdict, r.Log
			return j
		}
		if j.LogOnly < 0 {
			j.LogOnly = i
		}
	}
	var segments []string
	for name := range fw.Defaults {
		segments = append(segments, name)
	}
	slices.Sort(segments)
	own := e.places[o.Place].Segment
	if k, found := slices.BinarySearch(segments, own); found {
		j.Rule, j.Verdict = len(fw.Rules)+k, fw.Defaults[own]
	} else {
		j.Rule, j.Verdict = len(fw.Rules)+len(segments), fw.Default
	}
	return j
}

type evaluator struct {
	groups map[string][]overlay.Member
	places map[string]Place
	o      Query
}

func (e evaluator) matches(r overlay.Rule) bool {
	if r.Direction != overlay.Both && r.Direction != e.o.Direction {
		return false
	}
	asked := endpoint{place: e.o.Place, segment: e.places[e.o.Place].Segment}
	if len(r.AppliedTo) > 0 && !e.any(r.AppliedTo, asked, nil) {
		return false
	}
	src := endpoint{addr: e.o.Src.Unmap(), mac: &e.o.SrcMAC, place: e.o.SrcPlace, segment: e.o.SrcSegment}
	dst := endpoint{addr: e.o.Dst.Unmap(), mac: &e.o.DstMAC, place: e.o.DstPlace, segment: e.o.DstSegment}
	return (len(r.From) == 0 || e.any(r.From, src, nil)) && (len(r.To) == 0 || e.any(r.To, dst, nil)) &&
		(len(r.Services) == 0 || slices.ContainsFunc(r.Services, e.served))
}

// endpoint is what members are held against: a side of the opening, or the place that is asked.
type endpoint struct {
	addr           netip.Addr
	mac            *overlay.MAC
	place, segment string
}

// any reports whether one of the members has the endpoint. within are the groups that
// are being looked into.
func (e evaluator) any(members []overlay.Member, at endpoint, within []string) bool {
	return slices.ContainsFunc(members, func(m overlay.Member) bool { return e.member(m, at, within) })
}

func (e evaluator) member(m overlay.Member, at endpoint, within []string) bool {
	switch {
	case m.Prefix.IsValid():
		return m.Prefix.Contains(at.addr)
	case m.Range.First.IsValid():
		return at.addr.BitLen() == m.Range.First.BitLen() &&
			m.Range.First.Compare(at.addr) <= 0 && at.addr.Compare(m.Range.Last) <= 0
	case m.MAC != nil:
		return at.mac != nil && *m.MAC == *at.mac
	case m.Segment != "":
		return m.Segment == at.segment
	case m.Group != "":
		return !slices.Contains(within, m.Group) && e.any(e.groups[m.Group], at, append(slices.Clone(within), m.Group))
	}
	here, attached := e.places[at.place]
	return attached && here.is(m)
}

// is reports whether m, which names a port or labels, has the place.
func (p Place) is(m overlay.Member) bool {
	for name, value := range m.Labels {
		if has, found := p.Labels[name]; !found || has != value {
			return false
		}
	}
	return m.Labels != nil || m.Port != "" && (m.Port == p.Port || m.Port == p.Name)
}

func (e evaluator) served(s overlay.Service) bool {
	if s.Protocol != overlay.AnyProtocol && s.Protocol != int(e.o.Protocol) {
		return false
	}
	switch e.o.Protocol {
	case 1, 58: // ICMP, ICMPv6
		if s.Protocol == overlay.AnyProtocol || s.ICMPType < 0 {
			return true
		}
		return e.o.Ported && int(e.o.DstPort>>8) == s.ICMPType &&
			(s.ICMPCode < 0 || int(e.o.DstPort&0xff) == s.ICMPCode)
	case 6, 17, 132: // TCP, UDP, SCTP
		if len(s.Ports) == 0 && len(s.SourcePorts) == 0 {
			return true
		}
		return e.o.Ported && inPorts(s.Ports, e.o.DstPort) && inPorts(s.SourcePorts, e.o.SrcPort)
	}
	return true
}

func inPorts(ranges []overlay.PortRange, port uint16) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r overlay.PortRange) bool {
		return r.First <= port && port <= r.Last
	})
}

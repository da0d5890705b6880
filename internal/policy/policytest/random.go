// Package policytest has policies and openings for tests: a table in words, random ones
// and large ones.
//
// Its one invariant: it says what there is to judge, and never judges itself, so that
// whatever is held against the reference gets the same input. For tests alone.
package policytest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Places are those of the table and of the random policies: two plain ports and a trunk.
var Places = []policy.Place{
	{Name: "p0", Port: "p0", Segment: "red", Labels: map[string]string{"app": "web", "tier": "front"}},
	{Name: "p1", Port: "p1", Segment: "red", Labels: map[string]string{"app": "db"}},
	{Name: "p2.10", Port: "p2", Segment: "blue", Labels: map[string]string{"app": "web", "tier": "back"}},
	{Name: "p2.20", Port: "p2", Segment: "green", Labels: map[string]string{"app": "web", "tier": "back"}},
}

// Segments are the names that the places' segments have, and one that no place is in.
var Segments = []string{"red", "blue", "green", "transit"}

// source makes random policies out of few addresses and ports, so that rules meet.
type source struct {
	*rand.Rand
	groups int
}

// Random is a policy for Places, of up to rules rules.
func Random(r *rand.Rand, rules int) overlay.Firewall {
	s := source{Rand: r}
	fw := overlay.Firewall{Default: s.decision(), NonIP: overlay.Allow, Defaults: map[string]overlay.Verdict{}}
	for _, name := range Segments[:r.IntN(3)] {
		fw.Defaults[name] = s.decision()
	}
	for ; s.groups < r.IntN(8); s.groups++ { // a group may name those before it
		fw.Groups = append(fw.Groups, overlay.Group{Name: fmt.Sprint("g", s.groups), Members: s.members(12)})
	}
	for i := range r.IntN(rules + 1) {
		fw.Rules = append(fw.Rules, s.rule(fmt.Sprint("r", i)))
	}
	return fw
}

func (s source) decision() overlay.Verdict {
	return []overlay.Verdict{overlay.Allow, overlay.Drop, overlay.Reject}[s.IntN(3)]
}

func (s source) rule(name string) overlay.Rule {
	rule := overlay.Rule{Section: "s", Name: name, Verdict: s.decision(), Log: s.IntN(4) == 0,
		Direction: []overlay.Direction{overlay.In, overlay.Out, overlay.Both, overlay.Both}[s.IntN(4)]}
	if s.IntN(5) == 0 {
		rule.Verdict = overlay.LogOnly
	}
	rule.From, rule.To = s.side(), s.side()
	if s.IntN(4) == 0 {
		rule.AppliedTo = s.places()
	}
	for range s.IntN(4) {
		rule.Services = append(rule.Services, s.service())
	}
	return rule
}

// side is often any, and sometimes has more members than a rule is entered under.
func (s source) side() []overlay.Member {
	switch s.IntN(8) {
	case 0, 1, 2:
		return nil
	case 3:
		return s.members(20)
	}
	return s.members(3)
}

func (s source) members(most int) []overlay.Member {
	members := make([]overlay.Member, 1+s.IntN(most))
	for i := range members {
		members[i] = s.member()
	}
	return members
}

func (s source) member() overlay.Member {
	switch s.IntN(12) {
	case 0:
		mac := s.mac()
		return overlay.Member{MAC: &mac}
	case 1, 2:
		return s.attachment()
	case 3, 4:
		if s.groups > 0 {
			return overlay.Member{Group: fmt.Sprint("g", s.IntN(s.groups))}
		}
	case 5, 6:
		first, last := s.pair()
		return overlay.Member{Range: overlay.AddrRange{First: first, Last: last}}
	}
	addr := s.addr()
	prefix, err := addr.Prefix(s.bits(addr))
	if err != nil {
		panic(err)
	}
	return overlay.Member{Prefix: prefix}
}

func (s source) bits(addr netip.Addr) int {
	if s.IntN(3) == 0 {
		return addr.BitLen()
	}
	if s.IntN(4) == 0 {
		return s.IntN(addr.BitLen() + 1)
	}
	return addr.BitLen() - s.IntN(9)
}

func (s source) pair() (first, last netip.Addr) {
	first = s.addr()
	for last = s.addr(); last.BitLen() != first.BitLen(); last = s.addr() {
	}
	if last.Less(first) {
		return last, first
	}
	return first, last
}

// addr is one of few near each other, or at an end of its family.
func (s source) addr() netip.Addr {
	switch s.IntN(24) {
	case 0:
		return netip.MustParseAddr("255.255.255.255")
	case 1:
		return netip.MustParseAddr("0.0.0.0")
	case 2:
		return netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
	case 3:
		return netip.MustParseAddr("::")
	}
	if s.IntN(3) == 0 {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[s.IntN(16)] ^= byte(s.IntN(4))
		a[15] = byte(s.IntN(32))
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{10, byte(s.IntN(2)), byte(s.IntN(2)), byte(s.IntN(32))})
}

func (s source) mac() overlay.MAC { return overlay.MAC{2, byte(s.IntN(2)), 0, 0, 0, byte(s.IntN(3))} }

// attachment is a member that places have.
func (s source) attachment() overlay.Member {
	switch s.IntN(3) {
	case 0:
		return overlay.Member{Segment: Segments[s.IntN(len(Segments))]}
	case 1:
		return overlay.Member{Port: []string{"p0", "p1", "p2", "p2.10", "p3"}[s.IntN(5)]}
	}
	return overlay.Member{Labels: []map[string]string{{"app": "web"}, {"app": "db"}, {"app": "web", "tier": "back"}, {"tier": "none"}, {}}[s.IntN(5)]}
}

func (s source) places() []overlay.Member {
	members := make([]overlay.Member, 1+s.IntN(2))
	for i := range members {
		members[i] = s.attachment()
	}
	return members
}

func (s source) service() overlay.Service {
	service := overlay.Service{Protocol: s.protocol(), ICMPType: -1, ICMPCode: -1}
	switch service.Protocol {
	case 1, 58:
		if s.IntN(3) > 0 {
			service.ICMPType = s.IntN(4)
		}
		if service.ICMPType >= 0 && s.IntN(2) == 0 {
			service.ICMPCode = s.IntN(3)
		}
	case 6, 17, 132:
		for range s.IntN(4) {
			service.Ports = append(service.Ports, s.ports())
		}
		if s.IntN(3) == 0 {
			service.SourcePorts = append(service.SourcePorts, s.ports())
		}
	case 255:
		service.Protocol = overlay.AnyProtocol
	}
	return service
}

func (s source) protocol() int { return []int{1, 6, 6, 6, 17, 17, 47, 58, 132, 0, 255}[s.IntN(11)] }

func (s source) ports() overlay.PortRange {
	first, last := s.port(), s.port()
	if s.IntN(2) == 0 {
		last = first
	}
	return overlay.PortRange{First: min(first, last), Last: max(first, last)}
}

func (s source) port() uint16 {
	if s.IntN(8) == 0 {
		return []uint16{0, 65535}[s.IntN(2)]
	}
	return uint16(100 + s.IntN(12))
}

// RandomQuery is one that rules of Random are likely to match.
func RandomQuery(r *rand.Rand) policy.Query {
	s := source{Rand: r}
	src, dst := s.pair()
	if r.IntN(2) == 0 {
		src, dst = dst, src
	}
	place := Places[r.IntN(len(Places))]
	o := policy.Query{
		Src: src, Dst: dst, SrcMAC: s.mac(), DstMAC: s.mac(), Place: place.Name, Protocol: uint8(s.protocol()),
		SrcSegment: Segments[r.IntN(len(Segments))], DstSegment: Segments[r.IntN(len(Segments))],
		Direction: overlay.In, Ported: r.IntN(6) > 0,
	}
	other := ""
	if r.IntN(2) == 0 {
		other = Places[r.IntN(len(Places))].Name
	}
	o.SrcPlace, o.DstPlace = other, place.Name
	if r.IntN(2) == 0 {
		o.Direction, o.SrcPlace, o.DstPlace = overlay.Out, place.Name, other
	}
	if !o.Ported {
		return o
	}
	switch o.Protocol {
	case 1, 58:
		o.DstPort = uint16(r.IntN(5))<<8 | uint16(r.IntN(4))
	case 6, 17, 132:
		o.SrcPort, o.DstPort = s.port(), s.port()
	}
	return o
}

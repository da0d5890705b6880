package datapath

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// firewall is a random policy whose members are about the stations.
func (r random) firewall() overlay.Firewall {
	fw := randomBase
	fw.Default = r.verdict()
	fw.Groups = []overlay.Group{
		{Name: "inner", Members: []overlay.Member{r.member(""), r.member("")}},
		{Name: "outer", Members: []overlay.Member{r.member("inner"), r.member("")}},
	}
	if r.IntN(3) == 0 {
		fw.Defaults = map[string]overlay.Verdict{[]string{"blue", "green"}[r.IntN(2)]: r.verdict()}
	}
	for i := range r.IntN(9) {
		rule := overlay.Rule{Section: "random", Name: fmt.Sprint(i), Verdict: r.verdict()}
		if r.IntN(8) == 0 {
			rule.Verdict = overlay.LogOnly
		}
		rule.Direction = []overlay.Direction{overlay.In, overlay.Out, overlay.Both, overlay.Both}[r.IntN(4)]
		rule.From, rule.To = r.members(), r.members()
		for range r.IntN(3) {
			rule.Services = append(rule.Services, r.service())
		}
		if r.IntN(3) == 0 {
			rule.AppliedTo = []overlay.Member{[]overlay.Member{{Port: "p0"}, {Segment: "blue"}, {Labels: map[string]string{"role": "web"}}}[r.IntN(3)]}
		}
		fw.Rules = append(fw.Rules, rule)
	}
	return fw
}

func (r random) verdict() overlay.Verdict {
	return []overlay.Verdict{overlay.Allow, overlay.Allow, overlay.Allow, overlay.Drop, overlay.Reject}[r.IntN(5)]
}

func (r random) members() (list []overlay.Member) {
	for range r.IntN(3) {
		list = append(list, r.member("outer"))
	}
	return list
}

// member is of any kind; group is one that it may name.
func (r random) member(group string) overlay.Member {
	s := stands[r.IntN(len(stands))]
	a := s.addrs[r.IntN(2)]
	switch r.IntN(8) {
	case 0:
		if group != "" {
			return overlay.Member{Group: group}
		}
		fallthrough
	case 1:
		mac := macOf([]string{s.mac, gatewayMAC}[r.IntN(2)])
		return overlay.Member{MAC: &mac}
	case 2:
		return overlay.Member{Segment: s.segment}
	case 3:
		return overlay.Member{Port: []string{"p0", "p1", "p2"}[r.IntN(3)]}
	case 4:
		return overlay.Member{Labels: map[string]string{"role": []string{"web", "db"}[r.IntN(2)]}}
	case 5:
		b := stands[r.IntN(len(stands))].addrs[0]
		a = s.addrs[0]
		if b.Less(a) {
			a, b = b, a
		}
		return overlay.Member{Range: overlay.AddrRange{First: a, Last: b}}
	}
	bits := a.BitLen() - []int{0, 0, 1, 4, 8, a.BitLen()}[r.IntN(6)]
	return overlay.Member{Prefix: netip.PrefixFrom(a, bits).Masked()}
}

func (r random) service() overlay.Service {
	s := overlay.Service{Protocol: []int{6, 6, 6, 17, 17, 1, 58, 132, 47, overlay.AnyProtocol}[r.IntN(10)], ICMPType: -1, ICMPCode: -1}
	switch s.Protocol {
	case 6, 17, 132:
		if r.IntN(2) == 0 {
			s.Ports = []overlay.PortRange{{First: 53, Last: []uint16{53, 80, 442}[r.IntN(3)]}}
		}
		if r.IntN(5) == 0 {
			s.SourcePorts = []overlay.PortRange{{First: 1001, Last: 2000}}
		}
	case 1:
		s.ICMPType = []int{-1, 0, 8, 13}[r.IntN(4)]
	case 58:
		s.ICMPType = []int{-1, 128, 129, 144}[r.IntN(4)]
	}
	return s
}

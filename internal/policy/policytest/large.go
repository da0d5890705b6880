package policytest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Shape is a way in which large policies are made.
type Shape struct {
	Name string
	// Why says what is hard about it.
	Why  string
	rule func(i int, r *rand.Rand) (overlay.Rule, []overlay.Member)
}

// Shapes are those of policies that were seen, and of such as would hurt one or the other
// way to classify. A rule may bring the members of a group, which it then names "g" and
// its index.
var Shapes = []Shape{
	{"tiers", "groups of hosts that talk to groups of hosts, as a generator writes them", tiers},
	{"hosts", "one host to one host and port", hosts},
	{"prefixes", "random prefixes of both families, of all lengths", randomPrefixes},
	{"ports", "any to any, each with a port of its own", portsOnly},
	{"sources", "any to any, each with a range of source ports too", sourcePorts},
	{"monitor", "a group for each rule, all with the monitoring host in it", monitor},
	{"nested", "prefixes within prefixes, on both sides", nested},
	{"umbrella", "a group for each second rule, all with 10.0.0.0/8 in it, and the others for hosts there", umbrella},
	{"windows", "ranges that overlap as much as they can", windows},
	{"applied", "each rule at one port alone", applied},
}

// ManyPlaces are the ports of policies that Large makes.
func ManyPlaces() []policy.Place {
	places := make([]policy.Place, 64)
	for i := range places {
		name := fmt.Sprint("p", i)
		places[i] = policy.Place{Name: name, Port: name, Segment: Segments[i%3], Labels: map[string]string{"n": fmt.Sprint(i % 8)}}
	}
	return places
}

// Large is a policy of n rules, always the same.
func (s Shape) Large(n int) overlay.Firewall {
	fw := overlay.Firewall{Default: overlay.Drop, NonIP: overlay.Allow}
	r := rand.New(rand.NewPCG(uint64(n), 5))
	for i := range n {
		rule, group := s.rule(i, r)
		rule.Section, rule.Name = s.Name, fmt.Sprint("r", i)
		rule.Verdict = overlay.Allow
		if i%3 == 2 {
			rule.Verdict = overlay.Drop
		}
		if rule.Direction == "" {
			rule.Direction = overlay.Both
		}
		if group != nil {
			fw.Groups = append(fw.Groups, overlay.Group{Name: fmt.Sprint("g", i), Members: group})
		}
		fw.Rules = append(fw.Rules, rule)
	}
	return fw
}

// Openings are n that a rule of the policy matches, mostly.
func Openings(fw overlay.Firewall, places []policy.Place, r *rand.Rand, n int) []policy.Query {
	groups := map[string][]overlay.Member{}
	for _, g := range fw.Groups {
		groups[g.Name] = g.Members
	}
	openings := make([]policy.Query, n)
	for i := range openings {
		openings[i] = matching(fw.Rules[r.IntN(len(fw.Rules))], groups, places, r)
	}
	return openings
}

func matching(rule overlay.Rule, groups map[string][]overlay.Member, places []policy.Place, r *rand.Rand) policy.Query {
	place := places[r.IntN(len(places))]
	o := policy.Query{Place: place.Name, DstPlace: place.Name, DstSegment: place.Segment, SrcSegment: place.Segment,
		Direction: overlay.In, Protocol: 6, Ported: true, SrcPort: uint16(32768 + r.IntN(16384)), DstPort: 443}
	o.Src, o.Dst = within(rule.From, groups, r), within(rule.To, groups, r)
	for _, m := range rule.AppliedTo {
		o.Place, o.DstPlace = m.Port, m.Port
	}
	for _, s := range rule.Services {
		o.Protocol = uint8(s.Protocol)
		for _, p := range s.Ports {
			o.DstPort = p.First + uint16(r.IntN(int(p.Last-p.First)+1))
		}
		for _, p := range s.SourcePorts {
			o.SrcPort = p.First
		}
	}
	return o
}

// within is an address of one of the members.
func within(members []overlay.Member, groups map[string][]overlay.Member, r *rand.Rand) netip.Addr {
	if len(members) == 0 {
		return Host(r.IntN(1 << 16))
	}
	m := members[r.IntN(len(members))]
	switch {
	case m.Group != "":
		return within(groups[m.Group], groups, r)
	case m.Range.First.IsValid():
		return m.Range.First
	}
	return m.Prefix.Addr()
}

// Host is the i-th address of 10.0.0.0/8.
func Host(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func one(a netip.Addr) overlay.Member {
	return overlay.Member{Prefix: netip.PrefixFrom(a, a.BitLen())}
}

func prefix(a netip.Addr, bits int) overlay.Member {
	p, err := a.Prefix(bits)
	if err != nil {
		panic(err)
	}
	return overlay.Member{Prefix: p}
}

func tcp(ports ...overlay.PortRange) []overlay.Service {
	return []overlay.Service{{Protocol: 6, Ports: ports, ICMPType: -1, ICMPCode: -1}}
}

func port(p int) overlay.PortRange { return overlay.PortRange{First: uint16(p), Last: uint16(p)} }

// tiers has a group of 8 hosts for each rule, from which it goes to the group of an
// earlier one.
func tiers(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	members := make([]overlay.Member, 8)
	for k := range members {
		members[k] = one(Host(r.IntN(1 << 19)))
	}
	from, to := fmt.Sprint("g", i), fmt.Sprint("g", r.IntN(i+1))
	return overlay.Rule{From: []overlay.Member{{Group: from}}, To: []overlay.Member{{Group: to}},
		Services: tcp(port(443), port(8000+i%1000))}, members
}

func hosts(_ int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	return overlay.Rule{From: []overlay.Member{one(Host(r.IntN(1 << 16)))}, To: []overlay.Member{one(Host(r.IntN(1 << 16)))},
		Services: tcp(port(r.IntN(1 << 16)))}, nil
}

func randomPrefixes(_ int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	var sides [2]overlay.Member
	v6 := r.IntN(2) == 0
	for i := range sides {
		if v6 {
			a := netip.MustParseAddr("2001:db8::").As16()
			for k := 4; k < 16; k++ {
				a[k] = byte(r.IntN(256))
			}
			sides[i] = prefix(netip.AddrFrom16(a), 32+r.IntN(97))
		} else {
			sides[i] = prefix(Host(r.IntN(1<<24)), 8+r.IntN(25))
		}
	}
	first := r.IntN(60000)
	return overlay.Rule{From: sides[:1], To: sides[1:], Services: tcp(overlay.PortRange{First: uint16(first), Last: uint16(first + r.IntN(1000))})}, nil
}

func portsOnly(i int, _ *rand.Rand) (overlay.Rule, []overlay.Member) {
	s := tcp(port(i % (1 << 16)))
	s[0].Protocol = []int{6, 17}[i>>16&1]
	return overlay.Rule{Services: s}, nil
}

func sourcePorts(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	s := tcp(port(i % (1 << 16)))
	first := uint16(r.IntN(1 << 15))
	s[0].SourcePorts = []overlay.PortRange{{First: first, Last: first + uint16(r.IntN(1<<15))}}
	return overlay.Rule{Services: s}, nil
}

func monitor(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	members := []overlay.Member{one(netip.MustParseAddr("192.0.2.1")), one(Host(i))}
	return overlay.Rule{From: []overlay.Member{{Group: fmt.Sprint("g", i)}}, To: []overlay.Member{one(Host(r.IntN(1 << 16)))},
		Services: tcp(port(443))}, members
}

func nested(_ int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	from, to := 8+r.IntN(25), 8+r.IntN(25)
	return overlay.Rule{From: []overlay.Member{prefix(Host(r.IntN(1<<12)<<12|r.IntN(1<<12)), from)},
		To: []overlay.Member{prefix(Host(r.IntN(1<<12)), to)}, Services: tcp(port(r.IntN(1 << 16)))}, nil
}

func umbrella(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	rule, _ := hosts(i, r)
	if i%2 == 0 {
		return rule, nil
	}
	own := netip.AddrFrom4([4]byte{172, byte(i >> 16), byte(i >> 8), byte(i)})
	rule.From = []overlay.Member{{Group: fmt.Sprint("g", i)}}
	return rule, []overlay.Member{prefix(Host(0), 8), one(own)}
}

func windows(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	w := overlay.AddrRange{First: Host(i), Last: Host(i + 1<<17)}
	return overlay.Rule{From: []overlay.Member{{Range: w}}, To: []overlay.Member{one(Host(r.IntN(1 << 16)))}, Services: tcp(port(443))}, nil
}

func applied(i int, r *rand.Rand) (overlay.Rule, []overlay.Member) {
	rule, group := hosts(i, r)
	rule.AppliedTo = []overlay.Member{{Port: fmt.Sprint("p", r.IntN(64))}}
	rule.Direction = []overlay.Direction{overlay.In, overlay.Out, overlay.Both}[i%3]
	return rule, group
}

// NewRand is randomness that is the same each time.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

package nat

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

func prefixList(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// The compiled rules send packets by the first policy of their router that matches.
func TestRules(t *testing.T) {
	e := overlay.Egress{
		Groups: []overlay.Group{{Name: "office", Members: []overlay.Member{{Prefix: netip.MustParsePrefix("10.5.0.0/16")}}}},
		Policies: []overlay.EgressPolicy{
			{Name: "web", Router: "blue", From: []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.0.0/24")}, {Segment: "red"}},
				To: prefixList("198.51.100.0/24"), Except: prefixList("198.51.100.9/32")},
			{Name: "ports", Router: "blue", From: []overlay.Member{{Port: "p0"}, {Labels: map[string]string{"app": "db"}}, {Group: "office"}},
				Except: prefixList("203.0.113.0/24", "2001:db8:9::/48")},
			{Name: "rest", Router: "green"},
		},
	}
	fw, places := Rules(e, []string{"blue", "green", "none"})
	places = append(places,
		policy.Place{Name: "p0", Port: "p0", Segment: "s"}, policy.Place{Name: "p1.7", Port: "p1", Segment: "s", Labels: map[string]string{"app": "db"}})
	p, err := policy.Compile(fw, places)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		router, src, dst, place, segment string
		want                             string
	}{
		{"blue", "10.0.0.1", "198.51.100.1", "", "", "egress/web"},
		{"blue", "10.1.0.1", "198.51.100.1", "", "red", "egress/web"},
		{"blue", "10.1.0.1", "198.51.100.1", "", "s", "default/edge"},
		{"blue", "10.0.0.1", "198.51.100.9", "", "", "except/web"},
		{"blue", "10.0.0.1", "198.51.100.9", "p0", "s", "except/web"}, // the first that matches decides
		{"blue", "10.0.0.1", "192.0.2.9", "", "", "default/edge"},
		{"blue", "10.0.0.1", "192.0.2.9", "p0", "s", "egress/ports"},
		{"blue", "10.9.0.1", "203.0.113.9", "p0", "s", "except/ports"},
		{"blue", "10.9.0.1", "8.8.8.8", "p1.7", "s", "egress/ports"},
		{"blue", "10.5.9.1", "8.8.8.8", "", "", "egress/ports"},
		{"blue", "fd00::1", "2001:db8:8::1", "p0", "s", "egress/ports"},
		{"blue", "fd00::1", "2001:db8:9::1", "p0", "s", "except/ports"},
		{"green", "10.0.0.1", "198.51.100.1", "", "", "egress/rest"},
		{"green", "fd00::1", "2001:db8:9::1", "p0", "s", "egress/rest"},
		{"none", "10.0.0.1", "198.51.100.1", "p0", "s", "default/edge"},
	} {
		for _, direction := range []overlay.Direction{overlay.In, overlay.Out} {
			o := policy.Query{
				Src: addr(c.src), Dst: addr(c.dst), SrcPlace: c.place, SrcSegment: c.segment,
				Place: PlaceName(c.router), Direction: direction, Protocol: 6, DstPort: 443, Ported: true,
			}
			j := p.Evaluate(o)
			r := p.Rules()[j.Rule]
			if got := r.Section + "/" + r.Name; got != c.want || (r.Verdict == overlay.Allow) != (r.Section == SectionPolicy) {
				t.Errorf("%+v: %s (%s), want %s", c, got, r.Verdict, c.want)
			}
		}
	}
}

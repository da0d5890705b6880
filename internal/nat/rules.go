package nat

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// The sections of the rules that Rules makes. A rule has its policy's name.
const (
	SectionPolicy = "egress" // the packet goes by the policy
	SectionExcept = "except" // it goes as without policies
)

// PlaceName is what the rules call a router: no port has such a name.
func PlaceName(router string) string { return "router/" + router }

// Rules are the policies as rules for the policy engine, and the routers as the places at
// which they are asked. A rule that allows sends the packet by the policy of its name.
func Rules(e overlay.Egress, routers []string) (overlay.Firewall, []policy.Place) {
	fw := overlay.Firewall{Default: overlay.Drop, NonIP: overlay.Drop, Groups: e.Groups}
	for _, p := range e.Policies {
		r := overlay.Rule{
			Name: p.Name, Direction: overlay.Both, From: p.From,
			AppliedTo: []overlay.Member{{Port: PlaceName(p.Router)}},
		}
		if len(p.Except) > 0 {
			r.Section, r.Verdict, r.To = SectionExcept, overlay.Drop, prefixes(p.Except)
			fw.Rules = append(fw.Rules, r)
		}
		r.Section, r.Verdict, r.To = SectionPolicy, overlay.Allow, prefixes(p.To)
		fw.Rules = append(fw.Rules, r)
	}
	places := make([]policy.Place, 0, len(routers))
	for _, name := range routers {
		places = append(places, policy.Place{Name: PlaceName(name), Port: PlaceName(name)})
	}
	return fw, places
}

// prefixes is nil for any.
func prefixes(list []netip.Prefix) (members []overlay.Member) {
	for _, p := range list {
		members = append(members, overlay.Member{Prefix: p})
	}
	return members
}

package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// uplinkPool is the word of a pool that has no addresses: sources get that of their gateway's uplink.
const uplinkPool = "uplink"

// poolRange is one address that sources may get, or a range of them; or the word uplinkPool.
type poolRange struct {
	overlay.AddrRange
	uplink bool
}

func (r *poolRange) parse(text string) *problem {
	if text == uplinkPool {
		r.uplink = true
		return nil
	}
	from, to, cut := strings.Cut(text, "-")
	if !cut {
		to = from
	}
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return &problem{fmt.Sprintf("%s is a network", text), fmt.Sprintf("write its addresses as a range that begins with %s", prefix.Masked().Addr())}
	}
	first, p := parsePoolAddress(strings.TrimSpace(from))
	if p != nil {
		return p
	}
	last, p := parsePoolAddress(strings.TrimSpace(to))
	switch {
	case p != nil:
		return p
	case first.Is4() != last.Is4():
		return &problem{fmt.Sprintf("%s begins with %s and ends with %s", text, family(first), family(last)), "make it two ranges, one a family"}
	case last.Less(first):
		return &problem{fmt.Sprintf("%s ends before it begins", text), fmt.Sprintf("write it %s-%s", last, first)}
	}
	out := overlay.AddrRange{First: first, Last: last}
	if nat.Count([]overlay.AddrRange{out}, nat.MaxPool) > nat.MaxPool {
		return &problem{fmt.Sprintf("%s has more than %d addresses", text, nat.MaxPool), "give fewer: each has 64512 ports for each destination"}
	}
	r.AddrRange = out
	return nil
}

func parsePoolAddress(text string) (netip.Addr, *problem) {
	addr, p := parseAddress(text)
	if p == nil {
		p = checkHost(text, addr, unicastHint)
	}
	if p == nil {
		if why := nat.WhyUsed(addr, nat.Reserved()); why != "" {
			p = &problem{fmt.Sprintf("%s is %s", text, why), "use an address that others can reply to"}
		}
	}
	return addr, p
}

// String is the range as it is written.
func (r poolRange) String() string {
	if r.uplink {
		return uplinkPool
	}
	if r.First == r.Last {
		return r.First.String()
	}
	return fmt.Sprintf("%s-%s", r.First, r.Last)
}

func (r poolRange) model() overlay.AddrRange { return r.AddrRange }

// JSONSchema is called by the reflector.
func (poolRange) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^(uplink|[0-9A-Fa-f.:]+( *- *[0-9A-Fa-f.:]+)?)$`}
}

// memberRef is an edge, perhaps this one: its name, or one of its tunnel endpoints. A
// remoteChecker makes Addr the edge's first address.
type memberRef struct{ remoteRef }

func (r *memberRef) parse(text string) *problem {
	if labelPattern.MatchString(text) { // metadata.name may begin with a digit
		r.text = text
		return nil
	}
	return r.remoteRef.parse(text)
}

// JSONSchema is called by the reflector.
func (memberRef) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", AnyOf: []*jsonschema.Schema{
		{Format: "ipv4"}, {Format: "ipv6"}, {Pattern: objectNamePattern.String()}, {Pattern: labelPattern.String()},
	}}
}

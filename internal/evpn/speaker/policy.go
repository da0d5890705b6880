package speaker

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// verdict is what the policies of a neighbour say of a route.
type verdict struct {
	reject         bool
	localPref, med *uint32
	add            []overlay.Community
	prepend        uint8
}

// classify asks policies in their order; a route that none knows is accepted as it is.
func classify(policies []overlay.RoutePolicy, r *evpn.Route) verdict {
	for _, p := range policies {
		for i := range p.Statements {
			if s := &p.Statements[i]; matches(s, r) {
				return verdict{s.Reject, s.LocalPref, s.MED, s.Add, s.Prepend}
			}
		}
	}
	return verdict{}
}

func matches(s *overlay.RouteStatement, r *evpn.Route) bool {
	if len(s.Prefixes) != 0 {
		prefix := prefixOf(r)
		if !prefix.IsValid() || !slices.ContainsFunc(s.Prefixes, func(in overlay.PrefixRange) bool {
			return in.Prefix.Contains(prefix.Addr()) && in.Min <= prefix.Bits() && prefix.Bits() <= in.Max
		}) {
			return false
		}
	}
	return len(s.Communities) == 0 || slices.ContainsFunc(s.Communities, func(c overlay.Community) bool {
		return slices.Contains(r.Communities, c)
	})
}

// prefixOf is what lists of prefixes are asked for: that of a prefix, or the address of a
// host. Routes of MAC addresses alone and of multicast have none, and match no list.
func prefixOf(r *evpn.Route) netip.Prefix {
	if r.Type == evpn.MACIP && r.Addr.IsValid() {
		return netip.PrefixFrom(r.Addr, r.Addr.BitLen())
	}
	return r.Prefix
}

// amend makes a received route what a verdict says. The slices of r may be shared.
func (v verdict) amend(r *evpn.Route, as uint32) {
	if v.localPref != nil {
		r.LocalPref = *v.localPref
	}
	if v.med != nil {
		r.MED = *v.med
	}
	if len(v.add) != 0 {
		r.Communities = slices.Clone(r.Communities)
		for _, c := range v.add {
			if !slices.Contains(r.Communities, c) {
				r.Communities = append(r.Communities, c)
			}
		}
	}
	if v.prepend != 0 {
		r.ASPath = slices.Concat(slices.Repeat([]uint32{as}, int(v.prepend)), r.ASPath)
	}
}

// policiesOf returns those of these names.
func policiesOf(b overlay.BGP, names []string) []overlay.RoutePolicy {
	var out []overlay.RoutePolicy
	for _, name := range names {
		for _, p := range b.Policies {
			if p.Name == name {
				out = append(out, p)
			}
		}
	}
	return out
}

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// OwnedAddress is an egress address that this edge answers for, and where.
type OwnedAddress struct {
	Uplink string
	Addr   netip.Addr
}

// Sources are the sources of Prefixes.
var Sources = []overlay.RouteSource{
	overlay.SourceConnected, overlay.SourceStatic, overlay.SourceLoopback, overlay.SourceUplink, overlay.SourceEgress,
}

// Prefixes are what the router r of e may tell others, by source; each sorted, without what
// it learned itself. What leads nowhere now is none of them: networks of uplinks and segments by which no packet
// leaves, and static routes without a next hop in use. A loopback is the edge's own, and always there.
func Prefixes(e overlay.Edge, out Outages, r overlay.Router, owned []OwnedAddress) map[overlay.RouteSource][]netip.Prefix {
	all := make(map[overlay.RouteSource][]netip.Prefix)
	add := func(source overlay.RouteSource, p netip.Prefix) {
		if !p.Addr().IsLinkLocalUnicast() {
			all[source] = append(all[source], p.Masked())
		}
	}
	for _, s := range e.Segments {
		if s.Gateway == nil || s.Gateway.Router != r.Name || out.Segments[s.Name] != "" {
			continue
		}
		for _, a := range s.Gateway.Addresses {
			add(overlay.SourceConnected, a)
		}
	}
	for _, p := range staticPrefixes(e, out, r) {
		add(overlay.SourceStatic, p)
	}
	for _, a := range r.Loopbacks {
		add(overlay.SourceLoopback, only(a))
	}
	for _, u := range r.Uplinks {
		for _, a := range u.Addresses {
			if out.Segments[u.Name] == "" {
				add(overlay.SourceUplink, a)
			}
		}
		for _, o := range owned {
			if o.Uplink == u.Name {
				add(overlay.SourceEgress, only(o.Addr))
			}
		}
	}
	for source, list := range all {
		slices.SortFunc(list, comparePrefixes)
		all[source] = slices.Compact(list)
	}
	return all
}

// staticPrefixes are those of the static routes of r that count.
func staticPrefixes(e overlay.Edge, out Outages, r overlay.Router) (list []netip.Prefix) {
	t := newRouting(e, r)
	for _, own := range t.own {
		if _, ok := t.living(own, out); ok && own.Origin == Static {
			list = append(list, own.Prefix)
		}
	}
	return list
}

// only is the prefix of one address.
func only(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

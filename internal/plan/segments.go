package plan

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// Segments are those of e that have tunnels: the configured ones, then the
// routers' L3 segments and those of egress policies.
func Segments(e overlay.Edge) []overlay.Segment {
	segments := slices.Clone(e.Segments)
	for _, r := range e.Routers {
		if r.L3 == nil {
			continue
		}
		segments = append(segments, overlay.Segment{
			Name: r.SegmentName(), VNI: r.L3.VNI, Tunnel: r.L3.Tunnel, Remotes: r.L3.Remotes, TEPs: r.L3.TEPs,
			Gateway:  &overlay.Gateway{Router: r.Name, MAC: r.L3.MAC},
			ClampMSS: true, EVPN: r.L3.EVPN,
		})
	}
	return append(segments, egressSegments(e)...)
}

// AllSegments are Segments and the plain networks at the uplinks, each named
// after its uplink.
func AllSegments(e overlay.Edge, v host.State) []overlay.Segment {
	segments := Segments(e)
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			segments = append(segments, overlay.Segment{
				Name:        u.Name,
				Gateway:     &overlay.Gateway{Router: r.Name, MAC: UplinkMAC(u, v.Links[u.Interface]), Addresses: u.Addresses},
				ReversePath: u.ReversePath,
			})
		}
	}
	for i, s := range segments {
		segments[i].Gateway = withLinkLocal(s.Gateway)
		if i >= len(e.Segments) { // not configured as such
			segments[i].Limits = e.DefaultSegmentLimits()
		}
	}
	return segments
}

// UplinkMAC is the router's address at u: the configured one, or one made of the
// interface's that no card has by birth and that differs from the interface's.
func UplinkMAC(u overlay.Uplink, l host.Link) overlay.MAC {
	if u.MAC != (overlay.MAC{}) {
		return u.MAC
	}
	mac := l.MAC
	mac[0] = mac[0]&^1 | 2
	mac[4] ^= 0x5e
	return mac
}

// withLinkLocal adds the address that every IPv6 interface has (RFC 4291 section
// 2.8), made of the MAC address (appendix A), to a gateway with IPv6 addresses.
func withLinkLocal(g *overlay.Gateway) *overlay.Gateway {
	if g == nil || !slices.ContainsFunc(g.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		return g
	}
	m := g.MAC
	addr := netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
	own := *g
	own.Addresses = append(slices.Clone(g.Addresses), netip.PrefixFrom(addr, 64))
	return &own
}

// SendsTo reports whether s has remote as a remote or behind a static MAC.
func SendsTo(s overlay.Segment, remote netip.Addr) bool {
	return slices.Contains(s.Remotes, remote) ||
		slices.ContainsFunc(s.Static, func(m overlay.StaticMAC) bool { return m.Remote == remote })
}

// NoLearning are the remotes that only BGP knows, of the segments of merged by name: what comes
// from them says nothing of where hosts are.
func NoLearning(configured, merged overlay.Edge) map[string][]netip.Addr {
	known := make(map[string]overlay.Segment)
	for _, s := range Segments(configured) {
		known[s.Name] = s
	}
	noLearning := make(map[string][]netip.Addr)
	for _, s := range Segments(merged) {
		for _, remote := range s.Remotes {
			if s.EVPN != nil && !SendsTo(known[s.Name], remote) {
				noLearning[s.Name] = append(noLearning[s.Name], remote)
			}
		}
	}
	return noLearning
}

// Reach are the remotes of the segments of e, by name.
func Reach(e overlay.Edge) map[string]map[netip.Addr]bool {
	reach := make(map[string]map[netip.Addr]bool)
	for _, s := range Segments(e) {
		reach[s.Name] = make(map[netip.Addr]bool)
		for _, remote := range remotesOf(s) {
			reach[s.Name][remote] = true
		}
	}
	return reach
}

// Remotes are the TEPs that any segment of e sends to, sorted.
func Remotes(e overlay.Edge) []netip.Addr { return remotesOf(Segments(e)...) }

func remotesOf(segments ...overlay.Segment) (remotes []netip.Addr) {
	for _, s := range segments {
		remotes = append(remotes, s.Remotes...)
		for _, m := range s.Static {
			if m.Remote.IsValid() {
				remotes = append(remotes, m.Remote)
			}
		}
	}
	slices.SortFunc(remotes, netip.Addr.Compare)
	return slices.Compact(remotes)
}

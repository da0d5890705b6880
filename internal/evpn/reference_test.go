package evpn

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// tables is what neighbours said and is in force, and what is announced: in words, so that
// two of them can be compared and printed.
type tables struct {
	macEntries, arpEntries, routes, announced map[string]string
}

func newTables() tables {
	return tables{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
}

func macEntryKey(segment string, mac overlay.MAC) string { return segment + " " + mac.String() }
func arpEntryKey(segment string, a netip.Addr) string    { return segment + " " + a.String() }
func routeKey(router string, p netip.Prefix) string      { return router + " " + p.String() }
func macEntryText(remote netip.Addr, sticky bool) string { return fmt.Sprint(remote, " ", sticky) }
func (k Key) text() string                               { return fmt.Sprintf("%+v", k) }
func (r Route) text() string                             { return fmt.Sprintf("%+v", r) }
func put[V any](m map[string]V, key string, keep bool, val V) {
	if keep {
		m[key] = val
	} else {
		delete(m, key)
	}
}

// apply does what the edge does with changes.
func (t tables) apply(c Changes) {
	for _, s := range c.MACs {
		put(t.macEntries, macEntryKey(s.Segment, s.MAC), s.Remote.IsValid(), macEntryText(s.Remote, s.Sticky))
	}
	for _, r := range c.Neighbours {
		put(t.arpEntries, arpEntryKey(r.Segment, r.Addr), r.MAC != overlay.MAC{}, r.MAC.String())
	}
	for _, r := range c.Routes {
		put(t.routes, routeKey(r.Router, r.Prefix), len(r.Via) > 0, fmt.Sprint(r.Via))
	}
	for _, r := range c.Announce {
		t.announced[r.Key.text()] = r.text()
	}
	for _, k := range c.Withdraw {
		delete(t.announced, k.text())
	}
}

// keepOnly drops what went with segments and routers that are no more.
func (t tables) keepOnly(names map[string]bool) {
	for _, m := range []map[string]string{t.macEntries, t.arpEntries, t.routes} {
		maps.DeleteFunc(m, func(k, _ string) bool { return !names[strings.Fields(k)[0]] })
	}
}

// reference computes the tables from scratch, from the rules and nothing that Table has.
type reference struct {
	edge       overlay.Edge
	advertised map[netip.Addr]map[Key]*received
	up         map[netip.Addr]bool
	hosts      map[string]map[overlay.MAC]*present
	own        map[string]map[overlay.RouteSource][]netip.Prefix
	now        time.Time
}

type received struct {
	Route
	from  netip.Addr
	stale time.Time
	ends  time.Time
}

type present struct {
	mac, static bool
	sequence    uint32
	addrs       map[netip.Addr]bool
}

func newReference() *reference {
	return &reference{
		advertised: map[netip.Addr]map[Key]*received{}, up: map[netip.Addr]bool{},
		hosts: map[string]map[overlay.MAC]*present{}, own: map[string]map[overlay.RouteSource][]netip.Prefix{},
	}
}

func (r *reference) tep() netip.Addr { return r.edge.Underlay.TEP }

func (r *reference) configure(e overlay.Edge) {
	r.edge = e
	kept := map[string]map[overlay.MAC]*present{}
	for _, s := range e.Segments {
		if s.EVPN == nil {
			continue
		}
		kept[s.Name] = r.hosts[s.Name]
		if kept[s.Name] == nil {
			kept[s.Name] = map[overlay.MAC]*present{}
		}
		for _, h := range kept[s.Name] {
			h.static = false
		}
		for _, m := range s.Static {
			if m.Port == "" {
				continue
			}
			if kept[s.Name][m.MAC] == nil {
				kept[s.Name][m.MAC] = &present{addrs: map[netip.Addr]bool{}}
			}
			kept[s.Name][m.MAC].static = true
		}
	}
	r.hosts = kept
	routers := map[string]map[overlay.RouteSource][]netip.Prefix{}
	for _, c := range e.Routers {
		routers[c.Name] = r.own[c.Name]
		if routers[c.Name] == nil {
			routers[c.Name] = map[overlay.RouteSource][]netip.Prefix{}
		}
	}
	r.own = routers
	r.decide()
}

func (r *reference) receive(list []Update) {
	for _, u := range list {
		if r.advertised[u.Neighbour] == nil {
			r.advertised[u.Neighbour] = map[Key]*received{}
			if _, known := r.up[u.Neighbour]; !known {
				r.up[u.Neighbour] = true
			}
		}
		for n, routes := range r.advertised {
			if h := routes[u.Route.Key]; n != u.Neighbour && h != nil && !h.stale.IsZero() {
				delete(routes, u.Route.Key)
			}
		}
		delete(r.advertised[u.Neighbour], u.Route.Key)
		if !u.Withdrawn {
			r.advertised[u.Neighbour][u.Route.Key] = &received{Route: u.Route, from: u.Neighbour}
		}
	}
	r.decide()
}

func (r *reference) session(s Session) {
	r.now = s.At
	switch {
	case s.Ended:
		delete(r.advertised, s.Neighbour)
		delete(r.up, s.Neighbour)
	case !s.Up:
		r.up[s.Neighbour] = false
		for k, h := range r.advertised[s.Neighbour] {
			fresh := false
			for n, routes := range r.advertised {
				fresh = fresh || n != s.Neighbour && r.up[n] && routes[k] != nil && routes[k].stale.IsZero()
			}
			if h.stale.IsZero() && fresh {
				delete(r.advertised[s.Neighbour], k)
				continue
			}
			if h.stale.IsZero() {
				h.stale = s.At
			}
			h.ends = h.stale.Add(r.edge.BGP.Restart.Stale)
		}
	default:
		r.up[s.Neighbour] = true
		for _, h := range r.advertised[s.Neighbour] {
			if soon := s.At.Add(Linger); s.Complete && soon.Before(h.ends) {
				h.ends = soon
			}
		}
	}
	r.decide()
}

func (r *reference) tick(now time.Time) {
	for _, routes := range r.advertised {
		maps.DeleteFunc(routes, func(_ Key, h *received) bool {
			return !h.stale.IsZero() && !now.Before(h.ends)
		})
	}
	r.decide()
}

// segment finds whose target it is; every route of the test has one that decides.
func (r *reference) segment(h *received) *overlay.Segment {
	for i, s := range r.edge.Segments {
		if s.EVPN == nil || h.Type != MACIP && h.Type != Multicast || !r.imported(h.Targets, s.EVPN.Import, s.VNI) {
			continue
		}
		gateway := s.Gateway != nil && h.Type == MACIP && (h.MAC == s.Gateway.MAC || h.DefaultGateway ||
			slices.ContainsFunc(s.Gateway.Addresses, func(p netip.Prefix) bool { return p.Addr() == h.Addr }))
		if h.VNI == s.VNI && r.tunnelled(h, s.Tunnel.Encapsulation) && !gateway {
			return &r.edge.Segments[i]
		}
	}
	return nil
}

func (r *reference) imported(has, explicit []overlay.RouteTarget, vni overlay.VNI) bool {
	return slices.ContainsFunc(has, func(t overlay.RouteTarget) bool {
		if explicit != nil {
			return slices.Contains(explicit, t)
		}
		return t>>48 == 2 && uint32(t) == uint32(vni)
	})
}

func (r *reference) tunnelled(h *received, e overlay.Encapsulation) bool {
	return h.NextHop != r.tep() && (h.Type != Multicast || h.Addr != r.tep()) && h.NextHop.Is4() && (h.Encapsulation == e || h.Encapsulation == "" && e == overlay.VXLAN)
}

func (r *reference) router(h *received) (router string, prefix netip.Prefix, hop overlay.NextHop, ok bool) {
	for _, c := range r.edge.Routers {
		if h.Type == Unicast {
			for _, u := range c.Uplinks {
				near := slices.ContainsFunc(c.Uplinks, func(u overlay.Uplink) bool { return u.Addresses[0].Masked().Contains(h.NextHop) })
				if u.Name == h.Uplink && near {
					return c.Name, h.Prefix, overlay.NextHop{Addr: h.NextHop}, true
				}
			}
			continue
		}
		vni, prefix := h.VNI, h.Prefix
		if h.Type == MACIP && h.Addr.IsValid() {
			vni, prefix = h.L3VNI, netip.PrefixFrom(h.Addr, h.Addr.BitLen())
		} else if vni == 0 && c.L3 != nil {
			vni = c.L3.VNI
		}
		if c.L3 == nil || c.L3.EVPN == nil || vni != c.L3.VNI || !prefix.IsValid() || h.RouterMAC == (overlay.MAC{}) ||
			!r.imported(h.Targets, c.L3.EVPN.Import, c.L3.VNI) || !r.tunnelled(h, c.L3.Tunnel.Encapsulation) || r.owns(c.Name, prefix) || r.isForeign(c, h) {
			continue
		}
		return c.Name, prefix, overlay.NextHop{Remote: h.NextHop, MAC: h.RouterMAC}, true
	}
	return "", netip.Prefix{}, overlay.NextHop{}, false
}

// network is the segment with a gateway in whose network an address of c is.
func (r *reference) network(c overlay.Router, a netip.Addr) *overlay.Segment {
	for i, s := range r.edge.Segments {
		if s.Gateway != nil && s.Gateway.Router == c.Name && slices.ContainsFunc(s.Gateway.Addresses, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return &r.edge.Segments[i]
		}
	}
	return nil
}

// isForeign reports whether a host's address is another's: of a gateway, of hosts of another segment, or at an uplink.
func (r *reference) isForeign(c overlay.Router, h *received) bool {
	if h.Type != MACIP {
		return false
	}
	if at := r.network(c, h.Addr); at != nil {
		own := r.segment(h)
		return at.Gateway.Addresses[0].Addr() == h.Addr || at.VNI != h.VNI && (own == nil || own.Name != at.Name)
	}
	return slices.ContainsFunc(c.Uplinks, func(u overlay.Uplink) bool { return u.Addresses[0].Contains(h.Addr) })
}

// owns is whether a prefix is an address of a gateway here.
func (r *reference) owns(router string, prefix netip.Prefix) bool {
	return prefix.IsSingleIP() && slices.ContainsFunc(r.edge.Segments, func(s overlay.Segment) bool {
		return s.Gateway != nil && s.Gateway.Router == router && slices.ContainsFunc(s.Gateway.Addresses, hasAddr(prefix.Addr()))
	})
}

func (r *reference) all() (list []*received) {
	for _, routes := range r.advertised {
		for _, h := range routes {
			list = append(list, h)
		}
	}
	return list
}

// rank orders claims to be a host's: the highest wins.
func rank(h *received) string {
	return fmt.Sprintf("%v %010d %v", h.Sticky, h.Sequence, invert(h.NextHop))
}

func invert(a netip.Addr) (out [4]byte) {
	for i, b := range a.As4() {
		out[i] = 255 - b
	}
	return out
}

func top(list []*received) *received {
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *received) int {
		return cmp.Or(cmp.Compare(flag(a.Sticky), flag(b.Sticky)), cmp.Compare(a.Sequence, b.Sequence), b.NextHop.Compare(a.NextHop),
			slices.Compare(b.MAC[:], a.MAC[:]))
	})
}

func (r *reference) bySegment(name string, of func(*received) bool) *received {
	var list []*received
	for _, h := range r.all() {
		if s := r.segment(h); s != nil && s.Name == name && h.Type == MACIP && of(h) {
			list = append(list, h)
		}
	}
	return top(list)
}

func (r *reference) wins(h *received, p *present) bool {
	return !p.static && (h.Sticky || h.Sequence > p.sequence || h.Sequence == p.sequence && h.NextHop.Less(r.tep()))
}

// decide ends the hosts that are elsewhere.
func (r *reference) decide() {
	for segment, hosts := range r.hosts {
		for mac, p := range hosts {
			if h := r.bySegment(segment, func(h *received) bool { return h.MAC == mac }); h != nil && r.wins(h, p) {
				delete(hosts, mac)
			}
		}
		for mac, p := range hosts {
			for a := range p.addrs {
				if h := r.bySegment(segment, func(h *received) bool { return h.Addr == a }); h != nil && h.MAC != mac && r.wins(h, p) {
					delete(p.addrs, a)
				}
			}
			if !p.mac && !p.static && len(p.addrs) == 0 {
				delete(hosts, mac)
			}
		}
	}
}

func (r *reference) appear(h Host) {
	hosts := r.hosts[h.Segment]
	if hosts == nil {
		return
	}
	p := hosts[h.MAC]
	if p == nil {
		p = &present{addrs: map[netip.Addr]bool{}}
		if b := r.bySegment(h.Segment, func(o *received) bool { return o.MAC == h.MAC }); b != nil {
			if b.Sticky {
				return
			}
			p.sequence = b.Sequence + 1
		}
		hosts[h.MAC] = p
	}
	if !h.Addr.IsValid() {
		p.mac = true
		return
	}
	if p.addrs[h.Addr] {
		return
	}
	for mac, other := range hosts {
		delete(other.addrs, h.Addr)
		if other != p && !other.mac && !other.static && len(other.addrs) == 0 {
			delete(hosts, mac)
		}
	}
	b := r.bySegment(h.Segment, func(o *received) bool { return o.Addr == h.Addr })
	if b != nil && b.MAC != h.MAC && !p.static {
		p.sequence = max(p.sequence, b.Sequence+1)
	}
	p.addrs[h.Addr] = true
}

func (r *reference) vanish(h Host) {
	p := r.hosts[h.Segment][h.MAC]
	if p == nil {
		return
	}
	if h.Addr.IsValid() {
		delete(p.addrs, h.Addr)
	} else {
		p.mac = false
	}
	if !p.mac && !p.static && len(p.addrs) == 0 {
		delete(r.hosts[h.Segment], h.MAC)
	}
}

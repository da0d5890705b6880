package evpn

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// adjRIBOut is what this edge announces (the Adj-RIBs-Out of RFC 4271 section 3.2).
type adjRIBOut struct {
	out *Changes
	own map[Key]Route
}

// advertise announces r, unless it is announced like this.
func (o *adjRIBOut) advertise(r Route) {
	if advertised, ok := o.own[r.Key]; ok && advertised.equal(&r) {
		return
	}
	o.own[r.Key] = r
	o.out.Announce = append(o.out.Announce, r)
}

func (o *adjRIBOut) unsay(k Key) {
	if _, ok := o.own[k]; ok {
		delete(o.own, k)
		o.out.Withdraw = append(o.out.Withdraw, k)
	}
}

// announceHost tells of st what there is at ports here, and withdraws what there was.
func (o *adjRIBOut) announceHost(st *macEntry) {
	st.announce = false
	var want []netip.Addr
	if l := st.local; l != nil {
		if l.mac || l.static {
			want = append(want, netip.Addr{})
		}
		want = append(want, l.addrs...)
		for _, addr := range st.segment.named[st.mac] {
			if !slices.Contains(want, addr) {
				want = append(want, addr)
			}
		}
	}
	for _, addr := range st.advertisedAddrs {
		if !slices.Contains(want, addr) {
			o.unsay(st.key(addr))
		}
	}
	for _, addr := range want {
		o.advertise(st.route(addr))
	}
	st.advertisedAddrs = want
	if !st.dirty {
		st.forget()
	}
}

func (st *macEntry) key(addr netip.Addr) Key {
	return Key{Type: MACIP, RD: st.segment.rd, MAC: st.mac, Addr: addr}
}

// route is what is told of a host at a port. Others route to it only by an address in a network of the gateway: any host can
// say that it has any address. Within the segment it may have others.
func (st *macEntry) route(addr netip.Addr) Route {
	s := st.segment
	r := s.announced(st.key(addr))
	r.Sequence, r.Sticky = st.local.sequence, st.local.static
	r.ND = st.nd(addr)
	if s.isRouted(addr) && s.router.l3 != nil {
		r.L3VNI, r.RouterMAC, r.Targets = s.router.vni, s.router.l3.MAC, s.l3Targets
	}
	return r
}

// nd is what is told of an address: of routers, as others have a wrong answer to who asks for
// one without it. All know that other hosts are none, and have the O flag.
func (st *macEntry) nd(addr netip.Addr) rib.NDFlags {
	r := st.segment.arpEntries[addr]
	if !addr.Is6() || r == nil || r.owner != st || r.ownND&rib.NDRouter == 0 {
		return 0
	}
	if st.segment.neighbours[addr] == st.mac {
		return r.ownND | rib.NDImmutable
	}
	return r.ownND
}

// announced is what all routes of an instance have.
func (i *instance) announced(k Key) Route {
	return Route{Key: k, NextHop: i.nextHop, VNI: i.vni, Targets: i.exports, Encapsulation: i.encapsulation}
}

// announceSegment tells that s is here, and of its gateway. Gateways have no sequence
// number: they are in many places at once.
func (o *adjRIBOut) announceSegment(s *segment) {
	o.advertise(s.announced(Key{Type: Multicast, RD: s.rd, Addr: s.nextHop}))
	if s.gateway == nil {
		return
	}
	for _, a := range s.gateway.Addresses {
		r := s.announced(Key{Type: MACIP, RD: s.rd, MAC: s.gateway.MAC, Addr: a.Addr()})
		r.DefaultGateway = true
		o.advertise(r)
	}
}

// announcePrefix tells others of the L3 segment, and the neighbours at uplinks, what they
// are to know of d.
func (o *adjRIBOut) announcePrefix(d *destination) {
	r, best := d.router, d.best
	if d.leftOut { // packets would not come through
		best = nil
	}
	if r.l3 != nil {
		route := r.announced(Key{Type: Prefix, RD: r.rd, Prefix: d.prefix})
		route.RouterMAC = r.l3.MAC
		byUplink := len(best) > 0 && best[0].Type == Unicast
		o.advertiseLearned(d, route, d.sources&r.announce != 0, byUplink && r.announce.has(overlay.SourceUplink))
	}
	for _, u := range r.uplinks {
		route := Route{
			Key:     Key{Type: Unicast, Prefix: d.prefix, Uplink: u.name},
			NextHop: u.own[family(d.prefix.Addr())],
		}
		known := route.NextHop.IsValid()
		o.advertiseLearned(d, route, known && d.sources&u.announce != 0, known && u.passes(best))
	}
}

// passes reports whether u's neighbours are told what was learned by these paths. Those that
// told it are not.
func (u uplink) passes(best []*path) bool {
	switch {
	case len(best) == 0:
		return false
	case best[0].Type != Unicast:
		return u.announce.has(overlay.SourceEVPN)
	}
	from := func(p *path) bool { return p.Uplink == u.name }
	return u.announce.has(overlay.SourceUplink) && !slices.ContainsFunc(best, from)
}

// advertiseLearned announces what is ours, or what was learned, with the path that it took: so
// that it does not come back to those it came from.
func (o *adjRIBOut) advertiseLearned(d *destination, r Route, ours, learned bool) {
	switch {
	case ours:
		o.advertise(r)
	case learned:
		r.ASPath, r.Communities = d.best[0].ASPath, d.best[0].Communities
		o.advertise(r)
	default:
		o.unsay(r.Key)
	}
}

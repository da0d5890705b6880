package evpn

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// instance is what segments and routers have in common as EVPN instances.
type instance struct {
	name          string
	order         int // in the configuration
	vni           overlay.VNI
	encapsulation overlay.Encapsulation
	nextHop       netip.Addr // of this edge, as others have it
	rd            overlay.RouteDistinguisher
	imports       []overlay.RouteTarget // nil: the automatic one, of any AS
	automatic     overlay.RouteTarget
	exports       []overlay.RouteTarget
}

// segment is one whose hosts are told and learned.
type segment struct {
	instance
	gateway    *overlay.Gateway
	router     *router // of the gateway, nil without
	static     map[overlay.MAC]overlay.StaticMAC
	neighbours map[netip.Addr]overlay.MAC
	named      map[overlay.MAC][]netip.Addr // neighbours, by their MAC addresses
	l3Targets  []overlay.RouteTarget        // of hosts with an address
	macEntries map[overlay.MAC]*macEntry
	arpEntries map[netip.Addr]*arpEntry
	moving     map[overlay.MAC]*macEntry // those that moved lately, or are frozen
	remotes    remotes
	differing  map[differing]int // gateways of others that differ from this one's, and in how many routes
}

// router is one that has an L3 segment with EVPN, or an uplink with BGP neighbours.
type router struct {
	instance
	l3           *overlay.L3 // nil without EVPN
	networks     []netip.Prefix
	places       places
	addresses    []netip.Addr // of this edge in them
	uplinks      []uplink
	announce     sources
	destinations map[netip.Prefix]*destination
	advertised   map[overlay.RouteSource][]netip.Prefix // by Prefixes
	remotes      remotes
}

// uplink is one with BGP neighbours.
type uplink struct {
	name     string
	announce sources
	// own are its addresses by family, IPv4 first; unset: nothing is told of the family.
	own [2]netip.Addr
}

// targetKey is a route target, or with wild one of any AS.
type targetKey struct {
	target overlay.RouteTarget
	wild   bool
}

// importers are the instances that import a target.
type importers struct {
	segments []*segment
	routers  []*router
}

// instances are those of a configuration.
type instances struct {
	edge     overlay.Edge
	segments map[string]*segment
	routers  map[string]*router
	uplinks  map[string]*router
	targets  map[targetKey]*importers
	first    map[netip.Addr]netip.Addr // addresses of remotes → the one that stands for all
	teps     []netip.Addr
	// endpoints are those of tunnels: of this edge and of remotes that are configured with a name.
	endpoints map[netip.Addr]bool
}

// automaticTarget is the route target that the style makes of a VNI. A 4-octet AS is
// shortened to its low 16 bits, as FRR does.
func automaticTarget(style overlay.TargetStyle, as uint32, vni overlay.VNI, e overlay.Encapsulation) overlay.RouteTarget {
	value := uint32(vni)
	if style == overlay.TargetsRFC8365 { // section 5.1.2.1: A = 0, type, domain 0, service
		space := uint32(1) // VXLAN; there is none for Geneve
		if e == overlay.NVGRE {
			space = 2
		}
		value |= space << 28
	}
	return overlay.ASTarget(as&0xffff, value)
}

// wild is t without its AS; targets of other forms are not automatic.
func wild(t overlay.RouteTarget) (key targetKey, ok bool) {
	value := uint32(t)
	anyAS := overlay.ASTarget(0, value)
	return targetKey{anyAS, true}, t>>48 == anyAS>>48
}

func newInstances(e overlay.Edge) *instances {
	if e.BGP == nil {
		e.BGP = &overlay.BGP{}
	}
	in := &instances{
		edge: e, segments: map[string]*segment{}, routers: map[string]*router{}, uplinks: map[string]*router{},
		targets: map[targetKey]*importers{}, first: map[netip.Addr]netip.Addr{}, endpoints: map[netip.Addr]bool{},
	}
	for _, r := range e.Remotes {
		for _, a := range r.Addrs {
			in.first[a], in.endpoints[a] = r.Addrs[0], true
		}
	}
	for _, tep := range e.Underlay.Local() {
		in.teps = append(in.teps, tep.Addr)
		in.endpoints[tep.Addr] = true
	}
	for i, r := range e.Routers {
		in.addRouter(i, r)
	}
	for i, s := range e.Segments {
		if s.EVPN != nil {
			in.addSegment(i, s)
		}
	}
	in.distinguish()
	return in
}

func (in *instances) instance(name string, order int, vni overlay.VNI, tunnel overlay.Tunnel, teps []string, c overlay.EVPNInstance) instance {
	i := instance{
		name: name, order: order, vni: vni, encapsulation: tunnel.Encapsulation, nextHop: in.nextHop(teps),
		rd: c.RD, imports: c.Import, exports: c.Export,
		automatic: automaticTarget(in.edge.BGP.Targets, in.edge.BGP.AS, vni, tunnel.Encapsulation),
	}
	if i.exports == nil {
		i.exports = []overlay.RouteTarget{i.automatic}
	}
	return i
}

// nextHop is the first endpoint of those that are pinned, or of the edge.
func (in *instances) nextHop(pinned []string) netip.Addr {
	for _, tep := range in.edge.Underlay.Local() {
		if len(pinned) == 0 || tep.Name == pinned[0] {
			return tep.Addr
		}
	}
	return in.teps[0]
}

func (in *instances) addRouter(order int, c overlay.Router) {
	r := &router{
		instance: instance{name: c.Name}, destinations: map[netip.Prefix]*destination{},
		advertised: map[overlay.RouteSource][]netip.Prefix{}, remotes: newRemotes(), places: newPlaces(in.edge, c, in.endpoints),
	}
	if c.L3 != nil && c.L3.EVPN != nil {
		r.l3 = c.L3
		r.instance = in.instance(c.Name, order, c.L3.VNI, c.L3.Tunnel, c.L3.TEPs, *c.L3.EVPN)
		r.announce = sourcesOf(c.L3.EVPN.Announce)
		in.register(&r.instance, func(i *importers) { i.routers = append(i.routers, r) })
	}
	for _, u := range c.Uplinks {
		if up, ok := in.uplink(u); ok {
			r.uplinks = append(r.uplinks, up)
			in.uplinks[u.Name] = r
		}
		r.networks, r.addresses = append(r.networks, masked(u.Addresses)...), append(r.addresses, addresses(u.Addresses)...)
	}
	for _, s := range in.edge.Segments {
		if s.Gateway != nil && s.Gateway.Router == c.Name {
			r.networks, r.addresses = append(r.networks, masked(s.Gateway.Addresses)...), append(r.addresses, addresses(s.Gateway.Addresses)...)
		}
	}
	if r.l3 != nil || len(r.uplinks) > 0 {
		in.routers[c.Name] = r
	}
}

func masked(list []netip.Prefix) (networks []netip.Prefix) {
	for _, p := range list {
		networks = append(networks, p.Masked())
	}
	return networks
}

// uplink is what its BGP neighbours are told, if it has any.
func (in *instances) uplink(c overlay.Uplink) (u uplink, ok bool) {
	u.name = c.Name
	for _, n := range in.edge.BGP.Neighbours {
		if n.Uplink != c.Name {
			continue
		}
		ok, u.announce = true, u.announce|sourcesOf(n.Announce)
		for _, a := range c.Addresses {
			i := family(a.Addr())
			advertised := slices.Contains(n.Families, []overlay.BGPFamily{overlay.FamilyIPv4, overlay.FamilyIPv6}[i])
			if advertised && !u.own[i].IsValid() && !a.Addr().IsLinkLocalUnicast() {
				u.own[i] = a.Addr()
			}
		}
	}
	return u, ok
}

// family is 0 for IPv4 and 1 for IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

func (in *instances) addSegment(order int, c overlay.Segment) {
	s := &segment{
		instance: in.instance(c.Name, order, c.VNI, c.Tunnel, c.TEPs, *c.EVPN), gateway: c.Gateway,
		static: map[overlay.MAC]overlay.StaticMAC{}, neighbours: map[netip.Addr]overlay.MAC{},
		named:      map[overlay.MAC][]netip.Addr{},
		macEntries: map[overlay.MAC]*macEntry{}, arpEntries: map[netip.Addr]*arpEntry{},
		moving:  map[overlay.MAC]*macEntry{},
		remotes: newRemotes(), differing: map[differing]int{},
	}
	if c.Gateway != nil {
		s.router = in.routers[c.Gateway.Router]
	}
	if s.router != nil {
		s.l3Targets = slices.Concat(s.exports, s.router.exports)
	}
	for _, m := range c.Static {
		s.static[m.MAC] = m
	}
	for _, n := range c.Neighbours {
		s.neighbours[n.Addr] = n.MAC
		s.named[n.MAC] = append(s.named[n.MAC], n.Addr)
	}
	in.segments[c.Name] = s
	in.register(&s.instance, func(i *importers) { i.segments = append(i.segments, s) })
}

func (in *instances) register(i *instance, add func(*importers)) {
	keys := make([]targetKey, 0, 1)
	for _, target := range i.imports {
		keys = append(keys, targetKey{target: target})
	}
	if i.imports == nil {
		key, _ := wild(i.automatic)
		keys = append(keys, key)
	}
	for _, key := range keys {
		if in.targets[key] == nil {
			in.targets[key] = &importers{}
		}
		add(in.targets[key])
	}
}

// distinguish gives the instances without a route distinguisher one: ROUTER-ID:N (RFC 4364
// section 4.2, type 1). N is the low half of the VNI or, where another has that, the next
// one, so that it is the same after a restart and hardly ever changes on a reload.
func (in *instances) distinguish() {
	var list []*instance
	for _, s := range in.segments {
		list = append(list, &s.instance)
	}
	for _, r := range in.routers {
		if r.l3 != nil {
			list = append(list, &r.instance)
		}
	}
	slices.SortFunc(list, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(a.vni, b.vni), cmp.Compare(a.name, b.name))
	})
	taken := map[overlay.RouteDistinguisher]bool{}
	for _, i := range list {
		taken[i.rd] = true
	}
	id := in.edge.BGP.RouterID
	if !id.Is4() {
		id = netip.IPv4Unspecified()
	}
	for _, i := range list {
		if i.rd != 0 {
			continue
		}
		n := uint16(i.vni)
		for taken[overlay.AddrDistinguisher(id, n)] {
			n++
		}
		i.rd = overlay.AddrDistinguisher(id, n)
		taken[i.rd] = true
	}
}

// remote is the edge of a next hop, by its first address.
func (in *instances) remote(nextHop netip.Addr) netip.Addr {
	if first, ok := in.first[nextHop]; ok {
		return first
	}
	return nextHop
}

// external reports whether a neighbour is of another AS.
func (in *instances) external(addr netip.Addr) bool {
	return slices.ContainsFunc(in.edge.BGP.Neighbours, func(n overlay.BGPNeighbour) bool {
		return n.Addr == addr && n.AS != in.edge.BGP.AS
	})
}

// remotes are those of a segment, by how many routes are of each.
type remotes struct {
	count      map[netip.Addr]int
	advertised []netip.Addr
	dirty      bool
}

func newRemotes() remotes { return remotes{count: map[netip.Addr]int{}} }

// add counts n routes more, and reports whether the remotes are others now.
func (r *remotes) add(remote netip.Addr, n int) bool {
	before := r.count[remote]
	r.count[remote] = before + n
	if before+n == 0 {
		delete(r.count, remote)
	}
	return before == 0 || before+n == 0
}

func (r *remotes) sorted() []netip.Addr {
	list := make([]netip.Addr, 0, len(r.count))
	for a := range r.count {
		list = append(list, a)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// Recognise gives numbers the names that t has for them: Segments, Ports and Routers are looked at. They are told by
// what does not depend on names, as at a start. What is not among them gets a name that no configuration has, of
// interface or VNI; device names an interface, and is "" for one that is not known.
func (r *Reader) Recognise(t fib.Tables, device func(ifindex int) string) error {
	nu := r.d.numbers
	nu.names, nu.edges = newNames(), map[netip.Addr]netip.Addr{}
	for _, router := range t.Routers {
		if id, ok := find(nu.routers, func(e bpfRouter) bool { return e.Used == NameTag(router.Name) }); ok {
			nu.names.routers[id], nu.names.routeIDs[router.Name] = router.Name, id
		}
	}
	for _, s := range t.Segments {
		if id, ok := findSlot(nu.segments, nu.isSegment(s)); ok {
			nu.names.segments[id], nu.names.segIDs[s.Name] = s.Name, id
		}
	}
	slots := nu.vportSlots()
	for _, port := range t.Ports {
		segment, known := nu.names.segIDs[port.Segment]
		want := bpfVport{Kind: bpfVportKindVPORT_PORT, Ifindex: uint32(port.Ifindex), Vlan: port.VLAN, Segment: segment}
		if id, ok := slots.taken[want]; ok && known {
			nu.names.ports[id], nu.names.portIDs[port.Name] = port.Name, id
		}
	}
	nu.nameRest(device)
	return r.recogniseRemotes()
}

// nameRest names what has no name.
func (nu *numbers) nameRest(device func(ifindex int) string) {
	for id := range nu.segments {
		e, name := &nu.segments[id], fmt.Sprintf("segment:%d", id)
		if _, given := nu.names.segments[uint32(id)]; given || e.Used == 0 {
			continue
		}
		if e.Vni != 0 {
			name = fmt.Sprintf("vni:%d", e.Vni)
		}
		if _, twice := nu.names.segIDs[name]; twice { // at another UDP port
			name += fmt.Sprintf(":%d", wire16(e.UdpPort))
		}
		nu.names.segments[uint32(id)], nu.names.segIDs[name] = name, uint32(id)
	}
	for id := range nu.routers {
		if _, given := nu.names.routers[uint32(id)]; !given && nu.routers[id].Used != 0 {
			nu.names.routers[uint32(id)] = fmt.Sprintf("router:%d", id)
		}
	}
	for id := range nu.vports {
		e := &nu.vports[id]
		if _, given := nu.names.ports[uint32(id)]; given || e.Kind != bpfVportKindVPORT_PORT {
			continue
		}
		name := fmt.Sprintf("ifindex:%d", e.Ifindex)
		if dev := device(int(e.Ifindex)); dev != "" {
			name = "interface:" + dev
		}
		if e.Vlan != 0 {
			name += fmt.Sprintf(".%d", e.Vlan)
		}
		nu.names.ports[uint32(id)], nu.names.portIDs[name] = name, uint32(id)
	}
}

// recogniseRemotes finds which addresses are of one remote: segments that know it have one number for all.
func (r *Reader) recogniseRemotes() error {
	nu := r.d.numbers
	return walk(r.d.Ports.maps.Remotes, func(k bpfRemoteKey, value uint32) {
		if e, ok := nu.remoteOf(value); ok {
			nu.edges[addrOf(k.Addr.W)] = addrOf(e.Addr.W)
		}
	})
}

// remoteOf is the path that stands for a remote of a segment.
func (nu *numbers) remoteOf(value uint32) (e *bpfVport, ok bool) {
	id := value &^ remoteNoLearning
	if int(id) >= len(nu.vports) || nu.vports[id].Kind != bpfVportKindVPORT_TEP {
		return nil, false
	}
	return &nu.vports[id], true
}

// PinnedPort is a port that the tables have.
type PinnedPort struct {
	Name    string
	Ifindex int
	VLAN    uint16
	Segment string
	MTU     int
	Uplink  bool
	Peer    bool // frames go straight to the other end of its veth
	PortCounters
}

// Ports are those that the tables have, by name.
func (r *Reader) Ports() ([]PinnedPort, error) {
	nu := r.d.numbers
	var list []PinnedPort
	for _, name := range slices.Sorted(maps.Keys(nu.names.portIDs)) {
		id := nu.names.portIDs[name]
		e := &nu.vports[id]
		c, err := r.d.Traffic.traffic(id)
		if err != nil {
			return nil, err
		}
		list = append(list, PinnedPort{
			Name: name, Ifindex: int(e.Ifindex), VLAN: e.Vlan, Segment: nu.names.segments[e.Segment], MTU: int(e.Mtu),
			Uplink: e.Flags&bpfVportFlagsVPORT_UPLINK != 0, Peer: e.Flags&bpfVportFlagsVPORT_PEER != 0,
			PortCounters: PortCounters{Rx: toCounters(c.Rx), Tx: toCounters(c.Tx), Drops: c.Drops},
		})
	}
	return list, nil
}

// PinnedSegment is a segment that the tables have.
type PinnedSegment struct {
	Name           string
	VNI            overlay.VNI
	Encapsulation  overlay.Encapsulation
	UDPPort        uint16
	Router         string // "": none
	Ports, Remotes int
	Generation     uint32
}

// Segments are those that the tables have, by name.
func (r *Reader) Segments() ([]PinnedSegment, error) {
	nu := r.d.numbers
	remotes := map[uint32]map[*bpfVport]bool{}
	if err := walk(r.d.Ports.maps.Remotes, func(k bpfRemoteKey, value uint32) {
		if e, ok := nu.remoteOf(value); ok {
			if remotes[k.Segment] == nil {
				remotes[k.Segment] = map[*bpfVport]bool{}
			}
			remotes[k.Segment][e] = true
		}
	}); err != nil {
		return nil, err
	}
	ports := map[uint32]int{}
	for id := range nu.names.ports {
		ports[nu.vports[id].Segment]++
	}
	var list []PinnedSegment
	for _, name := range slices.Sorted(maps.Keys(nu.names.segIDs)) {
		id := nu.names.segIDs[name]
		e := &nu.segments[id]
		s := PinnedSegment{
			Name: name, VNI: overlay.VNI(e.Vni), UDPPort: wire16(e.UdpPort), Router: nu.names.routers[e.Router],
			Ports: ports[id], Remotes: len(remotes[id]), Generation: total(*e),
		}
		for encapsulation, number := range encapsulations {
			if number == e.Encap {
				s.Encapsulation = encapsulation
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// PinnedRemote is a remote that the tables have.
type PinnedRemote struct {
	Addr     netip.Addr // its first
	Segments []string
	Paths    []PinnedPath
}

// PinnedPath is a way to a remote.
type PinnedPath struct {
	Local, Remote netip.Addr
	Ifindex       int
	MTU           int
	NextMAC       overlay.MAC // zero while it is not resolved
	Down          bool
	Rx, Tx        Counters
}

// Remotes are those that the tables have, by address.
func (r *Reader) Remotes() ([]PinnedRemote, error) {
	nu := r.d.numbers
	all := map[netip.Addr]*PinnedRemote{}
	for id := 1; id < len(nu.vports); id++ {
		e := &nu.vports[id]
		if e.Kind != bpfVportKindVPORT_TEP {
			continue
		}
		c, err := r.d.Traffic.traffic(uint32(id))
		if err != nil {
			return nil, err
		}
		path := PinnedPath{
			Local: addrOf(e.Local.W), Remote: addrOf(e.Addr.W), Ifindex: int(e.Ifindex), MTU: int(e.Mtu),
			Down: e.Flags&bpfVportFlagsVPORT_DOWN != 0, Rx: toCounters(c.Rx), Tx: toCounters(c.Tx),
		}
		if e.Flags&bpfVportFlagsVPORT_RESOLVED != 0 {
			copy(path.NextMAC[:], e.Outer[:])
		}
		_, edge := nu.vportName(uint32(id))
		if all[edge] == nil {
			all[edge] = &PinnedRemote{Addr: edge}
		}
		all[edge].Paths = append(all[edge].Paths, path)
	}
	if err := walk(r.d.Ports.maps.Remotes, func(k bpfRemoteKey, _ uint32) {
		remote, name := all[nu.edges[addrOf(k.Addr.W)]], nu.names.segments[k.Segment]
		if remote != nil && name != "" && !slices.Contains(remote.Segments, name) {
			remote.Segments = append(remote.Segments, name)
		}
	}); err != nil {
		return nil, err
	}
	var list []PinnedRemote
	for _, addr := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
		slices.SortFunc(all[addr].Segments, strings.Compare)
		list = append(list, *all[addr])
	}
	return list, nil
}

// TEP is the address from which the tunnels leave, or not valid where there are none.
func (r *Reader) TEP() netip.Addr {
	for i := range r.d.numbers.vports {
		if e := &r.d.numbers.vports[i]; e.Kind == bpfVportKindVPORT_TEP {
			return addrOf(e.Local.W)
		}
	}
	return netip.Addr{}
}

// FDBSize is how many MAC addresses there is room for.
func (r *Reader) FDBSize() uint32 { return r.d.Hosts.maps.Fdb.MaxEntries() }

// PinnedRoute is a route that the tables have. Who wanted it they do not say.
type PinnedRoute struct {
	Router string
	Prefix netip.Prefix
	Kind   overlay.RouteKind
	Hops   []fib.Hop
}

// Routes are those that the tables have, in no order.
func (r *Reader) Routes() (list []PinnedRoute, err error) {
	nu, ro := r.d.numbers, r.d.Routes
	hops, groups := make([]bpfNexthop, ro.maps.Nexthops.MaxEntries()), make([]bpfNexthopGroup, ro.maps.NexthopGroups.MaxEntries())
	if err := errors.Join(readArray(ro.maps.Nexthops, hops), readArray(ro.maps.NexthopGroups, groups)); err != nil {
		return nil, err
	}
	err = iterate(ro.maps.Routes, func(k bpfRouteKey, e bpfRoute) {
		route := PinnedRoute{Router: nu.names.routers[k.Router], Prefix: prefixOf(k)}
		for kind, number := range routeKinds {
			if number == e.Kind {
				route.Kind = kind
			}
		}
		if e.Kind == bpfRouteKindROUTE_GROUP && int(e.Group) < len(groups) {
			buckets := groups[e.Group].Buckets
			slices.Sort(buckets[:])
			for _, id := range slices.Compact(buckets[:]) {
				if id != 0 && int(id) < len(hops) {
					route.Hops = append(route.Hops, nu.hopOf(hops[id]))
				}
			}
		}
		list = append(list, route)
	})
	return list, err
}

func prefixOf(k bpfRouteKey) netip.Prefix {
	const v4 = 96
	addr, bits := addrOf(k.Addr.W), int(k.Prefixlen)-32
	if addr.Is4() {
		bits -= v4
	}
	return netip.PrefixFrom(addr, bits)
}

// hopOf is a next hop by names.
func (nu *numbers) hopOf(e bpfNexthop) fib.Hop {
	hop := fib.Hop{Segment: nu.names.segments[e.Segment], MAC: e.Mac}
	switch {
	case e.Vport != 0:
		_, hop.Remote = nu.vportName(uint32(e.Vport))
	case e.Addr.W != [4]uint32{}:
		hop.Addr = addrOf(e.Addr.W)
	}
	return hop
}

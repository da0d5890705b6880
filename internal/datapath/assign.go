package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

const learnedShare = overlay.LearnedShare

// learnedRoom is that of a table with so many entries.
func learnedRoom(entries int) int { return entries * learnedShare / 100 }

// fewErrors are errors of which there may be as many as there are objects: the first few are
// told, the others counted.
type fewErrors struct {
	first []error
	more  int
}

func (f *fewErrors) add(err error) {
	switch {
	case err == nil:
	case len(f.first) < 3:
		f.first = append(f.first, err)
	default:
		f.more++
	}
}

func (f *fewErrors) err() error {
	err := errors.Join(f.first...)
	if f.more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d more", f.more))
	}
	return err
}

// assign gives numbers to new routers, segments, ports and remotes. What the tables have no number for
// is left out, and an error: within is the rest. Remotes that BGP alone knows come last and
// leave room for others.
func (as *assigner) assign(t fib.Tables) error {
	var left fewErrors
	previous := as.numbers.names.segIDs
	as.fresh = newOwners{map[uint32]bool{}, map[uint32]bool{}}
	as.numbers.names, as.numbers.edges = newNames(), edgesOf(t)
	for _, r := range t.Routers {
		left.add(as.assignRouter(r.Name))
	}
	for _, s := range t.Segments {
		left.add(as.assignSegment(s, previous))
	}
	for _, e := range t.Egress {
		left.add(as.assignEgress(e.Name))
	}
	slots := as.numbers.vportSlots()
	for _, port := range t.Ports {
		left.add(as.assignPort(port, slots))
	}
	as.assignTEPs(t, slots, &left)
	err := errors.Join(left.err(), as.traffic.clearDrops(as.fresh))
	as.numbers.names.incomplete = err != nil
	return err
}

func (as *assigner) assignPort(port fib.Port, slots *vportSlots) error {
	segment := as.numbers.names.segIDs[port.Segment] // writeVports says that there is none
	want := bpfVport{Kind: bpfVportKindVPORT_PORT, Ifindex: uint32(port.Ifindex), Vlan: port.VLAN, Segment: segment}
	id, err := as.assignVport(want, port.Name, slots)
	if err != nil {
		return err
	}
	as.numbers.names.ports[id], as.numbers.names.portIDs[port.Name] = port.Name, id
	return nil
}

// assignTEPs gives numbers to paths: to those of configured remotes, then to those of others that
// have one, then to the rest.
func (as *assigner) assignTEPs(t fib.Tables, slots *vportSlots, left *fewErrors) {
	learned := t.LearnedRemotes()
	var known, others []fib.TEP
	for _, tep := range t.TEPs {
		switch {
		case !learned[edgeOf(tep)]:
			left.add(as.assignTEP(tep, slots))
		case slots.has(as.numbers.tepSlot(tep)):
			known = append(known, tep)
		default:
			others = append(others, tep)
		}
	}
	room := learnedRoom(len(as.numbers.vports))
	for _, tep := range slices.Concat(known, others) {
		if len(as.numbers.names.ports)+len(as.numbers.names.pathIDs) >= room {
			left.add(fmt.Errorf("%s: BGP may fill the table of %d ports and remotes up to %d", as.numbers.pair(tep), len(as.numbers.vports)-1, room))
			continue
		}
		left.add(as.assignTEP(tep, slots))
	}
}

func setOfAddrs(list []netip.Addr) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(list))
	for _, addr := range list {
		set[addr] = true
	}
	return set
}

// tepSlot is what tells the entry of a path from others.
func (nu *numbers) tepSlot(tep fib.TEP) bpfVport {
	vport := bpfVport{Kind: bpfVportKindVPORT_TEP, Segment: viaTag(tep.Via)}
	vport.Addr.W, vport.Local.W = wireAddr(tep.Addr), wireAddr(nu.pair(tep).Local)
	return vport
}

func (as *assigner) assignTEP(tep fib.TEP, slots *vportSlots) error {
	pair := as.numbers.pair(tep)
	id, err := as.assignVport(as.numbers.tepSlot(tep), pair.String(), slots)
	if err != nil {
		return err
	}
	as.numbers.names.pathIDs[pair] = id
	if pair == (overlay.Pair{Local: as.prog.cfg.TEPs[0], Remote: edgeOf(tep)}) {
		as.numbers.names.tepIDs[tep.Addr] = id
	}
	return nil
}

// assignSegment knows a segment again by its VNI, and one without tunnels by its
// gateway's MAC address, and among those that share it by its name.
func (as *assigner) assignSegment(s overlay.Segment, previous map[string]uint32) error {
	mac := gatewayMACOf(s)
	same := as.numbers.isSegment(s)
	id, ok := previous[s.Name]
	if !ok || !same(id, as.numbers.segments[id]) {
		id, ok = findSlot(as.numbers.givenSegments(), same)
	}
	if !ok {
		id, ok = find(as.numbers.segments, func(e bpfSegment) bool { return e.Used == 0 })
	}
	if !ok {
		return fmt.Errorf("segment %s: the table of %d segments is full", s.Name, len(as.numbers.segments)-1)
	}
	as.numbers.reached.segments = max(as.numbers.reached.segments, int(id)+1)
	if as.numbers.segments[id].Used == 0 {
		as.fresh.segments[id] = true
		as.limits.clearUsage(segmentOwner + id)
	}
	as.numbers.segments[id].Used, as.numbers.segments[id].Vni, as.numbers.segments[id].UdpPort = 1, uint32(s.VNI), wire16(s.Tunnel.UDPPort)
	as.numbers.segments[id].GatewayMac = mac
	as.numbers.names.segments[id], as.numbers.names.segIDs[s.Name] = s.Name, id
	return nil
}

// isSegment tells the entry of a segment that has no name yet.
func (nu *numbers) isSegment(s overlay.Segment) func(uint32, bpfSegment) bool {
	mac := gatewayMACOf(s)
	return func(id uint32, e bpfSegment) bool {
		_, given := nu.names.segments[id] // uplinks may have the same MAC address
		return !given && e.Used == 1 && e.Vni == uint32(s.VNI) && e.UdpPort == wire16(s.Tunnel.UDPPort) && (s.VNI != 0 || e.GatewayMac == mac)
	}
}

// gatewayMACOf is zero for a segment without a gateway.
func gatewayMACOf(s overlay.Segment) (mac overlay.MAC) {
	if s.Gateway != nil {
		mac = s.Gateway.MAC
	}
	return mac
}

// vportSlots finds entries of ports and paths, and free ones.
type vportSlots struct {
	taken map[bpfVport]uint32 // by what tells one from others
	next  uint32              // no less one is free
}

// slotOf is what tells an entry from others: a port is known again by its interface, VLAN and segment: in another
// segment it has neither connections nor hosts of before.
func slotOf(e *bpfVport) bpfVport {
	if e.Kind == bpfVportKindVPORT_PORT {
		return bpfVport{Kind: e.Kind, Ifindex: e.Ifindex, Vlan: e.Vlan, Segment: e.Segment}
	}
	return bpfVport{Kind: e.Kind, Addr: e.Addr, Local: e.Local, Segment: e.Segment}
}

func (nu *numbers) vportSlots() *vportSlots {
	slots := &vportSlots{taken: make(map[bpfVport]uint32), next: 1} // 0 stands for "none"
	given := nu.givenVports()
	for id := range given {
		if given[id].Kind != bpfVportKindVPORT_NONE {
			slots.taken[slotOf(&given[id])] = uint32(id)
		}
	}
	return slots
}

// free is the least free number.
func (s *vportSlots) free(vports []bpfVport) (id uint32, ok bool) {
	for ; int(s.next) < len(vports); s.next++ {
		if vports[s.next].Kind == bpfVportKindVPORT_NONE {
			return s.next, true
		}
	}
	return 0, false
}

func (s *vportSlots) has(slot bpfVport) bool {
	_, ok := s.taken[slot]
	return ok
}

// assignVport gives an entry its former number, or a free one.
func (as *assigner) assignVport(want bpfVport, name string, slots *vportSlots) (uint32, error) {
	if id, ok := slots.taken[want]; ok {
		return id, nil
	}
	id, ok := slots.free(as.numbers.vports)
	if !ok {
		return 0, fmt.Errorf("%s: the table of %d ports and remotes is full", name, len(as.numbers.vports)-1)
	}
	if err := as.traffic.clearTraffic(id); err != nil {
		return 0, err
	}
	slots.taken[want] = id
	as.numbers.vports[id] = want
	as.numbers.reached.vports = max(as.numbers.reached.vports, int(id)+1)
	as.fresh.vports[id] = true
	as.limits.clearUsage(id)
	return id, nil
}

// hasSuperseded reports whether there are numbers whose owners are no longer wanted.
func (as *assigner) hasSuperseded() bool {
	if len(as.numbers.names.ports)+len(as.numbers.names.pathIDs) < len(as.numbers.vportSlots().taken) {
		return true
	}
	for id := range as.numbers.givenSegments() {
		if _, ok := as.numbers.names.segments[uint32(id)]; !ok && as.numbers.segments[id].Used != 0 {
			return true
		}
	}
	for id := range as.numbers.routers {
		if _, ok := as.numbers.names.routers[uint32(id)]; !ok && as.numbers.routers[id].Used != 0 {
			return true
		}
	}
	for id := range as.numbers.egresses {
		if _, ok := as.numbers.names.egresses[uint32(id)]; !ok && as.numbers.egresses[id].Used != 0 {
			return true
		}
	}
	return false
}

// within is t with what has numbers alone, and nothing that refers to the rest.
func (nu *numbers) within(t fib.Tables) fib.Tables {
	n := &nu.names
	t.Routers = keep(t.Routers, func(r *fib.Router) bool {
		r.Routes = keep(r.Routes, n.hasRoute)
		return n.routeIDs[r.Name] != 0
	})
	t.Segments = keep(t.Segments, func(s *overlay.Segment) bool {
		s.Remotes = keep(s.Remotes, func(remote *netip.Addr) bool { return n.tepIDs[*remote] != 0 })
		if s.Gateway != nil && n.routeIDs[s.Gateway.Router] == 0 {
			s.Gateway = nil
		}
		return n.segIDs[s.Name] != 0
	})
	t.Ports = keep(t.Ports, func(port *fib.Port) bool { return n.portIDs[port.Name] != 0 && n.segIDs[port.Segment] != 0 })
	t.TEPs = keep(t.TEPs, func(tep *fib.TEP) bool { return n.pathIDs[nu.pair(*tep)] != 0 })
	t.PathPolicies = n.pathPolicies(t.PathPolicies)
	t.Egress = keep(t.Egress, n.hasEgress)
	t.PortForwards = keep(t.PortForwards, func(f *fib.Forward) bool { return n.routeIDs[f.Router] != 0 && n.egressIDs[f.Egress] != 0 })
	return t
}

// keep is the list of those that are to stay, as ok leaves them.
func keep[T any](list []T, ok func(*T) bool) []T {
	kept := make([]T, 0, len(list))
	for _, one := range list {
		if ok(&one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// hasRoute leaves the next hops of a route that there are.
func (n *names) hasRoute(r *fib.Route) bool {
	r.Hops = keep(r.Hops, func(h *fib.Hop) bool {
		return n.segIDs[h.Segment] != 0 && (!h.Remote.IsValid() || n.tepIDs[h.Remote] != 0)
	})
	return r.Kind != overlay.Unicast || len(r.Hops) > 0
}

// pathPolicies leaves the remotes whose paths there are. Others go by the path that stands for them.
func (n *names) pathPolicies(list []fib.PathPolicy) []fib.PathPolicy {
	return keep(list, func(p *fib.PathPolicy) bool {
		p.PathGroups = keep(p.PathGroups, func(g *fib.PathGroup) bool {
			return n.tepIDs[g.Remote] != 0 && !slices.ContainsFunc(g.Paths, func(pair overlay.Pair) bool { return n.pathIDs[pair] == 0 })
		})
		return true // segments name it by its place
	})
}

// hasEgress has nobody serve what a gateway would that is left out.
func (n *names) hasEgress(e *fib.Egress) bool {
	known := func(remote netip.Addr) bool { return n.tepIDs[remote] != 0 }
	e.Kept = keep(e.Kept, func(gateway *netip.Addr) bool { return known(*gateway) })
	for f := range e.Ways {
		for bucket, way := range e.Ways[f] {
			if way.Remote.IsValid() && !known(way.Remote) {
				e.Ways[f][bucket] = fib.EgressNexthop{}
			}
		}
	}
	has := func(segment string) bool { return segment == "" || n.segIDs[segment] != 0 }
	return n.egressIDs[e.Name] != 0 && n.routeIDs[e.Router] != 0 && has(e.Segment) && has(e.Uplink)
}

package datapath

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// restore reads which numbers a former process gave to ends and segments, so
// that learned entries and cached decisions stay true.
func (d *Datapath) restore() error {
	d.numbers.names = newNames()
	if err := d.numbers.read(); err != nil {
		return err
	}
	if err := d.Firewall.restoreRules(); err != nil {
		return err
	}
	if err := d.Egress.restoreEgress(); err != nil {
		return err
	}
	return errors.Join(d.Routes.restoreRoutes(), d.Hosts.recountHosts())
}

// read reads ends and segments.
func (nu *numbers) read() error {
	nu.vports = make([]bpfVport, nu.maps.Vports.MaxEntries())
	nu.segments = make([]bpfSegment, nu.maps.Segments.MaxEntries())
	err := errors.Join(readArray(nu.maps.Vports, nu.vports), readArray(nu.maps.Segments, nu.segments))
	nu.lookReached()
	return err
}

func newNames() names {
	return names{
		ports: map[uint32]string{}, segments: map[uint32]string{}, routers: map[uint32]string{},
		segIDs: map[string]uint32{}, routeIDs: map[string]uint32{},
		portIDs: map[string]uint32{}, tepIDs: map[netip.Addr]uint32{}, pathIDs: map[overlay.Pair]uint32{},
		egresses: map[uint32]string{}, egressIDs: map[string]uint32{}, tagged: [2]map[uint32]uint32{{}, {}},
	}
}

func readArray[V any](m kernel.Map, into []V) error {
	keys := make([]uint32, len(into))
	var cursor kernel.Cursor
	n, err := m.BatchLookup(&cursor, keys, into)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read the map %s: %w", m, err)
	}
	if n != len(into) {
		return fmt.Errorf("read %d of %d entries of the map %s", n, len(into), m)
	}
	return nil
}

// plan collects what the hash maps must hold in the end; the rest is pruned.
type plan struct {
	ports         map[bpfPortKey]uint32
	vnis          map[bpfVniKey]uint32
	remotes       map[bpfRemoteKey]uint32
	members       map[bpfMemberKey]uint32
	teps          map[bpfPathKey]uint32
	locals        map[bpfLocalKey]uint32
	options       map[uint32]uint32
	allowedMACs   map[bpfAllowedMac]uint32
	allowedAddrs  map[bpfAllowedAddr]uint32
	allowed       map[uint32]*overlay.Allowed // by port
	static        map[bpfFdbKey]uint32
	neighbours    map[bpfNeighbourKey]overlay.MAC // static ones
	routes        map[bpfRouteKey]bpfRoute
	counts        map[uint32]uint32 // members of a segment
	hooks         map[hook]bool
	touched       map[uint32]bool // segments whose decisions are outdated
	evpn          map[uint32]bool // segments of whose hosts BGP tells
	rerouted      map[uint32]bool // routers likewise
	pathGroups    map[bpfPathGroupKey]bpfPathGroup
	addrs         map[netip.Addr][]netip.Addr // of a remote, by the first
	devices       map[hook]fib.Transit
	xdpInterfaces map[uint32]uint32
	txDevices     map[uint32]uint32
	policed       bool                // there is a firewall
	unpoliced     map[uint32]bpfVport // ports that get it when its programs are attached
	groups        map[uint32]bool     // groups and hops in use
	hops          map[uint16]bool
	unplaced      fewErrors   // of what has no place in the tables
	unrouted      fewErrors   // of routes
	left          []rib.Place // learned ones of these
	// For a group or next hop of a route, a learned one: the rest need not look.
	noRoom, noLearnedRoom bool
	nat                   translationPlan
	overtaken             map[bpfRouteKey]bool // routes that were changed while the plan was carried out
}

func newPlan(t fib.Tables) *plan {
	return &plan{
		ports: map[bpfPortKey]uint32{}, vnis: map[bpfVniKey]uint32{}, remotes: map[bpfRemoteKey]uint32{},
		members: map[bpfMemberKey]uint32{}, teps: map[bpfPathKey]uint32{}, locals: map[bpfLocalKey]uint32{}, options: map[uint32]uint32{},
		allowedMACs: map[bpfAllowedMac]uint32{}, allowedAddrs: map[bpfAllowedAddr]uint32{}, allowed: map[uint32]*overlay.Allowed{},
		static: map[bpfFdbKey]uint32{}, neighbours: map[bpfNeighbourKey]overlay.MAC{},
		routes: map[bpfRouteKey]bpfRoute{}, counts: map[uint32]uint32{}, hooks: map[hook]bool{},
		touched: map[uint32]bool{}, evpn: map[uint32]bool{}, rerouted: map[uint32]bool{}, groups: map[uint32]bool{}, hops: map[uint16]bool{},
		pathGroups: map[bpfPathGroupKey]bpfPathGroup{}, addrs: addressesOf(t), devices: map[hook]fib.Transit{}, xdpInterfaces: map[uint32]uint32{}, txDevices: map[uint32]uint32{},
		unpoliced: map[uint32]bpfVport{}, overtaken: map[bpfRouteKey]bool{},
		nat: translationPlan{
			portForwards: map[bpfPortForwardKey]bpfPortForward{}, routers: map[uint32]bpfRouterFlags{}, segments: map[uint32]bpfSegment{},
		},
	}
}

// Apply brings the data path to the desired tables: new things first, then the
// programs, then what is no longer wanted goes. It is idempotent; after an error
// it may be called again. An entry without room, and an interface that takes no program, keep
// nothing else from it: that is a PartialError. Where the new has no room beside the old, the
// old goes first.
func (d *Datapath) Apply(t fib.Tables) error { return d.ApplyIn(t, Steps{}) }

// ApplyIn does so in steps.
func (d *Datapath) ApplyIn(t fib.Tables, steps Steps) error {
	d.numbers.underway = underway{steps: steps}
	defer d.numbers.end()
	if d.prog.cfg.Egress == nil && t.Translates() {
		return errors.New("there is something to translate, but the programs were loaded without egress: open the data path with it")
	}
	if err := d.succeed(); err != nil {
		return err
	}
	d.numbers.keepNames()
	left := d.assigner.assign(t)
	if left != nil && d.assigner.hasSuperseded() {
		var partial PartialError
		if err := d.bring(d.numbers.within(t)); err != nil && !errors.As(err, &partial) {
			return errors.Join(left, err)
		}
		d.numbers.keepNames()
		left = d.assigner.assign(t)
	}
	if left != nil {
		all := t.Routers
		t = d.numbers.within(t)
		left = rib.WithNoRoom(left, rib.NoRoom{Routes: missingRoutes(all, t.Routers)})
	}
	return partially(left, d.bring(t))
}

// missingRoutes are the learned routes of all that are not among the rest.
func missingRoutes(all, rest []fib.Router) (missing []rib.Place) {
	there := make(map[rib.Place]bool)
	for _, r := range rest {
		for _, route := range r.Routes {
			there[rib.Place{Router: r.Name, Prefix: route.Prefix}] = true
		}
	}
	for _, r := range all {
		for _, route := range r.Routes {
			if !there[rib.Place{Router: r.Name, Prefix: route.Prefix}] {
				missing = leaveOut(missing, r.Name, route)
			}
		}
	}
	return missing
}

// partially is the error of tables of which some objects were left out before.
func partially(left, err error) error {
	var partial PartialError
	switch {
	case left == nil:
		return err
	case err == nil || errors.As(err, &partial):
		return PartialError{errors.Join(left, err)}
	}
	return errors.Join(left, err)
}

// bring does what Apply says with objects that have numbers.
func (d *Datapath) bring(t fib.Tables) error {
	p := newPlan(t)
	if err := d.prepare(t, p); err != nil {
		return err
	}
	t = d.numbers.latest(t, p)
	defer func() { d.numbers.underway.plan = nil }()
	d.HostEvents.publishNames()
	if err := d.plan(t, p); err != nil {
		return err
	}
	d.Hosts.takeMembers(p)
	if d.newFDB || d.numbers.losesPaths() { // sources are learned when decisions are taken
		p.touchAll(d.numbers)
	}
	unwritten, err := d.write(p)
	if err := errors.Join(err, d.Limits.writeLimits(t), d.Changes.changed()); err != nil {
		return errors.Join(unwritten, err)
	}
	d.newFDB, d.Firewall.stale = false, false
	for _, ifindex := range t.Underlays {
		p.hooks[hook{roleUnderlay, ifindex}] = true
	}
	if t.Coalescer.Far != 0 {
		p.hooks[hook{roleCoalescer, t.Coalescer.Far}] = true
	}
	unattached, err := d.takeOver(p)
	if err != nil {
		return err
	}
	// Last, when its far end is attached: end 0 is no port or remote, but the coalescer.
	if err := d.Ports.putVport(0, bpfVport{Ifindex: uint32(t.Coalescer.Near)}); err != nil {
		return fmt.Errorf("coalescer: %w", err)
	}
	before := len(d.Routes.hopIDs) + len(d.Routes.sets)
	if err := d.prune(p); err != nil {
		return err
	}
	unrouted := rib.WithNoRoom(p.unrouted.err(), rib.NoRoom{Routes: p.left})
	if (p.noRoom || p.noLearnedRoom) && len(d.Routes.hopIDs)+len(d.Routes.sets) < before { // what went has left some
		unrouted = d.Routes.PutRoutes(d.Routes.notOvertaken(t.Routers, p))
	}
	if err := errors.Join(unwritten, unattached, p.unplaced.err(), unrouted); err != nil {
		return PartialError{err}
	}
	return nil
}

// prepare plans, and has in place, what nothing depends on that may be steered meanwhile.
func (d *Datapath) prepare(t fib.Tables, p *plan) error {
	if err := d.Links.planTransit(t, p); err != nil {
		return err
	}
	d.numbers.yield()
	err := d.Firewall.putPolicy(t, p)
	if err == nil {
		d.numbers.yield()
	}
	return err
}

// plan fills p, and writes what has to be in place before.
func (d *Datapath) plan(t fib.Tables, p *plan) error {
	for _, step := range []func() error{
		func() error { return d.Ports.writeVports(t, p) },
		func() error { return d.Paths.planPathGroups(t.PathPolicies, p) },
		func() error { return d.Ports.planSegments(t, p) },
		func() error { return d.Routes.planRoutes(t, p) },
		func() error { return d.Egress.planTranslation(t, p) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// PartialError is of tables that are in force but for what it names: entries that could not be
// written, and interfaces without a program.
type PartialError struct{ Err error }

// Error says what is not in force.
func (e PartialError) Error() string { return e.Err.Error() }

// Unwrap returns the errors.
func (e PartialError) Unwrap() error { return e.Err }

// pair is which addresses a path joins, by which next hop.
func (nu *numbers) pair(t fib.TEP) overlay.Pair {
	if !t.Local.IsValid() {
		return overlay.Pair{Local: nu.prog.cfg.TEPs[0], Remote: t.Addr, Via: t.Via}
	}
	return overlay.Pair{Local: t.Local, Remote: t.Addr, Via: t.Via}
}

// viaTag tells one of several next hops from the others; it is the same in each process.
func viaTag(via overlay.Via) uint32 {
	if via == (overlay.Via{}) {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(via.String())) // never fails
	return max(h.Sum32(), 1)
}

// edgeOf is the address that stands for the remote of a path.
func edgeOf(t fib.TEP) netip.Addr {
	if !t.Edge.IsValid() {
		return t.Addr
	}
	return t.Edge
}

// find looks for a slot; slot 0 stands for "none" in the maps.
func find[V any](slots []V, match func(V) bool) (uint32, bool) {
	return findSlot(slots, func(_ uint32, v V) bool { return match(v) })
}

// findSlot does so by number, too.
func findSlot[V any](slots []V, match func(uint32, V) bool) (uint32, bool) {
	for i := 1; i < len(slots); i++ {
		if match(uint32(i), slots[i]) {
			return uint32(i), true
		}
	}
	return 0, false
}

func (po *Ports) writeVports(t fib.Tables, p *plan) error {
	for _, port := range t.Ports {
		segment, ok := po.numbers.names.segIDs[port.Segment]
		if !ok {
			return fmt.Errorf("port %s: there is no segment %q", port.Name, port.Segment)
		}
		id := po.numbers.names.portIDs[port.Name]
		vport := portVport(port, segment)
		vport.Flags = po.loopFlag(port.Name, vport.Flags)
		leaveBy(&vport, p)
		if t.Firewall != nil && !port.Uplink {
			po.firewall.guard(id, &vport, p)
		}
		if err := po.putVport(id, vport); err != nil {
			return fmt.Errorf("port %s: %w", port.Name, err)
		}
		p.ports[bpfPortKey{Ifindex: vport.Ifindex, Vlan: uint32(port.VLAN)}] = id
		if port.Uplink {
			p.ports[bpfPortKey{Ifindex: vport.Ifindex, Vlan: portShared}] = id
		}
		p.hooks[hook{rolePort, port.Ifindex}] = true
		p.addMember(segment, id)
		p.allow(id, port.Allowed)
	}
	return po.writeTEPs(t, p)
}

func (po *Ports) writeTEPs(t fib.Tables, p *plan) error {
	paths := make(map[netip.Addr]int)
	for _, tep := range t.TEPs {
		paths[edgeOf(tep)]++
	}
	for _, tep := range t.TEPs {
		pair := po.numbers.pair(tep)
		id := po.numbers.names.pathIDs[pair]
		if tep.Via == (overlay.Via{}) {
			key := bpfPathKey{}
			key.Local.W, key.Remote.W = wireAddr(pair.Local), wireAddr(pair.Remote)
			p.teps[key] = id
		}
		vport := po.tepVport(tep)
		leaveBy(&vport, p)
		if paths[edgeOf(tep)] > 1 {
			vport.Flags |= bpfVportFlagsVPORT_MULTIPATH
		}
		if err := po.putVport(id, vport); err != nil {
			return fmt.Errorf("path %s: %w", pair, err)
		}
	}
	return nil
}

func portVport(port fib.Port, segment uint32) bpfVport {
	vport := bpfVport{
		Kind: bpfVportKindVPORT_PORT, Ifindex: uint32(port.Ifindex), Vlan: port.VLAN, Mtu: uint32(port.MTU), Segment: segment,
	}
	if port.Peer {
		vport.Flags |= bpfVportFlagsVPORT_PEER
	}
	if port.Segments {
		vport.Flags |= bpfVportFlagsVPORT_GSO
	}
	if port.Uplink {
		vport.Flags |= bpfVportFlagsVPORT_UPLINK
	}
	if port.Down {
		vport.Flags |= bpfVportFlagsVPORT_DOWN
	}
	if port.AllowRA {
		vport.Flags |= bpfVportFlagsVPORT_RA
	}
	if port.DHCPServer {
		vport.Flags |= bpfVportFlagsVPORT_DHCP_SERVER
	}
	if a := port.Allowed; a != nil {
		if len(a.MACs) > 0 {
			vport.Flags |= bpfVportFlagsVPORT_GUARD_MACS
		}
		if len(a.Addresses) > 0 {
			vport.Flags |= bpfVportFlagsVPORT_GUARD_ADDRS
		}
	}
	return vport
}

// allow plans who may send from a port.
func (p *plan) allow(vport uint32, a *overlay.Allowed) {
	if a == nil {
		return
	}
	p.allowed[vport] = a
	for _, mac := range a.MACs {
		p.allowedMACs[bpfAllowedMac{Vport: vport, Mac: mac}] = 1
	}
	for _, prefix := range a.Addresses {
		key := bpfAllowedAddr{Prefixlen: prefixLen(prefix), Vport: vport}
		key.Addr.W = wireAddr(prefix.Masked().Addr())
		p.allowedAddrs[key] = 1
	}
}

// portShared is PORT_SHARED of bpf/abi/forwarding.h.
const portShared = 0xffff

// prefixLen is the length of a prefix in a trie whose keys begin with a number of 32 bits.
func prefixLen(p netip.Prefix) uint32 {
	if p.Addr().Is4() {
		return uint32(32 + 96 + p.Bits())
	}
	return uint32(32 + p.Bits())
}

func (po *Ports) tepVport(t fib.TEP) bpfVport {
	local := po.numbers.pair(t).Local
	vport := bpfVport{Kind: bpfVportKindVPORT_TEP, Ifindex: uint32(t.Ifindex), Mtu: uint32(t.MTU), Segment: viaTag(t.Via)}
	vport.Addr.W, vport.Local.W = wireAddr(t.Addr), wireAddr(local)
	if t.Down {
		vport.Flags |= bpfVportFlagsVPORT_DOWN
	}
	if t.NextMAC != (overlay.MAC{}) {
		vport.Flags |= bpfVportFlagsVPORT_RESOLVED
	}
	vport.OuterLen = uint8(copy(vport.Outer[:], outerTemplate(local, t)))
	return vport
}

// putVport writes an end when it differs from what the map holds.
func (po *Ports) putVport(id uint32, vport bpfVport) error {
	var now bpfVport
	if err := po.numbers.maps.Vports.Lookup(id, &now); err != nil {
		return fmt.Errorf("read end %d: %w", id, err)
	}
	po.numbers.vports[id] = vport
	if now == vport {
		return nil
	}
	if err := po.numbers.maps.Vports.Put(id, vport); err != nil {
		return fmt.Errorf("write end %d: %w", id, err)
	}
	return nil
}

func (p *plan) addMember(segment, vport uint32) {
	p.members[bpfMemberKey{Segment: segment, Index: p.counts[segment]}] = vport
	p.counts[segment]++
}

package datapath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// encapsulations are the model's in the data path's numbers.
var encapsulations = map[overlay.Encapsulation]bpfEncapsulation{
	overlay.VXLAN:  bpfEncapsulationENCAP_VXLAN,
	overlay.Geneve: bpfEncapsulationENCAP_GENEVE,
	overlay.NVGRE:  bpfEncapsulationENCAP_NVGRE,
}

// planSegments must come after the ports: remotes are the last members.
func (po *Ports) planSegments(t fib.Tables, p *plan) error {
	p.nat.bySegment = po.egress.egressSegments(t)
	for _, s := range t.Segments {
		id := po.numbers.names.segIDs[s.Name]
		segment, err := po.segment(s, t)
		if err != nil {
			return err
		}
		if s.VNI != 0 && s.Gateway != nil && len(s.Gateway.Addresses) == 0 { // its hosts are routers
			segment.Flags |= bpfSegmentFlagsSEGMENT_L3
		}
		setEVPN(&segment, s, t)
		p.evpn[id] = s.EVPN != nil
		po.egress.translate(id, s, &segment, t, p)
		po.numbers.segments[id] = segment
		if s.VNI != 0 {
			p.vnis[bpfVniKey{Vni: uint32(s.VNI), UdpPort: wire16(s.Tunnel.UDPPort)}] = id
		}
		p.planGateway(id, segment.Router, s)
		p.planOptions(s.Tunnel.Options)
		if err := po.planRemotes(id, s, t.NoLearning[s.Name], p); err != nil {
			return err
		}
		po.planStatic(id, s, p)
		if most := po.prog.segmentMembers(); p.counts[id] > most {
			p.unplaced.add(fmt.Errorf("segment %s has %d ports and remotes: what is flooded reaches the first %d (spec.tables.segmentMembers)", s.Name, p.counts[id], most))
		}
	}
	return nil
}

// segment is s as the data path has it, less generation and members.
func (po *Ports) segment(s overlay.Segment, t fib.Tables) (bpfSegment, error) {
	e := bpfSegment{
		Vni: uint32(s.VNI), UdpPort: wire16(s.Tunnel.UDPPort), Used: 1, Encap: encapsulations[s.Tunnel.Encapsulation],
	}
	if s.VNI == 0 {
		e.Encap = bpfEncapsulationENCAP_NONE
	}
	if s.Tunnel.UDPChecksum {
		e.Flags |= bpfSegmentFlagsSEGMENT_UDP_CSUM
		e.CsumIfindex = uint32(t.ChecksumDevices[s.Tunnel.UDPPort])
	}
	for flag, set := range map[bpfSegmentFlags]bool{
		bpfSegmentFlagsSEGMENT_TAGS: s.KeepTags, bpfSegmentFlagsSEGMENT_SUPPRESS: s.Suppress,
		bpfSegmentFlagsSEGMENT_CLAMP: s.ClampMSS, bpfSegmentFlagsSEGMENT_WIRE: s.Wire,
		bpfSegmentFlagsSEGMENT_RPF_STRICT: s.ReversePath == overlay.ReversePathStrict,
		bpfSegmentFlagsSEGMENT_RPF_OFF:    s.ReversePath == overlay.ReversePathOff,
	} {
		if set {
			e.Flags |= flag
		}
	}
	e.TunnelLen = tunnelLen(s.Tunnel)
	if pathPolicy := t.PathPolicyOf[s.Name]; pathPolicy < len(t.PathPolicies) {
		e.PathPolicy = uint16(pathPolicy)
		if t.PathPolicies[pathPolicy].Source {
			e.Flags |= bpfSegmentFlagsSEGMENT_BY_SOURCE
		}
	}
	setOuter(&e, s.Tunnel)
	if g := s.Gateway; g != nil {
		router, ok := po.numbers.names.routeIDs[g.Router]
		if !ok {
			return e, fmt.Errorf("segment %s: there is no router %q", s.Name, g.Router)
		}
		e.Router, e.GatewayMac = router, g.MAC
		global, local := gatewayAddrs(g)
		setSources(&e.Gateway4.W, &e.Gateway6.W, append(global, local...))
	}
	setSources(&e.Gateway4.W, &e.Gateway6.W, s.TooBigFrom)
	if len(s.Tunnel.Options) > len(e.Options) || len(s.Tunnel.Options)%4 != 0 {
		return e, fmt.Errorf("segment %s: %d bytes of Geneve options: a multiple of 4 up to %d", s.Name, len(s.Tunnel.Options), len(e.Options))
	}
	e.OptionsLen = uint8(copy(e.Options[:], s.Tunnel.Options))
	for _, o := range options(s.Tunnel.Options) {
		if o&optionCritical != 0 {
			e.OptionsCritical = 1
		}
	}
	return e, nil
}

// tunnelLen is the length of the headers between outer IP and inner Ethernet.
func tunnelLen(t overlay.Tunnel) uint16 {
	v4 := netip.IPv4Unspecified()
	return uint16(t.Overhead(v4) - ipv4Len - etherLen)
}

// gatewayAddrs are g's global and link-local addresses.
func gatewayAddrs(g *overlay.Gateway) (global, local []netip.Addr) {
	for _, p := range g.Addresses {
		if p.Addr().IsLinkLocalUnicast() {
			local = append(local, p.Addr())
		} else {
			global = append(global, p.Addr())
		}
	}
	return global, local
}

// setSources sets the source of messages in each family that has none to the first address.
func setSources(v4, v6 *[4]uint32, addrs []netip.Addr) {
	for _, a := range addrs {
		source := v6
		if a.Is4() {
			source = v4
		}
		if *source == [4]uint32{} {
			*source = wireAddr(a)
		}
	}
}

func setOuter(e *bpfSegment, t overlay.Tunnel) {
	if t.DSCP == overlay.Inherit {
		e.Outer |= bpfOuterFlagsOUTER_DSCP_INHERIT
	} else {
		e.Tos = uint8(t.DSCP << 2)
	}
	switch t.TTL {
	case overlay.Inherit:
		e.Outer |= bpfOuterFlagsOUTER_TTL_INHERIT
		e.Ttl = defaultTTL
	case 0:
		e.Ttl = defaultTTL
	default:
		e.Ttl = uint8(t.TTL)
	}
	switch t.DF {
	case overlay.DFInherit:
		e.Outer |= bpfOuterFlagsOUTER_DF_INHERIT
	case overlay.DFUnset:
	default:
		e.Outer |= bpfOuterFlagsOUTER_DF
	}
}

// defaultTTL is what Linux sends by default; an underlay has few hops.
const defaultTTL = 64

// optionCritical marks a Geneve option that must be understood (RFC 8926 section 3.5).
const optionCritical = 0x80

// options are class << 8 | type of each Geneve option.
func options(b []byte) (ids []uint32) {
	for len(b) >= 4 {
		ids = append(ids, uint32(binary.BigEndian.Uint16(b))<<8|uint32(b[2]))
		b = b[min(len(b), 4+4*int(b[3]&0x1f)):]
	}
	return ids
}

func (p *plan) planOptions(b []byte) {
	for _, id := range options(b) {
		p.options[id] = 1
	}
}

// localLink is LOCAL_LINK of bpf/abi/routing.h.
const localLink = 1 << 31

// planGateway plans the addresses that the edge has itself.
func (p *plan) planGateway(segment, router uint32, s overlay.Segment) {
	if s.Gateway == nil {
		return
	}
	for _, prefix := range s.Gateway.Addresses {
		key := bpfLocalKey{Router: router}
		if prefix.Addr().IsLinkLocalUnicast() && prefix.Addr().Is6() {
			key.Router = localLink | segment
		}
		key.Addr.W = wireAddr(prefix.Addr())
		p.locals[key] = segment
	}
}

// setEVPN notes whether BGP tells of the segment's hosts, and whether it alone does. The
// answers to Ask need an address even where there is no gateway.
func setEVPN(e *bpfSegment, s overlay.Segment, t fib.Tables) {
	if s.EVPN == nil {
		return
	}
	e.Evpn = bpfEvpnFlagsEVPN_SEGMENT
	taught := func(remote netip.Addr) bool { return !slices.Contains(t.NoLearning[s.Name], remote) }
	if !slices.ContainsFunc(s.Remotes, taught) {
		e.Evpn |= bpfEvpnFlagsEVPN_ONLY
	}
	if s.Gateway == nil {
		e.GatewayMac = requesterMAC
	}
}

// remoteNoLearning is REMOTE_UNTAUGHT of bpf/abi/abi.h.
const remoteNoLearning = 1 << 31

func (po *Ports) planRemotes(id uint32, s overlay.Segment, noLearning []netip.Addr, p *plan) error {
	learned := setOfAddrs(noLearning)
	for _, addr := range s.Remotes {
		if learned[addr] && !po.hasRoomForMember(addr, p) {
			p.unplaced.add(fmt.Errorf("segment %s: remote %s: BGP may fill the tables of remotes and members of segments up to %d %%", s.Name, addr, learnedShare))
			continue
		}
		vport, ok := po.numbers.names.tepIDs[addr]
		if !ok {
			return fmt.Errorf("segment %s: remote %s has no entry among the TEPs", s.Name, addr)
		}
		for _, from := range p.addrs[addr] {
			key := bpfRemoteKey{Segment: id}
			key.Addr.W = wireAddr(from)
			p.remotes[key] = vport
			if learned[addr] {
				p.remotes[key] |= remoteNoLearning
			}
		}
		p.addMember(id, vport)
	}
	return nil
}

// hasRoomForMember reports whether another remote of a segment leaves room for configured ones.
func (po *Ports) hasRoomForMember(addr netip.Addr, p *plan) bool {
	return len(p.members) < learnedRoom(int(po.maps.Members.MaxEntries())) &&
		len(p.remotes)+len(p.addrs[addr]) <= learnedRoom(int(po.maps.Remotes.MaxEntries()))
}

func (po *Ports) planStatic(id uint32, s overlay.Segment, p *plan) {
	for _, st := range s.Static {
		vport, ok := po.numbers.names.tepIDs[st.Remote]
		if st.Port != "" {
			vport, ok = po.numbers.names.portIDs[st.Port]
		}
		if ok { // a port whose interface is absent has no entry yet
			p.static[bpfFdbKey{Segment: id, Mac: st.MAC}] = vport
		}
	}
	for _, n := range s.Neighbours {
		key := bpfNeighbourKey{Segment: id}
		key.Addr.W = wireAddr(n.Addr)
		p.neighbours[key] = n.MAC
	}
}

// PreviousRemotes are the remotes that a former process knew by BGP alone, by the names of the
// segments, which are known again. It is for the time before the first Apply.
func (po *Ports) PreviousRemotes(segments []overlay.Segment) (map[string][]netip.Addr, error) {
	type tunnel struct {
		vni  uint32
		port uint16
	}
	names := make(map[tunnel]string, len(segments))
	for _, s := range segments {
		names[tunnel{uint32(s.VNI), wire16(s.Tunnel.UDPPort)}] = s.Name
	}
	all := make(map[string][]netip.Addr)
	err := walk(po.maps.Remotes, func(k bpfRemoteKey, value uint32) {
		segment, vport := &po.numbers.segments[k.Segment], &po.numbers.vports[value&^remoteNoLearning]
		name := names[tunnel{segment.Vni, segment.UdpPort}]
		first := k.Addr == vport.Addr // of a remote with several addresses
		if value&remoteNoLearning != 0 && first && name != "" && segment.Vni != 0 {
			all[name] = append(all[name], addrOf(k.Addr.W))
		}
	})
	for _, list := range all {
		slices.SortFunc(list, netip.Addr.Compare)
	}
	return all, err
}

// Package overlay is the model of an overlay network edge: what a
// configuration asks for and a data plane does, as plain data.
//
// Its one invariant: it does no I/O and imports nothing else of this module,
// so everything may import it. Do not put behaviour here that needs a kernel,
// a file or a clock.
package overlay

import (
	"fmt"
	"net/netip"
	"time"
)

// VNI is a virtual network identifier, 24 bits: the VNI of VXLAN (RFC 7348
// section 5) and Geneve (RFC 8926 section 3.4), the VSID of NVGRE (RFC 7637
// section 3.2).
type VNI uint32

// MaxVNI is the largest identifier that fits the header's 24 bits.
const MaxVNI VNI = 1<<24 - 1

// MAC is a 48-bit Ethernet address.
type MAC [6]byte

// String returns the address as six colon-separated lower-case hex bytes.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// MarshalText makes a MAC a string in JSON and YAML.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *MAC) UnmarshalText(text []byte) error {
	addr, err := ParseMAC(string(text))
	if err != nil {
		return err
	}
	*m = addr
	return nil
}

// Multicast reports whether the group bit is set (broadcast included).
func (m MAC) Multicast() bool { return m[0]&1 == 1 }

// Edge is one overlay edge on one host.
type Edge struct {
	Name string
	// Warnings are what to look after in the file although it is good.
	Warnings []string

	Underlay  Underlay
	FlowCache FlowCache
	FDB       FDB
	Tables    Tables
	Transit   Transit
	// Remotes are the other edges that have a name or several tunnel endpoints.
	Remotes  []Remote
	Segments []Segment
	Routers  []Router
	Ports    []Port
	// Patterns are of names of interfaces that become ports when they appear.
	Patterns []PortPattern
	// Firewall is nil where ports have none.
	Firewall *Firewall
	// Egress is nil where nothing is translated.
	Egress *Egress
	// BGP is nil where nothing is told and learned by it.
	BGP *BGP
	// HTTP is nil where only the unix socket answers.
	HTTP *HTTP
}

// Underlay is the plain IP network that carries the tunnels.
type Underlay struct {
	Interfaces []string
	// TEP is the address of this edge's tunnel endpoint: the outer source. Of several
	// it is the first.
	TEP netip.Addr
	// TEPs are the endpoints by name, nil where there is one without a name.
	TEPs    []TEP
	Teaming Teaming
	// ProbeMTU asks for probes of the path MTU to each remote.
	ProbeMTU bool
	// Liveness is nil where remotes are not asked whether they are alive.
	Liveness *Liveness
}

// FlowCache sizes the cache of decisions.
type FlowCache struct {
	Enabled bool
	Size    uint32 // entries
}

// FDB sizes and ages the forwarding database that all segments share, and
// likewise the table of their neighbours.
type FDB struct {
	Size   uint32        // entries
	Ageing time.Duration // of a learned entry without traffic
	// Duplicates is when a learned address is frozen; its time doubles when it is again.
	Duplicates Duplicates
}

// Tables sizes, in entries, what is configured or comes by BGP. 0 is the size that is usual.
type Tables struct {
	Vports         uint32 // ports and paths to remotes; number 0 is none
	SegmentMembers uint32 // ports and remotes of one segment
	Members        uint32 // of all segments
	Remotes        uint32 // addresses of remotes in all segments
	Routes         uint32
	NextHops       uint32 // number 0 is none
	NextHopGroups  uint32 // likewise
}

// Segment is one layer 2 broadcast domain: one VNI of one encapsulation at one
// UDP port. One with VNI 0 has no tunnels: the plain network at an uplink.
type Segment struct {
	Name   string
	VNI    VNI
	Tunnel Tunnel
	// Remotes are the first addresses of the remotes.
	Remotes []netip.Addr
	// TEPs are the names of the endpoints that the segment is pinned to, in their order
	// of preference; nil: all of the edge's, as Underlay.Teaming says.
	TEPs   []string
	Static []StaticMAC
	// KeepTags lets 802.1Q tags inside the tunnel pass (QinQ); otherwise a tagged
	// frame is dropped, as RFC 7348 section 6.1 asks.
	KeepTags bool
	// Wire forwards frames for reserved group addresses too (IEEE 802.1Q section
	// 8.6.3), as between two ends of a cable: spanning tree, LACP, LLDP.
	Wire bool
	// ReversePath says which sources the uplink of a segment without tunnels accepts.
	ReversePath ReversePath
	// Gateway is the anycast gateway of the segment, nil without one.
	Gateway *Gateway
	// Neighbours are hosts whose MAC addresses are known for ever.
	Neighbours []Neighbour
	// Suppress answers ARP and neighbour solicitations for known remote hosts here.
	Suppress bool
	// ClampMSS lowers the MSS of TCP SYNs to what tunnels and uplinks carry.
	ClampMSS bool
	// TooBigFrom is the source of "too big" messages to bridged senders, per
	// family; unset: the gateway's address, or else that of the destination.
	TooBigFrom []netip.Addr
	// EVPN is nil where hosts are learned from the data plane alone.
	EVPN   *EVPNInstance
	Limits Limits
}

// Tunnel is how a segment's frames are wrapped.
type Tunnel struct {
	Encapsulation Encapsulation
	UDPPort       uint16 // 0 with NVGRE
	// UDPChecksum asks for an outer UDP checksum on an IPv6 underlay, with VXLAN.
	// The default of zero is RFC 6935 and 6936; IPv4 always sends zero, as RFC
	// 7348 section 5 recommends. Both are accepted on receipt.
	UDPChecksum bool
	// Options are sent with every Geneve packet, a multiple of 4 bytes up to
	// MaxOptions (RFC 8926 section 3.5).
	Options []byte
	// DSCP of the outer header, or Inherit: that of the inner packet. ECN always
	// follows RFC 6040.
	DSCP int
	// TTL of the outer header (hop limit), or Inherit.
	TTL int
	// DF is the outer IPv4 header's "don't fragment".
	DF DontFragment
}

// Inherit takes a field of the outer header from the inner packet.
const Inherit = -1

// DontFragment says when outer IPv4 packets must not be fragmented.
type DontFragment string

// The values of DontFragment. What must not be fragmented and is too big is
// answered with an ICMP message, in each case.
const (
	DFSet     DontFragment = "set"
	DFUnset   DontFragment = "unset"
	DFInherit DontFragment = "inherit" // as the inner packet; set when that is not IPv4
)

// StaticMAC is a forwarding entry that neither ages nor moves. Exactly one of
// Port and Remote is set.
type StaticMAC struct {
	MAC    MAC
	Port   string
	Remote netip.Addr
}

// Neighbour is a host of a segment.
type Neighbour struct {
	Addr netip.Addr
	MAC  MAC
}

// Gateway makes a segment an interface of a router.
type Gateway struct {
	Router string
	// MAC is the same on every edge (anycast).
	MAC MAC
	// Addresses are the gateway's own, with the prefix that is on the segment.
	Addresses []netip.Prefix
}

// AnycastMAC is the gateways' MAC address where none is configured: locally
// administered, and the same on every edge.
var AnycastMAC = MAC{0x02, 0x00, 0x5e, 0x00, 0x01, 0x01}

// Router is a virtual routing and forwarding instance (VRF).
type Router struct {
	Name string
	// L3 connects the routers of that name on several edges (symmetric IRB, RFC
	// 9135 section 4.4), nil without it.
	L3 *L3
	// Loopbacks are addresses of this edge's router alone, on no segment.
	Loopbacks []netip.Addr
	Routes    []Route
	Leaks     []Leak
	Uplinks   []Uplink
}

// L3 is the segment between routers, on which each edge has a MAC of its own.
type L3 struct {
	VNI     VNI
	Tunnel  Tunnel
	MAC     MAC // of this edge's router
	Remotes []netip.Addr
	TEPs    []string // as of a segment
	// EVPN is nil where remotes and routes are configured alone.
	EVPN *EVPNInstance
}

// SegmentName is the name of r's L3 segment.
func (r Router) SegmentName() string { return r.Name + "-l3" }

// Route is a static route.
type Route struct {
	Prefix netip.Prefix
	Kind   RouteKind
	Via    []NextHop // of a unicast route: shared by flow (ECMP)
}

// RouteKind says what becomes of a packet, in the words of ip-route(8).
type RouteKind string

// The kinds of routes.
const (
	Unicast     RouteKind = "unicast"
	Blackhole   RouteKind = "blackhole"   // dropped silently
	Unreachable RouteKind = "unreachable" // dropped with ICMP host unreachable
	Prohibit    RouteKind = "prohibit"    // dropped with ICMP administratively prohibited
)

// NextHop is a router on a connected network (Addr) or on the link of an uplink (Addr and Uplink), or the router of
// another edge over the L3 segment (Remote and MAC).
type NextHop struct {
	Addr   netip.Addr
	Uplink string // "": the longest network with Addr says where it is
	Remote netip.Addr
	MAC    MAC
}

// Leak imports routes of another router: connected and static ones within
// Prefixes.
type Leak struct {
	From     string
	Prefixes []netip.Prefix
}

// Uplink connects a router to the plain network by an interface, or a VLAN of it.
type Uplink struct {
	Name      string
	Interface string
	VLAN      uint16 // 0: untagged
	// MAC is the router's on the uplink; zero derives one from the interface's.
	MAC       MAC
	Addresses []netip.Prefix
	// ReversePath says which sources may come in.
	ReversePath ReversePath
	// NAT is nil where what leaves and comes is not translated by the uplink itself.
	NAT *UplinkNAT
}

// ReversePath says which sources a router accepts at an uplink, by its route back to them
// (unicast reverse path forwarding, RFC 3704).
type ReversePath string

// The values of ReversePath; "" is ReversePathInside.
const (
	ReversePathInside ReversePath = "inside" // all but those to which a route leads inside
	ReversePathStrict ReversePath = "strict" // those to which the best route leaves by the uplink
	ReversePathOff    ReversePath = "off"    // all
)

// Port attaches a local interface to segments.
type Port struct {
	Name      string
	Interface string
	// Segment gets untagged frames, "" when they are dropped.
	Segment string
	// VLANs are the tagged members of a trunk.
	VLANs []PortVLAN
	// Allowed is who may send from the port; nil is anybody.
	Allowed *Allowed
	// AllowRA and DHCPServer are whether a router and a DHCP server may be at the port.
	AllowRA, DHCPServer bool
	// Labels are what groups of the firewall select ports by.
	Labels map[string]string
	Limits Limits
	// Origin is who says that the port is there: "" is the file.
	Origin Origin
}

// PortPattern is a pattern of names of interfaces, as in tap*.
type PortPattern string

// Origin is who says that an object is there.
type Origin string

// Origins but the file.
const (
	OriginLive  Origin = "live"
	OriginAlias Origin = "alias" // of its interface
)

// PortVLAN joins one VLAN of a trunk with a segment.
type PortVLAN struct {
	VLAN    uint16 // 1 … 4094
	Segment string
}

// Allowed are source addresses; an empty list allows all of its kind.
type Allowed struct {
	MACs      []MAC
	Addresses []netip.Prefix
}

package datapath

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// Config is what the programs are loaded with. A change of it loads new
// programs; everything else goes through Apply.
type Config struct {
	Name      string       // the directory of the pins
	TEPs      []netip.Addr // this edge's own, the first stands for it; at most overlay.MaxTEPs
	UDPPorts  []UDPPort    // on which tunnels arrive, at most MaxUDPPorts
	NVGRE     bool         // whether NVGRE tunnels arrive; otherwise GRE is the host's
	FlowCache overlay.FlowCache
	Transit   bool // whether there may be transit programs
	FDB       overlay.FDB
	// Firewall is nil where ports have none. What is in Tables.Firewall is of no concern
	// here: groups, rules and defaults.
	Firewall *overlay.Firewall
	Timing   bool   // packets' times are written down, see OpenStamps
	PinRoot  string // a bpffs directory; "" is DefaultPinRoot
}

// UDPPort is a port and what arrives on it.
type UDPPort struct {
	Port          uint16
	Encapsulation overlay.Encapsulation
}

// Tables is the desired content of the data path. The objects name each other
// by name, ifindex and address; the identifiers in the maps are the data path's own.
type Tables struct {
	Underlays []int // ifindex
	// Segments are the configured ones, the routers' L3 segments, and one without
	// tunnels (VNI 0) for each uplink.
	Segments []overlay.Segment
	Routers  []Router
	Ports    []Port
	TEPs     []TEP
	// Teams are ways to share the flows to a remote among its paths, and TeamOf those of
	// segments, by name, as indexes of Teams; the first when it is not there.
	Teams  []Team
	TeamOf map[string]int
	// Checksummers are the kernel's tunnel devices in metadata mode, by UDP port:
	// the ifindex of each. Segments that ask for UDP checksums send through them.
	Checksummers map[uint16]int
	// Coalescer is a veth pair of ours whose far end polls (GRO); zero without one.
	Coalescer Coalescer
	// Transit are the interfaces on which packets that only pass through are taken
	// before the kernel makes an skb of them.
	Transit []Transit
	// Firewall is the policy that stands before all ports but uplinks; nil: none does.
	Firewall *policy.Policy
	// Exits are the interfaces that take packets from those, by ifindex.
	Exits []int
}

// Transit is an underlay or uplink interface with a transit program (XDP).
type Transit struct {
	Ifindex int
	// MAC is the interface's own: tunnel packets are for it.
	MAC              overlay.MAC
	Underlay, Uplink bool
	Generic          bool // after the driver, not in it
	// AsksTags: the driver is asked for each frame whether a tag lies beside it, and frames
	// with one are left to tc.
	AsksTags bool
	// Unsummed: frames may come with TCP and UDP checksums that are not filled in. They
	// are left to tc.
	Unsummed bool
}

// Router is a VRF with all its routes: connected, static and leaked.
type Router struct {
	Name   string
	Routes []Route
}

// Route is one entry of a router's table. The longest prefix wins; there is one
// entry a prefix.
type Route struct {
	Prefix netip.Prefix
	Kind   overlay.RouteKind
	Hops   []Hop // of a unicast route, at least one; more than one is ECMP
}

// Hop is where a route leads: into a segment.
type Hop struct {
	Segment string
	// Addr is the next hop in the segment; unset: the destination itself, which is
	// connected.
	Addr netip.Addr
	// Remote and MAC are the router of another edge on an L3 segment, in which case
	// Addr is unset.
	Remote netip.Addr
	MAC    overlay.MAC
}

// Coalescer is the ifindexes of a veth pair: packets go in at Near and come back,
// put together, from Far.
type Coalescer struct{ Near, Far int }

// Port is a local interface that exists now, or one VLAN of it: what is attached
// to one segment.
type Port struct {
	Name    string // of a VLAN: the configured port's, a dot, and the VLAN
	Ifindex int
	VLAN    uint16 // 0: untagged frames
	Segment string
	// Peer asks for delivery into the other namespace of a veth pair.
	Peer bool
	// Segments allows large TCP segments: those cut on the way are put together again.
	Segments bool
	// Uplink leaves what is not for the segment's gateway to the host.
	Uplink  bool
	MTU     int // of the interface, an IP packet's size in bytes
	Allowed *overlay.Allowed
}

// TEP is a path to a remote tunnel endpoint. A remote edge has one for each pair of
// addresses; the one from Config.TEPs' first to Edge stands for all.
type TEP struct {
	Addr    netip.Addr
	Local   netip.Addr // this edge's end; unset: the first of Config.TEPs
	Edge    netip.Addr // the remote edge's first address; unset: Addr
	Ifindex int        // of the underlay interface; 0 when there is no route
	MTU     int        // of the path: an IP packet's size in bytes
	SrcMAC  overlay.MAC
	NextMAC overlay.MAC // zero while unresolved: the kernel's neighbour table is asked per packet
	// Down has what was decided to go this way decided again.
	Down bool
}

// Team is how segments choose among the paths to a remote.
type Team struct {
	Source  bool // by port and source MAC address, not by flow
	Spreads []Spread
}

// Spread shares the flows to one remote among paths.
type Spread struct {
	Remote  netip.Addr // its first address
	Paths   []overlay.Pair
	Buckets [spreadBuckets]uint8 // indexes of Paths
}

// spreadBuckets is SPREAD_BUCKETS of bpf/abi.h.
const spreadBuckets = 64

// Counters are packets and bytes in one direction.
type Counters struct{ Packets, Bytes uint64 }

// PortCounters are one port's, Rx being from the port into the overlay.
type PortCounters struct {
	Rx, Tx Counters
	Drops  uint64
}

// TEPCounters are one remote's, Rx being from the remote.
type TEPCounters struct{ Rx, Tx Counters }

// FDBEntry is one forwarding entry. Exactly one of Port and Remote is set.
type FDBEntry struct {
	Segment string
	MAC     overlay.MAC
	Port    string
	Remote  netip.Addr
	Static  bool
	AgeNS   uint64
	Moves   uint32
}

// Flow is one cached decision.
type Flow struct {
	Segment          string     // where it came in
	OutSegment       string     // of a routed flow, where it goes; "" when bridged
	InPort           string     // "" when it came through the tunnel
	InRemote         netip.Addr // unset when it came from a port
	OutPort          string
	OutRemote        netip.Addr
	SrcMAC, DstMAC   overlay.MAC
	EtherType        uint16
	Proto            uint8
	Src, Dst         netip.Addr // unset when not IP
	SrcPort, DstPort uint16
	FastPath         bool
	Why              string // why not on the fast path
	Packets, Bytes   uint64
	IdleNS           uint64
}

// Drop is the counter of one reason.
type Drop struct {
	Reason, Description string
	Packets, Bytes      uint64
}

// Neighbour is an address of a host in a segment and its MAC.
type Neighbour struct {
	Segment string
	Addr    netip.Addr
	MAC     overlay.MAC
	Port    string     // where the MAC is: a port's name, or
	Remote  netip.Addr // a remote; neither while that is unknown
	Static  bool
	AgeNS   uint64
}

// PathMTU is what an ICMP message of the underlay said about the way to a remote.
type PathMTU struct {
	MTU   int // an IP packet's size in bytes
	AgeNS uint64
}

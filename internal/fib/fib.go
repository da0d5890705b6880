// Package fib is the desired content of the data path, as plain data: what packets are
// forwarded by, once interfaces, next hops and liveness are known.
//
// Its one invariant: objects name each other by name, ifindex and address. The numbers
// in the maps are the data path's own, and no object knows one.
//
// Do not use it for what a user configured (overlay), nor for what the data path reports of
// itself (datapath).
package fib

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

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
	// PathPolicies are ways to share the flows to a remote among its paths, and PathPolicyOf those of
	// segments, by name, as indexes of Teams; the first when it is not there.
	PathPolicies []PathPolicy
	PathPolicyOf map[string]int
	// ChecksumDevices are the kernel's tunnel devices in metadata mode, by UDP port:
	// the ifindex of each. Segments that ask for UDP checksums send through them.
	ChecksumDevices map[uint16]int
	// Coalescer is a veth pair of ours whose far end polls (GRO); zero without one.
	Coalescer Coalescer
	// Transit are the interfaces on which packets that only pass through are taken
	// before the kernel makes an skb of them.
	Transit []Transit
	// Firewall is the policy that stands before all ports but uplinks; nil: none does.
	Firewall *policy.Policy
	// Exits are the interfaces that take packets from those, by ifindex.
	TxDevices []int
	// Egress are the egress policies of this edge, and the translation of its uplinks.
	Egress []Egress
	// EgressRules say which packets go by which policy, see nat.Rules; nil: none does.
	EgressRules *policy.Policy
	// PortForwards lead ports of addresses to hosts of the overlay.
	PortForwards []Forward
	// Translated are the uplinks, by name, by which nothing leaves that is not translated.
	Translated []string
	// NoLearning are remotes of segments, by the segment's name, that only BGP knows: what
	// comes from them teaches nothing.
	NoLearning map[string][]netip.Addr
	// Keep leaves what a former process had of BGP in its place: the routes of routers that
	// are not in their lists.
	Keep bool
}

// LearnedRemotes are those that BGP alone knows, in all segments that have them.
func (t Tables) LearnedRemotes() map[netip.Addr]bool {
	learned := make(map[netip.Addr]bool)
	for _, list := range t.NoLearning {
		for _, remote := range list {
			learned[remote] = true
		}
	}
	if len(learned) == 0 {
		return learned
	}
	for _, s := range t.Segments {
		noLearning := make(map[netip.Addr]bool)
		for _, remote := range t.NoLearning[s.Name] {
			noLearning[remote] = true
		}
		for _, remote := range s.Remotes {
			if !noLearning[remote] {
				delete(learned, remote)
			}
		}
	}
	return learned
}

// Translates reports whether t has anything that is translated.
func (t Tables) Translates() bool {
	return len(t.Egress)+len(t.PortForwards)+len(t.Translated) > 0 || t.EgressRules != nil
}

// EgressBuckets is into how many parts the sources of a policy are divided: EGRESS_BUCKETS
// of bpf/abi/abi.h. The bucket is of the source address alone, see nat.Bucket.
const EgressBuckets = 256

// MaxGateways is how many a policy has at most: MAX_GATEWAYS of bpf/abi/nat.h.
const MaxGateways = 16

// Egress is a policy, or an uplink's own translation.
type Egress struct {
	// Name is a policy's; an uplink's own has "uplink/" before that of the uplink.
	Name   string
	Router string
	// Segment is the policy's own between edges and gateways; "" of an uplink's own.
	Segment string
	// Uplink is the segment of the uplink by which this edge sends what it translates, and
	// where it answers for Owned; "" where it is no gateway.
	Uplink                           string
	PerConnection, Independent, Open bool
	Ports                            overlay.PortRange
	Limit, InboundLimit              uint32
	// Pool is what this edge translates to now, by family: IPv4, IPv6.
	Pool [2][]netip.Addr
	// Owned are those that it answers for now: in ARP, neighbour discovery and to pings.
	Owned []netip.Addr
	// Leased: Owned are answered for only while RenewLease is called, as another gateway
	// takes them over from a process that has ended.
	Leased bool
	// Kept are gateways, by their first addresses, whose flows stay with them while those
	// are in the flow cache: draining ones that still answer for addresses, and those that translate
	// to addresses of their own. At most MaxGateways.
	Kept []netip.Addr
	// Ways of the buckets, by family.
	Ways [2][EgressBuckets]EgressNexthop
}

// EgressNexthop is who serves the sources of a bucket.
type EgressNexthop struct {
	// Remote is the gateway's first address; unset: this edge where Here is set, else nobody.
	Remote netip.Addr
	Here   bool
	// First is the index in Pool of the address that is tried first.
	First uint16
}

// Forward leads a port of an address that this edge answers for to a host.
type Forward struct {
	Router string
	Egress string // name of the Egress whose address it is
	Proto  uint8
	Addr   netip.Addr
	Port   uint16
	To     netip.Addr
	ToPort uint16
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
	// CsumPartial: frames may come with TCP and UDP checksums that are not filled in. They
	// are left to tc.
	CsumPartial bool
}

// Router is a VRF with all its routes: connected, static, learned and leaked.
type Router struct {
	Name   string
	Routes []Route
	// Loopbacks are addresses of this edge's router on no segment.
	Loopbacks []netip.Addr
}

// Route is one entry of a router's table. The longest prefix wins; there is one
// entry a prefix.
type Route struct {
	Prefix netip.Prefix
	Kind   overlay.RouteKind // of PutRoutes: "" takes it away
	Hops   []Hop             // of a unicast route, at least one; more than one is ECMP
	// Learned routes, which BGP told, leave room for others in the tables.
	Learned bool
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
	Uplink bool
	// Down: its link is, and what would leave by it is dropped.
	Down    bool
	MTU     int // of the interface, an IP packet's size in bytes
	Allowed *overlay.Allowed
	Limits  overlay.Limits
	// AllowRA and DHCPServer are whether a router and a DHCP server may be at the port.
	AllowRA, DHCPServer bool
}

// TEP is a path to a remote tunnel endpoint. A remote edge has one for each pair of
// addresses; the one from Config.TEPs' first to Edge stands for all. A pair whose route has several
// next hops has one for each of them besides, and the one without Via stands for those.
type TEP struct {
	Addr    netip.Addr
	Local   netip.Addr // this edge's end; unset: the first of Config.TEPs
	Via     overlay.Via
	Edge    netip.Addr // the remote edge's first address; unset: Addr
	Ifindex int        // of the underlay interface; 0 when there is no route, or its link is down
	MTU     int        // of the path: an IP packet's size in bytes
	SrcMAC  overlay.MAC
	NextMAC overlay.MAC // zero while unresolved: the kernel's neighbour table is asked per packet
	// Down has what was decided to go this way decided again.
	Down bool
}

// PathPolicy is how segments choose among the paths to a remote.
type PathPolicy struct {
	Source     bool // by port and source MAC address, not by flow
	PathGroups []PathGroup
}

// PathGroup shares the flows to one remote among paths.
type PathGroup struct {
	Remote  netip.Addr // its first address
	Paths   []overlay.Pair
	Buckets [PathBuckets]uint8 // indexes of Paths
}

// PathBuckets is SPREAD_BUCKETS of bpf/abi/abi.h.
const PathBuckets = 64

package overlay

import (
	"net/netip"
	"time"
)

// BGP is how an edge tells others of its hosts and prefixes, and learns of theirs
// (RFC 4271).
type BGP struct {
	AS       uint32
	RouterID netip.Addr // IPv4
	// Listen are the addresses at which sessions are accepted; nil: they are only opened.
	Listen     []netip.AddrPort
	Neighbours []BGPNeighbour
	Restart    BGPRestart
	Policies   []RoutePolicy
	// Targets is how route targets are made where none are configured.
	Targets    TargetStyle
	Duplicates Duplicates
	// MostPrefixes of a family are used of a neighbour without MaxPrefixes; 0: any number.
	MostPrefixes int
}

// BGPNeighbour is a session with another speaker.
type BGPNeighbour struct {
	Name  string
	Addr  netip.Addr
	Port  uint16
	AS    uint32
	Local netip.Addr // of this end; unset: as the host routes
	// Families are those that are exchanged.
	Families []BGPFamily
	// Uplink is the one, by name, to whose router the routes of unicast families belong.
	Uplink string
	// Announce is what of the router is told, of unicast families.
	Announce []RouteSource
	Password string // of TCP MD5 signatures (RFC 2385), "" without
	// Hops is how far away the neighbour may be: with Security packets that came further
	// are refused (GTSM, RFC 5082), else it is the TTL of what is sent; 0: 1 to another AS,
	// any within one.
	Hops     uint8
	Security bool
	// Passive waits for the neighbour to open the session.
	Passive bool
	Timers  BGPTimers
	// MaxPrefixes of a family end the session when there are more; 0: MostPrefixes are used.
	MaxPrefixes uint32
	// Liveness ends the session when a BFD session with the neighbour does.
	Liveness       bool
	Import, Export []string // names of policies, which are asked in this order
}

// BGPTimers are those of a session.
type BGPTimers struct{ Hold, Keepalive, ConnectRetry time.Duration }

// BGPFamily is an address family.
type BGPFamily string

// The address families.
const (
	FamilyEVPN BGPFamily = "evpn" // RFC 7432
	FamilyIPv4 BGPFamily = "ipv4"
	FamilyIPv6 BGPFamily = "ipv6"
)

// RouteSource is where a prefix comes from that is announced.
type RouteSource string

// The sources of announced prefixes.
const (
	SourceConnected RouteSource = "connected" // networks of gateways
	SourceStatic    RouteSource = "static"
	SourceLoopback  RouteSource = "loopback"
	SourceUplink    RouteSource = "uplink" // networks of uplinks, and what their neighbours told
	SourceEVPN      RouteSource = "evpn"   // what other edges told
	SourceEgress    RouteSource = "egress" // addresses of pools that this edge answers for now
)

// BGPRestart is what happens to routes while a session is not there.
type BGPRestart struct {
	// Time is how long neighbours keep this edge's routes after its process ends
	// (graceful restart, RFC 4724), whole seconds up to 4095; 0: not at all.
	Time time.Duration
	// Stale is how long this edge, and by long-lived graceful restart (RFC 9494) its
	// neighbours, go on with routes whose session was lost; 0: not at all.
	Stale time.Duration
}

// TargetStyle is how a route target is made from a VNI.
type TargetStyle string

// The styles of route targets. On import the AS of an automatic one is not looked at.
const (
	TargetsVNI     TargetStyle = "vni"     // AS:VNI, as FRR and most vendors do
	TargetsRFC8365 TargetStyle = "rfc8365" // of section 5.1.2.1
)

// Duplicates is when a MAC address that keeps moving is frozen (RFC 7432 section 15.1).
type Duplicates struct {
	Moves  int // so many within this time; 0: never
	Within time.Duration
	Freeze time.Duration // for how long; 0: until it is thawed by command
}

// RouteTarget is an extended community, its 8 bytes in network order (RFC 4360).
type RouteTarget uint64

// RouteDistinguisher is one's 8 bytes in network order (RFC 4364 section 4.2).
type RouteDistinguisher uint64

// EVPNInstance makes a segment, or the L3 segment of a router, an EVPN instance.
type EVPNInstance struct {
	RD             RouteDistinguisher // 0: automatic, ROUTER-ID:N
	Import, Export []RouteTarget      // nil: automatic
	// Announce is what of a router is told as prefixes (type 5, RFC 9136); of L3 segments.
	Announce []RouteSource
}

// RoutePolicy is a list of statements. The first that matches decides; a route that none
// matches goes to the next policy, and is accepted after the last.
type RoutePolicy struct {
	Name       string
	Statements []RouteStatement
}

// RouteStatement matches where all its conditions do; an empty one always does.
type RouteStatement struct {
	Prefixes    []PrefixRange
	Communities []Community // one of them
	Reject      bool
	LocalPref   *uint32
	MED         *uint32
	Add         []Community
	Prepend     uint8 // so often the own AS
}

// PrefixRange matches prefixes within Prefix of Min to Max bits.
type PrefixRange struct {
	Prefix   netip.Prefix
	Min, Max int
}

// Community is one of RFC 1997.
type Community uint32

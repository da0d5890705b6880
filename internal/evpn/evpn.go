// Package evpn decides what BGP EVPN routes mean for an edge (RFC 7432, 8365, 9135, 9136):
// what an edge announces of its hosts and prefixes, and which of the routes that others
// announce it uses, and why not of the rest.
//
// Its one invariant: it does no I/O and has no clock; the same routes in any order lead to the
// same tables. Sessions are the speaker's (package speaker), maps the data path's.
package evpn

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// RouteType is that of an EVPN route, or 0 of a unicast one.
type RouteType uint8

// The route types that are told and understood (RFC 7432 section 7, RFC 9136 section 3).
const (
	Unicast   RouteType = 0
	MACIP     RouteType = 2
	Multicast RouteType = 3
	Prefix    RouteType = 5
)

// Key tells routes apart, as their NLRI does; those of one neighbour with equal keys replace
// each other.
type Key struct {
	Type RouteType
	RD   overlay.RouteDistinguisher
	Tag  uint32 // Ethernet tag
	MAC  overlay.MAC
	// Addr is the host's address of MACIP, unset without one, and the originator's of
	// Multicast.
	Addr   netip.Addr
	Prefix netip.Prefix
	Uplink string // of Unicast: to which a route belongs
}

// Route is one that was received or is announced.
type Route struct {
	Key
	NextHop netip.Addr
	ESI     [10]byte // zero: single-homed
	// VNI is the first label; L3VNI the second of MACIP, 0 without.
	VNI, L3VNI overlay.VNI
	Gateway    netip.Addr // of Prefix: the overlay index, unset without
	Targets    []overlay.RouteTarget
	// Encapsulation is "" where the route does not say (then it is VXLAN's).
	Encapsulation overlay.Encapsulation
	RouterMAC     overlay.MAC // zero without
	// Sequence is that of MAC mobility, 0 without (RFC 7432 section 7.7).
	Sequence       uint32
	Sticky         bool
	DefaultGateway bool
	// ND is of MACIP with an IPv6 address, 0 without the community.
	ND             rib.NDFlags
	LocalPref, MED uint32
	ASPath         []uint32
	Looped         bool // the path had this edge's AS when it was received
	Communities    []overlay.Community
}

// Update is a route that a neighbour announced or withdrew.
type Update struct {
	Neighbour netip.Addr
	Route     Route
	Withdrawn bool
}

// Session is a change of one with a neighbour.
type Session struct {
	Neighbour netip.Addr
	// Up: it is established; Complete: the neighbour said all that it has (End-of-RIB).
	Up, Complete bool
	// Ended: it was taken out of the configuration, so that its routes go at once.
	Ended bool
	At    time.Time
}

// Host is a workload at a port of this edge.
type Host struct {
	Segment string
	MAC     overlay.MAC
	Addr    netip.Addr // unset: of the MAC address itself
	ND      rib.NDFlags
}

// Changes is what has to be done after something was learned, in this order: remotes (when
// Remotes is set, by merging the Fabric and reconciling), stations, residents, routes, and
// what is to be told.
type Changes struct {
	Remotes    bool
	MACs       []rib.BGPMAC
	Neighbours []rib.ARPEntry
	Routes     []rib.LearnedRoute
	Announce   []Route
	Withdraw   []Key
	// Forget are hosts at ports that are behind a remote now.
	Forget []Host
	Events []Event
}

// Event is something that an operator wants to know: in words, with what it is about.
type Event struct {
	What    string // "moved here", "moved away", "frozen", "thawed", "duplicate address", "gateway differs", "stale", …
	Segment string
	MAC     overlay.MAC
	Addr    netip.Addr
	Remote  netip.Addr
	Detail  string
}

// Move is a MAC address that moved lately.
type Move struct {
	Segment string
	MAC     overlay.MAC
	Moves   int // to and from this edge, within Duplicates.Within
	Last    time.Time
	Frozen  bool
	Until   time.Time // of Frozen, zero: until it is thawed
}

// Counts is how many routes there are.
type Counts struct {
	Advertised            int // by this edge
	Received, Used        int
	Stale                 int // of those used
	NoRoom                int // not used, as tables are full
	NoTarget, NoRouterMAC int // of those not used
	Frozen                int // MAC addresses
}

// Status is a route and what became of it in a segment or a router: one that concerns both
// (a host with an address, in symmetric IRB) is there twice.
type Status struct {
	Neighbour netip.Addr // unset: this edge's own
	Route     Route
	Used      bool
	For       string // segment or router that uses it, or would
	Why       string // not used: the cause and the cure; or used, but with a reservation
	// Problem is in short what an operator should look at, "" where all is as it should be.
	Problem string
	Stale   bool
	At      time.Time // received
}

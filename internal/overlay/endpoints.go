package overlay

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// MaxTEPs is how many tunnel endpoints an edge, or a remote, has at most.
const MaxTEPs = 8

// TEP is a tunnel endpoint of this edge.
type TEP struct {
	Name string // "" of the only one of an edge that has no names for them
	Addr netip.Addr
	// Interface carries its tunnels; "" lets the routing table choose among the
	// underlay's interfaces.
	Interface string
}

// Pair is a tunnel endpoint of this edge and one of a remote, or one of several paths between them.
type Pair struct {
	Local, Remote netip.Addr
	// Via is one of several next hops of the route. It is zero where there is only one, and
	// where all of them are meant.
	Via Via
}

// Via is a next hop of a route with several (ECMP).
type Via struct {
	Addr      netip.Addr
	Interface string
}

// String returns "ADDRESS dev INTERFACE", as ip-route(8) does.
func (v Via) String() string { return fmt.Sprintf("%s dev %s", v.Addr, v.Interface) }

// Compare orders next hops by their interface, then their address.
func (v Via) Compare(o Via) int {
	return cmp.Or(cmp.Compare(v.Interface, o.Interface), v.Addr.Compare(o.Addr))
}

// Endpoints is p with any next hop.
func (p Pair) Endpoints() Pair { return Pair{Local: p.Local, Remote: p.Remote} }

// String returns "LOCAL to REMOTE", and of one of several next hops " via ADDRESS dev INTERFACE".
func (p Pair) String() string {
	if p.Via == (Via{}) {
		return fmt.Sprintf("%s to %s", p.Local, p.Remote)
	}
	return fmt.Sprintf("%s to %s via %s", p.Local, p.Remote, p.Via)
}

// Compare orders pairs by their local, then their remote address, then their next hop.
func (p Pair) Compare(o Pair) int {
	return cmp.Or(p.Local.Compare(o.Local), p.Remote.Compare(o.Remote), p.Via.Compare(o.Via))
}

// Teaming says which of the live paths to a remote a packet takes.
type Teaming string

// The values of Teaming.
const (
	PathPolicyFlow     Teaming = "flow"     // by the 5-tuple of the inner packet, over all of them
	PathPolicySource   Teaming = "source"   // by the port and source MAC address that it came from, over all of them
	PathPolicyFailover Teaming = "failover" // the first one; the others stand by
)

// Liveness asks for BFD sessions (RFC 5880) between this edge's TEPs and those of
// the remotes.
type Liveness struct {
	Interval   time.Duration // between packets, both ways
	Multiplier uint8         // so many intervals of silence are a failure
	// Hops is how many links may lie between two TEPs: 1 is a single-hop session
	// (RFC 5881), more a multihop one (RFC 5883). 0 takes single-hop where a remote is
	// on the network of a TEP and multihop elsewhere.
	Hops uint8
}

// TransitMode says where packets that only pass through, between tunnels and
// uplinks, are taken.
type TransitMode string

// The values of TransitMode. TransitAuto is native XDP where the edge has uplinks,
// the driver can and the interface is no veth, else tc.
const (
	TransitAuto    TransitMode = "auto"
	TransitNative  TransitMode = "native"  // XDP in the driver
	TransitGeneric TransitMode = "generic" // XDP after the driver
	TransitTC      TransitMode = "tc"
)

// Transit is how underlay and uplinks take packets that only pass through.
type Transit struct{ Mode TransitMode }

// Remote is another edge. Everywhere in the model its first address stands for it.
type Remote struct {
	Name  string // "" of one that is known by its address only
	Addrs []netip.Addr
}

// Local returns the tunnel endpoints of this edge, in their order of preference.
func (u Underlay) Local() []TEP {
	if len(u.TEPs) > 0 {
		return u.TEPs
	}
	return []TEP{{Addr: u.TEP}}
}

// Remote returns the edge with this address, which is one of its own alone where the
// configuration does not name it.
func (e Edge) Remote(addr netip.Addr) Remote {
	for _, r := range e.Remotes {
		if slices.Contains(r.Addrs, addr) {
			return r
		}
	}
	return Remote{Addrs: []netip.Addr{addr}}
}

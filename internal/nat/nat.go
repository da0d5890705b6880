// Package nat says who translates what: which gateway and which address of a policy's
// pool serve a source, which gateway answers for an address, and which rules send packets
// to the policies.
//
// Its one invariant: it is a function of the configuration and of the gateways' state
// alone, without history, so that edges which know the same decide the same without a word
// between them. Translation itself is the data path's, bpf/nat/nat.h.
package nat

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// State is what other edges know of a gateway.
type State uint8

// The states.
const (
	Serving  State = iota
	Draining       // leaves new connections to others, where there are any
	Gone           // its sources and addresses are the others'
)

// String returns the word for users.
func (s State) String() string {
	switch s {
	case Serving:
		return "serving"
	case Draining:
		return "draining"
	}
	return "gone"
}

// MaxPool is how many addresses a policy may have, of both families together.
const MaxPool = 1024

// Server is who serves the sources of a bucket.
type Server struct {
	// Remote is the gateway's first address; unset: this edge where Here is set, else nobody.
	Remote netip.Addr
	Here   bool
	// First is the index in Pool of the address that this edge tries first, should sources
	// of the bucket come to it.
	First uint16
}

// Address is one of a policy's pool.
type Address struct {
	Addr netip.Addr
	// Owner is the gateway that answers for the address, unset when all are gone.
	Owner netip.Addr
	// Server is the one that gives it to new connections: Owner, or unset.
	Server netip.Addr
}

// Plan is how the gateways of a policy share the work, as one edge sees it. What is by
// family has IPv4 first.
type Plan struct {
	// Pool is what this edge gives to new connections, Owned what it answers for. Both are
	// empty where it is no gateway of the policy.
	Pool    [2][]netip.Addr
	Owned   []netip.Addr
	Servers [2][Buckets]Server
	// Kept are other gateways, with which the flows stay that they have: they drain, and
	// still answer for their addresses; or these do not move.
	Kept []netip.Addr
	// Addresses are all of the policy's, sorted, the families one after the other. Where sources become the address
	// of an uplink they are this gateway's.
	Addresses []Address
}

// NewPlan shares the work of a policy among the gateways of its group. state is asked
// about each member, and about self where it is one.
//
// In an active-standby group the first serving member has all. In an active-active one
// each address of the pool has a home, as many as the next one's; a member that goes away
// leaves its addresses to the others, and takes them back when it returns, without any other
// moving. A draining member keeps its addresses there, and sources go to those of the others.
// Where nobody serves, draining members go on.
//
// own are the addresses of the policy's uplink at self by family, which count where p.UplinkAddress is set.
func NewPlan(p overlay.EgressPolicy, g overlay.GatewayGroup, self netip.Addr, own [2]netip.Addr, state func(netip.Addr) State) Plan {
	members := make([]member, len(g.Members))
	for i, addr := range g.Members {
		members[i] = member{addr, digest(addr), state(addr)}
	}
	if p.UplinkAddress {
		return newUplinkPlan(g, members, self, own)
	}
	var plan Plan
	for f, addrs := range Expand(p.Pool) {
		shares := share(addrs, members, g.Mode)
		plan.Servers[f] = servers(shares, self)
		for _, s := range shares {
			plan.Addresses = append(plan.Addresses, s.Address)
			if s.Owner == self && self.IsValid() {
				plan.Owned = append(plan.Owned, s.Addr)
			}
			if s.Server == self && self.IsValid() {
				plan.Pool[f] = append(plan.Pool[f], s.Addr)
			}
		}
	}
	plan.Kept = kept(plan.Addresses, members, self)
	return plan
}

// Expand is all addresses of ranges, by family and sorted, each once. Each range has
// MaxPool addresses at most, as Count says.
func Expand(ranges []overlay.AddrRange) (families [2][]netip.Addr) {
	for _, r := range ranges {
		f := Family(r.First)
		for addr := r.First; addr.IsValid() && addr.Compare(r.Last) <= 0; addr = addr.Next() {
			families[f] = append(families[f], addr)
		}
	}
	for f := range families {
		slices.SortFunc(families[f], netip.Addr.Compare)
		families[f] = slices.Compact(families[f])
	}
	return families
}

// Count is how many addresses ranges have, each range for itself; more than most is most+1.
func Count(ranges []overlay.AddrRange, most int) int {
	n := 0
	for _, r := range ranges {
		for addr := r.First; addr.IsValid() && addr.Compare(r.Last) <= 0 && n <= most; addr = addr.Next() {
			n++
		}
	}
	return n
}

// Family is where arrays by family have that of an address: IPv4, IPv6.
func Family(addr netip.Addr) int {
	if addr.Is4() {
		return 0
	}
	return 1
}

package nat

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// newUplinkPlan shares the work of a policy whose sources become the address of their gateway's uplink: own
// are those of self by family, unset where it has none.
//
// The gateways share addresses that no packet has, as many as they are, by the rules for a pool: so each of an
// active-active group has its part of the sources. An address does not move, and so neither do flows that a gateway has, as
// long as it is there. A gateway translates whatever comes to it, for others may take it for the server yet.
func newUplinkPlan(g overlay.GatewayGroup, members []member, self netip.Addr, own [2]netip.Addr) Plan {
	var plan Plan
	shares := share(standIns(len(members)), members, g.Mode)
	ways := servers(shares, self)
	for b := range ways {
		ways[b].First = 0
	}
	plan.Servers = [2][Buckets]Server{ways, ways}
	for _, m := range members {
		if m.addr != self && m.state != Gone {
			plan.Kept = append(plan.Kept, m.addr)
		}
	}
	if !slices.Contains(g.Members, self) {
		return plan
	}
	var server netip.Addr
	if slices.ContainsFunc(shares, func(s portion) bool { return s.Server == self }) {
		server = self
	}
	for f, addr := range own {
		if addr.IsValid() {
			plan.Pool[f] = []netip.Addr{addr}
			plan.Addresses = append(plan.Addresses, Address{Addr: addr, Owner: self, Server: server})
		}
	}
	return plan
}

// standIns are so many addresses of 0.0.0.0/8, which is in no packet (RFC 1122 section 3.2.1.3).
func standIns(n int) []netip.Addr {
	list := make([]netip.Addr, n)
	for i := range list {
		list[i] = netip.AddrFrom4([4]byte{0, 0, byte((i + 1) >> 8), byte(i + 1)})
	}
	return list
}

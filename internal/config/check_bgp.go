package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

const privateAS = "64512 to 65534 and 4200000000 to 4294967294 are for private use"

// bgpChecker checks sessions, and what they exchange.
type bgpChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c bgpChecker) check() {
	b := c.doc.Spec.BGP
	if b == nil {
		return
	}
	const path = "spec.bgp"
	c.as(path+".as", b.AS)
	if tep := c.doc.Spec.Underlay.firstTEP(); tep.Is6() && !c.file.given(path+".routerID") && !c.file.failed[path] {
		c.file.problem(path+".routerID", fmt.Sprintf("is missing, and cannot be the tep %s, which is IPv6", tep),
			"add it: an IPv4 address that identifies this edge, unique among BGP speakers")
	}
	listed := unique[netip.AddrPort]{}
	for i, l := range b.Listen {
		at := fmt.Sprintf("%s.listen[%d]", path, i)
		listed.add(c.file, l.AddrPort, netip.AddrPort{}, at, fmt.Sprintf("%s is already listed", l.AddrPort), "keep one")
		if first := b.Listen[0]; first.IsValid() && l.IsValid() && l.Port() != first.Port() {
			c.file.problem(at, fmt.Sprintf("port %d differs from the %d of %s", l.Port(), first.Port(), first.Addr()), "give all addresses the same port")
		}
	}
	if b.Duplicates.Moves == 1 {
		c.file.problem(path+".duplicates.moves", "1 would freeze every host that moves", "5 is usual, 0 never freezes")
	}
	if b.Duplicates.Within == 0 && c.file.given(path+".duplicates.within") {
		c.file.problem(path+".duplicates.within", "no move can be within 0s", "180s is usual; moves: 0 never freezes")
	}
	policies := routePolicyChecker{c.file}.check(path, b.Policies)
	names, addresses := unique[objectName]{}, unique[netip.Addr]{}
	for i, n := range b.Neighbours {
		at := fmt.Sprintf("%s.neighbours[%d]", path, i)
		names.add(c.file, n.Name, "", at+".name", fmt.Sprintf("neighbour %q already exists", n.Name), "names are unique")
		addresses.add(c.file, n.Address.Addr, netip.Addr{}, at+".address", fmt.Sprintf("%s is already a neighbour", n.Address), "there is only one session with a speaker: put all families into it")
		c.as(at+".as", n.AS)
		c.vports(at, n)
		c.session(at, n)
		c.neighbourUplink(at, n)
		c.neighbourPolicies(at+".import", n.Import, policies)
		c.neighbourPolicies(at+".export", n.Export, policies)
	}
	c.sameAnnounced(path, b.Neighbours)
}

// sameAnnounced checks that all neighbours at an uplink are told the same: what is told is
// the uplink's, and policies choose among it.
func (c bgpChecker) sameAnnounced(path string, list []bgpNeighbour) {
	first := map[objectName]int{}
	for i, n := range list {
		j, again := first[n.Uplink]
		if n.Uplink == "" || c.file.failedIn(fmt.Sprintf("%s.neighbours[%d]", path, i), "advertise", "uplink", "families") {
			continue
		}
		if !again {
			first[n.Uplink] = i
			continue
		}
		given := func(n bgpNeighbour) []overlay.RouteSource {
			return slices.Sorted(slices.Values(c.doc.neighbour(n).Announce))
		}
		if !slices.Equal(given(n), given(list[j])) {
			c.file.problem(fmt.Sprintf("%s.neighbours[%d].advertise", path, i), fmt.Sprintf("neighbour %q at the same uplink has another advertise", list[j].Name),
				"give all neighbours of an uplink the same advertise; policies in export select from it")
		}
	}
}

// as refuses the numbers that nobody has.
func (c bgpChecker) as(path string, as uint32) {
	switch as {
	case 23456:
		c.file.problem(path, "23456 stands for any number of 4 octets (RFC 6793)", "write the number itself; "+privateAS)
	case 65535:
		c.file.problem(path, "65535 is reserved (RFC 7300)", privateAS)
	}
}

// vports checks between which addresses the session with n is.
func (c bgpChecker) vports(path string, n bgpNeighbour) {
	local := n.LocalAddress.Addr
	if n.Address.IsValid() && c.doc.Spec.Underlay.hasTEP(n.Address.Addr) {
		c.file.problem(path+".address", fmt.Sprintf("%s is this edge's own tep", n.Address), "list the other speakers only; one on this host has another address, such as 127.0.0.1")
	}
	if n.Address.IsValid() && local.IsValid() && n.Address.Is4() != local.Is4() {
		c.file.problem(path+".localAddress", fmt.Sprintf("%s is %s but the neighbour %s is %s", local, family(local), n.Address, family(n.Address.Addr)), "a session is of one family")
	}
}

// session checks how it comes about and ends.
func (c bgpChecker) session(path string, n bgpNeighbour) {
	if n.Multihop > 0 && n.Security > 0 {
		c.file.problem(path+".ebgpMultihop", "cannot be combined with ttlSecurity", "remove it: ttlSecurity says how far away the neighbour is")
	}
	if n.Passive && c.doc.Spec.BGP.Listen == nil && !c.file.failedIn("spec.bgp", "listen") {
		c.file.problem(path+".passive", "neither end would open the session: there is no spec.bgp.listen", "add listen, as in [192.0.2.1], or remove the line")
	}
	if keepalive, hold := time.Duration(n.Timers.Keepalive), time.Duration(n.Timers.Hold); hold > 0 && 3*keepalive > hold {
		c.file.problem(path+".timers.keepalive", fmt.Sprintf("%s is more than a third of hold, %s", keepalive, hold), "raise hold, or lower this: one or two lost packets must not end the session")
	}
	if u := c.doc.Spec.Underlay; n.Liveness && u.Liveness == nil && !c.file.failedIn("spec", "underlay") && !c.file.failed["spec.underlay.bfd"] {
		c.file.problem(path+".bfd", "BFD is not configured", "add spec.underlay.bfd, which may be empty: {}")
	}
	families := unique[bgpFamily]{}
	for j, f := range n.Families {
		families.add(c.file, f, "", fmt.Sprintf("%s.families[%d]", path, j), fmt.Sprintf("%s is already listed", f), "keep one")
	}
}

// neighbourUplink checks where unicast routes belong.
func (c bgpChecker) neighbourUplink(path string, n bgpNeighbour) {
	unicast := func(f bgpFamily) bool { return f != bgpFamily(overlay.FamilyEVPN) }
	if c.file.failedIn(path, "families", "uplink") || slices.Contains(n.Families, "") {
		return
	}
	switch j := slices.IndexFunc(n.Families, unicast); {
	case n.Uplink == "" && j >= 0:
		c.file.problem(fmt.Sprintf("%s.families[%d]", path, j), fmt.Sprintf("%s routes belong to an uplink, but none is given", n.Families[j]),
			"add uplink: the name of the one that leads to the neighbour")
		return
	case n.Uplink == "" && c.file.given(path+".advertise"):
		c.file.problem(path+".advertise", "applies to ipv4 and ipv6, which this neighbour does not exchange", "remove it; routers[].l3.evpn.advertise says what EVPN advertises")
		return
	case n.Uplink == "":
		return
	case j < 0 && len(n.Families) > 0:
		c.file.problem(path+".uplink", "applies to ipv4 and ipv6, which this neighbour does not exchange", "add one to families, or remove this")
		return
	}
	c.uplinkOf(path, n)
	given := unique[unicastSource]{}
	for j, s := range n.Announce {
		given.add(c.file, s, "", fmt.Sprintf("%s.advertise[%d]", path, j), fmt.Sprintf("%s is already listed", s), "keep one")
	}
}

// uplinkOf checks that the uplink of n exists and can carry the families.
func (c bgpChecker) uplinkOf(path string, n bgpNeighbour) {
	_, u := c.doc.uplink(n.Uplink)
	if u == nil {
		if names, _, complete := c.declared.routed(); complete {
			c.file.problem(path+".uplink", fmt.Sprintf("there is no uplink %q", n.Uplink), suggest(string(n.Uplink), names, "uplinks"))
		}
		return
	}
	for _, a := range u.Addresses {
		if !a.IsValid() {
			return
		}
		const hint = "the uplink's addresses are the router's; the session runs from one that the host has itself in that network"
		switch a.Addr() {
		case n.Address.Addr:
			c.file.problem(path+".address", fmt.Sprintf("%s is the uplink's own address", n.Address), "give the address of the router behind the uplink")
		case n.LocalAddress.Addr:
			c.file.problem(path+".localAddress", fmt.Sprintf("%s is the uplink's own address", n.LocalAddress), hint)
		}
	}
	for j, f := range n.Families {
		if f != bgpFamily(overlay.FamilyEVPN) && !u.has(f.model()) {
			c.file.problem(fmt.Sprintf("%s.families[%d]", path, j), fmt.Sprintf("uplink %q has no %s address to be a next hop", u.Name, f), "add one to the uplink, or remove the family")
		}
	}
}

// neighbourPolicies checks a list of names.
func (c bgpChecker) neighbourPolicies(path string, list []objectName, known nameSet) {
	listed := unique[objectName]{}
	for j, name := range list {
		at := fmt.Sprintf("%s[%d]", path, j)
		listed.add(c.file, name, "", at, fmt.Sprintf("policy %q is already listed", name), "keep one")
		if known.lacks(string(name)) {
			c.file.problem(at, fmt.Sprintf("there is no policy %q", name), suggest(string(name), known.list, "policies in spec.bgp.policies"))
		}
	}
}

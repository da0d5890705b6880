package evpn

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What is known of a fabric, as speakers say it and as the tables that forward do.

// session is a fact: every edge has one with the reflector of that address, and was told
// everything.
func (n *fabric) session(reflector netip.Addr) {
	n.T.Helper()
	for i, e := range n.Fabric.Edges {
		n.Fact(fmt.Sprintf("%s has a BGP session with %s", e.Name, reflector), func() error {
			if e.FRR != nil {
				return e.FRR.Sessions(n.Ctx, reflector)
			}
			return n.established(i+1, reflector)
		})
	}
}

// established says what is wrong with a session of an edge of Selvage.
func (n *fabric) established(number int, neighbour netip.Addr) error {
	bgp, err := n.api(number).BGP().Info(n.Ctx)
	for _, s := range bgp.Neighbours {
		if s.Address != neighbour {
			continue
		}
		if s.State != "established" || !s.Complete {
			return fmt.Errorf("it is %s, complete %t: %s", s.State, s.Complete, s.Why)
		}
		return nil
	}
	return errors.Join(fmt.Errorf("no neighbour %s", neighbour), err)
}

// multicast is a fact: an edge floods to another one (type 3).
func (n *fabric) multicast(number, other int) {
	n.T.Helper()
	tep := n.edge(other).TEP
	n.Fact(fmt.Sprintf("%s uses the multicast route of %s", n.edge(number).Name, n.edge(other).Name), func() error {
		if !n.ours(number) {
			return n.zebraFloods(number, tep)
		}
		_, err := n.used(number, api.BGPRouteQuery{Type: api.BGPRouteMulticast}, func(r api.BGPRouteInfo) bool { return r.NextHop == tep })
		return err
	})
}

// zebraFloods: the kernel has the TEP in the default entry of a tunnel of the edge.
func (n *fabric) zebraFloods(number int, tep netip.Addr) error {
	return n.fdbHas(number, "00:00:00:00:00:00", tep)
}

// fdbHas: the kernel of an edge has a MAC address behind a TEP.
func (n *fabric) fdbHas(number int, mac string, tep netip.Addr) error {
	out, err := n.edge(number).Output(n.Ctx, "bridge", "fdb", "show")
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, mac+" ") && strings.Contains(line, " dst "+tep.String()+" ") {
			return err
		}
	}
	return errors.Join(fmt.Errorf("nothing of %s behind %s in\n%s", mac, tep, out), err)
}

// used returns a route that an edge uses, of those that a query finds and is is true of.
func (n *fabric) used(number int, q api.BGPRouteQuery, is func(api.BGPRouteInfo) bool) (api.BGPRouteInfo, error) {
	routes, err := n.api(number).BGP().Routes(n.Ctx, q)
	if err != nil {
		return api.BGPRouteInfo{}, err
	}
	var why []string
	for _, r := range routes {
		if r.Neighbour == "" || !is(r) {
			continue
		}
		if r.Used {
			return r, nil
		}
		why = append(why, r.Why)
	}
	return api.BGPRouteInfo{}, fmt.Errorf("of %d routes none is used that is looked for: %q", len(routes), why)
}

// knows is a fact: an edge has a guest's MAC address behind another edge: the route, then the
// entry of the table that forwards.
func (n *fabric) knows(number int, g harness.Guest, at int) {
	n.T.Helper()
	tep, mac := n.edge(at).TEP, overlay.MAC(g.Ether())
	who := fmt.Sprintf("%s has %s behind %s", n.edge(number).Name, g.Name, n.edge(at).Name)
	if !n.ours(number) {
		n.Fact(who, func() error { return n.fdbHas(number, mac.String(), tep) })
		return
	}
	n.Fact(who+", says a route", func() error {
		_, err := n.used(number, api.BGPRouteQuery{Type: api.BGPRouteMAC, MAC: mac}, func(r api.BGPRouteInfo) bool { return r.NextHop == tep })
		return err
	})
	n.Fact(who+", says the map", func() error {
		fdb, err := n.api(number).FDB(n.Ctx, api.EntryQuery{MAC: mac})
		for _, entry := range fdb.List {
			if entry.Remote == tep {
				return err
			}
			err = errors.Join(err, fmt.Errorf("%+v", entry))
		}
		return errors.Join(err, errors.New("it has it nowhere else"))
	})
}

// forgets is a fact: an edge does not have a guest's MAC address behind any other.
func (n *fabric) forgets(number int, g harness.Guest) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("%s has forgotten %s", n.edge(number).Name, g.Name), func() error { return n.forgotten(number, g) })
}

func (n *fabric) forgotten(number int, g harness.Guest) error {
	if !n.ours(number) {
		for _, e := range n.Fabric.Edges {
			if n.fdbHas(number, g.Ether().String(), e.TEP) == nil {
				return fmt.Errorf("it has it behind %s", e.Name)
			}
		}
		return nil
	}
	fdb, err := n.api(number).FDB(n.Ctx, api.EntryQuery{MAC: overlay.MAC(g.Ether())})
	for _, entry := range fdb.List {
		if entry.Remote.IsValid() {
			err = errors.Join(err, fmt.Errorf("%+v", entry))
		}
	}
	return err
}

// hasAddresses is a fact: the routes with both addresses of a guest are used.
func (n *fabric) hasAddresses(number int, g harness.Guest, at int) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		addr := g.Addr(family)
		n.Fact(fmt.Sprintf("%s has %s behind %s", n.edge(number).Name, addr, n.edge(at).Name), func() error {
			if n.ours(number) {
				q := api.BGPRouteQuery{Type: api.BGPRouteMAC, Addr: netip.PrefixFrom(addr, addr.BitLen())}
				_, err := n.used(number, q, func(r api.BGPRouteInfo) bool { return r.NextHop == n.edge(at).TEP && r.Address == addr })
				return err
			}
			out, err := n.edge(number).FRR.Do(n.Ctx, "show bgp l2vpn evpn route type macip")
			if err == nil && !strings.Contains(out, "["+addr.String()+"]") {
				err = errors.New(out)
			}
			return err
		})
	}
}

// hasPrefix is a fact: an edge uses the route of a prefix to another one (type 5).
func (n *fabric) hasPrefix(number int, prefix netip.Prefix, at int) {
	n.T.Helper()
	if n.ours(number) {
		n.Fact(fmt.Sprintf("%s uses the route of %s to %s", n.edge(number).Name, prefix, n.edge(at).Name), func() error {
			_, err := n.used(number, api.BGPRouteQuery{Type: api.BGPRoutePrefix}, func(r api.BGPRouteInfo) bool {
				return r.Prefix == prefix && r.NextHop == n.edge(at).TEP
			})
			return err
		})
	}
	n.hasRoute(number, prefix, at)
}

// hasRoute is a fact: an edge routes a prefix to another one.
func (n *fabric) hasRoute(number int, prefix netip.Prefix, at int) {
	n.T.Helper()
	tep := n.edge(at).TEP
	n.Fact(fmt.Sprintf("%s routes %s to %s", n.edge(number).Name, prefix, n.edge(at).Name), func() error {
		if n.ours(number) {
			return n.routedTo(number, prefix, tep)
		}
		out, err := n.edge(number).FRR.Do(n.Ctx, fmt.Sprintf("show %s route %s", map[bool]string{true: "ip", false: "ipv6"}[prefix.Addr().Is4()], prefix))
		if via := frrNextHop(tep, prefix.Addr().Is4()); err == nil && !strings.Contains(out, via) {
			err = fmt.Errorf("no %s in %s", via, out)
		}
		return err
	})
}

// routedTo: the data path has a next hop of a prefix, resolved.
func (n *fabric) routedTo(number int, prefix netip.Prefix, tep netip.Addr) error {
	routes, err := n.api(number).Routes(n.Ctx, netip.Addr{})
	for _, r := range routes {
		if r.Prefix != prefix {
			continue
		}
		for _, hop := range r.Hops {
			if (hop.Remote == tep || hop.Address == tep) && hop.State == "resolved" {
				return err
			}
		}
		return errors.Join(fmt.Errorf("%+v", r), err)
	}
	return errors.Join(errors.New("the data path has no such route"), err)
}

// frrNextHop is how FRR writes the TEP of a route: one of IPv6 has a mapped address.
func frrNextHop(tep netip.Addr, four bool) string {
	if four {
		return "* " + tep.String() + ","
	}
	b := tep.As4()
	return fmt.Sprintf("* ::ffff:%02x%02x:%x%02x,", b[0], b[1], b[2], b[3])
}

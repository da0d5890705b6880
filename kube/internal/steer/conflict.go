package steer

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Conflicts are the programs of the node that use what the steering would: the rules' priorities and tables, the bit of the mark, the
// names and addresses of the pair. They name the values of the chart by which to get out of the way.
func (s Steerer) Conflicts(cluster []netip.Prefix) ([]string, error) {
	s.Cluster = cluster
	var list []string
	rules, err := s.otherRules()
	list = append(list, rules...)
	errs := []error{err}
	for _, look := range []func() ([]string, error){s.otherRoutes, s.otherLinks, s.otherMarks} {
		more, err := look()
		list, errs = append(list, more...), append(errs, err)
	}
	slices.Sort(list)
	return slices.Compact(list), errors.Join(errs...)
}

func (s Steerer) otherRules() (list []string, err error) {
	for _, family := range families {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return list, fmt.Errorf("rules: %w", err)
		}
		for _, r := range rules {
			switch {
			case isOurs(r):
			case r.Priority == s.Config.Rule || r.Priority == s.Config.Rule-1:
				list = append(list, fmt.Sprintf("rule %d of the node is another program's (table %d): set agent.rulePriority", r.Priority, r.Table))
			case s.isOwnTable(r.Table):
				list = append(list, fmt.Sprintf("rule %d of the node leads to table %d: set agent.routingTable", r.Priority, r.Table))
			case r.Mark&s.mask() == s.Mark:
				list = append(list, fmt.Sprintf("rule %d of the node is for packets with mark %#x: %s", r.Priority, r.Mark, s.otherMark()))
			}
		}
	}
	return list, nil
}

func (s Steerer) isOwnTable(table int) bool { return table == s.Table || table == s.holdTable() }

// otherRoutes are those in the tables, and to the pair's networks. What leads to half of the Internet and more is a default route.
func (s Steerer) otherRoutes() (list []string, err error) {
	pair := -1
	if host, err := netlink.LinkByName(s.Link.Host); err == nil {
		pair = host.Attrs().Index
	}
	for _, family := range families {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return list, fmt.Errorf("routes: %w", err)
		}
		for _, r := range routes {
			if r.LinkIndex == pair || r.Protocol == protocol {
				continue
			}
			if s.isOwnTable(r.Table) {
				list = append(list, fmt.Sprintf("table %d of the node has another program's routes: set agent.routingTable", r.Table))
			}
			if to := prefixOf(r.Dst); to.IsValid() && to.Bits() > 7 && s.overlaps(to) {
				list = append(list, fmt.Sprintf("the node has a route to %s (table %d), %s", to, r.Table, s.otherLink()))
			}
		}
	}
	return list, nil
}

func prefixOf(n *ipNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}

func (s Steerer) overlaps(n netip.Prefix) bool {
	return slices.ContainsFunc(s.Link.HostAddrs, n.Overlaps)
}

func (s Steerer) otherLink() string {
	return fmt.Sprintf("where %s would have %s: set agent.link", s.Link.Host, s.Link.HostAddrs)
}

// otherLinks are interfaces with the pair's names or networks, and networks of the cluster.
func (s Steerer) otherLinks() (list []string, err error) {
	for _, n := range s.Cluster {
		if s.overlaps(n) {
			list = append(list, fmt.Sprintf("the cluster has network %s, %s", n, s.otherLink()))
		}
	}
	links, err := netlink.LinkList()
	if err != nil {
		return list, fmt.Errorf("interfaces: %w", err)
	}
	for _, l := range links {
		name := l.Attrs().Name
		if name == s.Link.Host || name == s.Link.Edge {
			if l.Type() != "veth" {
				list = append(list, fmt.Sprintf("interface %s of the node is a %s that is not Selvage's: rename or remove it", name, l.Type()))
			}
			continue
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			if own := prefixOf(a.IPNet); s.overlaps(own) {
				list = append(list, fmt.Sprintf("interface %s of the node has %s, %s", name, own, s.otherLink()))
			}
		}
	}
	return list, nil
}

func (s Steerer) otherMark() string {
	return fmt.Sprintf("it has the bit %#x by which pods are steered: set agent.mark", s.Mark)
}

// otherMarks are rules of netfilter that set the bit, or look for it.
func (s Steerer) otherMarks() (list []string, err error) {
	rules, err := markRules()
	for _, r := range rules {
		if r.bits&s.mask() == s.Mark && r.table != ownTable {
			list = append(list, fmt.Sprintf("chain %s of table %s (%s) uses mark %#x: %s", r.chain, r.table, r.by, r.bits, s.otherMark()))
		}
	}
	return list, err
}

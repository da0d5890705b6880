package steer

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Pods whose policies are not known are held by rules in front of the one that steers, `from POD`, and routes that let pass what is
// for the cluster. A CNI plugin makes them, on a node that may have no nft; they are few, and for a time.

func (s Steerer) holdTable() int { return s.Table + 1 }

func (s Steerer) holdRule(a netip.Addr) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table, r.Src, r.Protocol = familyOf(a), s.Config.Rule-1, s.holdTable(), prefix(netip.PrefixFrom(a, a.BitLen())), protocol
	return r
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// Hold has packets of addresses to outside the cluster go nowhere, until Release.
func (s Steerer) Hold(addresses []netip.Addr) error {
	for _, a := range addresses {
		if err := s.holdRoutes(familyOf(a)); err != nil {
			return err
		}
		if err := netlink.RuleAdd(s.holdRule(a)); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("rule from %s: %w", a, err)
		}
	}
	return nil
}

func (s Steerer) holdRoutes(family int) error {
	routes := []netlink.Route{{Protocol: protocol, Family: family, Table: s.holdTable(), Dst: everywhere(family), Type: unix.RTN_UNREACHABLE, Priority: 1}}
	for _, p := range s.Cluster {
		if familyOf(p.Addr()) == family {
			routes = append(routes, netlink.Route{Protocol: protocol, Family: family, Table: s.holdTable(), Dst: prefix(p.Masked()), Type: unix.RTN_THROW, Priority: 1})
		}
	}
	for _, r := range routes {
		if err := netlink.RouteReplace(&r); err != nil {
			return fmt.Errorf("route of table %d to %s: %w", r.Table, r.Dst, err)
		}
	}
	return nil
}

// Release ends what Hold did for addresses, held or not.
func (s Steerer) Release(addresses []netip.Addr) error {
	for _, a := range addresses {
		if err := netlink.RuleDel(s.holdRule(a)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("rule from %s: %w", a, err)
		}
	}
	return nil
}

// Held are the addresses of which packets are held.
func (s Steerer) Held() (list []netip.Addr, err error) {
	for _, family := range families {
		filter := netlink.NewRule()
		filter.Priority, filter.Table = s.Config.Rule-1, s.holdTable()
		rules, err := netlink.RuleListFiltered(family, filter, netlink.RT_FILTER_PRIORITY|netlink.RT_FILTER_TABLE)
		if err != nil {
			return list, fmt.Errorf("rules %d: %w", filter.Priority, err)
		}
		for _, r := range rules {
			if r.Src == nil {
				continue
			}
			if a, ok := netip.AddrFromSlice(r.Src.IP); ok {
				list = append(list, a.Unmap())
			}
		}
	}
	return list, nil
}

// RemoveHold takes away all that Hold made.
func (s Steerer) RemoveHold() error {
	list, err := s.Held()
	errs := []error{err, s.Release(list)}
	for _, family := range families {
		errs = append(errs, removeRoutes(family, s.holdTable()))
	}
	return errors.Join(errs...)
}

func removeRoutes(family, table int) error {
	routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: table, Protocol: protocol}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	errs := []error{err}
	for _, r := range routes {
		errs = append(errs, netlink.RouteDel(&r))
	}
	return errors.Join(errs...)
}

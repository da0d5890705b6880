package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Shaper is a queueing discipline, or a policer of a filter, by its name in tc(8).
type Shaper struct {
	Kind string `json:"kind"`
	Rate uint64 `json:"bytes_per_second,omitempty"` // 0 where it is that of its classes, or not told
}

// Shapers are the root queueing disciplines, and the policers, of interfaces that Devices listed, by name.
func (s *Survey) Shapers() (map[string][]Shaper, error) {
	all, err := dump(func() ([]netlink.Qdisc, error) { return s.host.handle.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	found := map[string][]Shaper{}
	for _, q := range all {
		a := q.Attrs()
		name := s.links[a.LinkIndex].Name
		switch q := q.(type) {
		case *netlink.Ingress, *netlink.Clsact:
			for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
				// An interface that is gone meanwhile has none.
				filters, _ := s.host.handle.FilterList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: a.LinkIndex}}, parent)
				found[name] = append(found[name], policers(filters)...)
			}
		case *netlink.Tbf:
			found[name] = append(found[name], Shaper{q.Type(), q.Rate})
		default:
			if a.Parent == netlink.HANDLE_ROOT {
				found[name] = append(found[name], Shaper{Kind: q.Type()})
			}
		}
	}
	return found, nil
}

// policers are those of filters.
func policers(filters []netlink.Filter) (found []Shaper) {
	for _, filter := range filters {
		var actions []netlink.Action
		var own *netlink.PoliceAction
		switch f := filter.(type) {
		case *netlink.U32:
			actions, own = f.Actions, f.Police
		case *netlink.FwFilter:
			actions, own = f.Actions, f.Police
		case *netlink.MatchAll:
			actions = f.Actions
		case *netlink.Flower:
			actions = f.Actions
		}
		if own != nil {
			actions = append(actions, own)
		}
		for _, action := range actions {
			if limit, is := action.(*netlink.PoliceAction); is {
				found = append(found, Shaper{limit.Type(), uint64(limit.Rate)})
			}
		}
	}
	return found
}

// IPsec counts the security associations of this network namespace. It needs CAP_NET_ADMIN.
func (s *Survey) IPsec() (int, error) {
	all, err := dump(func() ([]netlink.XfrmState, error) { return s.host.handle.XfrmStateList(unix.AF_UNSPEC) })
	if errors.Is(err, unix.EPROTONOSUPPORT) { // the kernel has none
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list IPsec's security associations: %w", err)
	}
	return len(all), nil
}

package steer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Steered are the pods' addresses in the table that the kernel has, by plan.ShortKey of their policy; nil without a table.
func (s Steerer) Steered(ctx context.Context) (map[string][]netip.Addr, error) {
	if listed, err := s.Listed(ctx); listed == "" || err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "nft", "-j", "list", "table", "inet", ownTable).Output()
	if err != nil {
		return nil, fmt.Errorf("nft: %w", err)
	}
	var list struct {
		Objects []struct {
			Set *struct {
				Name     string            `json:"name"`
				Elements []json.RawMessage `json:"elem"`
			} `json:"set"`
			Rule *struct {
				Comment     string `json:"comment"`
				Expressions []struct {
					Match *struct {
						Right any `json:"right"`
					} `json:"match"`
				} `json:"expr"`
			} `json:"rule"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("nft: %w", err)
	}
	sets, steered := map[string][]netip.Addr{}, map[string][]netip.Addr{}
	for _, o := range list.Objects { // sets come before rules
		if o.Set != nil && strings.HasPrefix(o.Set.Name, "pods") {
			for _, e := range o.Set.Elements {
				var a netip.Addr
				if err := json.Unmarshal(e, &a); err != nil {
					return nil, fmt.Errorf("set %s: %w", o.Set.Name, err)
				}
				sets[o.Set.Name] = append(sets[o.Set.Name], a)
			}
		}
		if o.Rule == nil || o.Rule.Comment == "" {
			continue
		}
		for _, e := range o.Rule.Expressions {
			if e.Match == nil {
				continue
			}
			if name, is := e.Match.Right.(string); is {
				steered[o.Rule.Comment] = append(steered[o.Rule.Comment], sets[strings.TrimPrefix(name, "@")]...)
			}
		}
	}
	return steered, nil
}

// Finds reports whether something on the node answers for a pod's address, and has the kernel ask. An answer takes a second or so: the
// next call has it.
func (s Steerer) Finds(a netip.Addr) (bool, error) {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 || routes[0].Gw != nil || routes[0].Type != unix.RTN_UNICAST {
		return false, nil //nolint:nilerr // there is no way to it
	}
	index := routes[0].LinkIndex
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
	list, err := netlink.NeighList(index, familyOf(a))
	if err != nil {
		return false, fmt.Errorf("neighbours: %w", err)
	}
	found := false
	for _, n := range list {
		found = found || n.IP.Equal(a.AsSlice()) && n.State&known != 0
	}
	ask := &netlink.Neigh{LinkIndex: index, Family: familyOf(a), IP: a.AsSlice(), Flags: netlink.NTF_USE}
	if err := netlink.NeighSet(ask); err != nil {
		return found, fmt.Errorf("ask for %s: %w", a, err)
	}
	return found, nil
}

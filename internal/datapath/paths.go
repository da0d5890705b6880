package datapath

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/fib"
)

// addressesOf are the addresses of each remote, by the first.
func addressesOf(t fib.Tables) map[netip.Addr][]netip.Addr {
	all := make(map[netip.Addr][]netip.Addr)
	for _, tep := range t.TEPs {
		if edge := edgeOf(tep); !slices.Contains(all[edge], tep.Addr) {
			all[edge] = append(all[edge], tep.Addr)
		}
	}
	return all
}

// planPathGroups plans which paths take the flows to remotes with several.
func (pa *Paths) planPathGroups(pathPolicies []fib.PathPolicy, p *plan) error {
	for number, pathPolicy := range pathPolicies {
		for _, s := range pathPolicy.PathGroups {
			vport, ok := pa.numbers.names.tepIDs[s.Remote]
			if !ok {
				return fmt.Errorf("team %d: remote %s has no entry among the TEPs", number, s.Remote)
			}
			pathGroup, err := pa.pathGroup(s)
			if err != nil {
				return fmt.Errorf("team %d: %w", number, err)
			}
			p.pathGroups[bpfPathGroupKey{Vport: uint16(vport), PathPolicy: uint16(number)}] = pathGroup
		}
	}
	return nil
}

func (pa *Paths) pathGroup(s fib.PathGroup) (e bpfPathGroup, err error) {
	if len(s.Paths) == 0 { // without a way the end that stands for the remote says so
		for i := range e.Buckets {
			e.Buckets[i] = uint16(pa.numbers.names.tepIDs[s.Remote])
		}
		return e, nil
	}
	for i, b := range s.Buckets {
		if int(b) >= len(s.Paths) {
			return e, fmt.Errorf("remote %s: bucket %d is of path %d of %d", s.Remote, i, b, len(s.Paths))
		}
		vport, ok := pa.numbers.names.pathIDs[s.Paths[b]]
		if !ok {
			return e, fmt.Errorf("remote %s: the path %s has no entry among the TEPs", s.Remote, s.Paths[b])
		}
		e.Buckets[i] = uint16(vport)
	}
	return e, nil
}

// Steer changes which paths are used, and nothing else of what Apply wrote: first the
// flows get others, then those of the paths that are down take them. Paths that Apply
// does not know are left out.
func (pa *Paths) Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error {
	if pa.numbers.names.incomplete {
		pathPolicies = pa.numbers.names.pathPolicies(pathPolicies)
	}
	p := &plan{pathGroups: make(map[bpfPathGroupKey]bpfPathGroup)}
	if err := pa.planPathGroups(pathPolicies, p); err != nil {
		return err
	}
	if _, err := put(pa.maps.PathGroups, p.pathGroups); err != nil {
		return err
	}
	if u := pa.numbers.underway.plan; u != nil {
		maps.Copy(u.pathGroups, p.pathGroups)
	}
	for _, tep := range teps {
		pair := pa.numbers.pair(tep)
		id, ok := pa.numbers.names.pathIDs[pair]
		if !ok || (pa.numbers.vports[id].Flags&bpfVportFlagsVPORT_DOWN != 0) == tep.Down {
			continue
		}
		if err := pa.markDown(id, tep.Down); err != nil {
			return fmt.Errorf("path %s: %w", pair, err)
		}
	}
	return pa.changes.changed()
}

// losesPaths reports whether a path goes to a remote that stays: decisions for it are to be taken again
// before its number is free.
func (nu *numbers) losesPaths() bool {
	kept := make(map[uint32]bool, len(nu.names.pathIDs))
	for _, id := range nu.names.pathIDs {
		kept[id] = true
	}
	for id := range nu.givenVports() {
		if v := &nu.vports[id]; v.Kind == bpfVportKindVPORT_TEP && !kept[uint32(id)] && nu.edges[addrOf(v.Addr.W)].IsValid() {
			return true
		}
	}
	return false
}

// markDown marks a path, or not, in the map and here, and leaves the rest of
// both as others may be writing it.
func (pa *Paths) markDown(id uint32, down bool) error {
	var now bpfVport
	if err := pa.numbers.maps.Vports.Lookup(id, &now); err != nil {
		return fmt.Errorf("read end %d: %w", id, err)
	}
	now.Flags &^= bpfVportFlagsVPORT_DOWN
	if down {
		now.Flags |= bpfVportFlagsVPORT_DOWN
	}
	pa.numbers.vports[id].Flags = now.Flags
	if err := pa.numbers.maps.Vports.Put(id, now); err != nil {
		return fmt.Errorf("write end %d: %w", id, err)
	}
	return nil
}

// edgesOf tells of each remote address which one stands for its edge.
func edgesOf(t fib.Tables) map[netip.Addr]netip.Addr {
	edges := make(map[netip.Addr]netip.Addr, len(t.TEPs))
	for _, tep := range t.TEPs {
		edges[tep.Addr] = edgeOf(tep)
	}
	return edges
}

package datapath

import (
	"fmt"
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
func (d *Datapath) planPathGroups(pathPolicies []fib.PathPolicy, p *plan) error {
	for number, pathPolicy := range pathPolicies {
		for _, s := range pathPolicy.PathGroups {
			vport, ok := d.names.tepIDs[s.Remote]
			if !ok {
				return fmt.Errorf("team %d: remote %s has no entry among the TEPs", number, s.Remote)
			}
			pathGroup, err := d.pathGroup(s)
			if err != nil {
				return fmt.Errorf("team %d: %w", number, err)
			}
			p.pathGroups[bpfPathGroupKey{Vport: uint16(vport), PathPolicy: uint16(number)}] = pathGroup
		}
	}
	return nil
}

func (d *Datapath) pathGroup(s fib.PathGroup) (e bpfPathGroup, err error) {
	if len(s.Paths) == 0 { // without a way the end that stands for the remote says so
		for i := range e.Buckets {
			e.Buckets[i] = uint16(d.names.tepIDs[s.Remote])
		}
		return e, nil
	}
	for i, b := range s.Buckets {
		if int(b) >= len(s.Paths) {
			return e, fmt.Errorf("remote %s: bucket %d is of path %d of %d", s.Remote, i, b, len(s.Paths))
		}
		vport, ok := d.names.pathIDs[s.Paths[b]]
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
func (d *Datapath) Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error {
	if d.names.incomplete {
		pathPolicies = d.names.pathPolicies(pathPolicies)
	}
	p := &plan{pathGroups: make(map[bpfPathGroupKey]bpfPathGroup)}
	if err := d.planPathGroups(pathPolicies, p); err != nil {
		return err
	}
	if _, err := put(d.objs.PathGroups, p.pathGroups); err != nil {
		return err
	}
	for _, tep := range teps {
		pair := d.pair(tep)
		id, ok := d.names.pathIDs[pair]
		if !ok || (d.vports[id].Flags&bpfVportFlagsVPORT_DOWN != 0) == tep.Down {
			continue
		}
		if err := d.markDown(id); err != nil {
			return fmt.Errorf("path %s: %w", pair, err)
		}
	}
	return d.changed()
}

// markDown turns the mark of a path over, in the map and here, and leaves the rest of
// both as others may be writing it.
func (d *Datapath) markDown(id uint32) error {
	var now bpfVport
	if err := d.objs.Vports.Lookup(id, &now); err != nil {
		return fmt.Errorf("read end %d: %w", id, err)
	}
	now.Flags ^= bpfVportFlagsVPORT_DOWN
	d.vports[id].Flags = now.Flags
	if err := d.objs.Vports.Put(id, now); err != nil {
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

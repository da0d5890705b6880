package datapath

import (
	"fmt"
	"net/netip"
	"slices"
)

// addressesOf are the addresses of each remote, by the first.
func addressesOf(t Tables) map[netip.Addr][]netip.Addr {
	all := make(map[netip.Addr][]netip.Addr)
	for _, tep := range t.TEPs {
		if edge := edgeOf(tep); !slices.Contains(all[edge], tep.Addr) {
			all[edge] = append(all[edge], tep.Addr)
		}
	}
	return all
}

// planSpreads plans which paths take the flows to remotes with several.
func (d *Datapath) planSpreads(teams []Team, p *plan) error {
	for number, team := range teams {
		for _, s := range team.Spreads {
			end, ok := d.names.tepIDs[s.Remote]
			if !ok {
				return fmt.Errorf("team %d: remote %s has no entry among the TEPs", number, s.Remote)
			}
			spread, err := d.spread(s)
			if err != nil {
				return fmt.Errorf("team %d: %w", number, err)
			}
			p.spreads[edgeSpreadKey{End: uint16(end), Team: uint16(number)}] = spread
		}
	}
	return nil
}

func (d *Datapath) spread(s Spread) (e edgeSpread, err error) {
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
		end, ok := d.names.pathIDs[s.Paths[b]]
		if !ok {
			return e, fmt.Errorf("remote %s: the path %s has no entry among the TEPs", s.Remote, s.Paths[b])
		}
		e.Buckets[i] = uint16(end)
	}
	return e, nil
}

// Steer changes which paths are used, and nothing else of what Apply wrote: first the
// flows get others, then those of the paths that are down take them. Paths that Apply
// does not know are left out.
func (d *Datapath) Steer(teps []TEP, teams []Team) error {
	p := &plan{spreads: make(map[edgeSpreadKey]edgeSpread)}
	if err := d.planSpreads(teams, p); err != nil {
		return err
	}
	if _, err := put(d.objs.Spreads, p.spreads); err != nil {
		return err
	}
	for _, tep := range teps {
		pair := d.pair(tep)
		id, ok := d.names.pathIDs[pair]
		if !ok || (d.ends[id].Flags&edgeEndFlagsEND_DOWN != 0) == tep.Down {
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
	var now edgeEnd
	if err := d.objs.Ends.Lookup(id, &now); err != nil {
		return fmt.Errorf("read end %d: %w", id, err)
	}
	now.Flags ^= edgeEndFlagsEND_DOWN
	d.ends[id].Flags = now.Flags
	if err := d.objs.Ends.Put(id, now); err != nil {
		return fmt.Errorf("write end %d: %w", id, err)
	}
	return nil
}

// edgesOf tells of each remote address which one stands for its edge.
func edgesOf(t Tables) map[netip.Addr]netip.Addr {
	edges := make(map[netip.Addr]netip.Addr, len(t.TEPs))
	for _, tep := range t.TEPs {
		edges[tep.Addr] = edgeOf(tep)
	}
	return edges
}

package evpn

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// dirty is what has to be decided anew. Who is to change an entry gets it from here, which marks it, and makes it where
// there is none.
type dirty struct {
	macEntries   []*macEntry
	arpEntries   []*arpEntry
	announcers   []*macEntry // stations whose announcements may have changed
	destinations []*destination
	remotes      []*remotes
}

func (d *dirty) macEntry(s *segment, mac overlay.MAC) *macEntry {
	st := s.macEntries[mac]
	if st == nil {
		st = &macEntry{segment: s, mac: mac}
		s.macEntries[mac] = st
	}
	d.markMAC(st)
	return st
}

func (d *dirty) markMAC(st *macEntry) {
	if !st.dirty {
		st.dirty = true
		d.macEntries = append(d.macEntries, st)
	}
}

func (d *dirty) markAnnounce(st *macEntry) {
	if !st.announce {
		st.announce = true
		d.announcers = append(d.announcers, st)
	}
}

func (d *dirty) arpEntry(s *segment, addr netip.Addr) *arpEntry {
	r := s.arpEntries[addr]
	if r == nil {
		r = &arpEntry{segment: s, addr: addr}
		s.arpEntries[addr] = r
	}
	if !r.dirty {
		r.dirty = true
		d.arpEntries = append(d.arpEntries, r)
	}
	return r
}

func (d *dirty) destination(r *router, prefix netip.Prefix) *destination {
	dest := r.destinations[prefix]
	if dest == nil {
		dest = &destination{router: r, prefix: prefix}
		r.destinations[prefix] = dest
	}
	if !dest.dirty {
		dest.dirty = true
		d.destinations = append(d.destinations, dest)
	}
	return dest
}

// countHost notes in the segment's router that an address is at a port here, if that leads to it.
func (d *dirty) countHost(s *segment, addr netip.Addr, n int) {
	if s.isRouted(addr) {
		d.destination(s.router, netip.PrefixFrom(addr, addr.BitLen())).hosts += n
	}
}

func (d *dirty) countRemote(r *remotes, remote netip.Addr, n int) {
	if r.add(remote, n) && !r.dirty {
		r.dirty = true
		d.remotes = append(d.remotes, r)
	}
}

// markPath has whoever p concerns decided anew.
func (d *dirty) markPath(p *path) {
	if p.router != nil && p.inRouter == fits {
		d.destination(p.router, p.prefix())
	}
}

// markHostRoutes has the routes to the host decided anew: they follow the station.
func (d *dirty) markHostRoutes(st *macEntry) {
	for _, p := range st.paths {
		d.markPath(p)
	}
}

// clear keeps the lists' room unless a bulk made them large.
func (d *dirty) clear() {
	const keep = 4096
	if cap(d.macEntries)+cap(d.arpEntries)+cap(d.destinations) > 3*keep {
		*d = dirty{}
		return
	}
	clear(d.macEntries)
	clear(d.arpEntries)
	clear(d.announcers)
	clear(d.destinations)
	clear(d.remotes)
	*d = dirty{d.macEntries[:0], d.arpEntries[:0], d.announcers[:0], d.destinations[:0], d.remotes[:0]}
}

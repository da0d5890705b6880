package evpn

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// arpEntry is what is known of an address in a segment.
type arpEntry struct {
	segment   *segment
	addr      netip.Addr
	paths     []*path
	best      *path
	owner     *macEntry // at a port here, nil without
	ownND     rib.NDFlags
	installed struct {
		mac overlay.MAC
		nd  rib.NDFlags
	}
	// twice: two hosts have it, and nothing says which was the first.
	twice, dirty bool
	leftOut      bool // the data path has no room for it
}

func compareArpEntries(a, b *path) int {
	return cmp.Or(compareHosts(a, b), bytes.Compare(a.MAC[:], b.MAC[:]))
}

func (hs *hosts) updateARP(r *arpEntry) {
	r.dirty = false
	r.best = best(r.paths, compareArpEntries)
	b := r.best
	if o := r.owner; o != nil && b != nil && b.MAC != o.mac && !o.frozen() && hs.beats(b, r.segment, o.local) {
		hs.out.event(Event{What: "duplicate address", Segment: r.segment.name, MAC: b.MAC, Addr: r.addr, Remote: b.remote,
			Detail: fmt.Sprintf("%s at a port here had it; it is at %s now", o.mac, b.MAC)})
		hs.release(r)
		r.dirty = false
		hs.countMove(o)
		if o.local.gone() {
			hs.dropLocal(o)
			hs.updateMAC(o)
		}
	}
	hs.advertiseTwice(r)
	want := rib.ARPEntry{Segment: r.segment.name, Addr: r.addr}
	if _, static := r.segment.neighbours[r.addr]; b != nil && r.owner == nil && !static {
		want.MAC, want.ND = b.MAC, b.ND
	}
	if want.MAC != r.installed.mac || want.ND != r.installed.nd {
		r.installed.mac, r.installed.nd = want.MAC, want.ND
		hs.out.Neighbours = append(hs.out.Neighbours, want)
	}
	if len(r.paths) == 0 && r.owner == nil {
		delete(r.segment.arpEntries, r.addr)
	}
}

func (hs *hosts) advertiseTwice(r *arpEntry) {
	before := r.twice
	r.twice = false
	for _, p := range r.paths {
		r.twice = r.twice || p.MAC != r.best.MAC && p.Sequence == r.best.Sequence
		if r.twice && !before {
			hs.out.event(Event{What: "duplicate address", Segment: r.segment.name, MAC: p.MAC, Addr: r.addr, Remote: p.remote,
				Detail: fmt.Sprintf("%s at %s has it too; that one is used", r.best.MAC, r.best.remote)})
			return
		}
	}
}

// Addresses are those that BGP says mac has, as far as they are in force.
func (t *Table) Addresses(segment string, mac overlay.MAC) (list []netip.Addr) {
	s := t.in.segments[segment]
	if s == nil || s.macEntries[mac] == nil {
		return nil
	}
	for _, p := range s.macEntries[mac].paths {
		if p.Addr.IsValid() && s.arpEntries[p.Addr].installed.mac == mac && !slices.Contains(list, p.Addr) {
			list = append(list, p.Addr)
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

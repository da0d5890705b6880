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

func (t *Table) arpEntry(s *segment, addr netip.Addr) *arpEntry {
	r := s.arpEntries[addr]
	if r == nil {
		r = &arpEntry{segment: s, addr: addr}
		s.arpEntries[addr] = r
	}
	if !r.dirty {
		r.dirty = true
		t.dirty.arpEntries = append(t.dirty.arpEntries, r)
	}
	return r
}

func compareArpEntries(a, b *path) int {
	return cmp.Or(compareHosts(a, b), bytes.Compare(a.MAC[:], b.MAC[:]))
}

// claim gives an address to a host at a port here. If a neighbour says that another MAC
// address has it, it moved from there: others see that by the number of the MAC address,
// which is that of all its addresses (RFC 9721).
func (t *Table) claim(st *macEntry, h Host) {
	addr, r := h.Addr, t.arpEntry(st.segment, h.Addr)
	if r.ownND != h.ND {
		r.ownND = h.ND
		t.markAnnounce(st)
	}
	if r.owner == st {
		return
	}
	if o := r.owner; o != nil {
		t.release(r)
		if o.local.gone() {
			t.dropLocal(o)
			t.markMAC(o)
		}
	}
	if b := r.best; b != nil && b.MAC != st.mac && b.Sequence >= st.local.sequence && !st.local.static {
		st.local.sequence = after(b.Sequence)
		t.event(Event{What: "moved here", Segment: st.segment.name, MAC: st.mac, Addr: addr, Remote: b.remote,
			Detail: fmt.Sprintf("from %s at %s, now with sequence number %d", b.MAC, b.remote, st.local.sequence)})
		t.countMove(st)
	}
	r.owner = st
	st.local.addrs = append(st.local.addrs, addr)
	t.markAnnounce(st)
	t.countHost(st.segment, addr, 1)
}

// release takes the address from the host at a port that had it.
func (t *Table) release(r *arpEntry) {
	st := r.owner
	at := slices.Index(st.local.addrs, r.addr)
	st.local.addrs = slices.Delete(st.local.addrs, at, at+1)
	r.owner, r.ownND = nil, 0
	t.arpEntry(r.segment, r.addr)
	t.markAnnounce(st)
	t.countHost(r.segment, r.addr, -1)
}

// countHost notes in the segment's router that an address is at a port here.
func (t *Table) countHost(s *segment, addr netip.Addr, n int) {
	if s.router != nil {
		t.destination(s.router, netip.PrefixFrom(addr, addr.BitLen())).hosts += n
	}
}

func (t *Table) updateARP(r *arpEntry) {
	r.dirty = false
	r.best = best(r.paths, compareArpEntries)
	b := r.best
	if o := r.owner; o != nil && b != nil && b.MAC != o.mac && !o.frozen() && t.beats(b, r.segment, o.local) {
		t.event(Event{What: "duplicate address", Segment: r.segment.name, MAC: b.MAC, Addr: r.addr, Remote: b.remote,
			Detail: fmt.Sprintf("%s at a port here had it; it is at %s now", o.mac, b.MAC)})
		t.release(r)
		r.dirty = false
		t.countMove(o)
		if o.local.gone() {
			t.dropLocal(o)
			t.updateMAC(o)
		}
	}
	t.advertiseTwice(r)
	want := rib.ARPEntry{Segment: r.segment.name, Addr: r.addr}
	if _, static := r.segment.neighbours[r.addr]; b != nil && r.owner == nil && !static {
		want.MAC, want.ND = b.MAC, b.ND
	}
	if want.MAC != r.installed.mac || want.ND != r.installed.nd {
		r.installed.mac, r.installed.nd = want.MAC, want.ND
		t.out.Neighbours = append(t.out.Neighbours, want)
	}
	if len(r.paths) == 0 && r.owner == nil {
		delete(r.segment.arpEntries, r.addr)
	}
}

func (t *Table) advertiseTwice(r *arpEntry) {
	before := r.twice
	r.twice = false
	for _, p := range r.paths {
		r.twice = r.twice || p.MAC != r.best.MAC && p.Sequence == r.best.Sequence
		if r.twice && !before {
			t.event(Event{What: "duplicate address", Segment: r.segment.name, MAC: p.MAC, Addr: r.addr, Remote: p.remote,
				Detail: fmt.Sprintf("%s at %s has it too; that one is used", r.best.MAC, r.best.remote)})
			return
		}
	}
}

// Addresses are those that BGP says mac has, as far as they are in force.
func (t *Table) Addresses(segment string, mac overlay.MAC) (list []netip.Addr) {
	s := t.segments[segment]
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

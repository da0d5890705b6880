package evpn

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// macEntry is what is known of a MAC address in a segment.
type macEntry struct {
	segment  *segment
	mac      overlay.MAC
	paths    []*path
	best     *path     // nil without paths, or where a frozen one's are others
	local    *local    // nil: at no port here
	mobility *mobility // nil: it did not move lately
	// said are the addresses with which it is announced, the zero one being that of the
	// MAC address alone.
	advertisedAddrs []netip.Addr
	advertised      struct {
		remote netip.Addr
		sticky bool
	}
	dirty, announce bool
	leftOut         bool // the data path has no room for it
}

// local is a host at a port of this edge.
type local struct {
	mac      bool // the address itself was seen
	static   bool // it is configured
	sequence uint32
	addrs    []netip.Addr
}

// gone reports whether nothing of the host is left.
func (l *local) gone() bool { return !l.mac && !l.static && len(l.addrs) == 0 }

func (t *Table) macEntry(s *segment, mac overlay.MAC) *macEntry {
	st := s.macEntries[mac]
	if st == nil {
		st = &macEntry{segment: s, mac: mac}
		s.macEntries[mac] = st
	}
	t.markMAC(st)
	return st
}

func (t *Table) markMAC(st *macEntry) {
	if !st.dirty {
		st.dirty = true
		t.dirty.macEntries = append(t.dirty.macEntries, st)
	}
}

func (t *Table) markAnnounce(st *macEntry) {
	if !st.announce {
		st.announce = true
		t.dirty.announcers = append(t.dirty.announcers, st)
	}
}

// markPath has whoever p concerns decided anew.
func (t *Table) markPath(p *path) {
	if p.router != nil && p.inRouter == fits {
		t.destination(p.router, p.prefix())
	}
}

// compareHosts orders paths that say where a host is, the best first (RFC 7432 section 15):
// sticky ones, then the highest sequence number, then the lowest endpoint.
func compareHosts(a, b *path) int {
	if a.Sticky != b.Sticky {
		if a.Sticky {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), a.remote.Compare(b.remote))
}

func best(paths []*path, order func(a, b *path) int) *path {
	if len(paths) == 0 {
		return nil
	}
	return slices.MinFunc(paths, order)
}

// beats reports whether the host that p tells of is the one that l was.
func (t *Table) beats(p *path, s *segment, l *local) bool {
	switch {
	case l.static:
		return false
	case p.Sticky:
		return true
	case p.Sequence != l.sequence:
		return p.Sequence > l.sequence
	}
	return p.remote.Less(t.remote(s.nextHop))
}

func (t *Table) updateMAC(st *macEntry) {
	st.dirty = false
	before := st.best
	st.best = best(st.candidates(), compareHosts)
	if st.best != nil && st.local != nil && t.beats(st.best, st.segment, st.local) {
		t.moveAway(st)
	}
	t.installMAC(st)
	if before != st.best {
		t.markHostRoutes(st)
	}
	st.forget()
}

// forget ends a station of which nothing is known any more.
func (st *macEntry) forget() {
	if len(st.paths) == 0 && st.local == nil && st.mobility == nil && len(st.advertisedAddrs) == 0 && !st.announce {
		delete(st.segment.macEntries, st.mac)
	}
}

// candidates are the paths that may be taken: while the address is frozen, those to where
// it is, as long as it is there.
func (st *macEntry) candidates() []*path {
	if !st.frozen() {
		return st.paths
	}
	if st.local != nil {
		return nil
	}
	var list []*path
	for _, p := range st.paths {
		if p.remote == st.advertised.remote {
			list = append(list, p)
		}
	}
	if list == nil {
		return st.paths
	}
	return list
}

// markHostRoutes has the routes to the host decided anew: they follow the station.
func (t *Table) markHostRoutes(st *macEntry) {
	for _, p := range st.paths {
		t.markPath(p)
	}
}

func (t *Table) installMAC(st *macEntry) {
	want := rib.BGPMAC{Segment: st.segment.name, MAC: st.mac}
	if _, static := st.segment.static[st.mac]; st.best != nil && st.local == nil && !static {
		want.Remote, want.Sticky = st.best.remote, st.best.Sticky
	}
	if want.Remote == st.advertised.remote && want.Sticky == st.advertised.sticky {
		return
	}
	st.advertised.remote, st.advertised.sticky = want.Remote, want.Sticky
	t.out.MACs = append(t.out.MACs, want)
}

// appear takes a host that came to a port.
func (t *Table) appear(s *segment, h Host) {
	static, is := s.static[h.MAC]
	if s.gateway != nil && h.MAC == s.gateway.MAC || h.MAC.Multicast() || is && static.Port == "" {
		return
	}
	st := t.macEntry(s, h.MAC)
	if st.frozen() {
		st.mobility.hold(h)
		return
	}
	if st.local == nil {
		if st.best != nil && st.best.Sticky {
			t.event(Event{What: "sticky address elsewhere", Segment: s.name, MAC: h.MAC, Remote: st.best.remote,
				Detail: "a host with it is at a port here, but it is advertised as one that does not move"})
			return
		}
		t.moveHere(st)
	}
	if h.Addr.IsValid() {
		t.claim(st, h)
	} else if !st.local.mac {
		st.local.mac = true
		t.markAnnounce(st)
	}
}

// moveHere makes st a host at a port, with a sequence number higher than that of those who
// had it (RFC 7432 section 15).
func (t *Table) moveHere(st *macEntry) {
	st.local = &local{}
	t.markAnnounce(st)
	t.markHostRoutes(st)
	if st.best == nil {
		return
	}
	st.local.sequence = after(st.best.Sequence)
	t.event(Event{What: "moved here", Segment: st.segment.name, MAC: st.mac, Remote: st.best.remote,
		Detail: fmt.Sprintf("from %s, now with sequence number %d", st.best.remote, st.local.sequence)})
	t.countMove(st)
}

func after(sequence uint32) uint32 {
	if sequence == math.MaxUint32 {
		return sequence
	}
	return sequence + 1
}

func (t *Table) moveAway(st *macEntry) {
	t.event(Event{What: "moved away", Segment: st.segment.name, MAC: st.mac, Remote: st.best.remote,
		Detail: fmt.Sprintf("to %s, which has sequence number %d and this edge %d", st.best.remote, st.best.Sequence, st.local.sequence)})
	t.out.Forget = append(t.out.Forget, Host{Segment: st.segment.name, MAC: st.mac})
	for _, addr := range slices.Clone(st.local.addrs) {
		t.release(st.segment.arpEntries[addr])
	}
	t.dropLocal(st)
	t.countMove(st)
}

func (t *Table) dropLocal(st *macEntry) {
	st.local = nil
	t.markAnnounce(st)
	t.markHostRoutes(st)
}

// vanish takes a host that is at no port any more, or an address that it has not.
func (t *Table) vanish(s *segment, h Host) {
	st := s.macEntries[h.MAC]
	if st == nil {
		return
	}
	if st.mobility != nil {
		st.mobility.release(h.Addr)
	}
	if st.local == nil {
		return
	}
	t.markMAC(st)
	if !h.Addr.IsValid() {
		st.local.mac = false
		t.markAnnounce(st)
	} else if r := s.arpEntries[h.Addr]; r != nil && r.owner == st {
		t.release(r)
	}
	if st.local.gone() {
		t.dropLocal(st)
	}
}

package evpn

import (
	"cmp"
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

func (hs *hosts) updateMAC(st *macEntry) {
	st.dirty = false
	before := st.best
	st.best = best(st.candidates(), compareHosts)
	if st.best != nil && st.local != nil && hs.beats(st.best, st.segment, st.local) {
		hs.moveAway(st)
	}
	hs.installMAC(st)
	if before != st.best {
		hs.dirty.markHostRoutes(st)
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

func (hs *hosts) installMAC(st *macEntry) {
	want := rib.BGPMAC{Segment: st.segment.name, MAC: st.mac}
	if _, static := st.segment.static[st.mac]; st.best != nil && st.local == nil && !static {
		want.Remote, want.Sticky = st.best.remote, st.best.Sticky
	}
	if want.Remote == st.advertised.remote && want.Sticky == st.advertised.sticky {
		return
	}
	st.advertised.remote, st.advertised.sticky = want.Remote, want.Sticky
	hs.out.MACs = append(hs.out.MACs, want)
}

func after(sequence uint32) uint32 {
	if sequence == math.MaxUint32 {
		return sequence
	}
	return sequence + 1
}

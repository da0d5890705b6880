package evpn

import (
	"fmt"
	"slices"
)

// hosts decides where a host is, at a port of this edge or behind a remote (RFC 7432 section 15), and notes how often
// it moved.
type hosts struct {
	in    *instances
	dirty *dirty
	out   *Changes
	clock *clock
}

// appear takes a host that came to a port.
func (hs *hosts) appear(s *segment, h Host) {
	static, is := s.static[h.MAC]
	if s.gateway != nil && h.MAC == s.gateway.MAC || h.MAC.Multicast() || is && static.Port == "" {
		return
	}
	st := hs.dirty.macEntry(s, h.MAC)
	if st.frozen() {
		st.mobility.hold(h)
		return
	}
	if st.local == nil {
		if st.best != nil && st.best.Sticky {
			hs.out.event(Event{What: "sticky address elsewhere", Segment: s.name, MAC: h.MAC, Remote: st.best.remote,
				Detail: "a host with it is at a port here, but it is advertised as one that does not move"})
			return
		}
		hs.moveHere(st)
	}
	if h.Addr.IsValid() {
		hs.claim(st, h)
	} else if !st.local.mac {
		st.local.mac = true
		hs.dirty.markAnnounce(st)
	}
}

// moveHere makes st a host at a port, with a sequence number higher than that of those who
// had it (RFC 7432 section 15).
func (hs *hosts) moveHere(st *macEntry) {
	st.local = &local{}
	hs.dirty.markAnnounce(st)
	hs.dirty.markHostRoutes(st)
	if st.best == nil {
		return
	}
	st.local.sequence = after(st.best.Sequence)
	hs.out.event(Event{What: "moved here", Segment: st.segment.name, MAC: st.mac, Remote: st.best.remote,
		Detail: fmt.Sprintf("from %s, now with sequence number %d", st.best.remote, st.local.sequence)})
	hs.countMove(st)
}

func (hs *hosts) moveAway(st *macEntry) {
	hs.out.event(Event{What: "moved away", Segment: st.segment.name, MAC: st.mac, Remote: st.best.remote,
		Detail: fmt.Sprintf("to %s, which has sequence number %d and this edge %d", st.best.remote, st.best.Sequence, st.local.sequence)})
	hs.out.Forget = append(hs.out.Forget, Host{Segment: st.segment.name, MAC: st.mac})
	for _, addr := range slices.Clone(st.local.addrs) {
		hs.release(st.segment.arpEntries[addr])
	}
	hs.dropLocal(st)
	hs.countMove(st)
}

func (hs *hosts) dropLocal(st *macEntry) {
	st.local = nil
	hs.dirty.markAnnounce(st)
	hs.dirty.markHostRoutes(st)
}

// vanish takes a host that is at no port any more, or an address that it has not.
func (hs *hosts) vanish(s *segment, h Host) {
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
	hs.dirty.markMAC(st)
	if !h.Addr.IsValid() {
		st.local.mac = false
		hs.dirty.markAnnounce(st)
	} else if r := s.arpEntries[h.Addr]; r != nil && r.owner == st {
		hs.release(r)
	}
	if st.local.gone() {
		hs.dropLocal(st)
	}
}

// claim gives an address to a host at a port here. If a neighbour says that another MAC
// address has it, it moved from there: others see that by the number of the MAC address,
// which is that of all its addresses (RFC 9721).
func (hs *hosts) claim(st *macEntry, h Host) {
	addr, r := h.Addr, hs.dirty.arpEntry(st.segment, h.Addr)
	if r.ownND != h.ND {
		r.ownND = h.ND
		hs.dirty.markAnnounce(st)
	}
	if r.owner == st {
		return
	}
	if o := r.owner; o != nil {
		hs.release(r)
		if o.local.gone() {
			hs.dropLocal(o)
			hs.dirty.markMAC(o)
		}
	}
	if b := r.best; b != nil && b.MAC != st.mac && b.Sequence >= st.local.sequence && !st.local.static {
		st.local.sequence = after(b.Sequence)
		hs.out.event(Event{What: "moved here", Segment: st.segment.name, MAC: st.mac, Addr: addr, Remote: b.remote,
			Detail: fmt.Sprintf("from %s at %s, now with sequence number %d", b.MAC, b.remote, st.local.sequence)})
		hs.countMove(st)
	}
	r.owner = st
	st.local.addrs = append(st.local.addrs, addr)
	hs.dirty.markAnnounce(st)
	hs.dirty.countHost(st.segment, addr, 1)
}

// release takes the address from the host at a port that had it.
func (hs *hosts) release(r *arpEntry) {
	st := r.owner
	at := slices.Index(st.local.addrs, r.addr)
	st.local.addrs = slices.Delete(st.local.addrs, at, at+1)
	r.owner, r.ownND = nil, 0
	hs.dirty.arpEntry(r.segment, r.addr)
	hs.dirty.markAnnounce(st)
	hs.dirty.countHost(r.segment, r.addr, -1)
}

// beats reports whether the host that p tells of is the one that l was.
func (hs *hosts) beats(p *path, s *segment, l *local) bool {
	switch {
	case l.static:
		return false
	case p.Sticky:
		return true
	case p.Sequence != l.sequence:
		return p.Sequence > l.sequence
	}
	return p.remote.Less(hs.in.remote(s.nextHop))
}

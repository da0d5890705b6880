package rib

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// BGPMAC is a MAC address that BGP says is behind a remote.
type BGPMAC struct {
	Segment string
	MAC     overlay.MAC
	Remote  netip.Addr // unset: BGP says so no more
	Sticky  bool       // it does not move (RFC 7432 section 15.2)
}

// ARPEntry is an IP address that BGP says a MAC address has.
type ARPEntry struct {
	Segment string
	Addr    netip.Addr
	MAC     overlay.MAC // zero: BGP says so no more
	ND      NDFlags
}

// NDFlags are what is known of a host's IPv6 address, as in the ARP/ND extended community (RFC
// 9047 section 2): 0 where nothing is.
type NDFlags uint8

// The flags, as on the wire.
const (
	NDRouter    NDFlags = 1 // the host is a router: the R flag of its advertisements
	NDOverride  NDFlags = 2 // the O flag of its advertisements
	NDImmutable NDFlags = 8 // the binding is configured
)

// LearnedRoute is what BGP says of a prefix; one without next hops it says no more.
type LearnedRoute struct {
	Router string
	overlay.Route
}

// Place is where a route stands: there is one a prefix in each router.
type Place struct {
	Router string
	Prefix netip.Prefix
}

// NoRoom is what was learned and left out, as the tables of the data path have no room for it.
type NoRoom struct {
	MACs       []BGPMAC
	ARPEntries []ARPEntry
	Routes     []Place
}

// Len is how many entries were left out.
func (n NoRoom) Len() int { return len(n.MACs) + len(n.ARPEntries) + len(n.Routes) }

// NoRoomError is of entries that were left out. The others are written.
type NoRoomError struct {
	NoRoom
	Err error // says which table is full, and what to do
}

// Error is that of Err.
func (e *NoRoomError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NoRoomError) Unwrap() error { return e.Err }

// LeftOut is what an error, or several that are joined, say was left out.
func LeftOut(err error) (all NoRoom) {
	switch e := err.(type) { //nolint:errorlint // it follows all branches, errors.As the first one
	case *NoRoomError:
		return e.NoRoom
	case interface{ Unwrap() error }:
		return LeftOut(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			n := LeftOut(one)
			all.MACs, all.ARPEntries, all.Routes = append(all.MACs, n.MACs...), append(all.ARPEntries, n.ARPEntries...), append(all.Routes, n.Routes...)
		}
	}
	return all
}

// WithNoRoom is err, which says why the entries were left out, if there are any.
func WithNoRoom(err error, n NoRoom) error {
	if err == nil || n.Len() == 0 {
		return err
	}
	return &NoRoomError{n, err}
}

// Package message reads the messages of a BGP neighbour before GoBGP does, and passes on what GoBGP can read and the
// edge uses. GoBGP ends the session for route types, families and communities that it does not know; RFC 7606 has a
// speaker discard those, or take the route as withdrawn.
//
// Its one invariant: no UPDATE that it passes on ends the session, and a route whose announcement is malformed is
// withdrawn if its key can be read. It does no I/O; package transport has the connections.
package message

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// HeaderLen is the length of a message's header (RFC 4271 section 4.1).
const HeaderLen = 19

// The types of messages.
const (
	Open         = 1
	Update       = 2
	notification = 3
	Keepalive    = 4
	refresh      = 5
)

// The codes and subcodes of notifications that are sent here.
const (
	openError       = 2
	badPeerAS       = 2
	badHoldTime     = 6
	updateError     = 3
	malformedList   = 1
	optionalError   = 9
	badNetwork      = 10
	cease           = 6
	collisionClosed = 7
)

// NDType is the type that the ARP/ND extended community (RFC 9047) has when it is passed on: GoBGP knows no EVPN community of that
// sub-type, and shows one of an experimental type as it is. A neighbour's own communities of this type are not passed on.
const NDType = 0x8f

// Family is an address family.
type Family struct {
	AFI  uint16
	SAFI uint8
}

// The families that an edge exchanges.
var (
	IPv4 = Family{1, 1}
	IPv6 = Family{2, 1}
	EVPN = Family{25, 70}
)

// String is the family as numbers, AFI before SAFI.
func (f Family) String() string { return fmt.Sprintf("%d/%d", f.AFI, f.SAFI) }

// Notification is an error for which the session ends, by the NOTIFICATION that tells the neighbour.
type Notification struct {
	Code, Subcode uint8
	Data          []byte
	Why           string
}

// Error is why.
func (n *Notification) Error() string { return n.Why }

// Message is the NOTIFICATION.
func (n *Notification) Message() []byte {
	return append(appendHeader(nil, notification, 2+len(n.Data)), append([]byte{n.Code, n.Subcode}, n.Data...)...)
}

// Collision is that of a connection that lost against another one (RFC 4271 section 6.8).
func Collision() *Notification {
	return &Notification{Code: cease, Subcode: collisionClosed, Why: "there is another connection with this neighbour"}
}

// Discard is something that a neighbour said and that is not used.
type Discard struct {
	What   string // names a kind of which there are few: it is counted by this
	Routes int    // 0: an attribute, whose route is used without it
	// Why is of what is malformed, "" of what is only not used here.
	Why string
}

// Config is what a filter needs to know of a session.
type Config struct {
	Families []Family // that this end has
	External bool     // the neighbour is of another AS
	AS       uint32   // of this end
	RouterID netip.Addr
	Discard  func(Discard)
}

// Filter reads the messages of one connection.
type Filter struct {
	config   Config
	agreed   []Family
	id       netip.Addr
	twoOctet bool // the neighbour has no AS numbers of four octets
	extended bool // it has messages of more than 4,096 octets
}

// New returns the filter of a new connection.
func New(c Config) *Filter { return &Filter{config: c} }

// ID is the router ID of the neighbour's OPEN, unset before.
func (f *Filter) ID() netip.Addr { return f.id }

// Readable reports whether a header is one after which a message can follow. GoBGP ends the session after any other.
func (f *Filter) Readable(header []byte) bool {
	length, most := int(binary.BigEndian.Uint16(header[16:])), 4096
	if t := header[18]; f.extended && (t == Update || t == notification || t == refresh) {
		most = 1<<16 - 1
	}
	return length >= HeaderLen && length <= most
}

// Read takes a whole message and appends to out the messages that GoBGP is to read in its place; an error is a *Notification.
func (f *Filter) Read(out, message []byte) ([]byte, error) {
	switch body := message[HeaderLen:]; message[18] {
	case Open:
		if n := f.open(body); n != nil {
			return out, n
		}
	case Update:
		passed, n := f.update(out, body)
		switch {
		case n != nil:
			return out, n
		case len(passed) == len(out): // nothing of it is used, and the neighbour is alive
			return appendHeader(out, Keepalive, 0), nil
		}
		return passed, nil
	}
	return append(out, message...), nil
}

// open reads what the neighbour offers. A hold time of 0 would have a session that no silence ends: a neighbour that restarts without
// a word could not come back (RFC 4271 section 4.2 lets a speaker refuse it). AS 0 belongs to nobody (RFC 7607).
func (f *Filter) open(body []byte) *Notification {
	if len(body) < 10 || body[0] != 4 {
		return nil // GoBGP says what is wrong
	}
	f.id = netip.AddrFrom4([4]byte(body[5:9]))
	switch {
	case binary.BigEndian.Uint16(body[1:]) == 0:
		return &Notification{Code: openError, Subcode: badPeerAS, Why: "its AS is 0"}
	case binary.BigEndian.Uint16(body[3:]) == 0:
		return &Notification{Code: openError, Subcode: badHoldTime, Why: "its hold time is 0: set one of 3 s or more there"}
	}
	f.twoOctet = true
	var offered []Family
	for code, value := range capabilities(body[9:]) {
		switch {
		case code == 1 && len(value) == 4:
			offered = append(offered, Family{binary.BigEndian.Uint16(value), value[3]})
		case code == 6:
			f.extended = true
		case code == 65:
			f.twoOctet = false
		}
	}
	if len(offered) == 0 {
		offered = []Family{IPv4}
	}
	f.agreed = slices.DeleteFunc(slices.Clone(f.config.Families), func(own Family) bool { return !slices.Contains(offered, own) })
	return nil
}

// capabilities are those of the optional parameters of an OPEN, from their length on (RFC 5492, 9072). What is cut short ends them.
func capabilities(b []byte) func(yield func(code uint8, value []byte) bool) {
	return func(yield func(code uint8, value []byte) bool) {
		wide := 1
		if b = b[1:]; len(b) >= 3 && b[0] == 255 {
			b, wide = b[3:], 2
		}
		for len(b) > wide {
			t, n := b[0], int(b[wide])
			if wide == 2 {
				n |= int(b[1]) << 8
			}
			if b = b[1+wide:]; len(b) < n {
				return
			}
			for list := b[:n]; t == 2 && len(list) >= 2; {
				code, n := list[0], int(list[1])
				if list = list[2:]; len(list) < n || !yield(code, list[:n]) {
					return
				}
				list = list[n:]
			}
			b = b[n:]
		}
	}
}

func appendHeader(out []byte, kind uint8, length int) []byte {
	for range 16 {
		out = append(out, 0xff)
	}
	return append(binary.BigEndian.AppendUint16(out, uint16(HeaderLen+length)), kind)
}

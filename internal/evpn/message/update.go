package message

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// update is an UPDATE while it is read.
type update struct {
	f *Filter
	// announced and withdrawn are those of the fields, which are IPv4's.
	announced, withdrawn [][]byte
	reach, unreach       mp
	attrs, hop           []byte // attributes that are passed on: all but MP_REACH and NEXT_HOP, and NEXT_HOP
	seen                 [mostAttribute]bool
	reaches              bool // it encodes reachable routes, be it of a family that was not agreed on
	// fault is why its routes are taken as withdrawn: the attribute, and what is wrong with it.
	fault, why string
	own        bool // this edge announced its routes
}

// mp is a multiprotocol attribute (RFC 4760).
type mp struct {
	family Family
	hop    []byte // of MP_REACH: the next hop, with its length
	routes evpn   // of whatever family
	empty  bool   // of MP_UNREACH: it has no routes, so that it may be an End-of-RIB
}

func malformed(subcode uint8, format string, args ...any) *Notification {
	return &Notification{Code: updateError, Subcode: subcode, Why: "an UPDATE of it cannot be read: " + fmt.Sprintf(format, args...)}
}

// update reads an UPDATE, and appends those that GoBGP is to read. The body is written to.
func (f *Filter) update(out, body []byte) ([]byte, *Notification) {
	u := &update{f: f}
	field, rest, ok := cut(body)
	if !ok {
		return out, malformed(malformedList, "withdrawn routes are longer than it")
	}
	list, nlri, ok := cut(rest)
	if !ok {
		return out, malformed(malformedList, "attributes are longer than it")
	}
	if n := u.fields(field, nlri); n != nil {
		return out, n
	}
	if n := u.readAttributes(list); n != nil {
		return out, n
	}
	// No other attribute has room beside an empty MP_UNREACH (RFC 4724 section 2).
	if len(body) == 4 && f.agrees(IPv4) || u.unreach.empty && len(list) <= 7 && len(field)+len(nlri) == 0 {
		return append(appendHeader(out, Update, len(body)), body...), nil
	}
	u.complete()
	if u.fault != "" && !u.reaches { // RFC 7606 section 5.2
		return out, malformed(malformedList, "%s: %s, and no route is seen", u.fault, u.why)
	}
	return u.append(out), nil
}

// cut takes what has its length before it.
func cut(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:n], b[n:], true
}

func (f *Filter) agrees(family Family) bool {
	return slices.Contains(f.agreed, family)
}

// fields reads the fields that are IPv4's.
func (u *update) fields(withdrawn, nlri []byte) *Notification {
	u.reaches = len(nlri) > 0
	if !u.f.agrees(IPv4) {
		if len(withdrawn)+len(nlri) > 0 {
			u.f.foreign(IPv4)
		}
		return nil
	}
	var ok bool
	if u.withdrawn, ok = prefixes(withdrawn, 32); !ok {
		return malformed(badNetwork, "a withdrawn prefix that is none")
	}
	if u.announced, ok = prefixes(nlri, 32); !ok {
		return malformed(badNetwork, "a prefix that is none")
	}
	return nil
}

func (f *Filter) foreign(family Family) {
	f.config.Discard(Discard{What: "family " + family.String(), Routes: 1})
}

func (u *update) readAttributes(b []byte) *Notification {
	for len(b) > 0 {
		var t, flags uint8
		head, length := 3, 0
		switch {
		case len(b) >= 4 && b[0]&extended != 0:
			head, length = 4, int(binary.BigEndian.Uint16(b[2:]))
		case len(b) >= 3 && b[0]&extended == 0:
			length = int(b[2])
		default:
			head = len(b) + 1
		}
		if len(b) < head+length { // RFC 7606 section 4
			u.withdraw("attributes", "one that is longer than they are together")
			return nil
		}
		flags, t = b[0], b[1]
		value := b[head : head+length]
		b = b[head+length:]
		if n := u.attribute(flags, t, value); n != nil {
			return n
		}
		u.seen[t] = true
	}
	return nil
}

// withdraw has the routes be taken as withdrawn (RFC 7606 section 2).
func (u *update) withdraw(what, why string) {
	if u.fault == "" {
		u.fault, u.why = what, why
	}
}

func (u *update) attribute(flags, t uint8, value []byte) *Notification {
	switch {
	case u.seen[t] && (t == mpReach || t == mpUnreach):
		return malformed(malformedList, "attribute %d twice", t)
	case u.seen[t]:
		return nil
	case t == mpReach:
		return u.readReach(flags, value)
	case t == mpUnreach:
		return u.readUnreach(value)
	}
	a := attributes[t]
	switch {
	case a == nil && flags&optional == 0:
		u.withdraw(fmt.Sprintf("attribute %d", t), "unknown, and well-known by its flags")
	case a == nil || a.internal && u.f.config.External || t == as4Path && !u.f.twoOctet: // RFC 6793 section 4.1
	default:
		u.known(a, t, flags, value)
	}
	return nil
}

func (u *update) known(a *attribute, t, flags uint8, value []byte) {
	if why := a.problem(u.f, flags, value); why != "" {
		if a.discard {
			u.f.config.Discard(Discard{What: "malformed " + a.name, Why: why})
		} else {
			u.withdraw(a.name, why)
		}
		return
	}
	switch t {
	case originatorID:
		u.own = netip.AddrFrom4([4]byte(value)) == u.f.config.RouterID
	case extCommunity:
		value = communities(value)
	case nextHop:
		u.hop = appendAttribute(nil, a.flags, t, value)
		return
	}
	if a.pass && (len(value) > 0 || t == asPath) {
		u.attrs = appendAttribute(u.attrs, a.flags, t, value)
	}
}

// nextHopLens are those of an IPv4 and an IPv6 next hop, of the latter with a link-local one, and each with route distinguishers.
var nextHopLens = []int{4, 12, 16, 24, 32, 48}

// readReach reads MP_REACH (RFC 4760 section 3). That of a family which was not agreed on is none of this session's.
func (u *update) readReach(flags uint8, v []byte) *Notification {
	u.reaches = true
	if len(v) < 3 {
		return malformed(optionalError, "MP_REACH of %d octets", len(v))
	}
	u.reach.family = Family{binary.BigEndian.Uint16(v), v[2]}
	if !u.f.agrees(u.reach.family) {
		u.f.foreign(u.reach.family)
		return nil
	}
	if len(v) < 5 || !slices.Contains(nextHopLens, int(v[3])) || len(v) < 5+int(v[3]) { // RFC 7606 section 7.11
		return malformed(optionalError, "MP_REACH with a next hop of another length than it has")
	}
	u.reach.hop = v[3 : 4+v[3]]
	if flags&(optional|transitive) != optional {
		u.withdraw("MP_REACH_NLRI", fmt.Sprintf("flags 0x%02x", flags))
	}
	return u.reach.read(u.f, v[5+int(v[3]):])
}

func (u *update) readUnreach(v []byte) *Notification {
	if len(v) < 3 {
		return malformed(optionalError, "MP_UNREACH of %d octets", len(v))
	}
	u.unreach.family = Family{binary.BigEndian.Uint16(v), v[2]}
	if !u.f.agrees(u.unreach.family) {
		u.f.foreign(u.unreach.family)
		return nil
	}
	u.unreach.empty = len(v) == 3
	return u.unreach.read(u.f, v[3:])
}

// read reads the routes. Those of a list that is longer or shorter than they are cannot be told apart (RFC 7606 section 5.3).
func (m *mp) read(f *Filter, b []byte) *Notification {
	ok := false
	switch m.family {
	case EVPN:
		m.routes, ok = f.evpnRoutes(b)
	case IPv6:
		m.routes.good, ok = prefixes(b, 128)
	default:
		m.routes.good, ok = prefixes(b, 32)
	}
	if !ok {
		return malformed(badNetwork, "a route of family %s that is longer than the list of them", m.family)
	}
	return nil
}

// complete finds what is missing, and counts what is taken as withdrawn.
func (u *update) complete() {
	routes := len(u.announced) + len(u.reach.routes.good)
	if routes == 0 {
		return
	}
	for _, m := range []struct {
		t      uint8
		needed bool
	}{{origin, true}, {asPath, true}, {nextHop, len(u.announced) > 0}, {localPref, !u.f.config.External}} {
		if m.needed && !u.seen[m.t] {
			u.withdraw(attributes[m.t].name, "missing")
		}
	}
	if u.fault != "" {
		u.f.config.Discard(Discard{What: "malformed " + u.fault, Routes: routes, Why: u.why})
	}
}

// append writes what GoBGP is to read, each family by itself: withdrawals, announcements, and malformed routes as withdrawn, which
// outdo what else is said of them.
func (u *update) append(out []byte) []byte {
	out = appendWithdrawn(out, IPv4, u.withdrawn)
	out = appendWithdrawn(out, u.unreach.family, append(u.unreach.routes.good, u.unreach.routes.gone...))
	if u.fault != "" || u.own {
		out = appendWithdrawn(out, IPv4, u.announced)
		return appendWithdrawn(out, u.reach.family, append(u.reach.routes.good, u.reach.routes.gone...))
	}
	if len(u.announced) > 0 {
		out = appendUpdate(out, nil, slices.Concat(u.attrs, u.hop), slices.Concat(u.announced...))
	}
	if len(u.reach.routes.good) > 0 {
		f := u.reach.family
		routes := slices.Concat(u.reach.routes.good...)
		reach := appendAttribute(nil, optional, mpReach, []byte{byte(f.AFI >> 8), byte(f.AFI), f.SAFI}, u.reach.hop, []byte{0}, routes)
		out = appendUpdate(out, nil, append(reach, u.attrs...), nil)
	}
	return appendWithdrawn(out, u.reach.family, u.reach.routes.gone)
}

// withdrawnMost is how many octets of withdrawn routes are in a message: all have room for it.
const withdrawnMost = 4000

func appendWithdrawn(out []byte, f Family, routes [][]byte) []byte {
	for len(routes) > 0 {
		var list []byte
		for len(routes) > 0 && len(list)+len(routes[0]) <= withdrawnMost {
			list, routes = append(list, routes[0]...), routes[1:]
		}
		if f == IPv4 {
			out = appendUpdate(out, list, nil, nil)
			continue
		}
		out = appendUpdate(out, nil, appendAttribute(nil, optional, mpUnreach, []byte{byte(f.AFI >> 8), byte(f.AFI), f.SAFI}, list), nil)
	}
	return out
}

func appendUpdate(out, withdrawn, attrs, nlri []byte) []byte {
	out = appendHeader(out, Update, 4+len(withdrawn)+len(attrs)+len(nlri))
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(withdrawn))), withdrawn...)
	out = append(binary.BigEndian.AppendUint16(out, uint16(len(attrs))), attrs...)
	return append(out, nlri...)
}

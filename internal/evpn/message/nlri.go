package message

import (
	"encoding/binary"
	"fmt"
)

// The EVPN route types that an edge uses (RFC 7432 section 7, RFC 9136).
const (
	macIP     = 2
	multicast = 3
	prefix    = 5
)

// prefixes reads a list of prefixes. Host bits are cleared: prefixes that differ in them alone are the same one.
func prefixes(b []byte, most int) (list [][]byte, ok bool) {
	for len(b) > 0 {
		bits := int(b[0])
		n := 1 + (bits+7)/8
		if bits > most || len(b) < n {
			return nil, false
		}
		mask(b[1:n], bits)
		list, b = append(list, b[:n]), b[n:]
	}
	return list, true
}

func mask(b []byte, bits int) {
	for i := range b {
		b[i] &= ^(0xff >> min(8, max(0, bits-8*i)))
	}
}

// evpn is a list of EVPN routes.
type evpn struct {
	// good are whole; gone are those of malformed ones whose key can be read, as they are withdrawn.
	good, gone [][]byte
}

// evpnRoutes reads a list of EVPN routes; ok is false when a route is longer than the list (RFC 7606 section 5.4).
func (f *Filter) evpnRoutes(b []byte) (list evpn, ok bool) {
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return evpn{}, false
		}
		route := b[:2+int(b[1])]
		b = b[len(route):]
		key, why, used := evpnRoute(route)
		switch {
		case !used:
			f.config.Discard(Discard{What: fmt.Sprintf("EVPN route type %d", route[0]), Routes: 1})
		case why == "":
			list.good = append(list.good, route)
		default:
			f.config.Discard(Discard{What: fmt.Sprintf("malformed EVPN route type %d", route[0]), Routes: 1, Why: why})
			if key != nil {
				list.gone = append(list.gone, key)
			}
		}
	}
	return list, true
}

// evpnRoute reads a route: used says whether the edge uses routes of its type, why what is malformed. The key is that of a malformed
// one if it can be read, as an NLRI.
func evpnRoute(route []byte) (key []byte, why string, used bool) {
	body := route[2:]
	switch t := route[0]; {
	case t != macIP && t != multicast && t != prefix:
		return nil, "", false
	case len(body) < 8:
		return nil, fmt.Sprintf("%d octets", len(body)), true
	case binary.BigEndian.Uint16(body) > 2:
		return nil, fmt.Sprintf("route distinguisher of type %d", binary.BigEndian.Uint16(body)), true
	case t == macIP:
		key, why = macRoute(body)
	case t == multicast:
		key, why = multicastRoute(body)
	default:
		return nil, prefixRoute(body), true
	}
	return key, why, true
}

// withLen is an NLRI of what was read of one.
func withLen(t uint8, parts ...[]byte) []byte {
	nlri := []byte{t, 0}
	for _, p := range parts {
		nlri = append(nlri, p...)
	}
	nlri[1] = uint8(len(nlri) - 2)
	return nlri
}

// octetsOf is the length of an address whose bits a route gives.
func octetsOf(bits uint8, unset bool) (int, bool) {
	return int(bits / 8), bits == 32 || bits == 128 || unset && bits == 0
}

// macRoute reads: RD 8, ESI 10, tag 4, MAC length 1, MAC 6, IP length 1, IP, one or two labels of 3 (RFC 7432 section 7.2).
func macRoute(b []byte) (key []byte, why string) {
	const addr = 8 + 10 + 4 + 1 + 6 + 1
	if len(b) < addr {
		return nil, fmt.Sprintf("%d octets", len(b))
	}
	n, ok := octetsOf(b[addr-1], true)
	switch {
	case b[22] != 48:
		return nil, fmt.Sprintf("MAC address of %d bits", b[22])
	case !ok:
		return nil, fmt.Sprintf("IP address of %d bits", b[addr-1])
	case len(b) < addr+n:
		return nil, fmt.Sprintf("%d octets", len(b))
	case len(b) == addr+n+3 || len(b) == addr+n+6:
		plainESI(b[8:18])
		return nil, ""
	}
	return withLen(macIP, b[:8], make([]byte, 10), b[18:addr+n], make([]byte, 3)), fmt.Sprintf("labels of %d octets", len(b)-addr-n)
}

// multicastRoute reads: RD 8, tag 4, IP length 1, IP (RFC 7432 section 7.3).
func multicastRoute(b []byte) (key []byte, why string) {
	const addr = 8 + 4 + 1
	if len(b) < addr {
		return nil, fmt.Sprintf("%d octets", len(b))
	}
	n, ok := octetsOf(b[addr-1], false)
	switch {
	case !ok:
		return nil, fmt.Sprintf("originator of %d bits", b[addr-1])
	case len(b) < addr+n:
		return nil, fmt.Sprintf("%d octets", len(b))
	case len(b) == addr+n:
		return nil, ""
	}
	return withLen(multicast, b[:addr+n]), fmt.Sprintf("%d octets after the originator", len(b)-addr-n)
}

// prefixRoute reads: RD 8, ESI 10, tag 4, prefix length 1, prefix and gateway of 4 or 16 each, label 3 (RFC 9136 section 3.1). The family
// of one of another length is not known, so neither is its key.
func prefixRoute(b []byte) (why string) {
	n := 4
	switch len(b) {
	case 34:
	case 58:
		n = 16
	default:
		return fmt.Sprintf("%d octets", len(b))
	}
	if bits := int(b[22]); bits > 8*n {
		return fmt.Sprintf("prefix of %d bits", bits)
	}
	plainESI(b[8:18])
	mask(b[23:23+n], int(b[22]))
	return ""
}

// plainESI clears the last octet of an ESI of the types that end with one which says nothing (RFC 7432 section 5): GoBGP refuses others.
func plainESI(esi []byte) {
	switch esi[0] {
	case 1, 2, 4, 5:
		esi[9] = 0
	}
}

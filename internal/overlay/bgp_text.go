package overlay

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The administrators of route targets and distinguishers: the type of the latter, and of
// the former with the sub-type (RFC 4360 section 4, RFC 5668, RFC 4364 section 4.2).
const (
	adminAS   = 0 // 2 octets, and 4 of the number
	adminAddr = 1 // an IPv4 address, and 2 of the number
	adminAS4  = 2 // 4 octets, and 2 of the number

	subTypeTarget = 2 // route target
)

// ASTarget is the route target AS:n. One with an AS that needs 4 octets has room for the low
// 16 bits of n alone.
func ASTarget(as, n uint32) RouteTarget {
	if as > 0xffff {
		return RouteTarget(adminAS4<<56 | subTypeTarget<<48 | uint64(as)<<16 | uint64(n&0xffff))
	}
	return RouteTarget(adminAS<<56 | subTypeTarget<<48 | uint64(as)<<32 | uint64(n))
}

// AddrDistinguisher is the route distinguisher ADDRESS:n of an IPv4 address.
func AddrDistinguisher(addr netip.Addr, n uint16) RouteDistinguisher {
	four := addr.As4()
	return RouteDistinguisher(adminAddr<<48 | uint64(binary.BigEndian.Uint32(four[:]))<<16 | uint64(n))
}

// ParseRouteTarget reads AS:N or ADDRESS:N. An AS of 4 octets that fits 2 is written with a
// dot (RFC 5396), as in 0.65000:7.
func ParseRouteTarget(s string) (RouteTarget, error) {
	kind, value, err := parseAdministered(s)
	return RouteTarget(uint64(kind)<<56 | subTypeTarget<<48 | value), err
}

// ParseRouteDistinguisher reads the same forms.
func ParseRouteDistinguisher(s string) (RouteDistinguisher, error) {
	kind, value, err := parseAdministered(s)
	return RouteDistinguisher(uint64(kind)<<48 | value), err
}

// String returns what ParseRouteTarget reads, of other extended communities all octets in hex.
func (t RouteTarget) String() string {
	if t>>48&0xff == subTypeTarget && t>>56 <= adminAS4 {
		return formatAdministered(uint8(t>>56), uint64(t)&(1<<48-1))
	}
	return fmt.Sprintf("0x%016x", uint64(t))
}

// String returns what ParseRouteDistinguisher reads, of unknown types all octets in hex.
func (d RouteDistinguisher) String() string {
	if d>>48 <= adminAS4 {
		return formatAdministered(uint8(d>>48), uint64(d)&(1<<48-1))
	}
	return fmt.Sprintf("0x%016x", uint64(d))
}

// parseAdministered returns the 6 octets after the type.
func parseAdministered(s string) (kind uint8, value uint64, err error) {
	bad := fmt.Errorf("%q is not AS:NUMBER or ADDRESS:NUMBER", s)
	admin, number, found := strings.Cut(s, ":")
	if !found {
		return 0, 0, bad
	}
	bits := 16
	if addr, err := netip.ParseAddr(admin); err == nil && addr.Is4() {
		four := addr.As4()
		kind, value = adminAddr, uint64(binary.BigEndian.Uint32(four[:]))
	} else if high, low, dotted := strings.Cut(admin, "."); dotted {
		h, err1 := strconv.ParseUint(high, 10, 16)
		l, err2 := strconv.ParseUint(low, 10, 16)
		if err1 != nil || err2 != nil {
			return 0, 0, bad
		}
		kind, value = adminAS4, h<<16|l
	} else {
		as, err := strconv.ParseUint(admin, 10, 32)
		if err != nil {
			return 0, 0, bad
		}
		kind, value = adminAS4, as
		if as <= 0xffff {
			kind, bits = adminAS, 32
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	switch {
	case err != nil:
		return 0, 0, bad
	case n >= 1<<bits:
		return 0, 0, fmt.Errorf("%d does not fit the %d bits that are left after %s", n, bits, admin)
	}
	return kind, value<<bits | n, nil
}

func formatAdministered(kind uint8, value uint64) string {
	switch admin, n := uint32(value>>16), uint16(value); {
	case kind == adminAS:
		return fmt.Sprintf("%d:%d", value>>32, uint32(value))
	case kind == adminAddr:
		return fmt.Sprintf("%s:%d", netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, admin))), n)
	case admin <= 0xffff:
		return fmt.Sprintf("0.%d:%d", admin, n)
	default:
		return fmt.Sprintf("%d:%d", admin, n)
	}
}

// octets reads "0x" and 16 hex digits.
func octets(s string) (uint64, bool) {
	digits, found := strings.CutPrefix(s, "0x")
	value, err := strconv.ParseUint(digits, 16, 64)
	return value, found && len(digits) == 16 && err == nil
}

// MarshalText makes a route target a string in JSON.
func (t RouteTarget) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *RouteTarget) UnmarshalText(text []byte) (err error) {
	if value, ok := octets(string(text)); ok {
		*t = RouteTarget(value)
		return nil
	}
	*t, err = ParseRouteTarget(string(text))
	return err
}

// MarshalText makes a route distinguisher a string in JSON.
func (d RouteDistinguisher) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *RouteDistinguisher) UnmarshalText(text []byte) (err error) {
	if value, ok := octets(string(text)); ok {
		*d = RouteDistinguisher(value)
		return nil
	}
	*d, err = ParseRouteDistinguisher(string(text))
	return err
}

// wellKnown are the communities that have names.
var wellKnown = []struct {
	name  string
	value Community
}{
	{"graceful-shutdown", 0xffff0000}, // RFC 8326
	{"llgr-stale", 0xffff0006},        // RFC 9494
	{"no-llgr", 0xffff0007},
	{"blackhole", 0xffff029a}, // RFC 7999
	{"no-export", 0xffffff01}, // RFC 1997
	{"no-advertise", 0xffffff02},
	{"no-export-subconfed", 0xffffff03},
	{"no-peer", 0xffffff04}, // RFC 3765
}

// WellKnownCommunities returns the names that ParseCommunity knows.
func WellKnownCommunities() []string {
	names := make([]string, len(wellKnown))
	for i, w := range wellKnown {
		names[i] = w.name
	}
	return names
}

// ParseCommunity reads AS:NUMBER, of 16 bits each, or a well-known name.
func ParseCommunity(s string) (Community, error) {
	for _, w := range wellKnown {
		if w.name == s {
			return w.value, nil
		}
	}
	as, number, found := strings.Cut(s, ":")
	high, err1 := strconv.ParseUint(as, 10, 16)
	low, err2 := strconv.ParseUint(number, 10, 16)
	if !found || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is not a community: two numbers up to 65535, as in 65000:1, or a well-known name", s)
	}
	return Community(high<<16 | low), nil
}

// String returns what ParseCommunity reads.
func (c Community) String() string {
	for _, w := range wellKnown {
		if w.value == c {
			return w.name
		}
	}
	return fmt.Sprintf("%d:%d", c>>16, c&0xffff)
}

// MarshalText makes a community a string in JSON.
func (c Community) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Community) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCommunity(string(text))
	return err
}

// Has reports whether sessions with n exchange a family.
func (n BGPNeighbour) Has(f BGPFamily) bool { return slices.Contains(n.Families, f) }

// Unicast reports whether sessions with n exchange routes of an uplink.
func (n BGPNeighbour) Unicast() bool { return n.Has(FamilyIPv4) || n.Has(FamilyIPv6) }

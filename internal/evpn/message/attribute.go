package message

import (
	"encoding/binary"
	"fmt"
	"slices"
)

const (
	optional   = 0x80
	transitive = 0x40
	extended   = 0x10
)

// The attributes that are passed on, or whose absence is an error.
const (
	origin        = 1
	asPath        = 2
	nextHop       = 3
	localPref     = 5
	originatorID  = 9
	mpReach       = 14
	mpUnreach     = 15
	extCommunity  = 16
	as4Path       = 17
	mostAttribute = 256
)

// attribute is what is known of a type. Without pass it is left out: the edge has no use for it.
type attribute struct {
	name  string
	flags uint8
	pass  bool
	// discard: a malformed one is left out, and the route used without it (RFC 7606 section 7, RFC 6793 section 6); else the routes
	// are taken as withdrawn.
	discard bool
	// internal: from another AS it is left out, whatever it says (RFC 7606 sections 7.5, 7.9, 7.10).
	internal bool
	// unit is what its length must be a multiple of, other than 0; exact: and no more than that.
	unit  int
	exact bool
	check func(*Filter, []byte) string
}

const wellKnown, optionalTransitive, optionalOnly = transitive, optional | transitive, optional

// attributes are those that have a rule, by type (RFC 7606 section 7 where no other is named).
var attributes = map[uint8]*attribute{
	origin:       {name: "ORIGIN", flags: wellKnown, pass: true, unit: 1, exact: true, check: checkOrigin},
	asPath:       {name: "AS_PATH", flags: wellKnown, pass: true, check: func(f *Filter, v []byte) string { return f.checkPath(v, f.twoOctet) }},
	nextHop:      {name: "NEXT_HOP", flags: wellKnown, pass: true, unit: 4, exact: true, check: checkNextHop},
	4:            {name: "MULTI_EXIT_DISC", flags: optionalOnly, pass: true, unit: 4, exact: true},
	localPref:    {name: "LOCAL_PREF", flags: wellKnown, pass: true, internal: true, unit: 4, exact: true},
	6:            {name: "ATOMIC_AGGREGATE", flags: wellKnown, discard: true, check: checkEmpty},
	7:            {name: "AGGREGATOR", flags: optionalTransitive, discard: true, check: checkAggregator},
	8:            {name: "COMMUNITIES", flags: optionalTransitive, pass: true, unit: 4},
	originatorID: {name: "ORIGINATOR_ID", flags: optionalOnly, internal: true, unit: 4, exact: true},
	10:           {name: "CLUSTER_LIST", flags: optionalOnly, internal: true, unit: 4},
	extCommunity: {name: "EXTENDED COMMUNITIES", flags: optionalTransitive, pass: true, unit: 8},
	as4Path:      {name: "AS4_PATH", flags: optionalTransitive, pass: true, discard: true, check: func(f *Filter, v []byte) string { return f.checkPath(v, false) }},
	18:           {name: "AS4_AGGREGATOR", flags: optionalTransitive, discard: true, unit: 8, exact: true},
	22:           {name: "PMSI_TUNNEL", flags: optionalTransitive, pass: true, check: checkPMSI}, // RFC 6514 section 5
	25:           {name: "IPv6 EXTENDED COMMUNITIES", flags: optionalTransitive, unit: 20},
	32:           {name: "LARGE_COMMUNITY", flags: optionalTransitive, unit: 12},              // RFC 8092 section 6
	35:           {name: "ONLY_TO_CUSTOMER", flags: optionalTransitive, unit: 4, exact: true}, // RFC 9234 section 5
}

func checkOrigin(_ *Filter, v []byte) string {
	if v[0] > 2 {
		return fmt.Sprintf("value %d", v[0])
	}
	return ""
}

// checkNextHop refuses what GoBGP does: an address that no host has.
func checkNextHop(_ *Filter, v []byte) string {
	if v[0] == 0 || v[0] == 127 || v[0] >= 224 {
		return fmt.Sprintf("%d.%d.%d.%d", v[0], v[1], v[2], v[3])
	}
	return ""
}

func checkEmpty(_ *Filter, v []byte) string {
	if len(v) != 0 {
		return fmt.Sprintf("%d octets", len(v))
	}
	return ""
}

func checkAggregator(f *Filter, v []byte) string {
	if want := map[bool]int{true: 6, false: 8}[f.twoOctet]; len(v) != want {
		return fmt.Sprintf("%d octets, not %d", len(v), want)
	}
	return ""
}

func checkPMSI(_ *Filter, v []byte) string {
	if len(v) < 5 {
		return fmt.Sprintf("%d octets", len(v))
	}
	return ""
}

// MostOwn is how often a path may have the AS of this end, and be shown as a loop: GoBGP counts no further.
const MostOwn = 255

// checkPath reads a list of segments (RFC 4271 section 4.3, RFC 7606 section 7.2). A confederation's are an error from those
// who are in none with this end (RFC 5065 section 5), AS 0 is one from anybody (RFC 7607).
func (f *Filter) checkPath(v []byte, twoOctet bool) string {
	size, own := 4, 0
	if twoOctet {
		size = 2
	}
	for len(v) > 0 {
		switch {
		case len(v) < 2 || v[1] == 0 || len(v) < 2+size*int(v[1]):
			return "a segment that is cut short, or empty"
		case v[0] == 3 || v[0] == 4:
			return "a segment of a confederation"
		case v[0] != 1 && v[0] != 2:
			return fmt.Sprintf("a segment of type %d", v[0])
		}
		segment := v[2 : 2+size*int(v[1])]
		v = v[2+len(segment):]
		for ; len(segment) > 0; segment = segment[size:] {
			as := uint32(binary.BigEndian.Uint16(segment))
			if !twoOctet {
				as = binary.BigEndian.Uint32(segment)
			}
			if as == 0 {
				return "AS 0"
			}
			if as == f.config.AS {
				own++
			}
		}
	}
	if own > MostOwn {
		return fmt.Sprintf("this AS %d times", own)
	}
	return ""
}

// problem is what is wrong with the value of an attribute, "" where nothing is.
func (a *attribute) problem(f *Filter, flags uint8, v []byte) string {
	switch {
	case flags&(optional|transitive) != a.flags:
		return fmt.Sprintf("flags 0x%02x", flags)
	case a.unit != 0 && (len(v) == 0 || len(v)%a.unit != 0 || a.exact && len(v) != a.unit):
		return fmt.Sprintf("%d octets", len(v))
	case a.check != nil:
		return a.check(f, v)
	}
	return ""
}

// usedCommunities are the extended communities that the edge reads, by type and sub-type: route targets, encapsulation, default
// gateway, and MAC mobility, router's MAC and ARP/ND of EVPN.
var usedCommunities = [][2]byte{{0, 2}, {1, 2}, {2, 2}, {3, 0x0c}, {3, 0x0d}, {6, 0}, {6, 3}, {6, 8}}

// communities keeps those; all others are ignored (RFC 4360 section 6). ARP/ND gets a type that GoBGP does not look into.
func communities(v []byte) []byte {
	var out []byte
	for ; len(v) >= 8; v = v[8:] {
		if !slices.Contains(usedCommunities, [2]byte(v)) {
			continue
		}
		out = append(out, v[:8]...)
		if v[0] == 6 && v[1] == 8 {
			out[len(out)-8] = NDType
		}
	}
	return out
}

func appendAttribute(out []byte, flags, t uint8, value ...[]byte) []byte {
	n := 0
	for _, v := range value {
		n += len(v)
	}
	if n > 255 {
		out = binary.BigEndian.AppendUint16(append(out, flags|extended, t), uint16(n))
	} else {
		out = append(out, flags, t, uint8(n))
	}
	for _, v := range value {
		out = append(out, v...)
	}
	return out
}

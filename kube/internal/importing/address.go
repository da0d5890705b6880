package importing

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// span is addresses of one family from first to last.
type span struct{ first, last netip.Addr }

var errAddress = errors.New("it is no IPv4 or IPv6 address")

// parseAddr reads an address as the API server takes it.
func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return a, errAddress
	}
	return a, nil
}

// parseSpan reads an address, FIRST-LAST, or a network.
func parseSpan(s string) (span, error) {
	if first, last, is := strings.Cut(s, "-"); is {
		return newSpan(first, last)
	}
	if !strings.Contains(s, "/") {
		a, err := parseAddr(s)
		return span{a, a}, err
	}
	p, err := parseNetwork(s)
	return span{p.Addr(), netipx.PrefixLastIP(p)}, err
}

func newSpan(first, last string) (span, error) {
	a, err1 := parseAddr(first)
	b, err2 := parseAddr(last)
	switch {
	case err1 != nil || err2 != nil:
		return span{}, errAddress
	case a.Is4() != b.Is4() || b.Less(a):
		return span{}, errors.New("its last address is before the first")
	}
	return span{a, b}, nil
}

// parseNetwork reads a network or an address, and leaves bits of a host out.
func parseNetwork(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "/") {
		a, err := parseAddr(s)
		if err != nil {
			return netip.Prefix{}, err
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("it is no network of IPv4 or IPv6")
	}
	return p.Masked(), nil
}

func (s span) addrs() netipx.IPRange { return netipx.IPRangeFrom(s.first, s.last) }

func (s span) contains(a netip.Addr) bool { return s.addrs().Contains(a) }

// String is the address, the network, or FIRST-LAST.
func (s span) String() string {
	if s.first == s.last {
		return s.first.String()
	}
	if p, is := s.addrs().Prefix(); is {
		return p.String()
	}
	return s.first.String() + "-" + s.last.String()
}

// size is how many addresses a span has.
func (s span) size() *big.Int {
	first, last := new(big.Int).SetBytes(s.first.AsSlice()), new(big.Int).SetBytes(s.last.AsSlice())
	return last.Sub(last, first).Add(last, big.NewInt(1))
}

// mergeSpans orders spans and joins those that overlap; with adjacent, those without a gap too.
func mergeSpans(all []span, adjacent bool) (merged []span) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first.BitLen(), b.first.BitLen()), a.first.Compare(b.first), a.last.Compare(b.last))
	})
	for _, s := range all {
		n := len(merged) - 1
		if n >= 0 && (merged[n].contains(s.first) || adjacent && merged[n].last.Next() == s.first) {
			if merged[n].last.Less(s.last) {
				merged[n].last = s.last
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// maxAddresses and maxNetworks are those of the kinds.
const (
	maxAddresses = 64
	maxNetworks  = 256
	maxFixed     = 64
	maxAccounts  = 64
	maxNextHops  = 16
	maxInterface = 15
	maxVLAN      = 4094
)

// networks reads networks of a field, and notes what of them is changed. It returns false when they cannot be written:
// the policy would have others.
func (i *importer) networks(object, name string, all []string) (out []netip.Prefix, ok bool) {
	for _, s := range all {
		p, err := parseNetwork(s)
		if err != nil {
			i.lost(object, "", nil, fmt.Sprintf("%s has %q: %v", name, s, err), "correct it")
			return nil, false
		}
		if p.String() != strings.TrimSpace(s) {
			i.changed(object, name, s, "it is written as "+p.String(), "")
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) > maxNetworks {
		out = aggregate(out)
		i.changed(object, name, fmt.Sprintf("with %d networks", len(all)), fmt.Sprintf("they are written as %d that are the same addresses", len(out)), "")
	}
	if len(out) > maxNetworks {
		i.lost(object, "", nil, fmt.Sprintf("%s has %d networks, and %d fit", name, len(out), maxNetworks), "name fewer and larger networks")
		return nil, false
	}
	return out, true
}

// aggregate writes networks as the fewest that are the same addresses, in their order.
func aggregate(all []netip.Prefix) []netip.Prefix {
	var b netipx.IPSetBuilder
	for _, p := range all {
		b.AddPrefix(p)
	}
	set, err := b.IPSet()
	if err != nil { // of what is no network, which nobody has read
		return all
	}
	return set.Prefixes()
}

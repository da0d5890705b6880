package trace

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// FilterGrammar is what ParseFilter reads, by examples.
const FilterGrammar = `tcp dst 10.1.0.2 dport 443
udp host 10.0.0.1 port 53
src 10.0.0.0/24 dst 2001:db8::/32
icmp 10.0.0.1 > any
tcp 10.0.0.1:1000 > 10.1.0.2:80
ip 132
arp
raw 0x88b5`

// Filter is a set of packets by their inner headers. The zero one has all.
type Filter struct {
	EtherType        uint16  // 0: any
	Protocols        []uint8 // one or two, nil: any
	Src, Dst         netip.Prefix
	SrcPort, DstPort uint16
	Either           bool // Src, SrcPort and the others may be exchanged
}

// kindsOfFilters are what a filter may begin with.
var kindsOfFilters = map[string]Filter{
	kindTCP: {Protocols: []uint8{protoTCP}}, kindUDP: {Protocols: []uint8{protoUDP}}, kindICMP: {Protocols: []uint8{protoICMP, protoICMPv6}},
	kindARP: {EtherType: typeARP}, kindIP: {}, kindRaw: {},
}

// ParseFilter reads a filter in the words of Parse and, for one end, those of tcpdump: src, dst, host, sport, dport, port.
// No words have all packets.
func ParseFilter(words string) (Filter, error) {
	r := &reader{words: strings.Fields(words)}
	var f Filter
	if len(r.words) > 0 {
		if kind, ok := kindsOfFilters[r.words[0]]; ok {
			f = kind
			r.number(&f, r.next("a kind"))
		}
	}
	for len(r.words) > 0 && r.err == nil {
		r.condition(&f)
	}
	if r.err == nil {
		r.err = f.check()
	}
	if r.err != nil {
		return Filter{}, fmt.Errorf("filter %q: %w; forms are:\n%s", words, r.err, FilterGrammar)
	}
	return f, nil
}

// number reads what follows "ip" and "raw".
func (r *reader) number(f *Filter, kind string) {
	numbered := len(r.words) > 0 && isNumber(r.words[0])
	switch {
	case kind == kindRaw:
		f.EtherType = uint16(r.uint("an ethertype", 0xffff))
	case kind == kindIP && numbered:
		f.Protocols = []uint8{uint8(r.uint("a protocol number", 255))}
	}
}

// condition reads one condition, or both ends.
func (r *reader) condition(f *Filter) {
	switch word := r.next("a condition"); word {
	case "src":
		f.Src = r.prefix()
	case "dst":
		f.Dst = r.prefix()
	case "sport":
		f.SrcPort = r.port()
	case "dport":
		f.DstPort = r.port()
	case "host":
		f.Src, f.Either = r.prefix(), true
	case "port":
		f.SrcPort, f.Either = r.port(), true
	default:
		f.Src, f.SrcPort = r.end(word)
		r.exactly(">")
		f.Dst, f.DstPort = r.end(r.next("an address"))
		if len(r.words) > 0 && r.err == nil {
			r.fail("unexpected %q at the end", strings.Join(r.words, " "))
		}
	}
}

func (r *reader) port() uint16 { return uint16(r.uint("a port", 65535)) }

func (r *reader) prefix() netip.Prefix {
	word := r.next("an address or a prefix")
	p, err := prefixOf(word)
	if err != nil {
		r.fail("%q is neither an IP address nor a prefix", word)
	}
	return p
}

func prefixOf(word string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(word); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(word)
}

// end is an address or prefix, which may have a port; "any" is any.
func (r *reader) end(word string) (p netip.Prefix, port uint16) {
	if word == "any" {
		return p, 0
	}
	if p, err := prefixOf(word); err == nil {
		return p, 0
	}
	if ap, err := netip.ParseAddrPort(word); err == nil {
		a := ap.Addr().Unmap()
		return netip.PrefixFrom(a, a.BitLen()), ap.Port()
	}
	if number, ok := strings.CutPrefix(word, "any:"); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		if err == nil {
			return p, uint16(n)
		}
	}
	r.fail("%q is no kind of packet, no condition and no address", word)
	return p, 0
}

func (f Filter) check() error {
	switch {
	case f.Src.IsValid() && f.Dst.IsValid() && f.Src.Addr().Is4() != f.Dst.Addr().Is4():
		return fmt.Errorf("%s and %s are of different families", f.Src, f.Dst)
	case f.Either && (f.Dst.IsValid() || f.DstPort != 0):
		return fmt.Errorf("host and port are of either end: they take no dst and no dport beside them")
	case f.EtherType != 0 && (f.Src.IsValid() || f.Dst.IsValid() || f.SrcPort != 0 || f.DstPort != 0):
		return fmt.Errorf("only IP packets have addresses and ports here")
	}
	return nil
}

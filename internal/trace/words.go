// Package trace makes one frame out of words, for a data path to trace, and
// frames into words.
//
// Its one invariant: the lengths and checksums of what Frame returns are right,
// and what reads frames takes any bytes. It is for one packet that a person
// looks at: do not use it where packets are many.
package trace

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Grammar is what Parse reads, one form a line.
const Grammar = `tcp 10.0.0.1:1000 > 10.1.0.2:80 syn+ack 100
udp [2001:db8::1]:53 > [2001:db8::2]:53 18
icmp 10.0.0.1 > 10.1.0.2 56
ip 10.0.0.1 > 10.1.0.2 132 20
fragment 10.0.0.1 > 10.1.0.2 1480 64
arp 10.0.0.1 ? 10.0.0.254
raw 0x88b5 46`

// Packet is what the words describe.
type Packet struct {
	// Src and Dst are unset in a raw packet; in ARP who asks, and for whom.
	Src, Dst netip.Addr
	TTL      uint8

	kind             string
	srcPort, dstPort uint16
	flags            uint8  // of TCP
	number           uint16 // protocol, ethertype or fragment offset
	payload          int    // bytes
}

// defaultTTL is that of most hosts.
const defaultTTL = 64

// The kinds of packets.
const (
	kindTCP      = "tcp"
	kindUDP      = "udp"
	kindICMP     = "icmp"
	kindIP       = "ip"
	kindFragment = "fragment"
	kindARP      = "arp"
	kindRaw      = "raw"
)

// flagBits are TCP's (RFC 9293 section 3.1).
var flagBits = []struct {
	name string
	bit  uint8
}{{"fin", 1}, {"syn", 2}, {"rst", 4}, {"psh", 8}, {"ack", 16}, {"urg", 32}, {"ece", 64}, {"cwr", 128}}

// reader takes words off a description; after the first mistake it is quiet.
type reader struct {
	words []string
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *reader) next(want string) string {
	if len(r.words) == 0 {
		r.fail("the packet ends where %s is expected", want)
		return ""
	}
	word := r.words[0]
	r.words = r.words[1:]
	return word
}

func (r *reader) exactly(want string) {
	if word := r.next(strconv.Quote(want)); word != want {
		r.fail("%q where %q is expected", word, want)
	}
}

func (r *reader) addr() netip.Addr {
	word := r.next("an IP address")
	a, err := netip.ParseAddr(word)
	if err != nil || a.Zone() != "" {
		r.fail("%q is not an IP address", word)
	}
	return a.Unmap()
}

func (r *reader) addrPort() (netip.Addr, uint16) {
	word := r.next("an address with a port")
	a, err := netip.ParseAddrPort(word)
	if err != nil || a.Addr().Zone() != "" {
		r.fail("%q is not an address with a port, like 10.0.0.1:80 or [2001:db8::1]:80", word)
	}
	return a.Addr().Unmap(), a.Port()
}

func (r *reader) uint(want string, most uint64) uint64 {
	word := r.next(want)
	n, err := strconv.ParseUint(word, 0, 64)
	if err != nil || n > most {
		r.fail("%q is not %s up to %d", word, want, most)
	}
	return n
}

// tcpFlags are optional, and then an acknowledgement's.
func (r *reader) tcpFlags() (bits uint8) {
	if len(r.words) == 0 || isNumber(r.words[0]) {
		return 16
	}
	for name := range strings.SplitSeq(r.next("TCP flags"), "+") {
		known := false
		for _, f := range flagBits {
			if f.name == name {
				bits, known = bits|f.bit, true
			}
		}
		if !known {
			r.fail("there is no TCP flag %q; join fin, syn, rst, psh, ack, urg, ece, cwr by +", name)
		}
	}
	return bits
}

func isNumber(word string) bool {
	_, err := strconv.ParseUint(word, 0, 64)
	return err == nil
}

// Parse reads a packet in the words of Grammar. A number at the end is the size
// of the payload in bytes.
func Parse(words string) (Packet, error) {
	r := &reader{words: strings.Fields(words)}
	p := Packet{TTL: defaultTTL, kind: r.next("tcp, udp, icmp, ip, fragment, arp or raw")}
	r.headers(&p)
	if p.kind != kindARP && len(r.words) > 0 && r.err == nil {
		p.payload = int(r.uint("a number of bytes", maxPacket))
	}
	if len(r.words) > 0 {
		r.fail("unexpected %q at the end", strings.Join(r.words, " "))
	}
	if r.err == nil {
		r.err = p.check()
	}
	if r.err != nil {
		return Packet{}, fmt.Errorf("packet %q: %w; forms are:\n%s", words, r.err, Grammar)
	}
	return p, nil
}

// headers reads what is between the kind and the size of the payload.
func (r *reader) headers(p *Packet) {
	switch p.kind {
	case kindTCP, kindUDP:
		p.Src, p.srcPort = r.addrPort()
		r.exactly(">")
		p.Dst, p.dstPort = r.addrPort()
		if p.kind == kindTCP {
			p.flags = r.tcpFlags()
		}
	case kindICMP, kindIP, kindFragment:
		p.Src = r.addr()
		r.exactly(">")
		p.Dst = r.addr()
		p.number = r.ipNumber(p.kind)
	case kindARP:
		p.Src = r.addr()
		r.exactly("?")
		p.Dst = r.addr()
		if p.Src.Is6() || p.Dst.Is6() {
			r.fail("ARP asks for IPv4 addresses")
		}
	case kindRaw:
		p.number = uint16(r.uint("an ethertype", 0xffff))
	default:
		r.fail("%q is not a kind of packet", p.kind)
	}
}

// ipNumber is a protocol or the offset of a fragment.
func (r *reader) ipNumber(kind string) uint16 {
	switch kind {
	case kindIP:
		return uint16(r.uint("a protocol number", 255))
	case kindFragment:
		offset := r.uint("an offset in bytes", 65528)
		if offset%8 != 0 {
			r.fail("a fragment cannot begin at %d: write a multiple of 8", offset)
		}
		return uint16(offset)
	}
	return 0
}

func (p *Packet) check() error {
	switch {
	case p.Src.IsValid() && p.Src.Is4() != p.Dst.Is4():
		return fmt.Errorf("%s and %s are of different families", p.Src, p.Dst)
	case p.size() > maxPacket:
		return fmt.Errorf("it has %d bytes, at most %d", p.size(), maxPacket)
	}
	return nil
}

// SetSize makes the IP packet (or what follows a raw packet's ethertype) n bytes.
func (p *Packet) SetSize(n int) error {
	least := p.size() - p.payload
	switch {
	case p.kind == kindARP:
		return fmt.Errorf("an ARP request has %d bytes", least)
	case n < least || n > maxPacket:
		return fmt.Errorf("a packet cannot have %d bytes: its headers have %d, and the most is %d", n, least, maxPacket)
	}
	p.payload = n - least
	return nil
}

// ARP reports whether the packet asks for a MAC address.
func (p *Packet) ARP() bool { return p.kind == kindARP }

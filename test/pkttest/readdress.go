package pkttest

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Talk is who talks to whom: addresses, and the ports of TCP and UDP; of an ICMP echo its
// identifier stands in both.
type Talk struct{ Src, Dst netip.AddrPort }

// Reversed is the talk of the other one.
func (t Talk) Reversed() Talk { return Talk{t.Dst, t.Src} }

// Readdressed is a copy of a frame without tags whose IP packet has another talk. Every
// checksum that covers something of it is changed by the difference (RFC 1624), so a right
// one stays right and a wrong one wrong; none of UDP stays none. Fragments but the first
// have addresses alone, and so has what is neither TCP, UDP nor an ICMP echo.
func Readdressed(frame []byte, to Talk) []byte {
	b := slices.Clone(frame)
	readdress(b[etherLen:], to)
	return b
}

// Requoted is that of an ICMP error: its own addresses, and the talk of the packet that it
// quotes.
func Requoted(frame []byte, src, dst netip.Addr, quoted Talk) []byte {
	b := slices.Clone(frame)
	at, ok := QuoteAt(b)
	if !ok {
		panic("pkttest: not an ICMP error that quotes a packet")
	}
	readdress(b[at:], quoted)
	header := ipHeaderOf(b[etherLen:])
	icmp := etherLen + header.transport
	adjust(b, icmp+2, frame[icmp+4:], b[icmp+4:])
	readdress(b[etherLen:], Talk{netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0)})
	return b
}

// QuoteAt is the offset of the IP packet that a frame's ICMP error quotes; false when it
// is none, or quotes less than an IP header.
func QuoteAt(frame []byte) (int, bool) {
	h := ipHeaderOf(frame[etherLen:])
	at := etherLen + h.transport
	least := map[bool]int{false: ipv4Len, true: ipv6Len}[h.v6]
	if !h.first || at+8+least > len(frame) || !isErrorType(h, frame[at]) {
		return 0, false
	}
	return at + 8, true
}

// TalkOf is the talk of a frame's IP packet, without ports where there are none.
func TalkOf(frame []byte) Talk { return talkOf(frame[etherLen:]) }

// QuotedTalkOf is that of the packet that an ICMP error quotes.
func QuotedTalkOf(frame []byte) (Talk, bool) {
	at, ok := QuoteAt(frame)
	if !ok {
		return Talk{}, false
	}
	return talkOf(frame[at:]), true
}

// ProtoOf is the protocol of a frame's IP packet, behind extension headers.
func ProtoOf(frame []byte) uint8 { return ipHeaderOf(frame[etherLen:]).proto }

// ipHeader is what readdressing has to know of an IP packet, of which the end may be missing.
type ipHeader struct {
	v6        bool
	proto     uint8
	transport int  // offset
	first     bool // the transport header is there: not a later fragment
	addrs, n  int  // offset of the source address, bytes of one
}

func ipHeaderOf(b []byte) ipHeader {
	if b[0]>>4 == 4 {
		return ipHeader{
			proto: b[9], transport: int(b[0]&0xf) * 4, first: binary.BigEndian.Uint16(b[6:])&0x1fff == 0, addrs: 12, n: 4,
		}
	}
	h := ipHeader{v6: true, proto: b[6], transport: ipv6Len, first: true, addrs: 8, n: 16}
	for h.first && h.transport+8 <= len(b) {
		ext := b[h.transport:]
		switch h.proto {
		case ProtoHopByHop, ProtoRouting, ProtoDestination:
			h.transport += (int(ext[1]) + 1) * 8
		case ProtoFragment:
			h.first = binary.BigEndian.Uint16(ext[2:])&^7 == 0
			h.transport += 8
		case ProtoAuthentication:
			h.transport += (int(ext[1]) + 2) * 4
		default:
			return h
		}
		h.proto = ext[0]
	}
	return h
}

// ProtoAuthentication is the IP authentication header (RFC 4302).
const ProtoAuthentication = 51

func isErrorType(h ipHeader, kind uint8) bool {
	if h.v6 {
		return h.proto == ProtoICMPv6 && kind < 128
	}
	return h.proto == ProtoICMP && slices.Contains([]uint8{3, 4, 5, 11, 12}, kind)
}

func isEchoType(h ipHeader, kind uint8) bool {
	if h.v6 {
		return h.proto == ProtoICMPv6 && (kind == 128 || kind == 129)
	}
	return h.proto == ProtoICMP && (kind == 8 || kind == 0)
}

// numbersAt are the offsets of source and destination port; of an echo both are the
// identifier's. false: there are none.
func numbersAt(b []byte, h ipHeader) (src, dst int, ok bool) {
	at := h.transport
	switch {
	case !h.first || len(b) < at+8:
		return 0, 0, false
	case h.proto == ProtoTCP || h.proto == ProtoUDP:
		return at, at + 2, true
	case isEchoType(h, b[at]):
		return at + 4, at + 4, true
	}
	return 0, 0, false
}

func talkOf(b []byte) (t Talk) {
	h := ipHeaderOf(b)
	src, _ := netip.AddrFromSlice(b[h.addrs : h.addrs+h.n])
	dst, _ := netip.AddrFromSlice(b[h.addrs+h.n : h.addrs+2*h.n])
	var sport, dport uint16
	if s, d, ok := numbersAt(b, h); ok {
		sport, dport = binary.BigEndian.Uint16(b[s:]), binary.BigEndian.Uint16(b[d:])
	}
	return Talk{netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport)}
}

// readdress changes an IP packet, of which the end may be missing, in place.
func readdress(b []byte, to Talk) {
	h := ipHeaderOf(b)
	was := slices.Clone(b)
	copy(b[h.addrs:], to.Src.Addr().AsSlice())
	copy(b[h.addrs+h.n:], to.Dst.Addr().AsSlice())
	if !h.v6 {
		adjust(b, 10, was[12:20], b[12:20])
	}
	if src, dst, ok := numbersAt(b, h); ok {
		binary.BigEndian.PutUint16(b[src:], to.Src.Port())
		binary.BigEndian.PutUint16(b[dst:], to.Dst.Port())
	}
	sum := sumAt(h)
	if sum == 0 || sum+2 > len(b) || h.proto == ProtoUDP && b[sum] == 0 && b[sum+1] == 0 {
		return
	}
	ports := [2]int{h.transport, min(h.transport+6, len(b))} // the checksum of none is in them
	if h.proto != ProtoTCP && h.proto != ProtoUDP {
		ports = [2]int{h.transport + 4, min(h.transport+6, len(b))}
	}
	old, now := was[ports[0]:ports[1]], b[ports[0]:ports[1]]
	if h.proto != ProtoICMP { // whose checksum has no pseudo header
		old, now = slices.Concat(was[h.addrs:h.addrs+2*h.n], old), slices.Concat(b[h.addrs:h.addrs+2*h.n], now)
	}
	adjust(b, sum, old, now)
	if h.proto == ProtoUDP && b[sum] == 0 && b[sum+1] == 0 {
		b[sum], b[sum+1] = 0xff, 0xff // RFC 768
	}
}

// sumAt is the offset of the transport's checksum, 0 without one that covers addresses
// or ports.
func sumAt(h ipHeader) int {
	if !h.first {
		return 0
	}
	switch {
	case h.proto == ProtoTCP:
		return h.transport + 16
	case h.proto == ProtoUDP:
		return h.transport + 6
	case h.proto == ProtoICMP && !h.v6, h.proto == ProtoICMPv6 && h.v6:
		return h.transport + 2
	}
	return 0
}

// adjust changes the checksum at an offset by what some bytes that it covers have become
// (RFC 1624 equation 3). They begin at an even place of what is summed.
func adjust(b []byte, at int, old, now []byte) {
	sum := uint32(^binary.BigEndian.Uint16(b[at:]))
	sum += uint32(^Sum(old, 0)) + uint32(Sum(now, 0))
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[at:], ^uint16(sum))
}

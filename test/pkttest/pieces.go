package pkttest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// addresses are source and destination of an IP header.
func addresses(ip Header) (src, dst netip.Addr) {
	at, n := 12, 4
	if ip.Kind == KindIPv6 {
		at, n = 8, 16
	}
	src, _ = netip.AddrFromSlice(ip.Bytes[at : at+n])
	dst, _ = netip.AddrFromSlice(ip.Bytes[at+n : at+2*n])
	return src, dst
}

// isIPv6 is of a frame without tags; what is not IP panics.
func isIPv6(frame []byte) bool {
	switch kind := binary.BigEndian.Uint16(frame[12:]); kind {
	case EtherTypeIPv4:
		return false
	case EtherTypeIPv6:
		return true
	default:
		panic(fmt.Sprintf("pkttest: ethertype %#x is not IP", kind))
	}
}

// Fragments cuts a frame's IP packet, which has no options or extension headers, into
// fragments of at most size bytes of payload, a multiple of 8 (RFC 791, RFC 8200 section 4.5).
func Fragments(frame []byte, id uint32, size int) (list [][]byte) {
	body := frame[etherLen+ipv4Len:]
	if isIPv6(frame) {
		body = frame[etherLen+ipv6Len:]
	}
	for at := 0; at < len(body); at += size {
		end := min(at+size, len(body))
		list = append(list, fragmentOf(frame, body[at:end], id, at, end < len(body)))
	}
	return list
}

// Atomic puts a fragment header before a whole IPv6 packet (RFC 6946).
func Atomic(frame []byte, id uint32) []byte {
	return fragmentOf(frame, frame[etherLen+ipv6Len:], id, 0, false)
}

// fragmentOf is one that carries a piece of a datagram, with the headers of a frame.
func fragmentOf(frame, piece []byte, id uint32, offset int, more bool) []byte {
	field := uint16(offset)
	if !isIPv6(frame) {
		b := slices.Concat(frame[:etherLen+ipv4Len], piece)
		if field /= 8; more {
			field |= 0x2000
		}
		ip := b[etherLen:]
		binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Len+len(piece)))
		binary.BigEndian.PutUint16(ip[4:], uint16(id))
		binary.BigEndian.PutUint16(ip[6:], field)
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^Sum(ip[:ipv4Len], 0))
		return b
	}
	if more {
		field |= 1
	}
	header := []byte{frame[etherLen+6], 0}
	header = binary.BigEndian.AppendUint16(header, field)
	header = binary.BigEndian.AppendUint32(header, id)
	return withPayload(frame, ProtoFragment, slices.Concat(header, piece))
}

// withPayload is an IPv6 frame with another next header and payload.
func withPayload(frame []byte, next uint8, payload []byte) []byte {
	b := slices.Concat(frame[:etherLen+ipv6Len], payload)
	binary.BigEndian.PutUint16(b[etherLen+4:], uint16(len(payload)))
	b[etherLen+6] = next
	return b
}

// WithExtensions puts extension headers of 8 bytes before what an IPv6 frame carries,
// in this order.
func WithExtensions(frame []byte, kinds ...uint8) []byte {
	for _, kind := range slices.Backward(kinds) {
		header := []byte{frame[etherLen+6], 0, 1, 4, 0, 0, 0, 0} // a PadN option
		frame = withPayload(frame, kind, slices.Concat(header, frame[etherLen+ipv6Len:]))
	}
	return frame
}

// ErrorAbout is a frame with an ICMP error between two addresses about another frame's IP
// packet, of which it quotes at most so many bytes.
func ErrorAbout(srcMAC, dstMAC string, src, dst netip.Addr, kind, code uint8, about []byte, most int) []byte {
	quote := about[etherLen:]
	quote = quote[:min(len(quote), most)]
	if isIPv6(about) {
		return Packet(Ether(srcMAC, dstMAC), network(src, dst), ICMP6(kind, code), Bytes(slices.Concat([]byte{0, 0, 0, 0}, quote)))
	}
	return Packet(Ether(srcMAC, dstMAC), network(src, dst), ICMP(kind, code, 0), Bytes(quote))
}

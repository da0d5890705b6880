package frames

import (
	"encoding/binary"
	"slices"
)

// Variant is a frame that mostly belongs to the flow of another one: what flow keys do not have is
// changed at random, such as TTL, ICMP type, fragment and flags. It is good until the next one.
func (m *Maker) Variant(n uint64, frame []byte, tunnelled bool) []byte {
	m.pcg.Seed(m.seed, n)
	b := append(m.buf[:0], frame...)
	m.buf = b[:0]
	l3, l4, proto := headers(b, tunnelled)
	if l4 == 0 || m.one(8) {
		return b
	}
	if b[l3]>>4 == 4 {
		m.vary4(b[l3:l4])
	} else {
		m.vary6(b[l3:])
	}
	if l4+14 > len(b) {
		return b
	}
	switch proto {
	case 1:
		b[l4], b[l4+1] = []byte{8, 0, 3, 3, 3, 5, 11, 13}[m.rand.IntN(8)], byte(m.rand.IntN(3))
	case 58:
		b[l4], b[l4+1] = []byte{128, 129, 1, 1, 2, 3, 133, 134, 135, 136, 137}[m.rand.IntN(11)], 0
	case 6:
		b[l4+13] = []byte{2, 0x12, 0x10, 0x18, 0x11, 4, 0x14}[m.rand.IntN(7)]
	}
	return b
}

func (m *Maker) vary4(ip []byte) {
	if m.one(2) {
		ip[1], ip[8] = byte(m.rand.Uint32()), m.ttl()
	}
	if m.one(4) {
		binary.BigEndian.PutUint16(ip[6:], m.fragment())
	}
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^sum(ip, 0))
}

func (m *Maker) vary6(ip []byte) {
	if m.one(2) {
		ip[1], ip[7] = byte(m.rand.Uint32()), m.ttl()
	}
}

// IsTCP reports whether the innermost packet of a frame is TCP, behind extension headers too.
func IsTCP(frame []byte, tunnelled bool) bool {
	l3, l4, proto := headers(frame, tunnelled)
	for l4 != 0 && frame[l3]>>4 == 6 && slices.Contains([]byte{0, 43, 44, 51, 60}, proto) && l4+8 <= len(frame) {
		next := l4 + 8 + 8*int(frame[l4+1])
		if proto == 44 || proto == 51 {
			next = l4 + 8 + 4*int(frame[l4+1])*int(proto-44)/7
		}
		l4, proto = next, frame[l4]
	}
	return l4 != 0 && proto == 6
}

// headers are the offsets of the inner IP header and of what follows it; l4 is 0 where there is none.
func headers(b []byte, tunnelled bool) (l3, l4 int, proto byte) {
	at := 0
	if tunnelled {
		if at = inner(b); at == 0 {
			return 0, 0, 0
		}
	}
	at += 12
	for at+4 <= len(b) && (b[at] == 0x81 || b[at] == 0x88 && b[at+1] == 0xa8) {
		at += 4
	}
	if at+2 > len(b) {
		return 0, 0, 0
	}
	return transport(b, at+2, binary.BigEndian.Uint16(b[at:]))
}

// transport is what headers returns of an IP header at l3.
func transport(b []byte, l3 int, kind uint16) (at, l4 int, proto byte) {
	switch {
	case kind == 0x0800 && l3+20 <= len(b) && b[l3]>>4 == 4 && b[l3]&15 >= 5 && l3+4*int(b[l3]&15) <= len(b):
		return l3, l3 + 4*int(b[l3]&15), b[l3+9]
	case kind == 0x86dd && l3+40 <= len(b) && b[l3]>>4 == 6:
		return l3, l3 + 40, b[l3+6]
	}
	return 0, 0, 0
}

// inner is the offset of the frame in a tunnel packet without IP options, or 0.
func inner(b []byte) int {
	at, proto := 14+40, byte(0)
	if len(b) < 14+40+16 {
		return 0
	}
	if proto = b[14+6]; b[14]>>4 == 4 {
		at, proto = 14+20, b[14+9]
	}
	if proto == 47 {
		return at + 8
	}
	if at+16 > len(b) {
		return 0
	}
	if binary.BigEndian.Uint16(b[at+2:]) == 6081 {
		return at + 16 + 4*int(b[at+8]&0x3f)
	}
	return at + 16
}

package forbidden

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

func u16(b []byte) uint16 { return binary.BigEndian.Uint16(b) }

// ethernet is a frame; all tags are taken off.
type ethernet struct {
	dst, src MAC
	tags     []uint16
	kind     uint16
	rest     []byte
}

func parseEthernet(b []byte) (e ethernet, ok bool) {
	if len(b) < 14 {
		return e, false
	}
	e.dst, e.src, e.kind, e.rest = MAC(b[:6]), MAC(b[6:12]), u16(b[12:]), b[14:]
	for e.kind == 0x8100 || e.kind == 0x88a8 {
		if len(e.rest) < 4 {
			return e, false
		}
		e.tags = append(e.tags, u16(e.rest))
		e.kind, e.rest = u16(e.rest[2:]), e.rest[4:]
	}
	return e, true
}

// packet is an IP packet.
type packet struct {
	v6       bool
	src, dst netip.Addr
	proto    uint8
	ttl      uint8
	tail     bool // a later fragment
	first    bool // the first of several
	extended int  // IPv6: how many extension headers there are
	deep     bool // L4 is behind several, or behind one that routers do not read
	opaque   bool // L4 is behind one that only a peer of the sender reads, as AH
	rest     []byte
}

// isDiscovery says whether it is neighbour discovery, which no router has forwarded (RFC 4861
// section 7.1).
func (p *packet) isDiscovery() bool {
	return p.v6 && p.proto == 58 && !p.tail && !p.opaque && p.ttl == 255 && len(p.rest) > 0 && p.rest[0] >= 133 && p.rest[0] <= 137
}

// isError says whether it is an ICMP error (RFC 792, RFC 4443 section 2.1).
func (p *packet) isError() bool {
	if p.v6 {
		return p.proto == 58 && p.rest[0] < 128
	}
	return p.proto == 1 && slices.Contains([]uint8{3, 4, 5, 11, 12}, p.rest[0])
}

func parseIPv4(b []byte) (p packet, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return p, false
	}
	header, total := 4*int(b[0]&15), int(u16(b[2:]))
	if header < 20 || total < header || total > len(b) {
		return p, false
	}
	p.src, p.dst = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	p.proto, p.ttl = b[9], b[8]
	p.tail, p.first = u16(b[6:])&0x1fff != 0, u16(b[6:])&0x3fff == 0x2000
	p.rest = b[header:total]
	return p, true
}

func parseIPv6(b []byte) (p packet, ok bool) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return p, false
	}
	length := int(u16(b[4:]))
	if length > len(b)-40 {
		return p, false
	}
	p.v6, p.ttl, p.proto = true, b[7], b[6]
	p.src, p.dst = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	p.rest = b[40 : 40+length]
	return p, p.extensions()
}

// extensions skips extension headers (RFC 8200 section 4). It is false when the first is cut:
// what stands behind is examined by its receiver, and by firewalls.
func (p *packet) extensions() bool {
	for !p.tail {
		size, ok := p.extension()
		if size == 0 {
			return true
		}
		p.opaque = p.opaque || p.proto == 51 || p.proto > 60
		p.deep = p.deep || p.extended > 0 || p.opaque
		if !ok || size > len(p.rest) {
			return p.deep
		}
		if p.proto == 44 {
			p.tail, p.first = u16(p.rest[2:])&0xfff8 != 0, u16(p.rest[2:])&0xfff9 == 1
			p.deep = true // also where it is the only fragment (RFC 6946)
		}
		p.extended++
		p.proto, p.rest = p.rest[0], p.rest[size:]
	}
	return true
}

// extension is the size of the extension header that comes next, 0 for none; ok is false when
// not even its length is there.
func (p *packet) extension() (size int, ok bool) {
	switch p.proto {
	case 0, 43, 60, 135, 139, 140, 44, 51:
	default:
		return 0, true
	}
	if len(p.rest) < 8 {
		return 8, false
	}
	switch p.proto {
	case 44:
		return 8, true
	case 51:
		return 8 + 4*int(p.rest[1]), true
	}
	return 8 + 8*int(p.rest[1]), true
}

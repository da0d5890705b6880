package trace

import (
	"encoding/binary"
	"net/netip"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/internal/overlay"
)

// Lengths of headers, and the most that an IP packet has, in bytes.
const (
	etherLen    = 14
	tagLen      = 4
	arpLen      = 28
	ipv4Len     = 20
	ipv6Len     = 40
	fragmentLen = 8
	tcpLen      = 20
	udpLen      = 8
	icmpLen     = 8
	maxPacket   = 65535
)

// Ethertypes and protocols (IANA).
const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeTEB  = 0x6558 // an Ethernet frame inside a tunnel
	typeTag  = 0x8100
	typeQinQ = 0x88a8
	typeIPv6 = 0x86dd

	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoFragment = 44
	protoGRE      = 47
	protoICMPv6   = 58
)

// Ether is what a frame has around a packet.
type Ether struct {
	Src, Dst overlay.MAC
	VLANs    []uint16 // 802.1Q tags, the outermost first
}

// Broadcast is the address of all stations.
var Broadcast = overlay.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// GroupMAC is the MAC address of a multicast address (RFC 1112 section 6.4, RFC
// 2464 section 7) or IPv4's broadcast address, and whether it is one of them.
func GroupMAC(a netip.Addr) (overlay.MAC, bool) {
	switch {
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return Broadcast, true
	case !a.IsMulticast():
		return overlay.MAC{}, false
	case a.Is4():
		b := a.As4()
		return overlay.MAC{0x01, 0x00, 0x5e, b[1] & 0x7f, b[2], b[3]}, true
	}
	b := a.As16()
	return overlay.MAC{0x33, 0x33, b[12], b[13], b[14], b[15]}, true
}

// size is that of the IP packet, or of what follows another packet's ethertype.
func (p *Packet) size() int {
	n := p.payload
	switch p.kind {
	case kindARP:
		return arpLen
	case kindRaw:
		return n
	case kindTCP:
		n += tcpLen
	case kindUDP:
		n += udpLen
	case kindICMP:
		n += icmpLen
	case kindFragment:
		if p.Src.Is6() {
			n += fragmentLen
		}
	}
	if p.Src.Is6() {
		return n + ipv6Len
	}
	return n + ipv4Len
}

// Frame is the packet on the wire.
func (p *Packet) Frame(e Ether) []byte {
	b := make([]byte, 0, etherLen+tagLen*len(e.VLANs)+p.size())
	b = append(b, e.Dst[:]...)
	b = append(b, e.Src[:]...)
	for i, vlan := range e.VLANs {
		kind := uint16(typeTag)
		if i+1 < len(e.VLANs) {
			kind = typeQinQ
		}
		b = binary.BigEndian.AppendUint16(b, kind)
		b = binary.BigEndian.AppendUint16(b, vlan)
	}
	switch p.kind {
	case kindARP:
		return p.appendARP(binary.BigEndian.AppendUint16(b, typeARP), e.Src)
	case kindRaw:
		return appendPayload(binary.BigEndian.AppendUint16(b, p.number), p.payload)
	}
	if p.Src.Is6() {
		return p.appendIPv6(binary.BigEndian.AppendUint16(b, typeIPv6))
	}
	return p.appendIPv4(binary.BigEndian.AppendUint16(b, typeIPv4))
}

// appendPayload appends n bytes that count up.
func appendPayload(b []byte, n int) []byte {
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

// appendARP appends a request (RFC 826).
func (p *Packet) appendARP(b []byte, sender overlay.MAC) []byte {
	b = append(b, 0, 1, 0x08, 0, 6, 4, 0, 1)
	b = append(b, sender[:]...)
	b = append(b, p.Src.AsSlice()...)
	b = append(b, 0, 0, 0, 0, 0, 0)
	return append(b, p.Dst.AsSlice()...)
}

func (p *Packet) appendIPv4(b []byte) []byte {
	var h [ipv4Len]byte
	h[0] = 0x45
	binary.BigEndian.PutUint16(h[2:], uint16(p.size()))
	if p.kind == kindFragment {
		h[5] = 1 // identification
		binary.BigEndian.PutUint16(h[6:], p.number/8)
		if p.number == 0 {
			h[6] = 0x20 // more fragments
		}
	}
	h[8], h[9] = p.TTL, p.protocol()
	copy(h[12:], p.Src.AsSlice())
	copy(h[16:], p.Dst.AsSlice())
	binary.BigEndian.PutUint16(h[10:], checksum.Of(h[:]))
	return p.appendTransport(append(b, h[:]...))
}

func (p *Packet) appendIPv6(b []byte) []byte {
	var h [ipv6Len]byte
	h[0] = 0x60
	binary.BigEndian.PutUint16(h[4:], uint16(p.size()-ipv6Len))
	h[6], h[7] = p.protocol(), p.TTL
	copy(h[8:], p.Src.AsSlice())
	copy(h[24:], p.Dst.AsSlice())
	b = append(b, h[:]...)
	if p.kind == kindFragment {
		b[len(b)-ipv6Len+6] = protoFragment
		offset := p.number
		if offset == 0 {
			offset = 1 // more fragments
		}
		b = append(b, protoUDP, 0)
		b = binary.BigEndian.AppendUint16(b, offset)
		b = append(b, 0, 0, 0, 0)
	}
	return p.appendTransport(b)
}

func (p *Packet) protocol() uint8 {
	switch p.kind {
	case kindTCP:
		return protoTCP
	case kindUDP, kindFragment:
		return protoUDP
	case kindICMP:
		if p.Src.Is6() {
			return protoICMPv6
		}
		return protoICMP
	}
	return uint8(p.number)
}

// appendTransport appends what the IP header carries. A UDP checksum of zero
// becomes all ones (RFC 768).
func (p *Packet) appendTransport(b []byte) []byte {
	at := len(b)
	var field int // offset of the checksum
	switch p.kind {
	case kindTCP:
		b = binary.BigEndian.AppendUint16(b, p.srcPort)
		b = binary.BigEndian.AppendUint16(b, p.dstPort)
		b = append(b, 0, 0, 0, 1, 0, 0, 0, 1, tcpLen/4<<4, p.flags)
		b = binary.BigEndian.AppendUint16(b, 1000) // window
		b = append(b, 0, 0, 0, 0)
		field = 16
	case kindUDP:
		b = binary.BigEndian.AppendUint16(b, p.srcPort)
		b = binary.BigEndian.AppendUint16(b, p.dstPort)
		b = binary.BigEndian.AppendUint16(b, uint16(udpLen+p.payload))
		b = append(b, 0, 0)
		field = 6
	case kindICMP: // an echo request
		b = append(b, 8, 0, 0, 0, 0, 1, 0, 1)
		if p.Src.Is6() {
			b[at] = 128
		}
		field = 2
	}
	b = appendPayload(b, p.payload)
	if field == 0 {
		return b
	}
	total := uint32(0)
	if p.kind != kindICMP || p.Src.Is6() { // the pseudo header
		total = checksum.Add(checksum.Add(0, p.Src.AsSlice()), p.Dst.AsSlice()) + uint32(p.protocol()) + uint32(len(b)-at)
	}
	value := ^checksum.Fold(checksum.Add(total, b[at:]))
	if value == 0 && p.kind == kindUDP {
		value = 0xffff
	}
	binary.BigEndian.PutUint16(b[at+field:], value)
	return b
}

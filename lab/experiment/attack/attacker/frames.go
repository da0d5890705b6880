package attacker

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/selvage/selvage/internal/checksum"
)

// marker is in the IPv4 identification or the IPv6 flow label of every attack's IP packets, and class
// is their DSCP: routers, translators and tunnels leave both as they are, and no honest packet has both.
const (
	marker = 0xa77a
	class  = 10 << 2 // AF11
)

// Protocols, EtherTypes and ports of the frames.
const (
	etherIPv4, etherARP, etherIPv6 = 0x0800, 0x0806, 0x86dd
	etherVLAN, etherQinQ           = 0x8100, 0x88a8
	etherExperiment                = 0x88b5 // IEEE 802 local experimental
	protoICMP, protoTCP, protoUDP  = 1, 6, 17
	protoICMPv6, protoOptions      = 58, 60
	portVXLAN, portBFD             = 4789, 3784
)

func broadcast() net.HardwareAddr { return net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }

// ether is a frame, of the least size or more.
func ether(dst, src net.HardwareAddr, kind uint16, payload []byte) []byte {
	b := make([]byte, 14, 14+max(46, len(payload)))
	copy(b, dst)
	copy(b[6:], src)
	binary.BigEndian.PutUint16(b[12:], kind)
	b = append(b, payload...)
	for len(b) < 60 {
		b = append(b, 0)
	}
	return b
}

// tagged is a frame with tags, each a TPID and a VLAN.
func tagged(frame []byte, tags ...[2]uint16) []byte {
	b := append([]byte{}, frame[:12]...)
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag[0])
		b = binary.BigEndian.AppendUint16(b, tag[1])
	}
	return append(b, frame[12:]...)
}

// arp is a reply, or with op 1 a request.
func arp(dst, src net.HardwareAddr, op uint16, sender net.HardwareAddr, senderIP netip.Addr, target net.HardwareAddr, targetIP netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, byte(op)}
	b = append(append(b, sender...), senderIP.AsSlice()...)
	b = append(append(b, target...), targetIP.AsSlice()...)
	return ether(dst, src, etherARP, b)
}

// header4 are the fields of an IPv4 packet that attacks choose.
type header4 struct {
	src, dst netip.Addr
	proto    byte
	ttl      byte
	id       uint16 // 0 is marker
	fragment uint16 // flags and offset as on the wire
}

func ipv4(h header4, payload []byte) []byte {
	if h.id == 0 {
		h.id = marker
	}
	if h.ttl == 0 {
		h.ttl = 64
	}
	b := make([]byte, 20, 20+len(payload))
	b[0], b[1] = 0x45, class
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[4:], h.id)
	binary.BigEndian.PutUint16(b[6:], h.fragment)
	b[8], b[9] = h.ttl, h.proto
	copy(b[12:], h.src.AsSlice())
	copy(b[16:], h.dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b))
	return append(b, payload...)
}

// ipv6 is a packet whose flow label is the marker.
func ipv6(src, dst netip.Addr, next, hops byte, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	binary.BigEndian.PutUint32(b, 6<<28|class<<20|marker)
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	b[6], b[7] = next, hops
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(b, payload...)
}

// udp is a datagram without a checksum.
func udp(sport, dport uint16, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, sport)
	binary.BigEndian.PutUint16(b[2:], dport)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	return append(b, payload...)
}

// syn is a TCP segment that opens a connection.
func syn(src, dst netip.Addr, sport, dport uint16) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, sport)
	binary.BigEndian.PutUint16(b[2:], dport)
	b[12], b[13] = 5<<4, 2
	binary.BigEndian.PutUint16(b[14:], 65535)
	binary.BigEndian.PutUint16(b[16:], transportSum(src, dst, protoTCP, b))
	return b
}

// summed fills in the checksum at an offset of a transport payload.
func summed(src, dst netip.Addr, proto byte, at int, b []byte) []byte {
	binary.BigEndian.PutUint16(b[at:], transportSum(src, dst, proto, b))
	return b
}

// icmp6 is a message: type, code, and what follows the checksum.
func icmp6(src, dst netip.Addr, kind, code byte, rest []byte) []byte {
	return summed(src, dst, protoICMPv6, 2, append([]byte{kind, code, 0, 0}, rest...))
}

// icmp4 is a message: type, code, and what follows the checksum.
func icmp4(kind, code byte, rest []byte) []byte {
	b := append([]byte{kind, code, 0, 0}, rest...)
	binary.BigEndian.PutUint16(b[2:], checksum.Of(b))
	return b
}

// behindOptions puts a payload behind two headers of destination options, which hide it from
// what looks behind one.
func behindOptions(next byte, payload []byte) []byte {
	b := []byte{protoOptions, 0, 1, 4, 0, 0, 0, 0, next, 0, 1, 4, 0, 0, 0, 0}
	return append(b, payload...)
}

// linkLayer is an option of neighbour discovery: 1 source, 2 target.
func linkLayer(kind byte, mac net.HardwareAddr) []byte { return append([]byte{kind, 1}, mac...) }

// vxlan is an inner frame behind a VXLAN header.
func vxlan(vni uint32, inner []byte) []byte {
	return append([]byte{8, 0, 0, 0, byte(vni >> 16), byte(vni >> 8), byte(vni), 0}, inner...)
}

func transportSum(src, dst netip.Addr, proto byte, b []byte) uint16 {
	pseudo := append(append([]byte{}, src.AsSlice()...), dst.AsSlice()...)
	pseudo = append(pseudo, 0, 0, 0, proto, 0, 0, byte(len(b)>>8), byte(len(b)))
	return checksum.Of(append(pseudo, b...))
}

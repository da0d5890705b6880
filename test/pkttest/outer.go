package pkttest

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket/layers"
)

const (
	etherLen = 14
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
	vxlanLen = 8

	// VXLANPort is the UDP port of RFC 7348.
	VXLANPort = 4789
	// VXLANValid is the I flag: the VNI is valid.
	VXLANValid = 0x08000000
)

// Outer is what VXLAN puts around a frame.
type Outer struct {
	SrcMAC, DstMAC string
	Src, Dst       netip.Addr
	SrcPort        uint16 // 0: 50000
	DstPort        uint16 // 0: VXLANPort
	VNI            uint32
	Flags          uint32 // 0: VXLANValid
	Reserved       uint8  // the byte behind the VNI
	Checksum       bool   // of UDP; otherwise it is zero (RFC 6935)
	TTL            uint8  // 0: 64
	Options        int    // bytes of IPv4 options
}

// Len is the number of bytes before the inner frame.
func (o Outer) Len() int {
	if o.Src.Is4() {
		return etherLen + ipv4Len + o.Options + udpLen + vxlanLen
	}
	return etherLen + ipv6Len + udpLen + vxlanLen
}

// Wrap returns the tunnel packet that carries a frame (RFC 7348 section 5).
func (o Outer) Wrap(frame []byte) []byte {
	header := make([]byte, vxlanLen)
	binary.BigEndian.PutUint32(header, orDefault(o.Flags, VXLANValid))
	binary.BigEndian.PutUint32(header[4:], o.VNI<<8|uint32(o.Reserved))
	src, dst := orDefault(o.SrcPort, 50000), orDefault(o.DstPort, VXLANPort)
	b := Packet(Ether(o.SrcMAC, o.DstMAC), o.ip(), UDP(src, dst), Bytes(append(header, frame...)))
	if !o.Checksum {
		copy(b[o.Len()-vxlanLen-2:], []byte{0, 0})
	}
	return b
}

func (o Outer) ip() Layer {
	ttl := orDefault(o.TTL, 64)
	if !o.Src.Is4() {
		h := IPv6(o.Src.String(), o.Dst.String())
		h.HopLimit = ttl
		return h
	}
	h := IPv4(o.Src.String(), o.Dst.String())
	h.TTL, h.Flags = ttl, layers.IPv4DontFragment
	for range o.Options {
		h.Options = append(h.Options, layers.IPv4Option{OptionType: 1, OptionLength: 1}) // no operation
	}
	return h
}

func orDefault[T comparable](v, unset T) T {
	var zero T
	if v == zero {
		return unset
	}
	return v
}

package pkttest

import (
	"encoding/binary"
	"net/netip"

	"github.com/gopacket/gopacket/layers"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	etherLen  = 14
	ipv4Len   = 20
	ipv6Len   = 40
	udpLen    = 8
	tunnelLen = 8 // of VXLAN, Geneve without options, and GRE with a key

	// VXLANPort is the UDP port of RFC 7348.
	VXLANPort = 4789
	// GenevePort is the UDP port of RFC 8926.
	GenevePort = 6081
	// VXLANValid is the I flag: the VNI is valid.
	VXLANValid = 0x08000000
	// GeneveOAM is a flag of a Geneve header: a control packet.
	GeneveOAM = 0x80
	// GeneveCritical is another: an option is critical.
	GeneveCritical = 0x40
	// GREKey says that a GRE header has a key (RFC 2890).
	GREKey = 0x2000
)

// Outer is what a tunnel puts around a frame. What is zero has the value of a
// good tunnel packet.
type Outer struct {
	SrcMAC, DstMAC string
	Src, Dst       netip.Addr
	Encapsulation  overlay.Encapsulation // "": VXLAN
	SrcPort        uint16                // 0: 50000
	DstPort        uint16                // 0: that of the encapsulation
	VNI            uint32
	Flags          uint32 // VXLAN: the first 4 bytes, 0: VXLANValid; Geneve: O and C; NVGRE: GRE's, 0: GREKey
	Protocol       uint16 // of Geneve and NVGRE, 0: Ethernet
	Reserved       uint8  // the byte behind the VNI, NVGRE's FlowID
	GeneveOptions  []byte // Geneve options
	Checksum       bool   // of UDP; otherwise it is zero (RFC 6935)
	TOS, TTL       uint8  // TTL 0: 64
	MayFragment    bool   // the IPv4 header has no DF
	ID             uint16 // of the IPv4 header
	FlowLabel      uint32
	Options        int // bytes of IPv4 options
}

// NVGRE reports whether there is GRE and not UDP.
func (o Outer) NVGRE() bool { return o.Encapsulation == overlay.NVGRE }

// TunnelAt is the offset of what follows the outer IP header: UDP or GRE.
func (o Outer) TunnelAt() int {
	if o.Src.Is4() {
		return etherLen + ipv4Len + o.Options
	}
	return etherLen + ipv6Len
}

// HeaderAt is the offset of the VXLAN, Geneve or GRE header.
func (o Outer) HeaderAt() int {
	if o.NVGRE() {
		return o.TunnelAt()
	}
	return o.TunnelAt() + udpLen
}

// Len is the number of bytes before the inner frame.
func (o Outer) Len() int { return o.HeaderAt() + tunnelLen + len(o.GeneveOptions) }

// Wrap returns the tunnel packet that carries a frame (RFC 7348 section 5, RFC
// 8926 section 3, RFC 7637 section 3.2).
func (o Outer) Wrap(frame []byte) []byte {
	inner := append(o.header(), frame...)
	if o.NVGRE() {
		return Packet(Ether(o.SrcMAC, o.DstMAC), WithProto(o.ip(), ProtoGRE), Bytes(inner))
	}
	src, dst := orDefault(o.SrcPort, 50000), orDefault(o.DstPort, o.defaultPort())
	b := Packet(Ether(o.SrcMAC, o.DstMAC), o.ip(), UDP(src, dst), Bytes(inner))
	if !o.Checksum {
		copy(b[o.TunnelAt()+6:], []byte{0, 0})
	}
	return b
}

func (o Outer) defaultPort() uint16 {
	if o.Encapsulation == overlay.Geneve {
		return GenevePort
	}
	return VXLANPort
}

// header is the tunnel's own.
func (o Outer) header() []byte {
	protocol := uint32(orDefault(o.Protocol, EtherTypeEthernet))
	var first uint32
	switch o.Encapsulation {
	case overlay.Geneve:
		first = uint32(len(o.GeneveOptions)/4)<<24 | o.Flags<<16 | protocol
	case overlay.NVGRE:
		first = orDefault(o.Flags, GREKey)<<16 | protocol
	default:
		first = orDefault(o.Flags, VXLANValid)
	}
	h := binary.BigEndian.AppendUint32(nil, first)
	h = binary.BigEndian.AppendUint32(h, o.VNI<<8|uint32(o.Reserved))
	return append(h, o.GeneveOptions...)
}

func (o Outer) ip() Layer {
	ttl := orDefault(o.TTL, 64)
	if !o.Src.Is4() {
		h := IPv6(o.Src.String(), o.Dst.String())
		h.HopLimit, h.TrafficClass, h.FlowLabel = ttl, o.TOS, o.FlowLabel
		return h
	}
	h := IPv4(o.Src.String(), o.Dst.String())
	h.TTL, h.TOS, h.Id = ttl, o.TOS, o.ID
	if !o.MayFragment {
		h.Flags = layers.IPv4DontFragment
	}
	for range o.Options {
		h.Options = append(h.Options, layers.IPv4Option{OptionType: 1, OptionLength: 1}) // no operation
	}
	return h
}

// Option is a Geneve option whose data is n bytes that count up, a multiple of 4
// up to 124 (RFC 8926 section 3.5).
func Option(class uint16, kind uint8, n int) []byte {
	b := binary.BigEndian.AppendUint16(nil, class)
	b = append(b, kind, uint8(n/4))
	for i := range n {
		b = append(b, byte(i))
	}
	return b
}

func orDefault[T comparable](v, unset T) T {
	var zero T
	if v == zero {
		return unset
	}
	return v
}

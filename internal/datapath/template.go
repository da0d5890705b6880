package datapath

import (
	"encoding/binary"
	"net/netip"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/internal/fib"
)

const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
	protoUDP      = 17
	protoGRE      = 47
	udpLen        = 8
	// firstDynamicPort is where the outer source ports begin (RFC 6335 section 6).
	firstDynamicPort = 49152
	etherLen         = 14
	ipv4Len          = 20
	ipv6Len          = 40
)

// outerTemplate is the Ethernet and IP header of a tunnel packet. What depends on
// the packet or its segment is zero: lengths, DSCP, TTL, DF, protocol. In IPv4 the
// checksum field holds the plain sum of the rest, to which the data path adds
// those (RFC 1624).
func outerTemplate(local netip.Addr, t fib.TEP) []byte {
	b := make([]byte, 0, etherLen+ipv6Len)
	b = append(b, t.NextMAC[:]...)
	b = append(b, t.SrcMAC[:]...)
	if t.Addr.Is4() {
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv4)
		ip := make([]byte, ipv4Len)
		ip[0] = 0x45
		copy(ip[12:], local.AsSlice())
		copy(ip[16:], t.Addr.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], onesSum(ip))
		return append(b, ip...)
	}
	b = binary.BigEndian.AppendUint16(b, etherTypeIPv6)
	ip := make([]byte, ipv6Len)
	ip[0] = 0x60
	copy(ip[8:], local.AsSlice())
	copy(ip[24:], t.Addr.AsSlice())
	return append(b, ip...)
}

// onesSum is the ones' complement sum of RFC 1071, not yet complemented.
func onesSum(b []byte) uint16 { return checksum.Fold(checksum.Add(0, b)) }

// wireAddr is a as the maps hold it: 16 bytes in network order, IPv4 mapped.
func wireAddr(a netip.Addr) (w [4]uint32) {
	b := a.As16()
	for i := range w {
		w[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return w
}

// addrOf reverses wireAddr; IPv4 comes back unmapped.
func addrOf(w [4]uint32) netip.Addr {
	var b [16]byte
	for i, v := range w {
		binary.NativeEndian.PutUint32(b[4*i:], v)
	}
	return netip.AddrFrom16(b).Unmap()
}

// wire16 turns a number into the memory of a __be16, and back.
func wire16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// wrap is the packet that a remote sends with a frame of the segment.
func wrap(local, remote netip.Addr, s bpfSegment, frame []byte) []byte {
	tunnel := tunnelHeader(s, len(frame))
	template := outerTemplate(remote, fib.TEP{Addr: local})
	ip := template[etherLen:]
	proto := byte(protoUDP)
	if s.Encap == bpfEncapsulationENCAP_NVGRE {
		proto = protoGRE
	}
	length := len(tunnel) + len(frame)
	if local.Is4() {
		binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Len+length))
		ip[8], ip[9] = defaultTTL, proto
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], ^onesSum(ip))
	} else {
		binary.BigEndian.PutUint16(ip[4:], uint16(length))
		ip[6], ip[7] = proto, defaultTTL
	}
	return append(append(template, tunnel...), frame...)
}

// tunnelHeader is that of a frame of so many bytes, with UDP where there is.
func tunnelHeader(s bpfSegment, frame int) []byte {
	vni := s.Vni << 8
	if s.Encap == bpfEncapsulationENCAP_NVGRE {
		return binary.BigEndian.AppendUint32([]byte{0x20, 0, 0x65, 0x58}, vni)
	}
	h := []byte{8, 0, 0, 0}
	if s.Encap == bpfEncapsulationENCAP_GENEVE {
		h = []byte{s.OptionsLen / 4, 0, 0x65, 0x58}
	}
	h = binary.BigEndian.AppendUint32(h, vni)
	if s.Encap == bpfEncapsulationENCAP_GENEVE {
		h = append(h, s.Options[:s.OptionsLen]...)
	}
	udp := binary.BigEndian.AppendUint16(nil, firstDynamicPort)
	udp = binary.BigEndian.AppendUint16(udp, wire16(s.UdpPort))
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpLen+len(h)+frame))
	return append(append(udp, 0, 0), h...)
}

package datapath

import (
	"encoding/binary"
	"net/netip"
)

const (
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
	protoUDP      = 17
	// outerTTL is what Linux sends by default; an underlay has few hops.
	outerTTL = 64
	ipv4DF   = 0x4000
	etherLen = 14
	ipv4Len  = 20
	ipv6Len  = 40
	udpLen   = 8
)

// outerTemplate is the Ethernet, IP and UDP header of a tunnel packet with its
// lengths and ports zero. In IPv4 the checksum field holds the plain sum
// of the rest, to which the data path adds the length (RFC 1624).
func outerTemplate(local netip.Addr, t TEP) []byte {
	b := make([]byte, 0, etherLen+ipv6Len+udpLen)
	b = append(b, t.NextMAC[:]...)
	b = append(b, t.SrcMAC[:]...)
	if t.Addr.Is4() {
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv4)
		ip := make([]byte, ipv4Len)
		ip[0] = 0x45
		binary.BigEndian.PutUint16(ip[6:], ipv4DF)
		ip[8], ip[9] = outerTTL, protoUDP
		copy(ip[12:], local.AsSlice())
		copy(ip[16:], t.Addr.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], onesSum(ip))
		b = append(b, ip...)
	} else {
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv6)
		ip := make([]byte, ipv6Len)
		ip[0], ip[6], ip[7] = 0x60, protoUDP, outerTTL
		copy(ip[8:], local.AsSlice())
		copy(ip[24:], t.Addr.AsSlice())
		b = append(b, ip...)
	}
	return append(b, make([]byte, udpLen)...)
}

// onesSum is the ones' complement sum of RFC 1071, not yet complemented.
func onesSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

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

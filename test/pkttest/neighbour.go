package pkttest

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// ARPRequest asks who has an address.
func ARPRequest(srcMAC, src, target string) *layers.ARP {
	return &layers.ARP{
		AddrType: 1, Protocol: EtherTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: 1,
		SourceHwAddress: mac(srcMAC), SourceProtAddress: ip(src),
		DstHwAddress: make([]byte, 6), DstProtAddress: ip(target),
	}
}

// ARPReply says that src is at srcMAC. To src itself it is gratuitous.
func ARPReply(srcMAC, src, dstMAC, dst string) *layers.ARP {
	a := ARPRequest(srcMAC, src, dst)
	a.Operation, a.DstHwAddress = 2, mac(dstMAC)
	return a
}

const (
	ndTTL         = 255 // RFC 4861 section 4.3
	solicitation  = 135
	advertisement = 136
	sourceOption  = 1 // link-layer address
	targetOption  = 2
	ndFlags       = 0x60 // solicited, override
	overrideFlag  = 0x20
)

// SolicitedNode is the multicast address on which a is asked for (RFC 4291 section 2.7.1).
func SolicitedNode(a netip.Addr) netip.Addr {
	b, from := netip.MustParseAddr("ff02::1:ff00:0").As16(), a.As16()
	copy(b[13:], from[13:])
	return netip.AddrFrom16(b)
}

// Solicit asks who has a target, RFC 4861 section 4.3; from :: it looks for a duplicate.
func Solicit(srcMAC string, src, dst, target netip.Addr) []Layer {
	var option []byte
	if !src.IsUnspecified() {
		option = append([]byte{sourceOption, 1}, mac(srcMAC)...)
	}
	return neighbourMessage(solicitation, 0, src, dst, target, option)
}

// Advertise says that src is at srcMAC, RFC 4861 section 4.4; to a group it is unsolicited.
func Advertise(srcMAC string, src, dst netip.Addr) []Layer {
	flags := byte(ndFlags)
	if dst.IsMulticast() {
		flags = overrideFlag
	}
	return neighbourMessage(advertisement, flags, src, dst, src, append([]byte{targetOption, 1}, mac(srcMAC)...))
}

func neighbourMessage(kind, flags uint8, src, dst, target netip.Addr, option []byte) []Layer {
	ip := IPv6(src.String(), dst.String())
	ip.HopLimit = ndTTL
	body := append([]byte{flags, 0, 0, 0}, target.AsSlice()...)
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, 0)}
	return []Layer{ip, icmp, gopacket.Payload(append(body, option...))}
}

// MSS is a TCP option (RFC 9293 section 3.7.1).
func MSS(n uint16) layers.TCPOption {
	return layers.TCPOption{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{byte(n >> 8), byte(n)}}
}

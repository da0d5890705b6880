package pkttest

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket/layers"
)

// Frame builds the frame between two MACs that the words describe. A number at
// the end is the size of the payload in bytes.
//
//	tcp 10.0.0.1:1000 > 10.0.0.2:80 syn 100
//	udp [2001:db8::1]:53 > [2001:db8::2]:53 18
//	icmp 10.0.0.1 > 10.0.0.2 56
//	ip 10.0.0.1 > 10.0.0.2 132 20     protocol 132
//	fragment 10.0.0.1 > 10.0.0.2 1480 64     at offset 1480 of a UDP packet
//	arp 10.0.0.1 ? 10.0.0.2     who has 10.0.0.2
//	lldp
//	raw 0x88b5 46
func Frame(srcMAC, dstMAC, words string) []byte {
	f := strings.Fields(words)
	eth := Ether(srcMAC, dstMAC)
	switch f[0] {
	case "arp":
		return Packet(eth, ARPRequest(srcMAC, f[1], f[3]))
	case "lldp":
		eth.Type = EtherTypeLLDP
		return Packet(eth, Bytes(lldp(eth.Src)))
	case "raw":
		eth.Type = uint16(number(f[1]))
		return Packet(eth, Payload(size(f[2:])))
	}
	return Packet(append([]Layer{eth}, ipLayers(f)...)...)
}

func ipLayers(f []string) []Layer {
	switch f[0] {
	case "tcp", "udp":
		src, dst := netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[3])
		if f[0] == "udp" {
			return []Layer{network(src.Addr(), dst.Addr()), UDP(src.Port(), dst.Port()), Payload(size(f[4:]))}
		}
		flags, rest := "ack", f[4:]
		if len(rest) > 0 && !isNumber(rest[0]) {
			flags, rest = rest[0], rest[1:]
		}
		return []Layer{network(src.Addr(), dst.Addr()), TCP(src.Port(), dst.Port(), flags), Payload(size(rest))}
	case "icmp":
		src, dst := netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3])
		if src.Is4() {
			return []Layer{network(src, dst), Echo(1, 1), Payload(size(f[4:]))}
		}
		return []Layer{network(src, dst), Echo6(), Payload(4 + size(f[4:]))}
	case "ip":
		return []Layer{withProto(network(netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3])), uint8(number(f[4]))), Payload(size(f[5:]))}
	case "fragment":
		return fragment(netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3]), uint16(number(f[4])), size(f[5:]))
	}
	panic(fmt.Sprintf("pkttest: cannot read %q", strings.Join(f, " ")))
}

func network(src, dst netip.Addr) Layer {
	if src.Is4() {
		return IPv4(src.String(), dst.String())
	}
	return IPv6(src.String(), dst.String())
}

func withProto(l Layer, proto uint8) Layer {
	switch l := l.(type) {
	case *layers.IPv4:
		l.Protocol = layers.IPProtocol(proto)
	case *layers.IPv6:
		l.NextHeader = layers.IPProtocol(proto)
	}
	return l
}

// fragment is a last fragment at offset, or the first one of more at 0.
func fragment(src, dst netip.Addr, offset uint16, n int) []Layer {
	if src.Is4() {
		h := IPv4(src.String(), dst.String())
		h.Protocol, h.Id, h.FragOffset = ProtoUDP, 1, offset/8
		if offset == 0 {
			h.Flags = layers.IPv4MoreFragments
		}
		return []Layer{h, Payload(n)}
	}
	ext := &Extension{Kind: ProtoFragment, Next: ProtoUDP, Fragment: offset}
	if offset == 0 {
		ext.Fragment = 1
	}
	return []Layer{network(src, dst), ext, Payload(n)}
}

// lldp is the least LLDPDU: chassis, port, time to live, end (IEEE 802.1AB 9.1).
func lldp(chassis []byte) []byte {
	tlv := func(b []byte, kind int, value []byte) []byte {
		b = binary.BigEndian.AppendUint16(b, uint16(kind<<9|len(value)))
		return append(b, value...)
	}
	b := tlv(nil, 1, append([]byte{4}, chassis...))
	b = tlv(b, 2, append([]byte{3}, chassis...))
	b = tlv(b, 3, []byte{0, 120})
	return tlv(b, 0, nil)
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 0, 32)
	return err == nil
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		panic("pkttest: " + err.Error())
	}
	return n
}

func size(rest []string) int {
	if len(rest) == 0 {
		return 0
	}
	return int(number(rest[0]))
}

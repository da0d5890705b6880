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
//	tcp 10.0.0.1:1000 > 10.0.0.2:80 syn nop mss 1460 scale 7     options, in this order
//	tcp 10.0.0.1:1000 > 10.0.0.2:80 syn+ack seq 9 acks 8     sequence and acknowledgement numbers, else 1
//	udp [2001:db8::1]:53 > [2001:db8::2]:53 18
//	icmp 10.0.0.1 > 10.0.0.2 56
//	icmp 10.0.0.1 > 10.0.0.2 3/4 56     type and code
//	icmp 10.0.0.1 > 10.0.0.2 0/0 id 7 56     of an echo, else 1 and 0
//	ip 10.0.0.1 > 10.0.0.2 132 20     protocol 132
//	fragment 10.0.0.1 > 10.0.0.2 1480 64     at offset 1480 of a UDP packet
//	arp 10.0.0.1 ? 10.0.0.2     who has 10.0.0.2
//	arp 10.0.0.2 ! 10.0.0.1     10.0.0.2 is here
//	ns 2001:db8::1 ? 2001:db8::2     who has 2001:db8::2
//	na 2001:db8::2 ! 2001:db8::1     2001:db8::2 is here
//	lldp
//	raw 0x88b5 46
//
// Before these may stand tags, "vlan 7" (802.1Q) and "svlan 7" (802.1ad), the
// outermost first, and what differs in the IP header: "tos 0x2e", "ttl 1", "df".
func Frame(srcMAC, dstMAC, words string) []byte {
	var p prefix
	f := p.read(strings.Fields(words))
	eth := Ether(srcMAC, dstMAC)
	list := append([]Layer{eth}, p.tags...)
	switch f[0] {
	case "lldp":
		p.setType(eth, EtherTypeLLDP)
		return Packet(append(list, Bytes(lldp(eth.Src)))...)
	case "raw":
		p.setType(eth, uint16(number(f[1])))
		return Packet(append(list, Payload(size(f[2:])))...)
	}
	body := talkLayers(srcMAC, dstMAC, f)
	if body == nil {
		body = ipLayers(f)
		p.change(body[0])
	}
	return Packet(append(list, body...)...)
}

// prefix is what stands before the kind of a packet.
type prefix struct {
	tags     []Layer
	tos, ttl int // -1: the default
	df       bool
}

func (p *prefix) read(f []string) (rest []string) {
	p.tos, p.ttl = -1, -1
	for {
		switch f[0] {
		case "vlan":
			p.tags = append(p.tags, &Tag{TPID: EtherTypeVLAN, TCI: uint16(number(f[1]))})
		case "svlan":
			p.tags = append(p.tags, &Tag{TPID: EtherTypeQinQ, TCI: uint16(number(f[1]))})
		case "tos":
			p.tos = int(number(f[1]))
		case "ttl":
			p.ttl = int(number(f[1]))
		case "df":
			p.df = true
			f = f[1:]
			continue
		default:
			return f
		}
		f = f[2:]
	}
}

// setType writes the ethertype into the header before the payload.
func (p *prefix) setType(eth *Ethernet, kind uint16) {
	if len(p.tags) == 0 {
		eth.Type = kind
		return
	}
	if last, ok := p.tags[len(p.tags)-1].(*Tag); ok {
		last.Type = kind
	}
}

func (p *prefix) change(ip Layer) {
	switch ip := ip.(type) {
	case *layers.IPv4:
		if p.tos >= 0 {
			ip.TOS = uint8(p.tos)
		}
		if p.ttl >= 0 {
			ip.TTL = uint8(p.ttl)
		}
		if p.df {
			ip.Flags |= layers.IPv4DontFragment
		}
	case *layers.IPv6:
		if p.tos >= 0 {
			ip.TrafficClass = uint8(p.tos)
		}
		if p.ttl >= 0 {
			ip.HopLimit = uint8(p.ttl)
		}
	}
}

// talkLayers are ARP and neighbour discovery, nil for other packets.
func talkLayers(srcMAC, dstMAC string, f []string) []Layer {
	switch f[0] {
	case "arp":
		if f[2] == "!" {
			return []Layer{ARPReply(srcMAC, f[1], dstMAC, f[3])}
		}
		return []Layer{ARPRequest(srcMAC, f[1], f[3])}
	case "ns":
		target := netip.MustParseAddr(f[3])
		return Solicit(srcMAC, netip.MustParseAddr(f[1]), SolicitedNode(target), target)
	case "na":
		return Advertise(srcMAC, netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3]))
	}
	return nil
}

func ipLayers(f []string) []Layer {
	switch f[0] {
	case "tcp":
		return tcpLayers(f)
	case "udp":
		src, dst := netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[3])
		return []Layer{network(src.Addr(), dst.Addr()), UDP(src.Port(), dst.Port()), Payload(size(f[4:]))}
	case "icmp":
		return icmpLayers(f)
	case "ip":
		return []Layer{WithProto(network(netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3])), uint8(number(f[4]))), Payload(size(f[5:]))}
	case "fragment":
		return fragment(netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3]), uint16(number(f[4])), size(f[5:]))
	}
	panic(fmt.Sprintf("pkttest: cannot read %q", strings.Join(f, " ")))
}

func tcpLayers(f []string) []Layer {
	src, dst := netip.MustParseAddrPort(f[1]), netip.MustParseAddrPort(f[3])
	flags, rest := "ack", f[4:]
	if len(rest) > 0 && !isNumber(rest[0]) {
		flags, rest = rest[0], rest[1:]
	}
	h := TCP(src.Port(), dst.Port(), flags)
	for len(rest) > 0 && !isNumber(rest[0]) {
		switch rest[0] {
		case "nop":
			h.Options = append(h.Options, layers.TCPOption{OptionType: layers.TCPOptionKindNop, OptionLength: 1})
		case "mss":
			h.Options = append(h.Options, MSS(uint16(number(rest[1]))))
			rest = rest[1:]
		case "scale":
			h.Options = append(h.Options, WindowScale(uint8(number(rest[1]))))
			rest = rest[1:]
		case "seq":
			h.Seq, rest = uint32(number(rest[1])), rest[1:]
		case "acks":
			h.Ack, rest = uint32(number(rest[1])), rest[1:]
		default:
			panic(fmt.Sprintf("pkttest: no TCP option %q", rest[0]))
		}
		rest = rest[1:]
	}
	return []Layer{network(src.Addr(), dst.Addr()), h, Payload(size(rest))}
}

func icmpLayers(f []string) []Layer {
	src, dst, rest := netip.MustParseAddr(f[1]), netip.MustParseAddr(f[3]), f[4:]
	echo, echo6 := Echo(1, 1), Echo6()
	if len(rest) > 0 && strings.Contains(rest[0], "/") {
		kind, code, _ := strings.Cut(rest[0], "/")
		echo, echo6 = ICMP(uint8(number(kind)), uint8(number(code)), 0), ICMP6(uint8(number(kind)), uint8(number(code)))
		rest = rest[1:]
	}
	if len(rest) > 1 && rest[0] == "id" {
		id := uint16(number(rest[1]))
		echo.Id = id
		if !src.Is4() {
			return []Layer{network(src, dst), echo6, Bytes([]byte{byte(id >> 8), byte(id), 0, 1}), Payload(size(rest[2:]))}
		}
		rest = rest[2:]
	}
	if src.Is4() {
		return []Layer{network(src, dst), echo, Payload(size(rest))}
	}
	return []Layer{network(src, dst), echo6, Payload(4 + size(rest))}
}

func network(src, dst netip.Addr) Layer {
	if src.Is4() {
		return IPv4(src.String(), dst.String())
	}
	return IPv6(src.String(), dst.String())
}

// WithProto sets the protocol of an IP header.
func WithProto(l Layer, proto uint8) Layer {
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

// Package pkttest makes packets out of words or layers, takes them apart
// strictly, and prints and keeps them when a test fails.
//
// Its one invariant: what Packet and Frame return is right in every length and
// checksum; a test that wants something wrong changes the bytes itself. The
// checkers for what comes out are in pkttest/check. It is for tests only: a
// mistake in a description panics.
package pkttest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Layer is a header or the payload of a packet to build.
type Layer = gopacket.SerializableLayer

// EtherTypes and protocol numbers (IANA) that the layers below use.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	// EtherTypeEthernet is an Ethernet frame in Geneve and GRE.
	EtherTypeEthernet = 0x6558
	EtherTypeVLAN     = 0x8100
	EtherTypeIPv6     = 0x86dd
	// EtherTypeQinQ is the TPID of 802.1ad.
	EtherTypeQinQ = 0x88a8
	EtherTypeLLDP = 0x88cc
	// EtherTypeExperimental is IEEE 802's local experimental ethertype 1.
	EtherTypeExperimental = 0x88b5

	ProtoHopByHop    = 0
	ProtoICMP        = 1
	ProtoTCP         = 6
	ProtoUDP         = 17
	ProtoRouting     = 43
	ProtoFragment    = 44
	ProtoGRE         = 47
	ProtoICMPv6      = 58
	ProtoNoNext      = 59
	ProtoDestination = 60
)

// Packet builds a packet of layers, outermost first. Types and protocols that
// are zero follow from the next layer; lengths and checksums are filled in.
func Packet(list ...Layer) []byte {
	var ip gopacket.NetworkLayer
	for i, l := range list {
		if i+1 < len(list) {
			link(l, list[i+1])
		}
		switch l := l.(type) {
		case *layers.IPv4:
			ip = l
		case *layers.IPv6:
			ip = l
		case interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}:
			if err := l.SetNetworkLayerForChecksum(ip); err != nil {
				panic(fmt.Sprintf("pkttest: layer %d: %v", i, err))
			}
		}
	}
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, list...)
	if err != nil {
		panic(fmt.Sprintf("pkttest: build a packet: %v", err))
	}
	return append([]byte(nil), buf.Bytes()...)
}

// link writes into l what follows it.
func link(l, next Layer) {
	switch l := l.(type) {
	case *Ethernet:
		if l.Type == 0 {
			l.Type = etherTypeOf(next)
		}
	case *Tag:
		if l.Type == 0 {
			l.Type = etherTypeOf(next)
		}
	case *layers.IPv4:
		if l.Protocol == 0 {
			l.Protocol = protoOf(next)
		}
	case *layers.IPv6:
		if l.NextHeader == 0 {
			l.NextHeader = protoOf(next)
		}
	case *Extension:
		if l.Next == 0 {
			l.Next = uint8(protoOf(next))
		}
	}
}

func etherTypeOf(l Layer) uint16 {
	switch l := l.(type) {
	case *layers.IPv4:
		return EtherTypeIPv4
	case *layers.IPv6:
		return EtherTypeIPv6
	case *layers.ARP:
		return EtherTypeARP
	case *Tag:
		return l.TPID
	}
	return EtherTypeExperimental
}

func protoOf(l Layer) layers.IPProtocol {
	switch l := l.(type) {
	case *layers.TCP:
		return ProtoTCP
	case *layers.UDP:
		return ProtoUDP
	case *layers.ICMPv4:
		return ProtoICMP
	case *layers.ICMPv6:
		return ProtoICMPv6
	case *Extension:
		return layers.IPProtocol(l.Kind)
	}
	return ProtoNoNext
}

// Ethernet is an Ethernet header. Unlike gopacket's it never pads the frame.
type Ethernet struct {
	Src, Dst net.HardwareAddr
	Type     uint16
}

// Ether is an Ethernet header whose type follows from the next layer.
func Ether(src, dst string) *Ethernet { return &Ethernet{Src: mac(src), Dst: mac(dst)} }

func mac(s string) net.HardwareAddr {
	if s == "broadcast" {
		s = "ff:ff:ff:ff:ff:ff"
	}
	hw, err := net.ParseMAC(s)
	if err != nil {
		panic("pkttest: " + err.Error())
	}
	return hw
}

// LayerType is part of gopacket.SerializableLayer.
func (*Ethernet) LayerType() gopacket.LayerType { return layers.LayerTypeEthernet }

// SerializeTo is part of gopacket.SerializableLayer.
func (e *Ethernet) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := b.PrependBytes(14)
	if err != nil {
		return err
	}
	copy(h, e.Dst)
	copy(h[6:], e.Src)
	binary.BigEndian.PutUint16(h[12:], e.Type)
	return nil
}

// Tag is an 802.1Q tag: what follows the TPID. Type is that of the frame inside,
// 0: it follows from the next layer.
type Tag struct {
	TPID, TCI, Type uint16
}

// LayerType is part of gopacket.SerializableLayer.
func (*Tag) LayerType() gopacket.LayerType { return layers.LayerTypeDot1Q }

// SerializeTo is part of gopacket.SerializableLayer.
func (v *Tag) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	h, err := b.PrependBytes(4)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(h, v.TCI)
	binary.BigEndian.PutUint16(h[2:], v.Type)
	return nil
}

// VLAN is an 802.1Q tag.
func VLAN(tci uint16) *Tag { return &Tag{TPID: EtherTypeVLAN, TCI: tci} }

// IPv4 is a header without options, TTL 64.
func IPv4(src, dst string) *layers.IPv4 {
	return &layers.IPv4{Version: 4, TTL: 64, SrcIP: ip(src), DstIP: ip(dst)}
}

// IPv6 is a header with hop limit 64.
func IPv6(src, dst string) *layers.IPv6 {
	return &layers.IPv6{Version: 6, HopLimit: 64, SrcIP: ip(src), DstIP: ip(dst)}
}

func ip(s string) net.IP { return netip.MustParseAddr(s).AsSlice() }

// Extension is an IPv6 extension header of Size bytes (at least 8, in steps of
// 8), filled with padding options (RFC 8200 section 4.2).
type Extension struct {
	Kind, Next uint8
	Size       int
	// Fragment is offset, reserved bits and M flag of a fragment header.
	Fragment uint16
}

// LayerType is part of gopacket.SerializableLayer.
func (*Extension) LayerType() gopacket.LayerType { return layers.LayerTypeIPv6HopByHop }

// SerializeTo is part of gopacket.SerializableLayer.
func (e *Extension) SerializeTo(b gopacket.SerializeBuffer, _ gopacket.SerializeOptions) error {
	size := max(8, e.Size)
	h, err := b.PrependBytes(size)
	if err != nil {
		return err
	}
	clear(h)
	h[0] = e.Next
	if e.Kind == ProtoFragment {
		binary.BigEndian.PutUint16(h[2:], e.Fragment)
		return nil
	}
	h[1] = uint8(size/8 - 1)
	for at := 2; at < size; { // PadN options
		n := min(size-at, 257)
		if n == 1 {
			break // Pad1 is a zero byte
		}
		h[at], h[at+1] = 1, uint8(n-2)
		at += n
	}
	return nil
}

// TCP is a header whose flags are words: "syn", "ack", "fin", "rst", "psh", "urg", "ece",
// "cwr", joined by "+", or "none".
func TCP(src, dst uint16, flags string) *layers.TCP {
	h := &layers.TCP{SrcPort: layers.TCPPort(src), DstPort: layers.TCPPort(dst), Seq: 1, Ack: 1, Window: 1000}
	for f := range strings.SplitSeq(flags, "+") {
		switch f {
		case "syn":
			h.SYN = true
		case "ack":
			h.ACK = true
		case "fin":
			h.FIN = true
		case "rst":
			h.RST = true
		case "psh":
			h.PSH = true
		case "urg":
			h.URG = true
		case "ece":
			h.ECE = true
		case "cwr":
			h.CWR = true
		case "", "none":
		default:
			panic(fmt.Sprintf("pkttest: no TCP flag %q", f))
		}
	}
	return h
}

// UDP is a header with its checksum.
func UDP(src, dst uint16) *layers.UDP {
	return &layers.UDP{SrcPort: layers.UDPPort(src), DstPort: layers.UDPPort(dst)}
}

// Echo is an ICMP echo request.
func Echo(id, seq uint16) *layers.ICMPv4 {
	return &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: id, Seq: seq}
}

// Echo6 is an ICMPv6 echo request; identifier and sequence number are payload.
func Echo6() *layers.ICMPv6 {
	return &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
}

// ICMP is a message of any type; rest is what follows the checksum.
func ICMP(kind, code uint8, rest uint32) *layers.ICMPv4 {
	return &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, code), Id: uint16(rest >> 16), Seq: uint16(rest)}
}

// ICMP6 is a message of any type; what follows the checksum is payload.
func ICMP6(kind, code uint8) *layers.ICMPv6 {
	return &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(kind, code)}
}

// Payload is n bytes that count up.
func Payload(n int) Layer {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return gopacket.Payload(b)
}

// Bytes is a payload as it is.
func Bytes(b []byte) Layer { return gopacket.Payload(b) }

package pkttest

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Kind names a header that Dissect knows.
type Kind string

// The headers that Dissect knows.
const (
	KindEther     Kind = "ethernet"
	KindVLAN      Kind = "vlan"
	KindARP       Kind = "arp"
	KindIPv4      Kind = "ipv4"
	KindIPv6      Kind = "ipv6"
	KindExtension Kind = "ipv6 extension"
	KindTCP       Kind = "tcp"
	KindUDP       Kind = "udp"
	KindICMP      Kind = "icmp"
	KindICMPv6    Kind = "icmpv6"
	KindVXLAN     Kind = "vxlan"
	KindGeneve    Kind = "geneve"
	KindNVGRE     Kind = "nvgre"
)

// Header is one header of a packet. Bytes is the header alone, Body what its
// length field says that it carries, without padding.
type Header struct {
	Kind  Kind
	Bytes []byte
	Body  []byte
}

// Severity says what kind of fault a packet has.
type Severity string

const (
	// Cut says that the packet ends before a length that stands in it, or a length is
	// below its header's own. Nothing on the way may forward that.
	Cut Severity = "cut short"
	// Inconsistent says that a field deeper in a whole packet is wrong. Only the receiver cares.
	Inconsistent Severity = "inconsistent"
	// Checksum says that a checksum is wrong.
	Checksum Severity = "checksum"
)

// Fault is something wrong with a packet.
type Fault struct {
	Severity Severity
	What     string
}

func (f Fault) Error() string { return fmt.Sprintf("%s: %s", f.Severity, f.What) }

// Dissection is a packet taken apart.
type Dissection struct {
	Headers []Header
	Faults  []Fault

	tunnels int // how many more are opened
}

// Has reports whether there is a fault of that severity.
func (d *Dissection) Has(s Severity) bool {
	return slices.ContainsFunc(d.Faults, func(f Fault) bool { return f.Severity == s })
}

// Dissect takes a frame apart, tunnels included (VXLAN on UDP port 4789, Geneve on
// 6081, GRE with a key and Ethernet inside), and says all that is wrong with it.
// Large segments must be cut before: their inner checksums are unfinished.
func Dissect(frame []byte) *Dissection { return DissectTunnels(frame, 8) }

// DissectTunnels opens at most so many tunnels, one in the other; what is in
// further ones is payload, as it is for a switch.
func DissectTunnels(frame []byte, tunnels int) *Dissection {
	d := &Dissection{tunnels: tunnels}
	d.ethernet(frame)
	return d
}

func (d *Dissection) fault(s Severity, format string, args ...any) {
	d.Faults = append(d.Faults, Fault{s, fmt.Sprintf(format, args...)})
}

// take splits a header off b, or notes that it is cut short.
func (d *Dissection) take(kind Kind, b []byte, n int) (body []byte, ok bool) {
	if len(b) < n {
		d.fault(Cut, "%s header of %d bytes, %d are left", kind, n, len(b))
		return nil, false
	}
	d.Headers = append(d.Headers, Header{kind, b[:n], b[n:]})
	return b[n:], true
}

func (d *Dissection) ethernet(b []byte) {
	body, ok := d.take(KindEther, b, etherLen)
	if !ok {
		return
	}
	kind := binary.BigEndian.Uint16(b[12:])
	for kind == EtherTypeVLAN || kind == EtherTypeQinQ {
		tag := body
		if body, ok = d.take(KindVLAN, body, 4); !ok {
			return
		}
		kind = binary.BigEndian.Uint16(tag[2:])
	}
	switch kind {
	case EtherTypeIPv4:
		d.ipv4(body)
	case EtherTypeIPv6:
		d.ipv6(body)
	case EtherTypeARP:
		d.take(KindARP, body, 28)
	}
}

func (d *Dissection) ipv4(b []byte) {
	if len(b) < ipv4Len {
		d.fault(Cut, "ipv4 header, %d bytes are left", len(b))
		return
	}
	length, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if b[0]>>4 != 4 || length < ipv4Len || total < length || total > len(b) {
		d.fault(Cut, "ipv4 version %d, header of %d, packet of %d bytes, %d are there", b[0]>>4, length, total, len(b))
		return
	}
	if Sum(b[:length], 0) != 0xffff {
		d.fault(Checksum, "ipv4 header")
	}
	b = b[:total]
	body, _ := d.take(KindIPv4, b, length)
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return // a fragment: nothing in it can be checked
	}
	d.transport(b[9], body, Sum(b[12:20], 0), Cut)
}

func (d *Dissection) ipv6(b []byte) {
	if len(b) < ipv6Len {
		d.fault(Cut, "ipv6 header, %d bytes are left", len(b))
		return
	}
	total := int(binary.BigEndian.Uint16(b[4:]))
	if b[0]>>4 != 6 || total > len(b)-ipv6Len {
		d.fault(Cut, "ipv6 version %d, payload of %d bytes, %d are there", b[0]>>4, total, len(b)-ipv6Len)
		return
	}
	b = b[:ipv6Len+total]
	body, _ := d.take(KindIPv6, b, ipv6Len)
	proto, severity := b[6], Cut
	for i := 0; proto == ProtoHopByHop || proto == ProtoRouting || proto == ProtoDestination; i++ {
		if i > 0 { // nobody on the way looks behind the second one
			severity = Inconsistent
		}
		if len(body) < 2 {
			d.fault(severity, "ipv6 extension header %d, %d bytes are left", proto, len(body))
			return
		}
		length := (int(body[1]) + 1) * 8
		if length > len(body) {
			d.fault(severity, "ipv6 extension header %d of %d bytes, %d are left", proto, length, len(body))
			return
		}
		proto = body[0]
		if length > 64 { // nor behind a long one
			severity = Inconsistent
		}
		body, _ = d.take(KindExtension, body, length)
	}
	if proto == ProtoFragment {
		return
	}
	d.transport(proto, body, Sum(b[8:40], 0), severity)
}

// transport checks TCP, UDP and ICMP; addresses is the sum over both addresses.
func (d *Dissection) transport(proto uint8, b []byte, addresses uint16, short Severity) {
	if proto == ProtoGRE {
		d.gre(b)
		return
	}
	least := map[uint8]int{ProtoTCP: 20, ProtoUDP: udpLen, ProtoICMP: 4, ProtoICMPv6: 4}[proto]
	kind := map[uint8]Kind{ProtoTCP: KindTCP, ProtoUDP: KindUDP, ProtoICMP: KindICMP, ProtoICMPv6: KindICMPv6}[proto]
	if kind == "" {
		return
	}
	if len(b) < least {
		d.fault(short, "%s header of %d bytes, %d are left", kind, least, len(b))
		return
	}
	pseudo := uint32(addresses) + uint32(proto) + uint32(len(b))
	switch proto {
	case ProtoTCP:
		d.tcp(b, pseudo, short)
	case ProtoUDP:
		d.udp(b, pseudo)
	case ProtoICMP:
		d.sum(b, 0, "icmp")
		d.take(kind, b, least)
	case ProtoICMPv6:
		d.sum(b, pseudo, "icmpv6")
		d.take(kind, b, least)
	}
}

func (d *Dissection) tcp(b []byte, pseudo uint32, short Severity) {
	length := int(b[12]>>4) * 4
	if length < 20 || length > len(b) {
		d.fault(short, "tcp header of %d bytes, %d are there", length, len(b))
		return
	}
	d.sum(b, pseudo, "tcp")
	d.take(KindTCP, b, length)
}

func (d *Dissection) udp(b []byte, pseudo uint32) {
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < udpLen || length > len(b) {
		d.fault(Inconsistent, "udp length %d, %d bytes are there", length, len(b))
		return
	}
	pseudo = pseudo - uint32(len(b)) + uint32(length)
	b = b[:length]
	if b[6]|b[7] != 0 { // zero: not used (RFC 768, 6935)
		d.sum(b, pseudo, "udp")
	}
	body, _ := d.take(KindUDP, b, udpLen)
	switch binary.BigEndian.Uint16(b[2:]) {
	case VXLANPort:
		d.tunnel(KindVXLAN, body)
	case GenevePort:
		d.tunnel(KindGeneve, body)
	}
}

// tunnel opens one more, if it may. Reserved bits are the receiver's to ignore.
func (d *Dissection) tunnel(kind Kind, b []byte) {
	if d.tunnels == 0 {
		return
	}
	d.tunnels--
	length := tunnelLen
	if kind == KindGeneve && len(b) >= tunnelLen {
		length += int(b[0]&0x3f) * 4
		if b[0]>>6 != 0 || binary.BigEndian.Uint16(b[2:]) != EtherTypeEthernet {
			d.fault(Inconsistent, "geneve version %d, protocol %x", b[0]>>6, b[2:4])
			return
		}
	}
	frame, ok := d.take(kind, b, length)
	if !ok {
		return
	}
	if kind == KindGeneve {
		d.options(b[tunnelLen:length])
	}
	d.ethernet(frame)
}

// options walks those of Geneve (RFC 8926 section 3.5).
func (d *Dissection) options(b []byte) {
	for len(b) > 0 {
		length := 4 + int(b[3]&0x1f)*4
		if length > len(b) {
			d.fault(Cut, "geneve option of %d bytes, %d are left", length, len(b))
			return
		}
		b = b[length:]
	}
}

// gre opens NVGRE (RFC 7637 section 3.2); other GRE is payload.
func (d *Dissection) gre(b []byte) {
	if len(b) < 4 || binary.BigEndian.Uint16(b) != GREKey || binary.BigEndian.Uint16(b[2:]) != EtherTypeEthernet {
		return
	}
	d.tunnel(KindNVGRE, b)
}

func (d *Dissection) sum(b []byte, pseudo uint32, what string) {
	if Sum(b, pseudo) != 0xffff {
		d.fault(Checksum, "%s", what)
	}
}

// Sum is the ones' complement sum of RFC 1071 over b and start.
func Sum(b []byte, start uint32) uint16 {
	sum := uint64(start)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint64(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint64(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

const protoSCTP = 132

// kind is what the firewall makes of an IP packet.
type kind int

const (
	whole kind = iota
	fragmentFirst
	fragmentLater
	icmpError
)

// refPacket is a packet as the reference reads it.
type refPacket struct {
	smac, dmac overlay.MAC
	ethertype  uint16
	ip         bool
	src, dst   netip.Addr
	hops       uint8
	proto      uint8
	kind       kind
	id         uint32
	why        string // that it is refused for before any connection is looked for
	ported     bool
	// sport and dport are UDP's, TCP's and SCTP's; of an echo both its identifier; of
	// other ICMP both its type and code.
	sport, dport uint16
	icmp         bool
	icmpType     uint16 // type << 8 | code
	echo         string // "request", "reply" or ""
	tcp          pkttest.Segment
	about        *refPacket // of an ICMP error
}

// isND is of neighbour discovery, whose types are from 133 to 137.
func (p refPacket) isND() bool {
	t := p.icmpType >> 8
	return p.proto == pkttest.ProtoICMPv6 && p.src.Is6() && p.hops == 255 && p.kind == whole && t >= 133 && t <= 137
}

// isNeighbourTalk is of ARP, solicitations and advertisements of neighbours.
func (p refPacket) isNeighbourTalk() bool {
	return p.ethertype == pkttest.EtherTypeARP || p.isND() && (p.icmpType>>8 == 135 || p.icmpType>>8 == 136)
}

// readPacket takes whole Ethernet frames without tags, whose IP lengths are right.
func readPacket(frame []byte) refPacket {
	p := refPacket{ethertype: binary.BigEndian.Uint16(frame[12:])}
	copy(p.dmac[:], frame)
	copy(p.smac[:], frame[6:])
	switch p.ethertype {
	case pkttest.EtherTypeIPv4:
		p.ip = true
		p.readIPv4(frame[etherLen:])
	case pkttest.EtherTypeIPv6:
		p.ip = true
		p.readIPv6(frame[etherLen:])
	}
	return p
}

func (p *refPacket) readIPv4(b []byte) {
	p.src, p.dst = addrOfBytes(b[12:16]), addrOfBytes(b[16:20])
	p.proto, p.hops, p.id = b[9], b[8], uint32(binary.BigEndian.Uint16(b[4:]))
	field := binary.BigEndian.Uint16(b[6:])
	total := min(int(binary.BigEndian.Uint16(b[2:])), len(b)) // an error quotes less than there was
	p.readBody(b[int(b[0]&0xf)*4:total], int(field&0x1fff)*8, field&0x3fff != 0)
}

const mostExtensions = 6

func (p *refPacket) readIPv6(b []byte) {
	p.src, p.dst = addrOfBytes(b[8:24]), addrOfBytes(b[24:40])
	p.proto, p.hops = b[6], b[7]
	body := b[ipv6Len:]
	offset, isFragment := 0, false
	for n := 0; slices.Contains([]uint8{0, 43, 44, 51, 60}, p.proto) && offset == 0; n++ {
		if n == mostExtensions || len(body) < 8 {
			p.why = "ipv6-ext-headers"
			return
		}
		length := (int(body[1]) + 1) * 8
		switch p.proto {
		case 44:
			field := binary.BigEndian.Uint16(body[2:])
			offset, isFragment, length = int(field&^7), field&^6 != 0, 8
			p.id = binary.BigEndian.Uint32(body[4:])
		case 51:
			length = (int(body[1]) + 2) * 4
		}
		if length > len(body) {
			p.why = "ipv6-ext-headers"
			return
		}
		p.proto, body = body[0], body[length:]
	}
	p.readBody(body, offset, isFragment)
}

func (p *refPacket) readBody(b []byte, offset int, isFragment bool) {
	if offset > 0 {
		if p.kind = fragmentLater; p.proto == pkttest.ProtoTCP && offset < 20 {
			p.why = "fragment-tiny"
		}
		return
	}
	if isFragment {
		p.kind = fragmentFirst
	}
	if !p.readTransport(b) {
		p.why = "malformed-l4"
		if isFragment {
			p.why = "fragment-tiny"
		}
	}
}

// readTransport is false for a header that is cut.
func (p *refPacket) readTransport(b []byte) bool {
	switch {
	case p.proto == pkttest.ProtoTCP:
		return p.readTCP(b)
	case p.proto == pkttest.ProtoUDP || p.proto == protoSCTP:
		if len(b) < 8 {
			return false
		}
		p.ported = true
		p.sport, p.dport = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	case p.proto == pkttest.ProtoICMP && p.src.Is4() || p.proto == pkttest.ProtoICMPv6 && p.src.Is6():
		return p.readICMP(b)
	}
	return true
}

func (p *refPacket) readTCP(b []byte) bool {
	if len(b) < 20 || int(b[12]>>4)*4 < 20 || int(b[12]>>4)*4 > len(b) {
		return false
	}
	p.ported = true
	p.tcp = pkttest.SegmentOf(b)
	p.sport, p.dport = p.tcp.SrcPort, p.tcp.DstPort
	return true
}

var (
	errors4 = []uint8{3, 4, 5, 11, 12}
	echoes  = map[bool]map[uint8]string{false: {8: "request", 0: "reply"}, true: {128: "request", 129: "reply"}}
)

func (p *refPacket) readICMP(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	p.icmp, p.ported = true, true
	p.icmpType = binary.BigEndian.Uint16(b)
	if v6 := p.src.Is6(); v6 && b[0] < 128 || !v6 && slices.Contains(errors4, b[0]) {
		p.readQuote(b[8:])
		return true
	}
	p.sport, p.dport = p.icmpType, p.icmpType
	if p.echo = echoes[p.src.Is6()][b[0]]; p.echo != "" {
		p.sport = binary.BigEndian.Uint16(b[4:])
		p.dport = p.sport
	}
	return true
}

// readQuote reads the packet that an error is about, of which 8 bytes behind the IP
// headers are enough.
func (p *refPacket) readQuote(b []byte) {
	p.kind = icmpError
	v6 := p.src.Is6()
	if v6 && len(b) < ipv6Len || !v6 && len(b) < 20 {
		p.why = "unrelated"
		return
	}
	q := &refPacket{}
	var transport []byte
	if v6 {
		transport = q.quoteIPv6(b)
	} else {
		q.src, q.dst, q.proto = addrOfBytes(b[12:16]), addrOfBytes(b[16:20]), b[9]
		if at := int(b[0]&0xf) * 4; at <= len(b) && binary.BigEndian.Uint16(b[6:])&0x1fff == 0 {
			transport = b[at:]
		}
	}
	if p.about = q; len(transport) < 8 || q.src != p.dst || !q.quoteTransport(transport) {
		p.why = "unrelated"
	}
}

func (p *refPacket) quoteIPv6(b []byte) []byte {
	p.src, p.dst, p.proto = addrOfBytes(b[8:24]), addrOfBytes(b[24:40]), b[6]
	body := b[ipv6Len:]
	for n := 0; slices.Contains([]uint8{0, 43, 44, 51, 60}, p.proto); n++ {
		if n == mostExtensions || len(body) < 8 {
			return nil
		}
		length := (int(body[1]) + 1) * 8
		switch p.proto {
		case 44:
			if length = 8; binary.BigEndian.Uint16(body[2:])&^7 != 0 {
				return nil
			}
		case 51:
			length = (int(body[1]) + 2) * 4
		}
		if length > len(body) {
			return nil
		}
		p.proto, body = body[0], body[length:]
	}
	return body
}

// quoteTransport is false for what has no connection: an ICMP message but an echo.
func (p *refPacket) quoteTransport(b []byte) bool {
	switch p.proto {
	case pkttest.ProtoTCP, pkttest.ProtoUDP, protoSCTP:
		p.sport, p.dport = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	case pkttest.ProtoICMP, pkttest.ProtoICMPv6:
		if p.echo = echoes[p.src.Is6()][b[0]]; p.echo == "" {
			return false
		}
		p.sport = binary.BigEndian.Uint16(b[4:])
		p.dport = p.sport
	}
	return true
}

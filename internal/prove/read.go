package prove

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// reply is what a received packet says of a probe.
type reply struct {
	// outer is who sent the tunnel packet, or the plain one.
	outer netip.Addr
	vni   overlay.VNI // 0 of a plain packet
	udp   uint16      // the tunnel's port
	// Of who answers: the inner source, and of ARP and ND whose address it is.
	from netip.Addr
	mac  overlay.MAC
	to   overlay.MAC
	kind replyKind
	k    token
	// nonce says that the token's is there: a short quotation has none.
	nonce bool
	// quoted is where a packet went that a router sent back, and way the source port of a
	// tunnel packet that somebody on the underlay sent back.
	quoted netip.Addr
	way    uint16
	code   byte
	mtu    uint16
}

type replyKind uint8

const (
	noReply   replyKind = iota
	resolved            // says where an address is
	echoed              // an echo reply
	exceeded            // an echo request's hops were used up
	unreached           // a router had no way for an echo request
	refused             // somebody on the underlay did not take a tunnel packet
)

// packet is an IP packet without its header.
type packet struct {
	from, to netip.Addr
	proto    byte
	body     []byte
}

// readIP reads an IP header. Of a quotation the end may be missing.
func readIP(b []byte, quotation bool) (p packet, ok bool) {
	if len(b) == 0 {
		return p, false
	}
	header, length := 0, 0
	switch b[0] >> 4 {
	case 4:
		header = int(b[0]&0xf) * 4
		if header < ipv4Len || len(b) < header || binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
			return p, false
		}
		length = int(binary.BigEndian.Uint16(b[2:]))
		p.from, p.to, p.proto = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[9]
	case 6:
		if len(b) < ipv6Len {
			return p, false
		}
		header, length = ipv6Len, ipv6Len+int(binary.BigEndian.Uint16(b[4:]))
		p.from, p.to, p.proto = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[6]
	default:
		return p, false
	}
	if length < header || length > len(b) && !quotation {
		return p, false
	}
	p.body = b[header:min(length, len(b))]
	return p, true
}

// read says what a frame of the underlay is; noReply of most. tunnels are the encapsulations
// by UDP port, 0 of NVGRE.
func read(frame []byte, tunnels map[uint16]overlay.Encapsulation) (r reply) {
	if len(frame) < etherLen {
		return r
	}
	p, ok := readIP(frame[etherLen:], false)
	if !ok {
		return r
	}
	r.outer = p.from
	if p.proto == unix.IPPROTO_ICMP || p.proto == unix.IPPROTO_ICMPV6 {
		r.readICMP(p)
		r.from = p.from
		if r.kind == exceeded || r.kind == unreached { // of a ping; of tunnels they are refusals
			r.kind = noReply
		}
		r.readRefusal(p)
		return r
	}
	inner, ok := r.unwrap(p, tunnels)
	if ok {
		r.readFrame(inner)
	}
	return r
}

// unwrap takes the tunnel header off.
func (r *reply) unwrap(p packet, tunnels map[uint16]overlay.Encapsulation) (inner []byte, ok bool) {
	b, how := p.body, tunnels[0]
	switch p.proto {
	case unix.IPPROTO_UDP:
		if len(b) < udpLen {
			return nil, false
		}
		r.udp = binary.BigEndian.Uint16(b[2:])
		how, b = tunnels[r.udp], b[udpLen:]
	case unix.IPPROTO_GRE:
	default:
		return nil, false
	}
	if len(b) < tunnelLen {
		return nil, false
	}
	r.vni = overlay.VNI(binary.BigEndian.Uint32(b[4:]) >> 8)
	skip := tunnelLen
	switch how {
	case overlay.VXLAN:
		ok = b[0]&8 != 0
	case overlay.Geneve:
		ok = b[0]>>6 == 0 && binary.BigEndian.Uint16(b[2:]) == protocolTEB
		skip += int(b[0]&0x3f) * 4
	case overlay.NVGRE:
		ok = b[0] == 0x20 && binary.BigEndian.Uint16(b[2:]) == protocolTEB
	}
	if !ok || len(b) < skip+etherLen {
		return nil, false
	}
	return b[skip:], true
}

// readFrame reads an inner frame.
func (r *reply) readFrame(b []byte) {
	copy(r.to[:], b)
	copy(r.mac[:], b[6:])
	body := b[etherLen:]
	switch binary.BigEndian.Uint16(b[12:]) {
	case unix.ETH_P_ARP:
		if len(body) >= arpLen && bytes.HasPrefix(body, []byte{0, 1, 8, 0, 6, 4, 0, arpReply}) {
			r.kind, r.from = resolved, netip.AddrFrom4([4]byte(body[14:18]))
			copy(r.mac[:], body[8:])
		}
	case unix.ETH_P_IP, unix.ETH_P_IPV6:
		if p, ok := readIP(body, false); ok {
			r.from = p.from
			r.readICMP(p)
		}
	}
}

// readICMP reads an answer to an echo request or a solicitation.
func (r *reply) readICMP(p packet) {
	b := p.body
	if len(b) < icmpLen {
		return
	}
	if p.proto == unix.IPPROTO_ICMP && p.from.Is4() {
		switch b[0] {
		case echoReply4:
			r.kind = echoed
			r.readToken(b)
		case exceeded4:
			r.readQuoted(exceeded, b)
		case unreachable4:
			r.readQuoted(unreached, b)
		}
	}
	if p.proto != unix.IPPROTO_ICMPV6 || p.from.Is4() {
		return
	}
	switch b[0] {
	case echoReply6:
		r.kind = echoed
		r.readToken(b)
	case exceeded6:
		r.readQuoted(exceeded, b)
	case unreachable6:
		r.readQuoted(unreached, b)
	case advertisement:
		if len(b) >= 24 {
			r.kind, r.from = resolved, netip.AddrFrom16([16]byte(b[8:24]))
		}
	}
}

func (r *reply) readToken(b []byte) {
	if len(b) < icmpLen {
		return
	}
	r.k.id = binary.BigEndian.Uint32(b[4:])
	r.nonce = len(b) >= icmpLen+nonceLen
	if r.nonce {
		copy(r.k.nonce[:], b[icmpLen:])
	}
}

// readQuoted reads the echo request that an error quotes.
func (r *reply) readQuoted(kind replyKind, b []byte) {
	q, ok := readIP(b[icmpLen:], true)
	if !ok || len(q.body) < icmpLen || q.body[0] != echo4 && q.body[0] != echo6 {
		return
	}
	r.kind, r.quoted, r.code = kind, q.to, b[1]
	r.readToken(q.body)
}

// readRefusal reads an error about a tunnel packet.
func (r *reply) readRefusal(p packet) {
	b := p.body
	if len(b) < icmpLen {
		return
	}
	tooBig := p.proto == unix.IPPROTO_ICMPV6 && b[0] == 2
	unreachable := p.proto == unix.IPPROTO_ICMPV6 && b[0] == unreachable6 || p.proto == unix.IPPROTO_ICMP && b[0] == unreachable4
	if !tooBig && !unreachable {
		return
	}
	q, ok := readIP(b[icmpLen:], true)
	if !ok || q.proto != unix.IPPROTO_UDP || len(q.body) < udpLen {
		return
	}
	r.kind, r.quoted, r.code = refused, q.to, b[1]
	r.way, r.udp = binary.BigEndian.Uint16(q.body), binary.BigEndian.Uint16(q.body[2:])
	if tooBig || b[0] == unreachable4 && b[1] == 4 {
		r.mtu = uint16(min(binary.BigEndian.Uint32(b[4:]), 0xffff)) // IPv4's is in the lower half
	}
}

// words is a reply for an operator.
func (r reply) words() string {
	switch r.kind {
	case resolved:
		return "at " + r.mac.String()
	case echoed:
		return "echo reply"
	case exceeded:
		return "time exceeded from " + r.from.String()
	case unreached:
		return unreachableWords(r.from.Is6(), r.code) + " says " + r.from.String()
	}
	return ""
}

// unreachableWords names a code of a destination that cannot be reached (RFC 792, RFC 1812
// 5.2.7.1, RFC 4443 3.1).
func unreachableWords(six bool, code byte) string {
	words := map[byte]string{0: "no route", 1: "host unreachable", 2: "protocol unreachable", 3: "port unreachable", 4: "too big",
		9: "prohibited", 10: "prohibited", 13: "prohibited"}
	if six {
		words = map[byte]string{0: "no route", 1: "prohibited", 3: "host unreachable", 4: "port unreachable", 5: "prohibited", 6: "no route"}
	}
	if w, ok := words[code]; ok {
		return w
	}
	return "unreachable"
}

// refusal is what somebody on the underlay said, for an operator.
func (r reply) refusal() string {
	if r.mtu != 0 {
		return fmt.Sprintf("%s says that packets of more than %d bytes are too big", r.outer, r.mtu)
	}
	return fmt.Sprintf("%s says: %s", r.outer, unreachableWords(r.outer.Is6(), r.code))
}

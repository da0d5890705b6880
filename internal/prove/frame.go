package prove

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	etherLen, ipv4Len, ipv6Len, udpLen, icmpLen, tunnelLen = 14, 20, 40, 8, 8, 8
	nonceLen                                               = 8
	protocolTEB                                            = 0x6558 // Ethernet in Geneve and GRE
	arpRequest, arpReply                                   = 1, 2
	echo4, echoReply4, unreachable4, exceeded4             = 8, 0, 3, 11
	echo6, echoReply6, unreachable6, exceeded6             = 128, 129, 1, 3
	solicitation, advertisement                            = 135, 136
	ndTTL                                                  = 255 // RFC 4861: not routed
	arpLen                                                 = 28
	solicitationLen                                        = 32 // with the option of the source's MAC address
)

// least is the smallest IP packet that is sent: a neighbour solicitation's, in which there is
// room for all else.
const least = ipv6Len + solicitationLen

// token tells a probe from others: an echo's identifier and sequence number, and what it
// carries.
type token struct {
	id    uint32
	nonce [nonceLen]byte
}

// frame is the inner frame of a probe, whose IP packet has size bytes. What ARP and neighbour
// discovery do not fill is padding behind them, which Ethernet allows.
func (t Target) frame(from overlay.MAC, size int, k token) []byte {
	size = max(size, least)
	b := make([]byte, etherLen+size)
	copy(b, t.MAC[:])
	copy(b[6:], from[:])
	packet := b[etherLen:]
	six := t.Addr.Is6()
	etherType := uint16(unix.ETH_P_IP)
	switch {
	case t.Ask == Resolve && !six:
		etherType = unix.ETH_P_ARP
		putARP(packet, from, t.Addr)
	case t.Ask == Resolve:
		etherType = unix.ETH_P_IPV6
		putSolicitation(packet, from, t.Addr)
	case six:
		etherType = unix.ETH_P_IPV6
		putEcho(packet[ipv6Len:], echo6, k)
		putIPv6(packet, ipv6Header{from: t.From, to: t.Addr, proto: unix.IPPROTO_ICMPV6, ttl: t.TTL})
		putSum6(packet)
	default:
		putEcho(packet[ipv4Len:], echo4, k)
		binary.BigEndian.PutUint16(packet[ipv4Len+2:], checksum.Of(packet[ipv4Len:]))
		putIPv4(packet, ipv4Header{from: t.From, to: t.Addr, proto: unix.IPPROTO_ICMP, ttl: t.TTL, df: true})
	}
	binary.BigEndian.PutUint16(b[12:], etherType)
	return b
}

// putARP asks without an address of its own, so that nobody remembers the one who asks.
func putARP(b []byte, from overlay.MAC, target netip.Addr) {
	copy(b, []byte{0, 1, 8, 0, 6, 4, 0, arpRequest})
	copy(b[8:], from[:])
	copy(b[24:], target.AsSlice())
}

func putSolicitation(b []byte, from overlay.MAC, target netip.Addr) {
	message := b[ipv6Len:least]
	message[0] = solicitation
	copy(message[8:], target.AsSlice())
	message[24], message[25] = 1, 1
	copy(message[26:], from[:])
	putIPv6(b[:least], ipv6Header{from: LinkLocal(from), to: target, proto: unix.IPPROTO_ICMPV6, ttl: ndTTL})
	putSum6(b[:least])
}

func putEcho(b []byte, kind byte, k token) {
	b[0] = kind
	binary.BigEndian.PutUint32(b[4:], k.id)
	copy(b[icmpLen:], k.nonce[:])
}

type ipv4Header struct {
	from, to        netip.Addr
	proto, ttl, tos byte
	id              uint16
	df              bool
}

// putIPv4 writes the header of a packet that fills b.
func putIPv4(b []byte, h ipv4Header) {
	b[0], b[1], b[8], b[9] = 4<<4|ipv4Len/4, h.tos, h.ttl, h.proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	if h.df {
		b[6] = 0x40
	} else { // what may be fragmented needs one, RFC 6864
		binary.BigEndian.PutUint16(b[4:], h.id)
	}
	copy(b[12:], h.from.AsSlice())
	copy(b[16:], h.to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum.Of(b[:ipv4Len]))
}

type ipv6Header struct {
	from, to        netip.Addr
	proto, ttl, tos byte
	flow            uint16 // label
}

// putIPv6 writes the header of a packet that fills b.
func putIPv6(b []byte, h ipv6Header) {
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.tos)<<20|uint32(h.flow))
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-ipv6Len))
	b[6], b[7] = h.proto, h.ttl
	copy(b[8:], h.from.AsSlice())
	copy(b[24:], h.to.AsSlice())
}

// sum6 is the checksum of what follows b's header, with the pseudo-header (RFC 8200 8.1).
func sum6(b []byte) uint16 {
	pseudo := checksum.Add(uint32(len(b)-ipv6Len)+uint32(b[6]), b[8:ipv6Len])
	return ^checksum.Fold(checksum.Add(pseudo, b[ipv6Len:]))
}

// putSum6 fills the checksum of an ICMPv6 message in.
func putSum6(b []byte) { binary.BigEndian.PutUint16(b[ipv6Len+2:], sum6(b)) }

// Packet is the tunnel packet around an inner frame, as the data path sends it. way is the UDP
// source port, or in its low byte the flow identifier of NVGRE.
func (t *Tunnel) Packet(path Path, way uint16, inner []byte) []byte {
	header := t.header(way, len(inner))
	b := make([]byte, outerLen(path.Remote)+len(header)+len(inner))
	copy(b[outerLen(path.Remote):], header)
	copy(b[outerLen(path.Remote)+len(header):], inner)
	proto := byte(unix.IPPROTO_UDP)
	if t.Header.Encapsulation == overlay.NVGRE {
		proto = unix.IPPROTO_GRE
	}
	ttl, tos := byte(64), byte(0)
	if t.Header.TTL > 0 {
		ttl = byte(t.Header.TTL)
	}
	if t.Header.DSCP > 0 {
		tos = byte(t.Header.DSCP << 2)
	}
	putOuter(b, path)
	ip := b[etherLen:]
	if path.Remote.Is4() {
		putIPv4(ip, ipv4Header{path.Local, path.Remote, proto, ttl, tos, way, t.Header.DF != overlay.DFUnset})
		return b
	}
	putIPv6(ip, ipv6Header{path.Local, path.Remote, proto, ttl, tos, way})
	if t.Header.UDPChecksum && proto == unix.IPPROTO_UDP {
		sum := sum6(ip)
		if sum == 0 { // which says that there is none
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(ip[ipv6Len+6:], sum)
	}
	return b
}

// outerLen is the length of Ethernet and IP header to an address.
func outerLen(remote netip.Addr) int {
	if remote.Is4() {
		return etherLen + ipv4Len
	}
	return etherLen + ipv6Len
}

// putOuter writes the Ethernet header.
func putOuter(b []byte, path Path) {
	copy(b, path.NextMAC[:])
	copy(b[6:], path.SrcMAC[:])
	etherType := uint16(unix.ETH_P_IPV6)
	if path.Remote.Is4() {
		etherType = unix.ETH_P_IP
	}
	binary.BigEndian.PutUint16(b[12:], etherType)
}

// header is the tunnel header, behind UDP's where there is one.
func (t *Tunnel) header(way uint16, inner int) []byte {
	vni := uint32(t.VNI) << 8
	if t.Header.Encapsulation == overlay.NVGRE {
		return binary.BigEndian.AppendUint32([]byte{0x20, 0, protocolTEB >> 8, protocolTEB & 0xff}, vni|uint32(way&0xff))
	}
	h := []byte{8, 0, 0, 0}
	options := []byte(nil)
	if t.Header.Encapsulation == overlay.Geneve {
		options = t.Header.Options
		h = []byte{byte(len(options) / 4), 0, protocolTEB >> 8, protocolTEB & 0xff}
		if hasCritical(options) {
			h[1] = 0x40
		}
	}
	h = append(binary.BigEndian.AppendUint32(h, vni), options...)
	udp := binary.BigEndian.AppendUint16(nil, way)
	udp = binary.BigEndian.AppendUint16(udp, t.Header.UDPPort)
	udp = binary.BigEndian.AppendUint16(udp, uint16(udpLen+len(h)+inner))
	return append(append(udp, 0, 0), h...)
}

// hasCritical reports whether one of Geneve's options must be understood (RFC 8926 3.5.1).
func hasCritical(options []byte) bool {
	for len(options) >= 4 {
		if options[2]&0x80 != 0 {
			return true
		}
		options = options[min(len(options), 4+int(options[3]&0x1f)*4):]
	}
	return false
}

// ping is a plain echo request to the remote's tunnel endpoint, whose IP packet has size bytes.
func (p Path) ping(size int, k token) []byte {
	b := make([]byte, etherLen+max(size, least))
	putOuter(b, p)
	ip := b[etherLen:]
	if p.Remote.Is4() {
		putEcho(ip[ipv4Len:], echo4, k)
		binary.BigEndian.PutUint16(ip[ipv4Len+2:], checksum.Of(ip[ipv4Len:]))
		putIPv4(ip, ipv4Header{from: p.Local, to: p.Remote, proto: unix.IPPROTO_ICMP, ttl: 64, df: true})
		return b
	}
	putEcho(ip[ipv6Len:], echo6, k)
	putIPv6(ip, ipv6Header{from: p.Local, to: p.Remote, proto: unix.IPPROTO_ICMPV6, ttl: 64})
	putSum6(ip)
	return b
}

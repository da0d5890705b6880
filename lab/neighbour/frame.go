package neighbour

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/checksum"
)

var native = binary.NativeEndian

const (
	solicitation, advertisement = 135, 136 // ICMPv6 (RFC 4861 section 4)
	arpLen                      = 14 + 28
	ndLen                       = 14 + 40 + 24 // without options
)

// message is what a frame says about neighbours.
type message struct {
	asks           bool       // whether it asks for target
	sender, target netip.Addr // IPv4 or IPv6
	mac            net.HardwareAddr
}

// parse reads a frame. One that is cut, or of a neighbour that does not say its MAC address, says
// nothing; nor do advertisements of others than their sender.
func parse(frame []byte) (m message, ok bool) {
	if len(frame) < arpLen {
		return m, false
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0806:
		return parseARP(frame[14:])
	case 0x86dd:
		return parseND(frame)
	}
	return m, false
}

func parseARP(arp []byte) (m message, ok bool) {
	op := binary.BigEndian.Uint16(arp[6:])
	if !slices.Equal(arp[:6], []byte{0, 1, 8, 0, 6, 4}) || op != 1 && op != 2 {
		return m, false
	}
	m.mac = slices.Clone(arp[8:14])
	m.sender, m.target = netip.AddrFrom4([4]byte(arp[14:18])), netip.AddrFrom4([4]byte(arp[24:28]))
	m.asks = op == 1
	return m, true
}

func parseND(frame []byte) (m message, ok bool) {
	const ip, icmp = 14, 14 + 40
	if len(frame) < ndLen || frame[ip+6] != 58 || frame[ip+7] != 255 {
		return m, false
	}
	m.target = netip.AddrFrom16([16]byte(frame[icmp+8 : icmp+24]))
	m.sender = netip.AddrFrom16([16]byte(frame[ip+8 : ip+24]))
	option := byte(1) // source link-layer address
	switch frame[icmp] {
	case solicitation:
		m.asks = true
	case advertisement:
		m.sender, option = m.target, 2
	default:
		return m, false
	}
	m.mac = slices.Clone(frame[6:12])
	for rest := frame[ndLen:]; len(rest) >= 8 && rest[1] > 0 && len(rest) >= int(rest[1])*8; rest = rest[int(rest[1])*8:] {
		if rest[0] == option {
			m.mac = slices.Clone(rest[2:8])
		}
	}
	return m, true
}

// request asks for an address.
func request(addr, from netip.Addr, mac net.HardwareAddr) []byte {
	if addr.Is4() {
		return arp(1, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, from, addr, make([]byte, 6))
	}
	target := addr.As16()
	group := netip.AddrFrom16([16]byte{0xff, 2, 11: 1, 12: 0xff, 13: target[13], 14: target[14], 15: target[15]})
	to := net.HardwareAddr{0x33, 0x33, 0xff, target[13], target[14], target[15]}
	return nd(solicitation, 0, to, mac, from, group, addr)
}

// reply answers a request with a MAC address.
func reply(m message, mac net.HardwareAddr) []byte {
	if m.target.Is4() {
		return arp(2, m.mac, mac, m.target, m.sender, m.mac)
	}
	const solicited, override = 0x40, 0x20
	return nd(advertisement, solicited|override, m.mac, mac, m.target, m.sender, m.target)
}

func ethernet(to, from net.HardwareAddr, kind uint16) []byte {
	return binary.BigEndian.AppendUint16(slices.Concat(to, from), kind)
}

func arp(op byte, to, mac net.HardwareAddr, sender, target netip.Addr, targetMAC []byte) []byte {
	b := append(ethernet(to, mac, 0x0806), 0, 1, 8, 0, 6, 4, 0, op)
	return slices.Concat(b, mac, sender.AsSlice(), targetMAC, target.AsSlice())
}

// nd is a solicitation or advertisement of an address, with the MAC address as its option.
func nd(kind, flags byte, to, mac net.HardwareAddr, from, dst, target netip.Addr) []byte {
	option := byte(1)
	if kind == advertisement {
		option = 2
	}
	icmp := slices.Concat([]byte{kind, 0, 0, 0, flags, 0, 0, 0}, target.AsSlice(), []byte{option, 1}, mac)
	ip := slices.Concat([]byte{0x60, 0, 0, 0, 0, byte(len(icmp)), 58, 255}, from.AsSlice(), dst.AsSlice())
	pseudo := checksum.Add(uint32(len(icmp))+58, ip[8:])
	binary.BigEndian.PutUint16(icmp[2:], ^checksum.Fold(checksum.Add(pseudo, icmp)))
	return slices.Concat(ethernet(to, mac, 0x86dd), ip, icmp)
}

package attacker

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/selvage/selvage/lab/experiment/attack/network"
	"github.com/selvage/selvage/lab/topo"
)

// by sends what a function makes.
func by(g *network.Guest, frame func(i int) []byte) []stream {
	return []stream{{host: g.Host, name: topo.EndName, frame: frame}}
}

// cycle sends the same frames again and again.
func cycle(frames ...[]byte) func(int) []byte {
	return func(i int) []byte { return frames[i%len(frames)] }
}

// macFlood talks to a guest that the bridges know, so each MAC address crosses the tunnel too.
func macFlood(b testbed) []stream {
	frame := ether(b.same2.MAC, network.MAC(0), etherExperiment, nil)
	return by(b.loose, func(i int) []byte {
		binary.BigEndian.PutUint32(frame[8:], uint32(i))
		return frame
	})
}

// spoof claims the addresses of a guest and of the gateway, plainly and behind what hides it: tags
// without a VLAN and extension headers.
func spoof(b testbed) []stream {
	own, all := b.attacker.MAC, netip.MustParseAddr("ff02::1")
	group := net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	var frames [][]byte
	for _, victim := range []netip.Addr{b.same2.V4, network.Gateway(0, 4).Addr()} {
		direct := arp(b.same1.MAC, own, 2, own, victim, b.same1.MAC, b.same1.V4)
		frames = append(frames, direct, arp(broadcast(), own, 2, own, victim, broadcast(), victim),
			arp(broadcast(), own, 1, own, victim, make(net.HardwareAddr, 6), b.same1.V4), tagged(direct, [2]uint16{etherVLAN, 0}, [2]uint16{etherVLAN, 0}))
	}
	local := netip.MustParseAddr("fe80::4a7:ff:fe00:42")
	for _, victim := range []netip.Addr{b.same2.V6, network.Gateway(0, 6).Addr()} {
		rest := append(append([]byte{0x20, 0, 0, 0}, victim.AsSlice()...), linkLayer(2, own)...)
		for _, to := range []struct {
			ip  netip.Addr
			mac net.HardwareAddr
		}{{all, group}, {b.same1.V6, b.same1.MAC}} {
			message := icmp6(local, to.ip, 136, 0, rest)
			frames = append(frames, ether(to.mac, own, etherIPv6, ipv6(local, to.ip, protoICMPv6, 255, message)),
				ether(to.mac, own, etherIPv6, ipv6(local, to.ip, protoOptions, 255, behindOptions(protoICMPv6, message))))
		}
	}
	return by(b.attacker, cycle(frames...))
}

// spoofed is what spoof sends: ARP that names the attacker's MAC address for another IP address, and
// its neighbour advertisements.
func spoofed(b testbed) []watched {
	own := b.attacker.V4.As4()
	claims := clause{field(12, 2, etherARP), field(22, 2, 0x06a7), not(field(28, 4, binary.BigEndian.Uint32(own[:])))}
	return []watched{{roles: b.victims(), clauses: []clause{claims, marked6()}}}
}

// advertise sends router advertisements in the own name and the gateway's, and redirects.
func advertise(b testbed) []stream {
	own, all, group := b.attacker.MAC, netip.MustParseAddr("ff02::1"), net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}
	local, gateway := netip.MustParseAddr("fe80::4a7:ff:fe00:42"), netip.MustParseAddr("fe80::5eff:fe00:101")
	prefix := append([]byte{3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0}, netip.MustParseAddr("fd66::").AsSlice()...)
	router := append(append([]byte{64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0}, linkLayer(1, own)...), prefix...)
	gone := []byte{64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // a lifetime of 0
	redirect := append(append([]byte{0, 0, 0, 0}, local.AsSlice()...), b.same2.V6.AsSlice()...)
	var frames [][]byte
	for _, m := range []struct {
		src, dst netip.Addr
		mac      net.HardwareAddr
		kind     byte
		rest     []byte
	}{
		{local, all, group, 134, router}, {gateway, all, group, 134, gone},
		{local, b.same1.V6, b.same1.MAC, 134, router}, {gateway, b.same1.V6, b.same1.MAC, 137, redirect},
	} {
		message := icmp6(m.src, m.dst, m.kind, 0, m.rest)
		frames = append(frames, ether(m.mac, own, etherIPv6, ipv6(m.src, m.dst, protoICMPv6, 255, message)),
			ether(m.mac, own, etherIPv6, ipv6(m.src, m.dst, protoOptions, 255, behindOptions(protoICMPv6, message))))
	}
	return by(b.attacker, cycle(frames...))
}

// dhcp offers addresses of both families.
func dhcp(b testbed) []stream {
	own, local := b.attacker.MAC, netip.MustParseAddr("fe80::4a7:ff:fe00:42")
	offer := make([]byte, 236, 300)
	offer[0], offer[1], offer[2] = 2, 1, 6
	copy(offer[16:], b.attacker.V4.AsSlice()) // yiaddr
	offer = append(offer, 0x63, 0x82, 0x53, 0x63, 53, 1, 2, 255)
	every := netip.MustParseAddr("255.255.255.255")
	answer := summed(local, b.same1.V6, protoUDP, 6, udp(547, 546, []byte{2, 0, 0, 1}))
	return by(b.attacker, cycle(
		ether(broadcast(), own, etherIPv4, ipv4(header4{src: b.attacker.V4, dst: every, proto: protoUDP}, udp(67, 68, offer))),
		ether(b.same1.MAC, own, etherIPv4, ipv4(header4{src: b.attacker.V4, dst: b.same1.V4, proto: protoUDP}, udp(67, 68, offer))),
		ether(b.same1.MAC, own, etherIPv6, ipv6(local, b.same1.V6, protoUDP, 64, answer))))
}

// hop tags frames for the other tenant, as its VNI and as the VLAN that a switch may have for it.
func hop(b testbed) []stream {
	var frames [][]byte
	for _, dst := range []net.HardwareAddr{broadcast(), b.same1.MAC, b.other1.MAC} {
		plain := ether(dst, net.HardwareAddr{6, 0xa7, 5, 0, 0, 0}, etherExperiment, nil)
		for _, vlan := range []uint16{1, 2, uint16(network.VNI(1))} {
			frames = append(frames, tagged(plain, [2]uint16{etherVLAN, vlan}), tagged(plain, [2]uint16{etherVLAN, 1}, [2]uint16{etherVLAN, vlan}),
				tagged(plain, [2]uint16{etherVLAN, 0}, [2]uint16{etherVLAN, vlan}), tagged(plain, [2]uint16{etherQinQ, vlan}))
		}
	}
	return by(b.loose, cycle(frames...))
}

// innerMAC is the source of frames inside forged tunnel packets.
func innerMAC() clause { return clause{field(6, 4, 0x06a70600)} }

// forgedInner are frames for a segment's guests, one of which claims to be a guest.
func forgedInner(b testbed, segment int) [][]byte {
	src := net.HardwareAddr{6, 0xa7, 6, 0, 0, byte(segment)}
	to, as := b.same1, b.same2
	if segment == 1 {
		to, as = b.other1, b.other2
	}
	claim := ether(to.MAC, as.MAC, etherIPv4, ipv4(header4{src: as.V4, dst: to.V4, proto: protoUDP}, udp(7, 7, []byte("forged"))))
	return [][]byte{ether(broadcast(), src, etherExperiment, nil), ether(to.MAC, src, etherExperiment, nil), ether(as.MAC, src, etherExperiment, nil), claim}
}

// tunnelInTunnel sends tunnel packets to both endpoints by the gateway, in the own name and in that of
// the other endpoint.
func tunnelInTunnel(b testbed) []stream {
	var frames [][]byte
	for segment := range 2 {
		for _, inner := range forgedInner(b, segment) {
			payload := udp(50_000, portVXLAN, vxlan(network.VNI(segment), inner))
			for number := 1; number <= 2; number++ {
				for _, src := range []netip.Addr{b.loose.V4, network.TEP(3-number, 4)} {
					packet := ipv4(header4{src: src, dst: network.TEP(number, 4), proto: protoUDP}, payload)
					frames = append(frames, ether(network.GatewayMAC(), b.loose.MAC, etherIPv4, packet))
				}
			}
		}
	}
	return by(b.loose, cycle(frames...))
}

// fromStranger are frames of the underlay to host A (1) or B (2).
func (b testbed) fromStranger(number int, kind uint16, packet []byte) []byte {
	return ether(net.HardwareAddr{2, 0, 0, 0, 2, byte(number)}, net.HardwareAddr{2, 0, 0, 0, 2, network.Stranger}, kind, packet)
}

func (b testbed) stranger(frame func(int) []byte) []stream {
	return []stream{{host: b.Stranger, name: topo.UnderlayName, frame: frame}}
}

// forgedTEP sends tunnel packets from addresses that are nobody's tunnel endpoint, and from an
// endpoint's IPv4 address in the form of IPv6.
func forgedTEP(b testbed) []stream {
	var frames [][]byte
	for segment := range 2 {
		for _, inner := range forgedInner(b, segment) {
			payload := vxlan(network.VNI(segment), inner)
			for number := 1; number <= 2; number++ {
				datagram := udp(50_001, portVXLAN, payload)
				frames = append(frames, b.fromStranger(number, etherIPv4,
					ipv4(header4{src: network.TEP(network.Stranger, 4), dst: network.TEP(number, 4), proto: protoUDP}, datagram)))
				src, dst := netip.AddrFrom16(network.TEP(3-number, 4).As16()), netip.AddrFrom16(network.TEP(number, 4).As16())
				sum := summed(src, dst, protoUDP, 6, udp(50_001, portVXLAN, payload))
				frames = append(frames, b.fromStranger(number, etherIPv6, ipv6(src, dst, protoUDP, 64, sum)))
			}
		}
	}
	return b.stranger(cycle(frames...))
}

// forgedICMP says of tunnel packets that they are too big for a path of 576 bytes.
func forgedICMP(b testbed) []stream {
	var frames [][]byte
	for number := 1; number <= 2; number++ {
		own, remote := network.TEP(number, 4), network.TEP(3-number, 4)
		for _, guests := range [][2]*network.Guest{{b.same1, b.same2}, {b.other1, b.other2}} {
			inner := ether(guests[1].MAC, guests[0].MAC, etherIPv4, ipv4(header4{src: guests[0].V4, dst: guests[1].V4, proto: protoTCP}, make([]byte, 20)))
			quoted := ipv4(header4{src: own, dst: remote, proto: protoUDP, fragment: 0x4000}, udp(50_002, portVXLAN, vxlan(network.VNI(guests[0].Segment), inner)))
			for _, mtu := range []byte{0x40, 0x28} { // 576 and 552 bytes
				packet := ipv4(header4{src: network.TEP(network.Stranger, 4), dst: own, proto: protoICMP}, icmp4(3, 4, append([]byte{0, 0, 2, mtu}, quoted...)))
				frames = append(frames, b.fromStranger(number, etherIPv4, packet))
			}
		}
	}
	return b.stranger(cycle(frames...))
}

// tooBigAtAll counts "too big" of both families at every victim: none has sent what is.
func tooBigAtAll(b testbed) []watched {
	return []watched{{roles: b.victims(), clauses: []clause{
		{field(12, 2, etherIPv4), field(23, 1, protoICMP), field(34, 2, 0x0304)}, {field(12, 2, etherIPv6), field(20, 1, protoICMPv6), field(54, 1, 2)},
	}}}
}

// forgedBFD says in the other endpoint's name that a session is down, by administration or not, to
// the edges' own port and inside of tunnels as Open vSwitch has it.
func forgedBFD(b testbed) []stream {
	var frames [][]byte
	for number := 1; number <= 2; number++ {
		for _, state := range []byte{0, 1} { // AdminDown, Down
			message := append([]byte{1<<5 | 7, state << 6, 3, 24, 0, 0, 0xa7, 0x7a}, make([]byte, 16)...)
			binary.BigEndian.PutUint32(message[12:], 1_000_000)
			binary.BigEndian.PutUint32(message[16:], 1_000_000)
			for _, src := range []netip.Addr{network.TEP(3-number, 4), network.TEP(network.Stranger, 4)} {
				h := header4{src: src, dst: network.TEP(number, 4), proto: protoUDP, ttl: 255}
				frames = append(frames, b.fromStranger(number, etherIPv4, ipv4(h, udp(49_152, portBFD, message))))
				inside := ether(net.HardwareAddr{0, 0x23, 0x20, 0, 0, 1}, network.MAC(9), etherIPv4,
					ipv4(header4{src: netip.MustParseAddr("169.254.1.0"), dst: netip.MustParseAddr("169.254.1.1"), proto: protoUDP, ttl: 255}, udp(49_152, portBFD, message)))
				frames = append(frames, b.fromStranger(number, etherIPv4, ipv4(h, udp(50_003, portVXLAN, vxlan(network.VNI(0), inside)))))
			}
		}
	}
	return b.stranger(cycle(frames...))
}

// toStranger are UDP packets to a port of the stranger.
func toStranger(port uint32) clause {
	addr := network.TEP(network.Stranger, 4).As4()
	return clause{field(12, 2, etherIPv4), field(23, 1, protoUDP), field(30, 4, binary.BigEndian.Uint32(addr[:])), field(36, 2, port)}
}

// answersOfBFD are sessions with the stranger, and tunnels to it.
func answersOfBFD() []clause { return []clause{toStranger(portBFD), toStranger(4784), tunnelled()} }

// tunnelled is tunnel packets to the stranger, who has no tunnel.
func tunnelled() clause { return toStranger(portVXLAN) }

// synFlood opens connections to a guest of the same segment, in the own name and in that of addresses
// that are nobody's (RFC 2544's).
func synFlood(b testbed) []stream {
	return by(b.attacker, func(i int) []byte {
		src := b.attacker.V4
		if i%2 == 1 {
			src = netip.AddrFrom4([4]byte{198, 18, byte(i >> 9), byte(i >> 1)})
		}
		packet := ipv4(header4{src: src, dst: b.same2.V4, proto: protoTCP}, syn(src, b.same2.V4, uint16(1024+i/2%60_000), uint16(9+i/120_000)))
		return ether(b.same2.MAC, b.attacker.MAC, etherIPv4, packet)
	})
}

// dialogues are questions and their answers, between two guests of whom the one asks from ever new
// ports.
func dialogues(b testbed) []stream {
	frame := func(from, to *network.Guest, sport, dport uint16) []byte {
		return ether(to.MAC, from.MAC, etherIPv4, ipv4(header4{src: from.V4, dst: to.V4, proto: protoUDP}, udp(sport, dport, []byte("question or answer"))))
	}
	port := func(i int) (asks, answers uint16) { return uint16(1024 + i%60_000), uint16(53 + i/60_000) }
	return []stream{
		{b.loose.Host, topo.EndName, func(i int) []byte { asks, answers := port(i); return frame(b.loose, b.attacker, asks, answers) }},
		{b.attacker.Host, topo.EndName, func(i int) []byte { asks, answers := port(i); return frame(b.attacker, b.loose, answers, asks) }},
	}
}

// orphanWord begins the data of fragments whose first one never comes.
const orphanWord = 0xa77a0fff

// fragments are first ones without others, and others without a first one.
func fragments(b testbed) []stream {
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, orphanWord)
	return by(b.attacker, func(i int) []byte {
		h := header4{src: b.attacker.V4, dst: b.same2.V4, proto: protoUDP, id: uint16(i) | 1, fragment: 185}
		payload := data
		if i%2 == 1 {
			h.id, h.fragment, payload = uint16(i)&^1|2, 0x2000, udp(9, 9, make([]byte, 56))
		}
		return ether(b.same2.MAC, b.attacker.MAC, etherIPv4, ipv4(h, payload))
	})
}

// orphans are fragments without a first one.
func orphans() clause {
	offset := match{offset: 20, size: 2, mask: 0x1fff, want: 185}
	return clause{field(12, 2, etherIPv4), offset, field(34, 4, orphanWord)}
}

// throughNAT opens connections to what is outside, of UDP and TCP.
func throughNAT(b testbed) []stream {
	to := network.Outside(0)
	return by(b.attacker, func(i int) []byte {
		sport, dport := uint16(1024+i/2%60_000), uint16(20_000+i/120_000)
		h := header4{src: b.attacker.V4, dst: to, proto: protoUDP}
		payload := udp(sport, dport, []byte("through"))
		if i%2 == 1 {
			h.proto, payload = protoTCP, syn(b.attacker.V4, to, sport, dport)
		}
		return ether(network.GatewayMAC(), b.attacker.MAC, etherIPv4, ipv4(h, payload))
	})
}

// storm is broadcast, multicast, and unicast to nobody in turns.
func storm(b testbed) []stream {
	return by(b.loose, cycle(
		ether(broadcast(), b.loose.MAC, etherExperiment, nil),
		ether(net.HardwareAddr{1, 0, 0x5e, 1, 2, 3}, b.loose.MAC, etherExperiment, nil),
		ether(net.HardwareAddr{2, 0xee, 0, 0, 0, 1}, b.loose.MAC, etherExperiment, nil)))
}

// expiring are packets to other networks that a router has to drop, and tell their sender of.
func expiring(b testbed) []stream {
	own, far := b.attacker, b.other1
	return by(own, cycle(
		ether(network.GatewayMAC(), own.MAC, etherIPv4, ipv4(header4{src: own.V4, dst: network.Outside(0), proto: protoUDP, ttl: 1}, udp(33_434, 33_434, nil))),
		ether(network.GatewayMAC(), own.MAC, etherIPv4, ipv4(header4{src: own.V4, dst: far.V4, proto: protoUDP, ttl: 1}, udp(33_434, 33_434, nil))),
		ether(network.GatewayMAC(), own.MAC, etherIPv6, ipv6(own.V6, far.V6, protoUDP, 1, summed(own.V6, far.V6, protoUDP, 6, udp(33_434, 33_434, []byte("far")))))))
}

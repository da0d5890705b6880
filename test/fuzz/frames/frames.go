// Package frames makes frames for fuzzing: valid ones of every kind that an edge knows, from what
// the edge is configured with and what attackers try, and then changed at every layer.
//
// Its one invariant: frame number n of a seed is the same in every run. Do not use it for frames
// that a test has expectations of.
package frames

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Network is what frames are about. Each list has right and wrong values.
type Network struct {
	Underlay MAC // of the underlay's device
	MACs     []MAC
	IPv4     []netip.Addr
	IPv6     []netip.Addr
	VLANs    []uint16
	TEPs     []netip.Addr // all of one family
	Own      netip.Addr
	Tunnels  []Tunnel
	Ports    []uint16        // of UDP and TCP; nil: those that an edge knows
	Homes    map[string]Home // by device
}

// Few is a network with few values of each list: its frames often belong to one flow.
func (n Network) Few(r *rand.Rand) Network {
	n.MACs, n.IPv4, n.IPv6 = few(r, n.MACs, 4), few(r, n.IPv4, 4), few(r, n.IPv6, 4)
	n.VLANs, n.TEPs, n.Tunnels, n.Ports = few(r, n.VLANs, 2), few(r, n.TEPs, 2), few(r, n.Tunnels, 2), few(r, l4Ports, 2)
	return n
}

func few[T any](r *rand.Rand, list []T, n int) []T {
	chosen := make([]T, n)
	for i := range chosen {
		chosen[i] = list[r.IntN(len(list))]
	}
	return chosen
}

// Tunnel is what a segment's packets are in.
type Tunnel struct {
	VNI     uint32
	UDPPort uint16 // 0: NVGRE
	Geneve  bool
}

// Home is what a well-behaved host at a device uses.
type Home struct {
	MAC, Gateway MAC
	IPv4, IPv6   netip.Addr
}

// Maker makes the frames of a seed. It is not safe for concurrent use.
type Maker struct {
	Network
	seed uint64
	rand *rand.Rand
	pcg  *rand.PCG
	buf  []byte
	home *Home // of the frame's outermost host, nil: any
}

// New makes the frames of a seed.
func New(n Network, seed uint64) *Maker {
	pcg := rand.NewPCG(seed, 0)
	if n.Ports == nil {
		n.Ports = l4Ports
	}
	return &Maker{Network: n, seed: seed, pcg: pcg, rand: rand.New(pcg), buf: make([]byte, 0, 4096)}
}

const largest = 1600

// Frame is number n of the seed, as a port gets it or, in a tunnel, as the underlay does. It is
// good until the next one.
func (m *Maker) Frame(n uint64, device string, tunnelled bool) []byte {
	m.pcg.Seed(m.seed, n)
	m.home = nil
	if home, ok := m.Homes[device]; ok && !m.one(4) {
		m.home = &home
	}
	inner := m.ethernet(m.buf[:0], 0)
	m.home = nil
	if tunnelled {
		if m.one(200) {
			copy(inner, m.Underlay[:])
		} else {
			inner = m.wrap(inner)
		}
	}
	if m.one(3) {
		inner = m.mutate(inner)
	}
	if tunnelled && !m.one(500) {
		copy(inner, m.Underlay[:]) // or no program looks at it
	}
	m.buf = inner[:0]
	for len(inner) < 14 {
		inner = append(inner, 0)
	}
	return inner[:min(len(inner), largest)]
}

// one is true once in n times.
func (m *Maker) one(n int) bool { return m.rand.IntN(n) == 0 }

func pick[T any](m *Maker, list []T) T { return list[m.rand.IntN(len(list))] }

func (m *Maker) mac() (a MAC) {
	if !m.one(40) {
		return pick(m, m.MACs)
	}
	binary.BigEndian.PutUint32(a[2:], m.rand.Uint32())
	return a
}

var (
	groups     = []MAC{{255, 255, 255, 255, 255, 255}, {1, 0, 0x5e, 0, 0, 0xfb}, {0x33, 0x33, 0, 0, 0, 1}, {1, 0x80, 0xc2, 0, 0, 0}, {1, 0x80, 0xc2, 0, 0, 0xe}, {1, 0, 0xc, 0xcc, 0xcc, 0xcd}}
	ethertypes = []uint16{0x88cc, 0x888e, 0x8808, 0x88b5, 0x9000, 0x8847, 0x0000, 0x05dc, 0x8906}
)

func (m *Maker) ethernet(b []byte, depth int) []byte {
	dst, src := m.mac(), m.mac()
	if m.one(5) {
		dst = pick(m, groups)
	}
	if m.home != nil && depth == 0 {
		if src = m.home.MAC; m.one(2) {
			dst = m.home.Gateway
		}
	}
	if m.one(60) {
		src = pick(m, groups)
	}
	b = append(append(b, dst[:]...), src[:]...)
	for m.one(6) {
		b = m.u16(b, []uint16{0x8100, 0x8100, 0x88a8}[m.rand.IntN(3)])
		b = m.u16(b, pick(m, m.VLANs)|uint16(m.rand.IntN(8))<<13)
	}
	switch m.rand.IntN(10) {
	case 0:
		return m.arp(m.u16(b, 0x0806), src)
	case 1:
		return m.random(m.u16(b, pick(m, ethertypes)), 60)
	case 2, 3, 4, 5:
		return m.ipv4(m.u16(b, 0x0800), depth)
	default:
		return m.ipv6(m.u16(b, 0x86dd), depth, src)
	}
}

func (m *Maker) u16(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }

func (m *Maker) random(b []byte, most int) []byte {
	for range m.rand.IntN(most + 1) {
		b = append(b, byte(m.rand.Uint32()))
	}
	return b
}

func (m *Maker) addr4() netip.Addr {
	if m.one(30) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], m.rand.Uint32())
		return netip.AddrFrom4(a)
	}
	return pick(m, m.IPv4)
}

func (m *Maker) addr6() netip.Addr {
	if m.one(40) {
		return netip.AddrFrom16(m.addr4().As16()) // ::ffff:a.b.c.d
	}
	return pick(m, m.IPv6)
}

func (m *Maker) arp(b []byte, src MAC) []byte {
	b = append(b, 0, 1, 8, 0, 6, 4, 0, byte(1+m.rand.IntN(2)))
	sender, target := m.addr4().As4(), m.addr4().As4()
	b = append(append(b, src[:]...), sender[:]...)
	mac := m.mac()
	return append(append(b, mac[:]...), target[:]...)
}

func (m *Maker) ttl() byte {
	return []byte{64, 64, 64, 255, 255, 1, 0, 2}[m.rand.IntN(8)]
}

func (m *Maker) ipv4(b []byte, depth int) []byte {
	at := len(b)
	options := 0
	if m.one(12) {
		options = m.rand.IntN(11)
	}
	b = append(b, byte(0x45+options), byte(m.rand.Uint32()), 0, 0)
	b = m.u16(b, uint16(m.rand.Uint32()))
	b = m.u16(b, m.fragment())
	proto := []byte{6, 6, 6, 17, 17, 17, 1, 1, 47, 58, 132, 4, 50}[m.rand.IntN(13)]
	b = append(b, m.ttl(), proto, 0, 0)
	src, dst := m.addr4().As4(), m.addr4().As4()
	if m.home != nil && depth == 0 && !m.one(5) {
		src = m.home.IPv4.As4()
	}
	b = append(append(b, src[:]...), dst[:]...)
	for range options {
		b = append(b, []byte{1, 7, 0x44, 0x83}[m.rand.IntN(4)], 4, 4, 0)
	}
	b = m.payload(b, proto, depth)
	binary.BigEndian.PutUint16(b[at+2:], uint16(len(b)-at))
	binary.BigEndian.PutUint16(b[at+10:], ^sum(b[at:at+20+4*options], 0))
	return b
}

func (m *Maker) fragment() uint16 {
	switch m.rand.IntN(20) {
	case 0:
		return 0x2000 // the first
	case 1:
		return 0x2000 | uint16(m.rand.IntN(200))
	case 2:
		return uint16(m.rand.IntN(200))
	case 3, 4, 5, 6, 7, 8:
		return 0x4000
	}
	return 0
}

func (m *Maker) ipv6(b []byte, depth int, mac MAC) []byte {
	at := len(b)
	proto := []byte{6, 6, 17, 17, 17, 58, 58, 58, 1, 47, 41, 59}[m.rand.IntN(12)]
	b = append(b, 0x60, byte(m.rand.Uint32()), 0, 0, 0, 0, proto, m.ttl())
	src, dst := m.addr6().As16(), m.addr6().As16()
	if m.home != nil && depth == 0 && !m.one(5) {
		src = m.home.IPv6.As16()
	}
	b = append(append(b, src[:]...), dst[:]...)
	chain := at + 6
	for m.one(5) {
		kind := []byte{0, 60, 43, 44, 51, 135}[m.rand.IntN(6)]
		b[chain], chain = kind, len(b)
		switch kind {
		case 44:
			b = append(b, proto, 0)
			b = m.u16(b, []uint16{0, 1, 0x10, 0x11}[m.rand.IntN(4)])
			b = append(b, 1, 2, 3, 4)
		case 51:
			b = append(b, proto, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)
		default:
			more := m.rand.IntN(2)
			b = append(b, proto, byte(more), 1, 4, 0, 0, 0, 0)
			b = append(b, make([]byte, 8*more)...)
		}
	}
	l4 := len(b)
	if proto == 58 {
		b = m.icmp6(b, mac, depth)
	} else {
		b = m.payload(b, proto, depth)
	}
	binary.BigEndian.PutUint16(b[at+4:], uint16(len(b)-at-40))
	if offset := map[byte]int{6: 16, 17: 6, 58: 2}[proto]; offset != 0 && l4+offset+2 <= len(b) {
		binary.BigEndian.PutUint16(b[l4+offset:], 0)
		c := ^sum(b[l4:], uint32(sum(b[at+8:at+40], 0))+uint32(len(b)-l4)+uint32(proto))
		binary.BigEndian.PutUint16(b[l4+offset:], c)
	}
	return b
}

var l4Ports = []uint16{80, 80, 53, 67, 68, 546, 547, 4789, 6081, 1000, 40000}

func (m *Maker) payload(b []byte, proto byte, depth int) []byte {
	switch proto {
	case 6:
		b = m.u16(m.u16(b, pick(m, m.Ports)), pick(m, m.Ports))
		b = binary.BigEndian.AppendUint32(b, m.rand.Uint32N(1000))
		b = binary.BigEndian.AppendUint32(b, m.rand.Uint32N(1000))
		flags := []byte{2, 2, 0x12, 0x10, 0x10, 0x18, 0x11, 4, 0x14, 0, 0x29, 0xff}[m.rand.IntN(12)]
		if flags&2 != 0 && m.one(2) {
			b = append(b, 0x60, flags, 0x10, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4)
		} else {
			b = append(b, 0x50, flags, 0x10, 0, 0, 0, 0, 0)
		}
		return m.random(b, 40)
	case 17:
		at := len(b)
		b = m.u16(m.u16(b, pick(m, m.Ports)), pick(m, m.Ports))
		b = append(b, 0, 0, 0, 0)
		if depth < 2 && m.one(4) {
			b = m.ethernet(m.tunnelHeader(b, pick(m, m.Tunnels)), depth+1)
		} else {
			b = m.random(b, 60)
		}
		binary.BigEndian.PutUint16(b[at+4:], uint16(len(b)-at))
		return b
	case 1:
		return m.icmp4(b, depth)
	case 47:
		b = append(b, 0x20, 0, 0x65, 0x58)
		b = binary.BigEndian.AppendUint32(b, pick(m, m.Tunnels).VNI<<8)
		if depth < 2 && m.one(2) {
			return m.ethernet(b, depth+1)
		}
	}
	return m.random(b, 60)
}

func (m *Maker) icmp4(b []byte, depth int) []byte {
	at := len(b)
	kind := []byte{8, 8, 0, 3, 3, 5, 11, 12, 13, 9, 10}[m.rand.IntN(11)]
	b = append(b, kind, byte(m.rand.IntN(5)), 0, 0, 0, 1, byte(m.rand.IntN(6)), 0)
	if (kind == 3 || kind == 5 || kind == 11 || kind == 12) && depth < 2 {
		b = m.cut(m.ipv4(b, depth+2), at+8)
	} else {
		b = m.random(b, 60)
	}
	binary.BigEndian.PutUint16(b[at+2:], ^sum(b[at:], 0))
	return b
}

// cut takes some of what is quoted away, now and then.
func (m *Maker) cut(b []byte, from int) []byte {
	if m.one(3) {
		return b[:from+m.rand.IntN(len(b)-from+1)]
	}
	return b
}

func (m *Maker) icmp6(b []byte, mac MAC, depth int) []byte {
	kind := []byte{128, 129, 1, 2, 3, 133, 134, 135, 135, 136, 136, 137, 130, 143}[m.rand.IntN(14)]
	at := len(b)
	b = append(b, kind, 0, 0, 0, 0, 0, 0, 0)
	switch kind {
	case 1, 2, 3:
		if depth < 2 {
			return m.cut(m.ipv6(b, depth+2, mac), at+8)
		}
	case 135, 136, 137:
		target := m.addr6().As16()
		b = append(b, target[:]...)
		if kind == 137 {
			target = m.addr6().As16()
			b = append(b, target[:]...)
		}
		for m.one(2) {
			b = append(append(b, byte(1+m.rand.IntN(2)), byte(m.rand.IntN(3))), mac[:]...)
		}
		return b
	case 134:
		b = append(b, make([]byte, 8)...)
		prefix := m.addr6().As16()
		return append(append(b, 3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0), prefix[:]...)
	}
	return m.random(b, 40)
}

// tunnelHeader is VXLAN's or Geneve's.
func (m *Maker) tunnelHeader(b []byte, t Tunnel) []byte {
	if !t.Geneve {
		flags := uint32(0x08000000)
		if m.one(30) {
			flags = m.rand.Uint32()
		}
		b = binary.BigEndian.AppendUint32(b, flags)
		return binary.BigEndian.AppendUint32(b, t.VNI<<8|uint32(m.rand.IntN(4)))
	}
	options := 0
	if m.one(3) {
		options = 1 + m.rand.IntN(3)
	}
	first := uint32(0x6558) | uint32(options)<<24
	if m.one(30) {
		first ^= 1 << m.rand.IntN(32)
	}
	b = binary.BigEndian.AppendUint32(b, first)
	b = binary.BigEndian.AppendUint32(b, t.VNI<<8)
	for range options {
		b = m.u16(b, []uint16{0x0103, 0x0104, 0xfff0, 0x0100}[m.rand.IntN(4)])
		b = append(b, []byte{1, 2, 0x83, byte(m.rand.Uint32())}[m.rand.IntN(4)], byte(m.rand.IntN(options)))
	}
	return b
}

// tunnel is one of the edge's, or nearly.
func (m *Maker) tunnel() Tunnel {
	t := pick(m, m.Tunnels)
	switch m.rand.IntN(60) {
	case 0:
		t.VNI = m.rand.Uint32N(1 << 24)
	case 1:
		t.VNI = pick(m, m.Tunnels).VNI
	case 2:
		t.UDPPort = pick(m, m.Tunnels).UDPPort
	case 3:
		t.UDPPort = pick(m, l4Ports)
	case 4:
		t.Geneve = !t.Geneve
	}
	return t
}

// wrap puts a frame into a tunnel to the edge.
func (m *Maker) wrap(inner []byte) []byte {
	b := make([]byte, 0, len(inner)+120)
	src := m.mac()
	b = append(append(b, m.Underlay[:]...), src[:]...)
	from, to := pick(m, m.TEPs), m.Own
	if m.one(50) {
		to = pick(m, m.TEPs)
	}
	t := m.tunnel()
	gre := t.UDPPort == 0
	proto, header := byte(17), 8
	if gre {
		proto, header = 47, 0
	}
	tunnel := make([]byte, 0, 40)
	if gre {
		flags := uint32(0x20006558)
		if m.one(30) {
			flags ^= 1 << m.rand.IntN(32)
		}
		tunnel = binary.BigEndian.AppendUint32(tunnel, flags)
		tunnel = binary.BigEndian.AppendUint32(tunnel, t.VNI<<8|uint32(m.rand.IntN(256)))
	} else {
		tunnel = m.tunnelHeader(tunnel, t)
	}
	length := header + len(tunnel) + len(inner)
	if from.Is4() && !m.one(50) { // else ::ffff:a.b.c.d
		b = m.outer4(b, from, to, proto, length)
	} else {
		b = m.outer6(b, from, to, proto, length)
	}
	if !gre {
		b = m.u16(m.u16(b, 49152|uint16(m.rand.Uint32())), t.UDPPort)
		b = m.u16(m.u16(b, uint16(length)), 0)
	}
	return append(append(b, tunnel...), inner...)
}

func (m *Maker) outer4(b []byte, from, to netip.Addr, proto byte, length int) []byte {
	b = m.u16(b, 0x0800)
	at := len(b)
	b = append(b, 0x45, byte(m.rand.IntN(4)))
	b = m.u16(m.u16(b, uint16(20+length)), uint16(m.rand.Uint32()))
	flags := uint16(0x4000)
	if m.one(50) {
		flags = m.fragment()
	}
	b = append(m.u16(b, flags), 64, proto, 0, 0)
	src, dst := from.As4(), to.As4()
	b = append(append(b, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(b[at+10:], ^sum(b[at:], 0))
	return b
}

func (m *Maker) outer6(b []byte, from, to netip.Addr, proto byte, length int) []byte {
	b = append(m.u16(b, 0x86dd), 0x60, byte(m.rand.IntN(4)<<4), 0, 0)
	b = append(m.u16(b, uint16(length)), proto, 64)
	src, dst := from.As16(), to.As16()
	return append(append(b, src[:]...), dst[:]...)
}

// mutate changes a frame at random: bits, lengths, its end.
func (m *Maker) mutate(b []byte) []byte {
	for range 1 + m.rand.IntN(3) {
		switch m.rand.IntN(8) {
		case 0, 1:
			b[m.rand.IntN(len(b))] ^= 1 << m.rand.IntN(8)
		case 2:
			b[m.rand.IntN(len(b))] = byte(m.rand.Uint32())
		case 3:
			b[m.rand.IntN(min(len(b), 60))] = []byte{0, 255, 0x45, 0x60, 58, 44, 1}[m.rand.IntN(7)]
		case 4:
			b = b[:14+m.rand.IntN(max(len(b)-14, 1))]
		case 5:
			b = append(b, make([]byte, m.rand.IntN(40))...) // padding
		case 6: // some bytes twice
			from := m.rand.IntN(len(b))
			some := min(4*(1+m.rand.IntN(4)), len(b)-from)
			b = append(b, b[len(b)-some:]...)
			copy(b[from+some:], b[from:len(b)-some])
		case 7: // some bytes gone
			from := m.rand.IntN(len(b))
			some := min(1+m.rand.IntN(16), len(b)-from)
			b = append(b[:from], b[from+some:]...)
		}
		for len(b) < 14 {
			b = append(b, 0)
		}
	}
	return b
}

// sum is the Internet checksum, not inverted (RFC 1071).
func sum(b []byte, s uint32) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) > 0 {
		s += uint32(b[0]) << 8
	}
	for s > 0xffff {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

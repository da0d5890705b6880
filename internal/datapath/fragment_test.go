package datapath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

const (
	dontFragment, moreFragments = 0x4000, 0x2000
)

// wholePacket is a frame with an IPv4 packet, checksums and all.
type wholePacket struct {
	src, dst   string // MACs
	from, to   string
	ttl        uint8
	id         uint16
	frag       uint16 // flags and offset
	options    []byte
	payload    []byte // what follows the IP header
	proto      uint8
	unfinished bool // the checksum of UDP is left to the device
}

func (p wholePacket) frame() []byte {
	ihl := ipv4Len + len(p.options)
	b := make([]byte, etherLen+ihl, etherLen+ihl+len(p.payload))
	copy(b, pkttest.Frame(p.src, p.dst, udp4)[:etherLen])
	ip := b[etherLen:]
	ip[0], ip[8], ip[9] = 0x40|byte(ihl/4), p.ttl, p.proto
	binary.BigEndian.PutUint16(ip[2:], uint16(ihl+len(p.payload)))
	binary.BigEndian.PutUint16(ip[4:], p.id)
	binary.BigEndian.PutUint16(ip[6:], p.frag)
	copy(ip[12:], addr(p.from).AsSlice())
	copy(ip[16:], addr(p.to).AsSlice())
	copy(ip[20:], p.options)
	binary.BigEndian.PutUint16(ip[10:], ^pkttest.Sum(ip, 0))
	return append(b, p.payload...)
}

// datagram is a UDP datagram of n bytes between the packet's addresses.
func (p wholePacket) datagram(n int) wholePacket {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	binary.BigEndian.PutUint16(b, 1)
	binary.BigEndian.PutUint16(b[2:], 2)
	binary.BigEndian.PutUint16(b[4:], uint16(n))
	b[6], b[7] = 0, 0
	pseudo := slices.Concat(addr(p.from).AsSlice(), addr(p.to).AsSlice(), []byte{0, pkttest.ProtoUDP, byte(n >> 8), byte(n)})
	sum := pkttest.Sum(pseudo, 0)
	if !p.unfinished {
		sum = ^pkttest.Sum(b, uint32(sum))
		if sum == 0 {
			sum = 0xffff
		}
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	p.proto, p.payload = pkttest.ProtoUDP, b
	return p
}

// uncopied are the options of later fragments (RFC 791 section 3.1): those without the copied
// flag are no-operations.
func uncopied(options []byte) []byte {
	out := bytes.Clone(options)
	for i := 0; i < len(out) && out[i] != 0; {
		n := 1
		if out[i] != 1 {
			n = int(out[i+1])
		}
		if out[i]&0x80 == 0 {
			for j := i; j < i+n; j++ {
				out[j] = 1
			}
		}
		i += n
	}
	return out
}

// fragments are the IP packets, in their order, that RFC 791 section 3.2 makes of the packet,
// which comes as it leaves.
func (p wholePacket) fragments(mtu int) (list [][]byte) {
	if len(p.payload)+ipv4Len+len(p.options) <= mtu {
		return [][]byte{p.frame()}
	}
	size := (mtu - ipv4Len - len(p.options)) &^ 7
	for at := 0; at < len(p.payload); at += size {
		f := p
		f.frag += uint16(at / 8)
		f.payload = p.payload[at:min(at+size, len(p.payload))]
		if at+size < len(p.payload) {
			f.frag |= moreFragments
		}
		if at > 0 {
			f.options = uncopied(p.options)
		}
		list = append(list, f.frame())
	}
	return list
}

// leaving is the packet as the router sends it.
func (p wholePacket) leaving(src, dst string) wholePacket {
	p.src, p.dst = src, dst
	p.ttl--
	return p
}

// wantFragments checks the frames at a port, or in the first remote's tunnel of a segment.
func (w *world) wantFragments(t *testing.T, segment string, in []byte, want [][]byte, got []tapped) {
	t.Helper()
	if len(got) != len(want) {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "%d frames, want %d", len(got), len(want))
		return
	}
	var entropy []uint16
	for i, f := range got {
		if segment == "" {
			check.Equal(t, fmt.Sprintf("fragment %d", i), want[i], f.bytes)
			continue
		}
		o := w.sent(segment, w.family.remotes[0], f.bytes)
		entropy = append(entropy, o.SrcPort)
		check.Equal(t, fmt.Sprintf("fragment %d in the tunnel", i), o.Wrap(want[i]), f.bytes)
	}
	if len(slices.Compact(entropy)) > 1 {
		t.Errorf("entropy %v: fragments of one packet take several paths", entropy)
	}
}

// fragmentWorld routes between ports, of which p2 is narrow, and tunnels.
func fragmentWorld(t *testing.T, to way, narrow int, change ...func(*Config, *fib.Tables)) (*world, map[string]*tap) {
	w := routedWorld(t, to, append([]func(*Config, *fib.Tables){func(_ *Config, tables *fib.Tables) {
		for i := range tables.Ports {
			tables.Ports[i].MTU = deviceMTU
		}
		tables.Ports[2].MTU = narrow
	}}, change...)...)
	return w, w.taps(t)
}

// fragmentCase is a way of a packet through the world, and how it leaves.
type fragmentCase struct {
	segment, from, at, into string
	packet                  wholePacket
	smac, dmac              string
	mtu                     int
}

func fragmentCases(to way, narrow int) []fragmentCase {
	p := func(src, dst, from, to string) wholePacket {
		return wholePacket{src: src, dst: dst, from: from, to: to, ttl: 64, id: 0xbeef}
	}
	return []fragmentCase{
		{"blue", "p0", "u0", "green", p(alice, gatewayMAC, "10.0.1.10", "10.0.2.14"), gatewayMAC, erin, to.mtu(0)},
		{"blue", "p0", "u0", "main-l3", p(alice, gatewayMAC, "10.0.1.10", "10.0.3.7"), l3MAC, farMAC, to.mtu(0)},
		{"blue", "p0", "p2", "", p(alice, gatewayMAC, "10.0.1.10", "10.0.2.13"), gatewayMAC, dave, narrow},
		{"blue", "first", "p2", "", p(bob, gatewayMAC, "10.0.1.11", "10.0.2.13"), gatewayMAC, dave, narrow},
		{"blue", "first", "u0", "green", p(bob, gatewayMAC, "10.0.1.11", "10.0.2.14"), gatewayMAC, erin, to.mtu(0)},
	}
}

// cross sends a packet over real devices and wants its fragments.
func (w *world) cross(t *testing.T, taps map[string]*tap, c fragmentCase) {
	t.Helper()
	in := c.packet.frame()
	var h virtioHeader
	if c.packet.unfinished {
		h = virtioHeader{Flags: virtioNeedsCsum, CsumStart: uint16(etherLen + ipv4Len + len(c.packet.options)), CsumOffset: 6}
	}
	from := c.from
	if from == "first" {
		from, in = "u0", w.outerIn(c.segment, w.family.remotes[0]).Wrap(in)
	}
	taps[from].sendWith(t, taps[from].self, h, in)
	out := c.packet.leaving(c.smac, c.dmac)
	if c.packet.unfinished {
		out.unfinished = false
		out = out.datagram(len(out.payload))
	}
	w.wantFragments(t, c.into, in, out.fragments(c.mtu), taps[c.at].drain(t))
}

// Any packet at random, also one that is a fragment or has options, against the reference.
func TestFragmentsAtRandom(t *testing.T) {
	t.Parallel()
	for _, to := range []way{ways()[0], ways()[3], ways()[6]} {
		t.Run(to.name, func(t *testing.T) {
			r := newRandom(t)
			for range 3 {
				narrow := 68 + r.IntN(1400)
				w, taps := fragmentWorld(t, to, narrow)
				for range often(60) {
					c := fragmentCases(to, narrow)[r.IntN(5)]
					c.packet = r.whole(c.packet)
					w.cross(t, taps, c)
					if t.Failed() {
						t.Fatalf("%d bytes of %+v to an MTU of %d", len(c.packet.payload), c.packet.options, c.mtu)
					}
				}
			}
		})
	}
}

// whole is the packet with something at random in it.
func (r random) whole(p wholePacket) wholePacket {
	p.id, p.ttl = uint16(r.Uint32()), uint8(2+r.IntN(254))
	n := 8 + r.IntN([]int{1600, 4000, 8500}[r.IntN(3)])
	for len(p.options) < 40 && r.IntN(3) == 0 {
		kind := []byte{1, 7, 68, 131, 136, 148}[r.IntN(6)]
		if kind == 1 {
			p.options = append(p.options, 1, 1, 1, 1)
			continue
		}
		option := make([]byte, 4*(1+r.IntN(2)))
		option[0], option[1] = kind, byte(len(option))
		p.options = append(p.options, option...)
	}
	p.options = p.options[:min(len(p.options), 40)&^3]
	if k := len(p.options); k == 40 { // the last may be cut
		p.options = p.options[:0]
	}
	switch r.IntN(4) {
	case 0: // a fragment
		p.frag = uint16(r.IntN(0x1fff - n/8 - 8))
		if r.IntN(2) == 0 {
			p.frag |= moreFragments
			n &^= 7
		}
		p.proto, p.payload = pkttest.ProtoUDP, bytes.Repeat([]byte{byte(n), 1, 2, 3, 4, 5, 6}, n)[:n]
		return p
	case 1: // another protocol
		p.proto, p.payload = 99, bytes.Repeat([]byte{byte(n), 9, 8, 7}, n)[:n]
		return p
	}
	return p.datagram(n)
}

// What is not fragmented is reported: DF, IPv6, bridged packets, SCTP, whose checksum may be its sender's device's, and large segments.
func TestNotFragmented(t *testing.T) {
	to := ways()[0]
	w, _ := fragmentWorld(t, to, 1300)
	for name, c := range map[string]struct {
		src, dst, words string
		reported        bool
	}{
		"DF":      {alice, gatewayMAC, "df " + sized("10.0.1.10", "10.0.2.14", 1500), true},
		"IPv6":    {alice, gatewayMAC, sized("2001:db8:1::a", "2001:db8:2::e", 1500), true},
		"bridged": {alice, bob, sized("10.0.1.10", "10.0.1.11", 1500), true},
		"SCTP":    {alice, gatewayMAC, "ip 10.0.1.10 > 10.0.2.14 132 1480", true},
	} {
		t.Run(name, func(t *testing.T) {
			w.wantDrop(t, dropCase{reason: "too-big", from: "p0", packet: packet{bytes: pkttest.Frame(c.src, c.dst, c.words)}, reported: c.reported})
		})
	}
	w.wantDrop(t, dropCase{reason: "too-big", from: "p0", reported: true, packet: packet{
		bytes: pkttest.Frame(alice, gatewayMAC, "udp 10.0.1.10:1 > 10.0.2.13:2 3000"), gsoSize: 1400,
	}})
}

// Where the kernel's tunnel device adds the outer headers, it gets plain fragments.
func TestFragmentsForTheKernelsTunnel(t *testing.T) {
	to := ways()[4]
	w, taps := fragmentWorld(t, to, 1300, func(_ *Config, tables *fib.Tables) { tables.Segments[1].Tunnel.UDPChecksum = true })
	w.tables.ChecksumDevices = map[uint16]int{4789: w.dev["p1"].Index} // stands for that device
	w.apply(t)
	for _, c := range crossingsTo("green", to) {
		c.at, c.into = "p1", ""
		for _, n := range []int{c.mtu + 1, 4000} {
			c.packet = c.packet.datagram(n - ipv4Len)
			w.cross(t, taps, c)
		}
	}
}

// crossingsTo are the cases whose packets leave by the tunnels of a segment.
func crossingsTo(segment string, to way) (list []fragmentCase) {
	for _, c := range fragmentCases(to, 1300) {
		if c.into == segment {
			list = append(list, c)
		}
	}
	return list
}

package offload

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/internal/overlay"
)

// shape is a kind of frame, each of which takes another way through a kernel or adapter.
type shape struct {
	six, udp bool
	large    bool // is cut on its way
}

// shapes are what a mode must get right. Timed is the first.
var shapes = []shape{
	{large: true}, {six: true, large: true}, {}, {six: true}, {udp: true}, {six: true, udp: true},
}

const (
	etherHeader, vxlanHeader, udpHeader, tcpHeader = 14, 8, 8, 20
	ipv4Header, ipv6Header                         = 20, 40
	// vnetHeader is struct virtio_net_hdr of linux/virtio_net.h.
	vnetHeader = 10
	needsSum   = 1
	gsoTCP4    = 1
	gsoTCP6    = 4
	// largest keeps an IPv4 packet around an inner one in 64 kB.
	largest = 64000
	// maxUnits bounds a burst, and so what a responder remembers of one.
	maxUnits = 1 << 16
	// discard is the port of RFC 863.
	discard = 9
	// stampBytes at the begin of a UDP payload are what TCP has fields for: unit and burst.
	stampBytes = 8
	flagACK    = 0x10
)

var (
	// Addresses of networks for benchmarks (RFC 2544, RFC 5180): they are of no host.
	from4, to4 = netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.2")
	from6, to6 = netip.MustParseAddr("2001:2::1"), netip.MustParseAddr("2001:2::2")
	fromMAC    = overlay.MAC{2, 0x53, 0x76, 0x4f, 0x70, 1}
	toMAC      = overlay.MAC{2, 0x53, 0x76, 0x4f, 0x70, 2}
	// ProbeMAC is the destination of the frames of all probes.
	ProbeMAC = toMAC
)

// unitFor is the payload of a packet, so that it fits an underlay of mtu bytes whatever its shape.
func unitFor(mtu int, underlay6 bool) int {
	outer := ipv4Header
	if underlay6 {
		outer = ipv6Header
	}
	unit := mtu - outer - udpHeader - vxlanHeader - etherHeader - ipv6Header - tcpHeader
	return min(unit, largest/2)
}

// pattern is the payload of a session's frames: unit n is at n*unit bytes, around.
type pattern struct {
	bytes []byte
	unit  int
}

// patternUnits is after how many units a pattern comes again.
const patternUnits = 64

func newPattern(seed uint64, unit int) pattern {
	p := pattern{make([]byte, (patternUnits+largest/unit+1)*unit), unit}
	r := rand.New(rand.NewPCG(seed, seed))
	period := p.bytes[:patternUnits*unit]
	for i := range period {
		period[i] = byte(r.Uint32())
	}
	for done := len(period); done < len(p.bytes); done += len(period) {
		copy(p.bytes[done:], period)
	}
	return p
}

// of is the payload of n units from the first one on.
func (p pattern) of(first uint32, n int) []byte {
	at := int(first) % patternUnits * p.unit
	return p.bytes[at : at+n*p.unit]
}

// units is how many a frame of the shape has.
func (p pattern) units(s shape) int {
	if !s.large {
		return 1
	}
	return max(2, largest/p.unit)
}

// frame is the frame with the units from first on, behind its virtio_net_hdr, whose
// checksum is still to be filled in. It may overwrite what it returned before.
func (p pattern) frame(buffer []byte, s shape, burst, first uint32) []byte {
	l4, ip := tcpHeader, ipv4Header
	if s.udp {
		l4 = udpHeader
	}
	if s.six {
		ip = ipv6Header
	}
	n := p.units(s)
	payload := p.of(first, n)
	b := buffer[:vnetHeader+etherHeader+ip+l4+len(payload)]
	clear(b[:vnetHeader+etherHeader+ip+l4])
	f := b[vnetHeader:]
	copy(f[etherHeader+ip+l4:], payload)
	copy(f, toMAC[:])
	copy(f[6:], fromMAC[:])
	sum := putIP(f[12:], s, len(payload)+l4)
	putL4(f[etherHeader+ip:], s, sum)
	stamp := f[etherHeader+ip+l4:]
	if !s.udp { // sequence and acknowledgement
		stamp = f[etherHeader+ip+4:]
	}
	binary.BigEndian.PutUint32(stamp, first*uint32(p.unit))
	binary.BigEndian.PutUint32(stamp[4:], burst)
	p.putVnet(b, s, etherHeader+ip, l4)
	return b
}

func (p pattern) putVnet(b []byte, s shape, start, l4 int) {
	b[0] = needsSum
	offset := 16 // of TCP's checksum
	if s.udp {
		offset = 6
	}
	if s.large {
		b[1] = gsoTCP4
		if s.six {
			b[1] = gsoTCP6
		}
		binary.NativeEndian.PutUint16(b[2:], uint16(start+l4))
		binary.NativeEndian.PutUint16(b[4:], uint16(p.unit))
	}
	binary.NativeEndian.PutUint16(b[6:], uint16(start))
	binary.NativeEndian.PutUint16(b[8:], uint16(offset))
}

// putIP writes ethertype and IP header, and returns the sum of the pseudo-header.
func putIP(b []byte, s shape, length int) uint32 {
	proto := byte(unix.IPPROTO_TCP)
	if s.udp {
		proto = unix.IPPROTO_UDP
	}
	if s.six {
		binary.BigEndian.PutUint16(b, unix.ETH_P_IPV6)
		ip := b[2:]
		ip[0], ip[6], ip[7] = 6<<4, proto, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(length))
		copy(ip[8:], from6.AsSlice())
		copy(ip[24:], to6.AsSlice())
		return checksum.Add(uint32(length)+uint32(proto), ip[8:40])
	}
	binary.BigEndian.PutUint16(b, unix.ETH_P_IP)
	ip := b[2:]
	ip[0], ip[6], ip[8], ip[9] = 4<<4|ipv4Header/4, 0x40, 64, proto // don't fragment
	binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Header+length))
	copy(ip[12:], from4.AsSlice())
	copy(ip[16:], to4.AsSlice())
	binary.BigEndian.PutUint16(ip[10:], checksum.Of(ip[:ipv4Header]))
	return checksum.Add(uint32(length)+uint32(proto), ip[12:20])
}

// putL4 writes a header with the pseudo-header's sum, which whoever fills the checksum in
// expects.
func putL4(b []byte, s shape, sum uint32) {
	binary.BigEndian.PutUint16(b, discard)
	binary.BigEndian.PutUint16(b[2:], discard)
	if s.udp {
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[6:], checksum.Fold(sum))
		return
	}
	b[12], b[13] = tcpHeader/4<<4, flagACK
	binary.BigEndian.PutUint16(b[14:], 0xffff)
	binary.BigEndian.PutUint16(b[16:], checksum.Fold(sum))
}

// check compares a frame that came out of a tunnel with what was sent. sums says that its
// checksums are filled in and shall be right.
func (p pattern) check(frame []byte, sums bool) (u units, ok bool) {
	macs := append(toMAC[:], fromMAC[:]...)
	if len(frame) < etherHeader || !bytes.HasPrefix(frame, macs) {
		return u, false
	}
	proto, l4, pseudo, ok := checkIP(frame[12:])
	if !ok {
		return u, false
	}
	header := tcpHeader
	if proto == unix.IPPROTO_UDP {
		header = udpHeader
	}
	n := (len(l4) - header) / p.unit
	if n < 1 || n*p.unit != len(l4)-header || n > largest/p.unit+1 {
		return u, false
	}
	if sums && checksum.Fold(checksum.Add(pseudo, l4)) != 0xffff {
		return u, false
	}
	stamp, payload, skip := l4[4:], l4[header:], 0
	if proto == unix.IPPROTO_UDP {
		stamp, skip = payload, stampBytes
		ok = binary.BigEndian.Uint16(l4[4:]) == uint16(len(l4))
	} else {
		ok = l4[12] == tcpHeader/4<<4 && l4[13] == flagACK
	}
	offset := binary.BigEndian.Uint32(stamp)
	u = units{burst: binary.BigEndian.Uint32(stamp[4:]), first: offset / uint32(p.unit), n: uint32(n)}
	return u, ok && offset%uint32(p.unit) == 0 && binary.BigEndian.Uint32(l4) == discard<<16|discard &&
		bytes.Equal(payload[skip:], p.of(u.first, n)[skip:])
}

// units are what a frame carries: n of a burst, from the first on.
type units struct{ burst, first, n uint32 }

// checkIP compares ethertype and IP header. It returns the protocol, what is behind the
// header, and the sum of the pseudo-header.
func checkIP(b []byte) (proto byte, l4 []byte, pseudo uint32, ok bool) {
	ethertype := binary.BigEndian.Uint16(b)
	six := ethertype == unix.ETH_P_IPV6
	ip, header := b[2:], ipv4Header
	if six {
		header = ipv6Header
	}
	if len(ip) < header+tcpHeader || !six && ethertype != unix.ETH_P_IP {
		return 0, nil, 0, false
	}
	l4 = ip[header:]
	var length int
	if six {
		proto, pseudo = ip[6], checksum.Add(uint32(len(l4)), ip[8:40])
		length = header + int(binary.BigEndian.Uint16(ip[4:]))
		ok = binary.BigEndian.Uint32(ip) == 6<<28 && ip[7] == 64 && bytes.Equal(ip[8:40], append(from6.AsSlice(), to6.AsSlice()...))
	} else {
		proto, pseudo = ip[9], checksum.Add(uint32(len(l4)), ip[12:20])
		length = int(binary.BigEndian.Uint16(ip[2:]))
		ok = ip[0] == 4<<4|ipv4Header/4 && checksum.Of(ip[:ipv4Header]) == 0 &&
			bytes.Equal(ip[12:20], append(from4.AsSlice(), to4.AsSlice()...))
	}
	ok = ok && length == len(ip)
	return proto, l4, pseudo + uint32(proto), ok && (proto == unix.IPPROTO_TCP || proto == unix.IPPROTO_UDP)
}

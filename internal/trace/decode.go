package trace

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// Tunnels says which encapsulation arrives at a UDP port, "" for none.
type Tunnels func(udpPort uint16) overlay.Encapsulation

// Describe is a frame in words, one line for each header of a tunnel and one for
// the packet inside, the outermost first. tunnels may be nil.
func Describe(frame []byte, tunnels Tunnels) []string {
	f, ok := parse(frame)
	if !ok {
		return []string{Summary(frame)}
	}
	kind, payload := f.tunnel(tunnels)
	if kind == "" {
		return []string{Summary(frame)}
	}
	lines := []string{f.ethernet(), f.network()}
	if kind != overlay.NVGRE {
		lines = append(lines, fmt.Sprintf("UDP %d > %d, %d bytes, %s", f.srcPort(), f.dstPort(), len(f.transport), f.udpChecksum()))
	}
	header, inner := tunnelHeader(kind, payload)
	return append(lines, header, "inside: "+Summary(inner))
}

// Summary is a frame in one line.
func Summary(frame []byte) string {
	f, ok := parse(frame)
	if !ok {
		return fmt.Sprintf("%d bytes that are not a frame", len(frame))
	}
	return f.ethernet() + ": " + f.packet()
}

// Source is who sent a frame: an IP address, or else a MAC address; "" of what is no frame.
func Source(frame []byte) string {
	f, ok := parse(frame)
	switch {
	case !ok:
		return ""
	case f.ip:
		return f.addrs[0].String()
	case f.etherType == typeARP && len(f.payload) >= arpLen:
		return netip.AddrFrom4([4]byte(f.payload[14:18])).String()
	}
	return f.src.String()
}

// Addrs are source and destination of a frame's packet, of the outermost one where it is in a tunnel; invalid of what is not IP.
func Addrs(frame []byte) (src, dst netip.Addr) {
	f, _ := parse(frame)
	return f.addrs[0], f.addrs[1]
}

// frame is what parse found; slices end where the frame or the packet does.
type frame struct {
	dst, src  overlay.MAC
	tags      []string
	etherType uint16
	payload   []byte // behind the ethertype

	// Of IP:
	ip        bool
	addrs     [2]netip.Addr // source and destination
	length    int           // of the packet, as its header says
	ttl, tos  uint8
	proto     uint8
	df        bool
	fragment  string // "" of a whole packet
	transport []byte
}

func parse(b []byte) (f frame, ok bool) {
	if len(b) < etherLen {
		return f, false
	}
	f.dst, f.src = overlay.MAC(b[:6]), overlay.MAC(b[6:12])
	f.etherType, f.payload = binary.BigEndian.Uint16(b[12:]), b[etherLen:]
	for (f.etherType == typeTag || f.etherType == typeQinQ) && len(f.payload) >= tagLen {
		tag := binary.BigEndian.Uint16(f.payload)
		f.tags = append(f.tags, fmt.Sprintf("VLAN %d", tag&0xfff))
		f.etherType, f.payload = binary.BigEndian.Uint16(f.payload[2:]), f.payload[tagLen:]
	}
	switch {
	case f.etherType == typeIPv4 && len(f.payload) >= ipv4Len && f.payload[0]>>4 == 4:
		f.parseIPv4(f.payload)
	case f.etherType == typeIPv6 && len(f.payload) >= ipv6Len && f.payload[0]>>4 == 6:
		f.parseIPv6(f.payload)
	}
	return f, true
}

func (f *frame) parseIPv4(h []byte) {
	header := int(h[0]&0xf) * 4
	f.length = int(binary.BigEndian.Uint16(h[2:]))
	if header < ipv4Len || header > len(h) || f.length < header {
		return
	}
	f.ip, f.tos, f.ttl, f.proto = true, h[1], h[8], h[9]
	f.addrs = [2]netip.Addr{netip.AddrFrom4([4]byte(h[12:16])), netip.AddrFrom4([4]byte(h[16:20]))}
	field := binary.BigEndian.Uint16(h[6:])
	f.df = field&0x4000 != 0
	f.transport = h[header:min(f.length, len(h))]
	f.cut(int(field&0x1fff)*8, field&0x2000 != 0)
}

func (f *frame) parseIPv6(h []byte) {
	f.length = ipv6Len + int(binary.BigEndian.Uint16(h[4:]))
	f.ip, f.tos, f.ttl, f.proto = true, h[0]<<4|h[1]>>4, h[7], h[6]
	f.addrs = [2]netip.Addr{netip.AddrFrom16([16]byte(h[8:24])), netip.AddrFrom16([16]byte(h[24:40]))}
	f.transport = h[ipv6Len:min(f.length, len(h))]
	if f.proto == protoFragment && len(f.transport) >= fragmentLen {
		field := binary.BigEndian.Uint16(f.transport[2:])
		f.proto, f.transport = f.transport[0], f.transport[fragmentLen:]
		f.cut(int(field&^7), field&1 != 0)
	}
}

// cut notes that the packet is a fragment; only the first has a transport header.
func (f *frame) cut(offset int, more bool) {
	if offset == 0 && !more {
		return
	}
	f.fragment = fmt.Sprintf("fragment at %d", offset)
	if offset > 0 {
		f.transport = nil
	}
}

func (f *frame) ethernet() string {
	return strings.Join(append([]string{fmt.Sprintf("%s > %s", f.src, f.dst)}, f.tags...), ", ")
}

func (f *frame) srcPort() uint16 { return binary.BigEndian.Uint16(f.transport) }
func (f *frame) dstPort() uint16 { return binary.BigEndian.Uint16(f.transport[2:]) }

func (f *frame) udpChecksum() string {
	if binary.BigEndian.Uint16(f.transport[6:]) == 0 {
		return "no checksum"
	}
	return "with checksum"
}

// network is the outer IP header (RFC 2474 and 3168 for the traffic class).
func (f *frame) network() string {
	version := "IPv6"
	if f.addrs[0].Is4() {
		version = "IPv4"
	}
	line := fmt.Sprintf("%s %s > %s, %d bytes, DSCP %d, ECN %d, TTL %d", version, f.addrs[0], f.addrs[1], f.length, f.tos>>2, f.tos&3, f.ttl)
	if f.df {
		line += ", DF"
	}
	if f.fragment != "" {
		line += ", " + f.fragment
	}
	return line
}

// tunnel returns the encapsulation of an IP packet and what is behind its UDP
// or IP header.
func (f *frame) tunnel(tunnels Tunnels) (overlay.Encapsulation, []byte) {
	switch {
	case !f.ip || f.fragment != "":
	case f.proto == protoGRE && len(f.transport) >= 8 && f.transport[0] == 0x20 && binary.BigEndian.Uint16(f.transport[2:]) == typeTEB:
		return overlay.NVGRE, f.transport
	case f.proto == protoUDP && tunnels != nil && len(f.transport) >= udpLen+8:
		return tunnels(f.dstPort()), f.transport[udpLen:]
	}
	return "", nil
}

// tunnelHeader describes the header at the beginning of b, of at least 8 bytes,
// and returns the frame behind it.
func tunnelHeader(kind overlay.Encapsulation, b []byte) (line string, inner []byte) {
	id := binary.BigEndian.Uint32(b[4:])
	switch kind {
	case overlay.NVGRE: // RFC 7637 section 3.2
		return fmt.Sprintf("NVGRE VSID %d, FlowID %d", id>>8, id&0xff), b[8:]
	case overlay.Geneve: // RFC 8926 section 3.4
		size := int(b[0]&0x3f) * 4
		if len(b) < 8+size {
			return fmt.Sprintf("Geneve VNI %d, options cut short", id>>8), nil
		}
		line = fmt.Sprintf("Geneve VNI %d", id>>8)
		if size > 0 {
			line += ", options " + hex.EncodeToString(b[8:8+size])
		}
		return line, b[8+size:]
	}
	return fmt.Sprintf("VXLAN VNI %d", id>>8), b[8:] // RFC 7348 section 5
}

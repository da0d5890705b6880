package gen

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	etherTypeIPv4, etherTypeIPv6, etherTypeEthernet = 0x0800, 0x86dd, 0x6558
	protoUDP, protoGRE                              = 17, 47
	hopLimit                                        = 64
	maxGeneveOptions                                = 60
)

// places are where the kernel program fills in what differs; 0 is nowhere.
type places struct{ header, ip, outerUDP, outerSum, flowID int }

// tagLen is the length of a VLAN tag (IEEE 802.1Q).
const tagLen = 4

// tagLen is what the port's tag adds to a frame.
func (p Port) tagLen() int {
	if p.VLAN == 0 {
		return 0
	}
	return tagLen
}

// placesOf are the places in frames of the port, whose inner headers are of that length.
func (p Port) placesOf(headers int) places {
	at, tag := p.Tunnel.placesOf(headers), p.tagLen()
	for _, place := range []*int{&at.header, &at.ip, &at.outerUDP, &at.outerSum, &at.flowID} {
		if *place > 0 {
			*place += tag
		}
	}
	return at
}

// portLen is the length without FCS of a frame of the port.
func (s Stream) portLen(frame int, p Port) int { return s.wireLen(frame, p.Tunnel) + p.tagLen() }

// headerLen is what the tunnel adds to a frame; none adds nothing.
func (t *Tunnel) headerLen() int {
	if t == nil {
		return 0
	}
	return t.placesOf(0).ip - 14
}

// placesOf are the places where the inner headers are of that length.
func (t *Tunnel) placesOf(headers int) places {
	if t == nil {
		return places{header: headers, ip: 14}
	}
	at := 14 + 20
	if t.Remote.Is6() {
		at = 14 + 40
	}
	var p places
	switch t.Encapsulation {
	case overlay.NVGRE:
		p.flowID = at + 7
		at += 8
	default:
		p.outerUDP = at
		if t.Remote.Is6() {
			p.outerSum = at + 6
		}
		at += 16 + len(t.Options)
	}
	p.ip = at + 14
	p.header = at + headers
	return p
}

// Check says what is wrong with a Tunnel; nil is good.
func (t *Tunnel) Check() error {
	if t == nil {
		return nil
	}
	switch {
	case !t.Local.IsValid() || !t.Remote.IsValid() || t.Local.Is4() != t.Remote.Is4() || t.Local.Is4In6() || t.Remote.Is4In6():
		return fmt.Errorf("tunnel from %s to %s: the TEPs are not two addresses of one IP version", t.Local, t.Remote)
	case t.VNI > 1<<24-1:
		return fmt.Errorf("tunnel to %s: VNI %d has more than 24 bits", t.Remote, t.VNI)
	case len(t.Options) > 0 && t.Encapsulation != overlay.Geneve:
		return fmt.Errorf("tunnel to %s: %s has no options", t.Remote, t.Encapsulation)
	case len(t.Options)%4 != 0 || len(t.Options) > maxGeneveOptions:
		return fmt.Errorf("tunnel to %s: options of %d bytes are not a multiple of 4 up to %d", t.Remote, len(t.Options), maxGeneveOptions)
	}
	switch t.Encapsulation {
	case overlay.VXLAN, overlay.Geneve, overlay.NVGRE:
	default:
		return fmt.Errorf("tunnel to %s: %q is not an encapsulation", t.Remote, t.Encapsulation)
	}
	return checkMACs(t.SrcMAC, t.DstMAC, "inside the tunnel to "+t.Remote.String())
}

func checkMACs(src, dst net.HardwareAddr, where string) error {
	if len(src) != 6 || len(dst) != 6 {
		return fmt.Errorf("MAC addresses %q and %q %s: both are needed", src, dst, where)
	}
	return nil
}

// packetTemplate is the headers of a frame of that size to a port, with 0 for all that
// differs between packets.
func (s Stream) packetTemplate(p Port, frame int) genPacketTemplate {
	t := s.untagged(p, frame)
	if p.VLAN != 0 {
		const macs = 12
		header := t.Header
		binary.BigEndian.PutUint32(t.Header[macs:], 0x8100<<16|uint32(p.VLAN))
		copy(t.Header[macs+tagLen:], header[macs:])
		t.Len += tagLen
	}
	return t
}

func (s Stream) untagged(p Port, frame int) genPacketTemplate {
	t := genPacketTemplate{Len: uint32(s.wireLen(frame, p.Tunnel))}
	ip, udp := s.innerPacket(frame - FCS - 14)
	packet := append(ip, udp...)
	pseudo := s.innerPseudo(len(packet) - len(ip))
	t.IpSum = sum(ip)
	t.UdpSum = sum(pseudo) + sum(udp)
	if p.Tunnel == nil {
		copy(t.Header[:], append(ethernet(p.SrcMAC, p.DstMAC, s.etherType()), packet...)[:s.headers()])
		return t
	}
	inner := ethernet(p.Tunnel.SrcMAC, p.Tunnel.DstMAC, s.etherType())
	outer, before := p.Tunnel.outer(frame - FCS)
	t.OuterSum = before + sum(inner)
	if s.Family == 4 {
		t.OuterSum += sum(udp) // a right header adds up to 0
	} else {
		// A right datagram adds up to what its pseudo header lacks, of which the
		// addresses are in the header again.
		t.OuterSum += sum(ip[:8]) + 0xffff*2 - sum(s.innerPseudo(len(udp))[32:])
	}
	header := append(append(ethernet(p.SrcMAC, p.DstMAC, p.Tunnel.etherType()), outer...), inner...)
	copy(t.Header[:], append(header, packet...)[:len(header)+s.headers()-14])
	return t
}

func (s Stream) etherType() uint16 {
	if s.Family == 6 {
		return etherTypeIPv6
	}
	return etherTypeIPv4
}

func ethernet(src, dst net.HardwareAddr, kind uint16) []byte {
	b := append(append(make([]byte, 0, 256), dst...), src...)
	return binary.BigEndian.AppendUint16(b, kind)
}

// innerPacket is the IP header and the datagram of a packet, whose payload is 0.
func (s Stream) innerPacket(length int) (ip, udp []byte) {
	from, to := s.From.Addr(), s.To.Addr()
	headers := s.headers() - 14
	udp = make([]byte, length-headers+8)
	binary.BigEndian.PutUint16(udp[2:], udpEcho)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	ip = ipHeader(withoutHost(from), withoutHost(to), protoUDP, len(udp))
	return ip, udp
}

// innerPseudo is the pseudo header of a datagram (RFC 8200 section 8.1).
func (s Stream) innerPseudo(length int) []byte {
	return pseudo(withoutHost(s.From.Addr()), withoutHost(s.To.Addr()), length)
}

// withoutHost is the address with 0 for the part that the kernel program writes:
// all of IPv4, the last 4 bytes of IPv6.
func withoutHost(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	b := a.As16()
	clear(b[12:])
	return netip.AddrFrom16(b)
}

// host is the part of the first host's address that withoutHost leaves out.
func host(network netip.Prefix) uint32 {
	b := network.Addr().AsSlice()
	return binary.BigEndian.Uint32(b[len(b)-4:]) + firstHost
}

// ipHeader has no checksum.
func ipHeader(from, to netip.Addr, proto uint8, payload int) []byte {
	if from.Is6() {
		b := []byte{0x60, 0, 0, 0, byte(payload >> 8), byte(payload), proto, hopLimit}
		return append(append(b, from.AsSlice()...), to.AsSlice()...)
	}
	b := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, hopLimit, proto, 0, 0} // don't fragment
	binary.BigEndian.PutUint16(b[2:], uint16(20+payload))
	return append(append(b, from.AsSlice()...), to.AsSlice()...)
}

func pseudo(from, to netip.Addr, length int) []byte {
	b := append(append([]byte{}, from.AsSlice()...), to.AsSlice()...)
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return binary.BigEndian.AppendUint32(b, protoUDP)
}

func (t *Tunnel) etherType() uint16 {
	if t.Remote.Is6() {
		return etherTypeIPv6
	}
	return etherTypeIPv4
}

// outer is IP and tunnel header around an inner frame of that length, and the sum
// of what its UDP checksum covers.
func (t *Tunnel) outer(length int) (header []byte, before uint64) {
	tunnel := t.header()
	proto, udp := uint8(protoGRE), []byte(nil)
	if t.Encapsulation != overlay.NVGRE {
		port := t.UDPPort
		setDefault(&port, t.Encapsulation.DefaultUDPPort())
		proto, udp = protoUDP, make([]byte, 8)
		binary.BigEndian.PutUint16(udp[2:], port)
		binary.BigEndian.PutUint16(udp[4:], uint16(8+len(tunnel)+length))
		before = sum(pseudo(t.Local, t.Remote, 8+len(tunnel)+length)) + sum(udp) + sum(tunnel)
	}
	ip := ipHeader(t.Local, t.Remote, proto, len(udp)+len(tunnel)+length)
	if t.Local.Is4() {
		binary.NativeEndian.PutUint16(ip[10:], ^fold(sum(ip)))
	}
	return append(append(ip, udp...), tunnel...), before
}

// header is the encapsulation's own.
func (t *Tunnel) header() []byte {
	vni := uint32(t.VNI) << 8
	switch t.Encapsulation {
	case overlay.NVGRE: // RFC 7637 section 3.2
		return binary.BigEndian.AppendUint32([]byte{0x20, 0, 0x65, 0x58}, vni)
	case overlay.Geneve: // RFC 8926 section 3.4
		flags := byte(0)
		if hasCritical(t.Options) {
			flags = 0x40
		}
		b := binary.BigEndian.AppendUint16([]byte{byte(len(t.Options) / 4), flags}, etherTypeEthernet)
		return append(binary.BigEndian.AppendUint32(b, vni), t.Options...)
	default: // RFC 7348 section 5
		return binary.BigEndian.AppendUint32([]byte{0x08, 0, 0, 0}, vni)
	}
}

// hasCritical reports whether one of the options has the C bit (RFC 8926 section 3.5).
func hasCritical(options []byte) bool {
	for len(options) >= 4 {
		if options[2]&0x80 != 0 {
			return true
		}
		options = options[min(len(options), 4+int(options[3]&0x1f)*4):]
	}
	return false
}

// sum adds up 16 bit words as this machine reads them: a checksum is the same in
// either byte order (RFC 1071 section 2).
func sum(b []byte) uint64 {
	total := uint64(0)
	for ; len(b) >= 2; b = b[2:] {
		total += uint64(binary.NativeEndian.Uint16(b))
	}
	if len(b) == 1 {
		total += uint64(binary.NativeEndian.Uint16([]byte{b[0], 0}))
	}
	return total
}

func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

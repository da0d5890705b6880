package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// requesterMAC asks hosts of segments that have no gateway.
var requesterMAC = overlay.MAC{0x02, 's', 'e', 'l', 'v', 'g'}

// SolicitHost asks a host at a port whether it is there: for each of its addresses by an ARP request
// or neighbour solicitation to its MAC address. What it answers is learned as ever. It must
// be called in the edge's network namespace.
func (ev *HostEvents) SolicitHost(segment, port string, mac overlay.MAC, addrs []netip.Addr) error {
	id, ok := ev.numbers.names.segIDs[segment]
	if !ok {
		return fmt.Errorf("ask %s: there is no segment %q", mac, segment)
	}
	vport, ok := ev.numbers.names.portIDs[port]
	if !ok || len(addrs) == 0 {
		return nil // the port went meanwhile
	}
	var errs []error
	for _, addr := range addrs {
		frame := withVLAN(ev.question(id, mac, addr), ev.numbers.vports[vport].Vlan)
		if err := ev.send(int(ev.numbers.vports[vport].Ifindex), frame); err != nil {
			errs = append(errs, fmt.Errorf("ask %s at %s for %s: %w", mac, port, addr, err))
		}
	}
	return errors.Join(errs...)
}

// question is a request for an address, from the gateway where there is one: in ARP else
// from nobody (RFC 5227 section 2.1.1), in ND from a link-local address.
func (ev *HostEvents) question(segment uint32, mac overlay.MAC, addr netip.Addr) []byte {
	seg := &ev.numbers.segments[segment]
	if addr.Is4() {
		from := netip.IPv4Unspecified()
		if seg.Gateway4.W != [4]uint32{} {
			from = addrOf(seg.Gateway4.W)
		}
		b := append(ethernet(mac[:], seg.GatewayMac, etherTypeARP), 0, 1, 8, 0, 6, 4, 0, arpRequest)
		b = append(append(b, seg.GatewayMac[:]...), from.AsSlice()...)
		b = append(append(b, make([]byte, len(mac))...), addr.AsSlice()...)
		return append(b, make([]byte, 60-len(b))...)
	}
	from := linkLocal(seg.GatewayMac)
	if seg.Gateway6.W != [4]uint32{} && !addr.IsLinkLocalUnicast() {
		from = addrOf(seg.Gateway6.W)
	}
	return solicitation(seg.GatewayMac, mac, from, addr)
}

// linkLocal is the address that is made from a MAC address (RFC 4291 appendix A).
func linkLocal(m overlay.MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// solicitation asks a host for its address (RFC 4861 section 4.3).
func solicitation(from, to overlay.MAC, source, target netip.Addr) []byte {
	message := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, target.AsSlice()...)
	message = append(append(message, 1, 1), from[:]...)
	return ndFrame(net.HardwareAddr(to[:]), from, source, target, message)
}

// ndFrame is a frame with a message of neighbour discovery.
func ndFrame(to net.HardwareAddr, from overlay.MAC, source, dest netip.Addr, message []byte) []byte {
	pseudo := append(append(source.AsSlice(), dest.AsSlice()...), 0, 0, 0, byte(len(message)), 0, 0, 0, protoICMPv6)
	binary.BigEndian.PutUint16(message[2:], ^onesSum(append(pseudo, message...)))
	b := ethernet(to, from, etherTypeIPv6)
	b = append(b, 0x60, 0, 0, 0, 0, byte(len(message)), protoICMPv6, ndTTL)
	return append(append(append(b, source.AsSlice()...), dest.AsSlice()...), message...)
}

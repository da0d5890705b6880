package datapath

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
)

// Move is a host that came to a port.
type Move struct {
	Segment, Port string
	MAC           overlay.MAC
	WasRemote     bool // it was behind a remote; otherwise it was not known
}

// Announce tells all members of the segment where the host is now, in its own
// words: a gratuitous ARP request (RFC 5227 section 3) or an unsolicited neighbour
// advertisement (RFC 4861 section 7.2.6) for each of its addresses, or RARP, as
// hypervisors do, for one that was elsewhere and whose addresses are not known. It must be called in the
// edge's network namespace.
func (d *Datapath) Announce(m Move) error {
	id, ok := d.names.portIDs[m.Port]
	if !ok {
		return nil // the port went meanwhile
	}
	frames, err := d.announcements(m)
	if err != nil {
		return err
	}
	for _, frame := range frames {
		frame = withVLAN(frame, d.vports[id].Vlan)
		opts := &ebpf.RunOptions{Data: frame, Context: traceContext{Ifindex: d.vports[id].Ifindex}}
		if _, err := d.objs.FromPort.Run(opts); err != nil {
			return fmt.Errorf("announce %s in segment %s: %w", m.MAC, m.Segment, err)
		}
	}
	return nil
}

func (d *Datapath) announcements(m Move) (frames [][]byte, err error) {
	segment := d.names.segIDs[m.Segment]
	err = walk(d.objs.Neighbours, func(k bpfNeighbourKey, n bpfNeighbour) {
		if k.Segment == segment && n.Mac == m.MAC {
			frames = append(frames, announcement(m.MAC, addrOf(k.Addr.W), advertisedFlags(n.Flags)))
		}
	})
	if len(frames) == 0 && m.WasRemote {
		frames = append(frames, arpFrame(m.MAC, etherTypeRARP, rarpRequest, netip.IPv4Unspecified(), m.MAC))
	}
	return frames, err
}

const (
	etherTypeARP  = 0x0806
	etherTypeRARP = 0x8035
	arpRequest    = 1
	rarpRequest   = 3
	ndTTL         = 255
	protoICMPv6   = 58
)

func announcement(mac overlay.MAC, addr netip.Addr, flags byte) []byte {
	if addr.Is4() {
		return arpFrame(mac, etherTypeARP, arpRequest, addr, overlay.MAC{})
	}
	return advertisement(mac, addr, flags)
}

// advertisedFlags are those that a host's own advertisements have: without the router flag
// others would forget their route by it (RFC 4861 section 7.2.5).
func advertisedFlags(f bpfNeighbourFlags) (flags byte) {
	if f&bpfNeighbourFlagsNEIGHBOUR_ROUTER != 0 {
		flags |= advertisedRouter
	}
	if f&bpfNeighbourFlagsNEIGHBOUR_NO_OVERRIDE == 0 {
		flags |= advertisedOverride
	}
	return flags
}

// arpFrame is a broadcast with sender and target address addr.
func arpFrame(mac overlay.MAC, etherType, op uint16, addr netip.Addr, target overlay.MAC) []byte {
	b := ethernet(net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, etherType)
	b = append(b, 0, 1, 8, 0, 6, 4, byte(op>>8), byte(op))
	b = append(append(b, mac[:]...), addr.AsSlice()...)
	b = append(append(b, target[:]...), addr.AsSlice()...)
	return append(b, make([]byte, 60-len(b))...)
}

// Flags of an advertisement (RFC 4861 section 4.4).
const (
	advertisedRouter   = 0x80
	advertisedOverride = 0x20
)

// advertisement is an unsolicited one to all nodes.
func advertisement(mac overlay.MAC, addr netip.Addr, flags byte) []byte {
	all := netip.MustParseAddr("ff02::1")
	message := append([]byte{136, 0, 0, 0, flags, 0, 0, 0}, addr.AsSlice()...)
	message = append(append(message, 2, 1), mac[:]...)
	return ndFrame(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, mac, addr, all, message)
}

func ethernet(to net.HardwareAddr, from overlay.MAC, etherType uint16) []byte {
	b := append(append([]byte{}, to...), from[:]...)
	return append(b, byte(etherType>>8), byte(etherType))
}

// withVLAN is the frame as it comes from a VLAN of a trunk.
func withVLAN(frame []byte, vlan uint16) []byte {
	if vlan == 0 {
		return frame
	}
	b := append([]byte{}, frame[:12]...)
	return append(append(b, 0x81, 0, byte(vlan>>8), byte(vlan)), frame[12:]...)
}

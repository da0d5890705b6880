package datapath

import (
	"errors"
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

// Announce tells all members of the segments where hosts are now, in their own
// words: a gratuitous ARP request (RFC 5227 section 3) or an unsolicited neighbour
// advertisement (RFC 4861 section 7.2.6) for each of its addresses, or RARP, as
// hypervisors do, for one that was elsewhere and whose addresses are not known. It must be called in the
// edge's network namespace. It looks at each neighbour once, however many hosts there are.
//
// A host that has gone on since is left out: to announce it would take it back, which is a move again, until it is frozen.
func (ev *HostEvents) Announce(list []Move) error {
	addrs, err := ev.addressesOf(list)
	errs := []error{err}
	for _, m := range list {
		id, ok := ev.numbers.names.portIDs[m.Port]
		if !ok { // it went meanwhile
			continue
		}
		host := bpfFdbKey{Segment: ev.numbers.names.segIDs[m.Segment], Mac: m.MAC}
		elsewhere, err := ev.isElsewhere(host, id)
		if errs = append(errs, err); !elsewhere {
			errs = append(errs, ev.announce(m, id, addrs[host]))
		}
	}
	return errors.Join(errs...)
}

// isElsewhere reports whether the FDB has a host at another place than a port.
func (ev *HostEvents) isElsewhere(host bpfFdbKey, port uint32) (bool, error) {
	var e bpfFdbEntry
	if err := ev.hosts.maps.Fdb.Lookup(host, &e); err != nil {
		return false, ignoreMissing(err)
	}
	return e.Vport != port, nil
}

// knownAddr is an address of a host, and what its advertisements say.
type knownAddr struct {
	netip.Addr
	flags bpfNeighbourFlags
}

// addressesOf are the addresses that are known of hosts.
func (ev *HostEvents) addressesOf(list []Move) (map[bpfFdbKey][]knownAddr, error) {
	addrs := make(map[bpfFdbKey][]knownAddr, len(list))
	for _, m := range list {
		addrs[bpfFdbKey{Segment: ev.numbers.names.segIDs[m.Segment], Mac: m.MAC}] = nil
	}
	err := walk(ev.hosts.maps.Neighbours, func(k bpfNeighbourKey, n bpfNeighbour) {
		host := bpfFdbKey{Segment: k.Segment, Mac: n.Mac}
		if known, moved := addrs[host]; moved && len(known) < mostAnnounced {
			addrs[host] = append(known, knownAddr{addrOf(k.Addr.W), n.Flags})
		}
	})
	return addrs, err
}

// mostAnnounced bounds how many addresses of one host are announced at once.
const mostAnnounced = 64

// announcements are the frames about one host.
func announcements(m Move, addrs []knownAddr) [][]byte {
	frames := make([][]byte, 0, len(addrs))
	for _, a := range addrs {
		frames = append(frames, announcement(m.MAC, a.Addr, advertisedFlags(a.flags)))
	}
	if len(frames) == 0 && m.WasRemote {
		frames = append(frames, arpFrame(m.MAC, etherTypeRARP, rarpRequest, netip.IPv4Unspecified(), m.MAC))
	}
	return frames
}

// announce tells of one host.
func (ev *HostEvents) announce(m Move, id uint32, addrs []knownAddr) error {
	for _, frame := range announcements(m, addrs) {
		frame = withVLAN(frame, ev.numbers.vports[id].Vlan)
		opts := &ebpf.RunOptions{Data: frame, Context: traceContext{Ifindex: ev.numbers.vports[id].Ifindex}}
		if _, err := ev.prog.objs.FromPort.Run(opts); err != nil {
			return fmt.Errorf("announce %s in segment %s: %w", m.MAC, m.Segment, err)
		}
	}
	return nil
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

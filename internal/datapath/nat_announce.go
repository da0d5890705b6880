package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// AnnounceAddress tells the network of an uplink that this edge answers for addr now, by a
// gratuitous ARP request (RFC 5227 section 3) or an unsolicited neighbour advertisement
// (RFC 4861 section 7.2.6), once. uplink is the name of its segment. It must be called in
// the edge's network namespace.
func (d *Datapath) AnnounceAddress(uplink string, addr netip.Addr) error {
	segment, ok := d.names.segIDs[uplink]
	if !ok {
		return fmt.Errorf("announce %s: there is no uplink %q", addr, uplink)
	}
	mac := overlay.MAC(d.segments[segment].GatewayMac)
	frame := announcement(mac, addr, advertisedOverride)
	if addr.Is6() {
		frame = advertisement(mac, addr, advertisedRouter|advertisedOverride)
	}
	sent := false
	for id := range d.names.ports {
		vport := &d.vports[id]
		if vport.Segment != segment {
			continue
		}
		if err := sendFrame(int(vport.Ifindex), withVLAN(frame, vport.Vlan)); err != nil {
			return fmt.Errorf("announce %s at the uplink %s: %w", addr, uplink, err)
		}
		sent = true
	}
	if !sent {
		return fmt.Errorf("announce %s: the uplink %s has no interface now", addr, uplink)
	}
	return nil
}

// sendFrame sends a frame as it is.
func sendFrame(ifindex int, frame []byte) error {
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	to := &unix.SockaddrLinklayer{Ifindex: ifindex, Halen: uint8(len(net.HardwareAddr(frame[:6])))}
	copy(to.Addr[:], frame[:6])
	return errors.Join(unix.Sendto(socket, frame, 0, to), unix.Close(socket))
}

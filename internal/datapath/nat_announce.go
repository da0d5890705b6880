package datapath

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// AnnounceAddress tells the network of an uplink that this edge answers for addr now, by a
// gratuitous ARP request (RFC 5227 section 3) or an unsolicited neighbour advertisement
// (RFC 4861 section 7.2.6), once. uplink is the name of its segment. It must be called in
// the edge's network namespace.
func (ev *HostEvents) AnnounceAddress(uplink string, addr netip.Addr) error {
	segment, ok := ev.numbers.names.segIDs[uplink]
	if !ok {
		return fmt.Errorf("announce %s: there is no uplink %q", addr, uplink)
	}
	mac := overlay.MAC(ev.numbers.segments[segment].GatewayMac)
	sent := false
	for id := range ev.numbers.names.ports {
		vport := &ev.numbers.vports[id]
		if vport.Segment != segment {
			continue
		}
		if err := ev.send(int(vport.Ifindex), AddressAnnouncement(mac, vport.Vlan, addr, true)); err != nil {
			return fmt.Errorf("announce %s at the uplink %s: %w", addr, uplink, err)
		}
		sent = true
	}
	if !sent {
		return fmt.Errorf("announce %s: the uplink %s has no interface now", addr, uplink)
	}
	return nil
}

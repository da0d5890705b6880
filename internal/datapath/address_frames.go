package datapath

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// AddressProbe is a frame that asks a network whether a host has addr: an ARP probe, which has no sender address (RFC 5227 section 2.1.1), or a
// neighbour solicitation. That has a link-local sender, so that the answer comes to mac alone: an advertisement to all nodes, as to duplicate
// address detection, passes no filter of an interface without IPv6.
func AddressProbe(mac overlay.MAC, vlan uint16, addr netip.Addr) []byte {
	to := Solicited(addr)
	if addr.Is6() {
		return withVLAN(solicitation(mac, to, linkLocal(mac), addr), vlan)
	}
	b := append(ethernet(to[:], mac, etherTypeARP), 0, 1, 8, 0, 6, 4, 0, arpRequest)
	b = append(append(b, mac[:]...), netip.IPv4Unspecified().AsSlice()...)
	b = append(append(b, make([]byte, len(mac))...), addr.AsSlice()...)
	return withVLAN(append(b, make([]byte, 60-len(b))...), vlan)
}

// AddressAnnouncement is a frame that tells a network that addr is at mac: a gratuitous ARP request (RFC 5227 section 3) or an unsolicited
// neighbour advertisement (RFC 4861 section 7.2.6), of a router where it is one.
func AddressAnnouncement(mac overlay.MAC, vlan uint16, addr netip.Addr, router bool) []byte {
	flags := byte(advertisedOverride)
	if router {
		flags |= advertisedRouter
	}
	return withVLAN(announcement(mac, addr, flags), vlan)
}

// Solicited is the MAC address at which a host of an unknown one hears questions for its address.
func Solicited(addr netip.Addr) overlay.MAC {
	if addr.Is4() {
		return overlay.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	b := addr.As16()
	return overlay.MAC{0x33, 0x33, 0xff, b[13], b[14], b[15]} // RFC 4291 section 2.7.1, RFC 2464 section 7
}

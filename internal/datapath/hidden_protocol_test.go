package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// llc is a frame behind LLC: what stands in place of the ethertype, the LLC header, and what follows the Ethernet header, or
// the ethertype, of another frame.
func llc(length uint16, header []byte, frame []byte) []byte {
	b := binary.BigEndian.AppendUint16(slices.Clone(frame[:12]), length)
	return slices.Concat(b, header, frame[12:])
}

// Some hosts, switches and access points look behind LLC and SNAP for what the edge guards (CERT VU#855201), and strip tags of old TPIDs.
func TestProtocolsHiddenBehindLLC(t *testing.T) {
	const hidden = "hidden-protocol"
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].KeepTags = true
		tables.Ports[0].Allowed = &overlay.Allowed{
			MACs: []overlay.MAC{macOf(alice)}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.10/32")},
		}
	})
	snap, bridged := []byte{0xaa, 0xaa, 3, 0, 0, 0}, []byte{0xaa, 0xaa, 3, 0, 0, 0xf8}
	frame := func(words string) []byte { return pkttest.Frame(alice, all, words) }
	of := func(b []byte) uint16 { return uint16(len(b) - 6) }
	arp, ra := frame("arp 10.0.1.11 ! 10.0.1.10"), frame(routerAdvertisement)
	udp, tagged := frame("udp 10.0.1.11:1 > 10.0.1.12:2 40"), frame("vlan 7 udp 10.0.1.10:1 > 10.0.1.12:2 40")
	old := slices.Concat(udp[:12], []byte{0x91, 0, 0, 7}, udp[12:])
	w.offerEach(t, "blue", offers{
		{"ARP", "p0", llc(of(arp), snap, arp), hidden},
		{"router advertisement", "p0", llc(of(ra), snap, ra), hidden},
		{"UDP", "p0", llc(of(udp), snap, udp), hidden},
		{"UDP, length 0", "p0", llc(0, snap, udp), hidden},
		{"UDP, another length", "p0", llc(0x5ff, snap, udp), hidden},
		{"UDP, no UI frame", "p0", llc(of(udp), []byte{0xaa, 0xaa, 0x13, 0, 0, 0}, udp), hidden},
		{"UDP, group SAP", "p0", llc(of(udp), []byte{0xab, 0xab, 3, 0, 0, 0}, udp), hidden},
		{"UDP, 802.1H", "p0", llc(of(udp), bridged, udp), hidden},
		{"UDP, LLC of any length", "p0", llc(0x8870, snap, udp), hidden},
		{"a tag", "p0", llc(of(tagged), snap, tagged), hidden},
		{"an old tag", "p0", llc(of(old), snap, old), hidden},
		{"SAP of IP", "p0", llc(of(udp), []byte{6, 6, 3, 0x45, 0, 0}, udp), hidden},
		{"behind a tag", "p0", slices.Concat(udp[:12], []byte{0x81, 0, 0, 7}, llc(of(udp), snap, udp)[12:]), hidden},
		{"TPID 0x9100", "p0", old, hidden},
		{"of another MAC address", "p0", llc(of(udp), snap, pkttest.Frame(carol, all, "udp 10.0.1.10:1 > 10.0.1.12:2 40")), "spoofed-mac"},
		{"at a port that allows all", "p1", llc(of(udp), snap, udp), hidden},
		{"out of a tunnel", "first", llc(of(udp), snap, pkttest.Frame(bob, all, "udp 10.0.1.11:1 > 10.0.1.12:2 40")), hidden},
		// What hides nothing, or asks for a receiver that was told so.
		{"IS-IS", "p0", llc(9, []byte{0xfe, 0xfe, 3, 0x83, 0x1b, 1}, frame("raw 0 20")), ""},
		{"AppleTalk", "p0", llc(of(arp), []byte{0xaa, 0xaa, 3, 8, 0, 7}, frame("raw 0x809b 30")), ""},
		{"another type", "p0", llc(of(arp), snap, frame("raw 0x88b5 30")), ""},
		{"LLC that is cut", "p0", llc(3, []byte{0xaa, 0xaa, 3}, frame("raw 0 0")[:12]), ""},
		{"MPLS", "p0", frame("raw 0x8847 60"), ""},
		{"PPPoE session", "p0", frame("raw 0x8864 60"), ""},
	})
}

// Frames of one length have one key: what hides nothing opens no way for what does.
func TestHiddenProtocolFindsNoCachedDecision(t *testing.T) {
	w := newWorld(t, underIPv4)
	arp := pkttest.Frame(alice, all, "arp 10.0.1.11 ! 10.0.1.10")
	w.offerEach(t, "blue", offers{
		{"IS-IS", "p0", llc(36, []byte{0xfe, 0xfe, 3, 0, 0, 0}, arp), ""},
		{"ARP", "p0", llc(36, []byte{0xaa, 0xaa, 3, 0, 0, 0}, arp), "hidden-protocol"},
		{"IS-IS again", "p0", llc(36, []byte{0xfe, 0xfe, 3, 0, 0, 0}, arp), ""},
	})
}

package speaker

import (
	"net/netip"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	frrHost    = overlay.MAC{2, 0, 0, 0, 0x10, 5}
	frrRouter  = overlay.MAC{2, 0, 0, 0, 0x99, 0x99}
	frrL2      = overlay.ASTarget(65000, 10010)
	frrL3      = overlay.ASTarget(65000, 50099)
	frrSegment = overlay.AddrDistinguisher(frr4, 2)
)

func frrPrefix(prefix string) evpn.Route {
	return evpn.Route{Key: evpn.Key{Type: evpn.Prefix, RD: overlay.AddrDistinguisher(frr4, 1), Prefix: netip.MustParsePrefix(prefix)}, NextHop: frr4,
		VNI: 50099, Targets: []overlay.RouteTarget{frrL3}, Encapsulation: overlay.VXLAN, RouterMAC: frrRouter, LocalPref: 100}
}

// frrUpdates were recorded from bgpd 8.4.4 with the configuration of evpnPeer and the devices
// of evpnLearned.
var frrUpdates = map[string]struct {
	wire string
	want []evpn.Route
}{
	"prefixes": {
		"ffffffffffffffffffffffffffffffff00b5020000009e900e006900194604c00002020005220001c000020200010000000000000000000000000000180a000a000000000000c3b3053a0001c00002020001" +
			"00000000000000000000000000004020010db80000000000000000000000000000000000000000000000000000000000c3b340010100500200008004040000000040050400000064c01018030c0000" +
			"000000080002fde80000c3b30603020000009999",
		[]evpn.Route{frrPrefix("10.0.10.0/24"), frrPrefix("2001:db8::/64")},
	},
	"MAC": {
		"ffffffffffffffffffffffffffffffff008c0200000075900e004f00194604c00002020002210001c000020200020000000000000000000000000000300200000010050000271a02210001c00002020002" +
			"000000000000000000000000000030fe57e32fcb180000271a400101005002000040050400000064c01010030c0000000000080002fde80000271a",
		[]evpn.Route{
			{Key: evpn.Key{Type: evpn.MACIP, RD: frrSegment, MAC: frrHost}, NextHop: frr4, VNI: 10010,
				Targets: []overlay.RouteTarget{frrL2}, Encapsulation: overlay.VXLAN, LocalPref: 100},
			{Key: evpn.Key{Type: evpn.MACIP, RD: frrSegment, MAC: overlay.MAC{0xfe, 0x57, 0xe3, 0x2f, 0xcb, 0x18}}, NextHop: frr4, VNI: 10010,
				Targets: []overlay.RouteTarget{frrL2}, Encapsulation: overlay.VXLAN, LocalPref: 100},
		},
	},
	"MAC and address": {
		"ffffffffffffffffffffffffffffffff00800200000069900e003300194604c00002020002280001c00002020002000000000000000000000000000030020000001005200a000a0500271a00c3b3400101" +
			"005002000040050400000064c01020030c0000000000080002fde80000271a0002fde80000c3b30603020000009999",
		[]evpn.Route{{Key: evpn.Key{Type: evpn.MACIP, RD: frrSegment, MAC: frrHost, Addr: netip.MustParseAddr("10.0.10.5")}, NextHop: frr4, VNI: 10010, L3VNI: 50099,
			Targets: []overlay.RouteTarget{frrL2, frrL3}, Encapsulation: overlay.VXLAN, RouterMAC: frrRouter, LocalPref: 100}},
	},
	"multicast": {
		"ffffffffffffffffffffffffffffffff0065020000004e900e001c00194604c00002020003110001c000020200020000000020c0000202400101005002000040050400000064c01010030c000000000008" +
			"0002fde80000271ac01609000600271ac0000202",
		[]evpn.Route{{Key: evpn.Key{Type: evpn.Multicast, RD: frrSegment, Addr: frr4}, NextHop: frr4, VNI: 10010,
			Targets: []overlay.RouteTarget{frrL2}, Encapsulation: overlay.VXLAN, LocalPref: 100}},
	},
	"withdrawal": {
		"ffffffffffffffffffffffffffffffff00680200000051900f004d00194602250001c00002020002000000000000000000000000000030020000001005200a000a0500000002210001c000020200020000" +
			"0000000000000000000000003002000000100500000000",
		nil,
	},
}

package host

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestBondOf(t *testing.T) {
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: "bond0"})
	bond.Mode, bond.XmitHashPolicy, bond.LacpRate = netlink.BOND_MODE_802_3AD, netlink.BOND_XMIT_HASH_POLICY_LAYER3_4, netlink.BOND_LACP_RATE_FAST
	if diff := cmp.Diff(&Bond{Mode: "802.3ad", HashPolicy: "layer3+4", LACPRate: "fast"}, bondOf(bond)); diff != "" {
		t.Errorf("LACP (-want +got):\n%s", diff)
	}
	bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
	if b := bondOf(bond); b.Mode != "active-backup" || b.LACPRate != "" {
		t.Errorf("active-backup: %+v", b)
	}
	if b := bondOf(&netlink.Bridge{}); b != nil {
		t.Errorf("a bridge is the bond %+v", b)
	}
}

func TestRoutingProtocols(t *testing.T) {
	b := newBench(t)
	us := b.link(b.near, "us").Attrs().Index
	for net4, protocol := range map[string]int{"198.51.100.0/24": unix.RTPROT_BGP, "203.0.113.0/25": unix.RTPROT_OSPF, "203.0.113.128/25": unix.RTPROT_STATIC} {
		_, dst, err := net.ParseCIDR(net4)
		b.must(err)
		b.must(b.near.RouteAdd(&netlink.Route{LinkIndex: us, Dst: dst, Protocol: netlink.RouteProtocol(protocol)}))
	}
	s := b.survey()
	b.devices(s)
	got, err := s.RoutingProtocols()
	b.must(err)
	if diff := cmp.Diff(map[string][]string{"us": {"bgp", "ospf"}}, got); diff != "" {
		t.Errorf("protocols (-want +got):\n%s", diff)
	}
}

package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// RouteFlood has the stranger tell both hosts by EVPN of so many MAC addresses of the red segment, by
// FRR from a bridge that has them all. It returns when the sessions stand; what ends it withdraws all.
func (n *Network) RouteFlood(ctx context.Context, routes int) (stop func(context.Context) error, err error) {
	if err := n.crowd(ctx, routes); err != nil {
		return nil, err
	}
	f, err := dut.StartFRR(ctx, n.Stranger, dut.FRRConfig{BGP: bgpConfig(Stranger, 1, 2)})
	if err != nil {
		return nil, err
	}
	if err := f.AwaitSessions(ctx, topo.UnderlayAddr(1, 4), topo.UnderlayAddr(2, 4)); err != nil {
		return nil, errors.Join(err, f.Stop(ctx))
	}
	return f.Stop, nil
}

// crowd makes the stranger a bridge with so many static MAC addresses, once.
func (n *Network) crowd(ctx context.Context, routes int) error {
	h := n.Stranger
	if _, err := h.Index("crowd"); err == nil {
		return nil
	}
	if err := n.Lab.Link(ctx, topo.LinkEnd{Host: h, Name: "crowd"}, topo.LinkEnd{Host: h, Name: "crowd-end"}, 1450); err != nil {
		return err
	}
	if err := h.VXLAN(ctx, "vx-red", topo.VXLAN{VNI: VNI(0), Local: topo.UnderlayAddr(Stranger, 4), MTU: 1450, NoLearning: true}); err != nil {
		return err
	}
	if err := h.Bridge(ctx, "br-red", 1450, "crowd", "vx-red"); err != nil {
		return err
	}
	var b strings.Builder
	for i := range routes {
		fmt.Fprintf(&b, "fdb add 02:bb:00:%02x:%02x:%02x dev crowd master static\n", byte(i>>16), byte(i>>8), byte(i))
	}
	file := filepath.Join(h.Lab().Dir, "crowd")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return err
	}
	_, err := h.Output(ctx, "bridge", "-batch", file)
	return err
}

// bgpConfig is the configuration of FRR's bgpd of a speaker by its number, with neighbours by theirs.
func bgpConfig(own int, peers ...int) string {
	var b, family strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id %s\n no bgp default ipv4-unicast\n timers bgp 3 9\n", dut.AS, topo.UnderlayAddr(own, 4))
	for _, number := range peers {
		peer := topo.UnderlayAddr(number, 4)
		fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %s timers connect 1\n", peer, dut.AS, peer)
		fmt.Fprintf(&family, "  neighbor %s activate\n", peer)
	}
	return b.String() + " address-family l2vpn evpn\n" + family.String() + "  advertise-all-vni\n"
}

package proxmox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// node is a node of the cluster. This kernel has no VRF device: the zone's VRF is a network namespace, which FRR takes
// for one, so the text stays the same. What lies between a VRF and the main table in one kernel (import vrf) is not here.
type node struct {
	*topo.Host
	role
	number int
	vrf    *topo.Host
	frr    *dut.FRR
}

func (n *node) tep() netip.Addr { return topo.UnderlayAddr(n.number, 4) }

const innerMTU = 1450

// devices makes what /etc/network/interfaces.d/sdn has: a bridge with a vxlan device for each VNet and for the zone.
func (b *cluster) devices(n *node) {
	b.T.Helper()
	for _, v := range vnets {
		b.bridge(n, v.name, "vxlan_"+v.name, v.vni)
		mac, err := net.ParseMAC(zoneMAC)
		b.Must(errors.Join(err, n.vrf.SetMAC(v.name, mac), n.vrf.AddAddrs(v.name, v.gateway(4), v.gateway(6)),
			n.vrf.SysctlSet("net/ipv4/conf/"+v.name+"/arp_accept", "1"), n.vrf.SuppressNeighbours("vxlan_"+v.name)))
	}
	b.bridge(n, "vrfbr_"+zone, "vrfvx_"+zone, zoneVNI)
	b.Must(n.vrf.SysctlSet("net/ipv6/conf/vrfbr_"+zone+"/disable_ipv6", "0"))
	_, err := n.vrf.Forward()
	b.Must(err)
}

// bridge makes a bridge in the VRF, whose tunnel ends outside of it.
func (b *cluster) bridge(n *node, bridge, tunnel string, vni uint32) {
	b.T.Helper()
	b.Must(n.VXLAN(b.Ctx, tunnel, topo.VXLAN{VNI: vni, Local: n.tep(), MTU: innerMTU, NoLearning: true}))
	_, err := n.Output(b.Ctx, "ip", "link", "set", tunnel, "netns", n.vrf.Namespace)
	b.Must(err)
	b.Must(errors.Join(n.vrf.Up(tunnel), n.vrf.Bridge(b.Ctx, bridge, innerMTU, tunnel), n.vrf.SetLearning(tunnel, false)))
}

// way makes the pair of devices of exitnodes-local-routing, the address at the network outside, and SNAT.
func (b *cluster) way(n *node, wan *topo.Host) {
	b.T.Helper()
	inside, outside := "xvrf_"+zone, "xvrfp_"+zone
	b.Must(b.Topo.Link(b.Ctx,
		topo.LinkEnd{Host: n.Host, Name: inside, Addrs: []netip.Prefix{netip.MustParsePrefix(between + "1/30")}},
		topo.LinkEnd{Host: n.vrf, Name: outside, Addrs: []netip.Prefix{netip.MustParsePrefix(between + "2/30")}}, innerMTU+50))
	// Of a VRF device the main table is asked next.
	b.Must(n.vrf.AddRoute(outside, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(between+"1")))
	port := fmt.Sprintf("w%d", n.number)
	b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: n.Host, Name: "vmbr0", Addrs: []netip.Prefix{netip.PrefixFrom(harness.WanAddr(n.number, 4), 24)}},
		topo.LinkEnd{Host: wan, Name: port}, 1500))
	b.ports = append(b.ports, port)
	b.Must(n.AddRoute("vmbr0", netip.MustParsePrefix("0.0.0.0/0"), outsideAddr))
	_, err := n.Forward()
	b.Must(err)
	rules := ""
	for _, v := range vnets {
		rules += fmt.Sprintf("ip saddr %s oifname vmbr0 snat to %s\n", v.network(4), harness.WanAddr(n.number, 4))
	}
	b.Must(n.Nft(b.Ctx, "proxmox", "table ip proxmox {\nchain post { type nat hook postrouting priority srcnat;\n"+rules+"}\n}\n"))
}

// start runs FRR by the text for the node.
func (b *cluster) start(n *node, peers ...netip.Addr) {
	b.T.Helper()
	var err error
	n.frr, err = dut.StartFRR(b.Ctx, n.Host, dut.FRRConfig{
		Integrated: frrText(n.tep(), peers, n.role), VRFs: map[string]*topo.Host{"vrf_" + zone: n.vrf},
	})
	b.Must(err)
}

package network

import (
	"context"
	"errors"
	"net/netip"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Kernel is Linux on node and gateway: a bridge for the workload, a vxlan device
// between the hosts, routing, and nftables' masquerade where the gateway's link to the
// target is.
type Kernel struct {
	// Plain routes on the underlay instead, without a tunnel and without translation.
	Plain bool
	// NoChecksum turns the tunnel devices' transmit checksum offload off.
	NoChecksum bool
}

// Describe is one line for reports.
func (k Kernel) Describe() string {
	switch {
	case k.Plain:
		return "Linux routes on both hosts, no tunnel, nothing translated"
	case k.NoChecksum:
		return "the same with transmit checksum offload of the vxlan devices off"
	}
	return "Linux bridge, routing and vxlan device; nftables masquerade on the gateway"
}

// Reaches leaves out what a path without a tunnel does not have.
func (k Kernel) Reaches(n *Network) (node, workload []netip.Addr) {
	_, gateway := n.TEPs()
	if k.Plain {
		return []netip.Addr{gateway}, []netip.Addr{RoutedAddr}
	}
	return []netip.Addr{gateway, n.Endpoint()}, []netip.Addr{RoutedAddr, TranslatedAddr}
}

// Up makes node and gateway routers.
func (k Kernel) Up(ctx context.Context, n *Network) (func(context.Context) error, error) {
	for _, h := range []*topo.Host{n.Node, n.Gateway} {
		if _, err := h.Forward(); err != nil { // it ends with the host
			return nil, err
		}
	}
	err := errors.Join(
		n.Node.Bridge(ctx, "br0", n.Options.InnerMTU, topo.AccessName),
		n.Node.AddAddr("br0", firstHop),
		n.Gateway.AddAddr(OutsideName, uplink))
	if err != nil {
		return nil, err
	}
	near, far := n.TEPs()
	if k.Plain {
		return nil, n.between(topo.UnderlayName, near, far)
	}
	for i, end := range []struct {
		host          *topo.Host
		local, remote netip.Addr
	}{{n.Node, near, far}, {n.Gateway, far, near}} {
		err := end.host.VXLAN(ctx, EndpointName, topo.VXLAN{
			VNI: dut.DefaultVNI, Local: end.local, Remotes: []netip.Addr{end.remote}, MTU: n.Options.InnerMTU, NoUDPCsum: true,
		})
		if err == nil && k.NoChecksum {
			_, err = end.host.SetFeatures(EndpointName, map[string]bool{"tx-checksum-ip-generic": false})
		}
		if err = errors.Join(err, end.host.AddAddr(EndpointName, endpoints[i])); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(
		n.between(EndpointName, endpoints[0].Addr(), endpoints[1].Addr()),
		n.Gateway.Nft(ctx, "egress", rules),
		dut.SetConntrackTimeouts(n.Gateway, timeouts()))
}

// between routes what is outside from the node to the gateway, and what is inside back.
func (n *Network) between(name string, node, gateway netip.Addr) error {
	return errors.Join(n.Node.AddRoute(name, outside, gateway), n.Gateway.AddRoute(name, inside, node))
}

// rules track what is translated and nothing else: neither the tunnel's own packets
// nor what is only routed pays for it.
const rules = `table ip egress {
	chain tracked {
		type filter hook prerouting priority raw;
		ip daddr 203.0.113.10 accept
		ip saddr 203.0.113.10 accept
		notrack
	}
	chain own {
		type filter hook output priority raw;
		notrack
	}
	chain out {
		type nat hook postrouting priority srcnat;
		oifname "w0" ip daddr 203.0.113.10 masquerade
	}
}
`

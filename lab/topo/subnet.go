package topo

import (
	"net"
	"net/netip"
)

// Addresses of the server in a routed TwoHosts: a subnet of its own.
var (
	RoutedServerV4 = netip.MustParseAddr("10.1.0.2")
	RoutedServerV6 = netip.MustParseAddr("fd01::2")
)

// Subnet is one side of a routed TwoHosts.
type Subnet struct {
	Name     string         // of its segment too
	Index    uint32         // 0 for the client's, 1 for the server's; its VNI is the first's plus this
	Gateways []netip.Prefix // of both hosts, IPv4 and IPv6
	End      []netip.Addr   // the one end system's
	EndMAC   net.HardwareAddr
}

// Networks are the subnet's prefixes.
func (s Subnet) Networks() []netip.Prefix {
	var networks []netip.Prefix
	for _, gateway := range s.Gateways {
		networks = append(networks, gateway.Masked())
	}
	return networks
}

// Subnets are the client's and the server's; none in a bridged topology.
func (n *TwoHosts) Subnets() []Subnet {
	if !n.Options.Routed {
		return nil
	}
	return []Subnet{
		{
			Name: "blue", Index: 0, End: []netip.Addr{ClientV4, ClientV6}, EndMAC: ClientMAC,
			Gateways: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24"), netip.MustParsePrefix("fd00::fe/64")},
		},
		{
			Name: "green", Index: 1, End: []netip.Addr{RoutedServerV4, RoutedServerV6}, EndMAC: ServerMAC,
			Gateways: []netip.Prefix{netip.MustParsePrefix("10.1.0.254/24"), netip.MustParsePrefix("fd01::fe/64")},
		},
	}
}

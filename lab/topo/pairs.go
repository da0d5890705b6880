package topo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// MAC addresses of the end systems of the first pair.
var (
	ClientMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	ServerMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// mostPairs is what the last byte of the addresses holds.
const mostPairs = 100

// Pair is a client and its server.
type Pair struct {
	Client, Server *Host

	client, server [2]netip.Addr // IPv4, IPv6
}

// ClientAddr is the client's address of a family, 4 or 6.
func (p Pair) ClientAddr(family int) netip.Addr { return p.client[family/6] }

// ServerAddr is the server's address of a family, 4 or 6.
func (p Pair) ServerAddr(family int) netip.Addr { return p.server[family/6] }

// ClientAddr is the first client's address of a family, 4 or 6.
func (n *TwoHosts) ClientAddr(family int) netip.Addr { return n.Pairs[0].ClientAddr(family) }

// ServerAddr is the first server's address of a family, 4 or 6.
func (n *TwoHosts) ServerAddr(family int) netip.Addr { return n.Pairs[0].ServerAddr(family) }

// addresses gives the pair of an index the next addresses after those of the one before.
func (p *Pair) addresses(index int, routed bool) {
	p.client = [2]netip.Addr{after(ClientV4, 2*index), after(ClientV6, 2*index)}
	p.server = [2]netip.Addr{after(ServerV4, 2*index), after(ServerV6, 2*index)}
	if routed {
		p.server = [2]netip.Addr{RoutedServerV4, RoutedServerV6}
	}
}

// after is the address n behind a, in its last byte.
func after(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] += byte(n)
	next, _ := netip.AddrFromSlice(b) // the length is a's
	return next
}

// PairName is what the one of an index is called among those of a role.
func PairName(role string, index int) string {
	if index == 0 {
		return role
	}
	return role + strconv.Itoa(index+1)
}

// checkPairs fills in their number.
func (o *TwoHostsOptions) checkPairs() error {
	if o.Pairs == 0 {
		o.Pairs = 1
	}
	switch {
	case o.Pairs < 1 || o.Pairs > mostPairs:
		return fmt.Errorf("%d pairs of client and server: choose 1 … %d", o.Pairs, mostPairs)
	case o.Routed && (o.Pairs > 1 || o.SameHost):
		return errors.New("a routed topology has one pair, and its server behind host B")
	}
	return nil
}

// guest is an end system and where it is attached.
type guest struct {
	guest, host *Host
	name        string // of the host's interface
	mac         net.HardwareAddr
	side        int // 0 for a client, 1 for a server
	addrs       []netip.Addr
}

// guests are all clients and servers: those of a host are at p0, p1, … in this order.
func (n *TwoHosts) guests() []guest {
	var all []guest
	ports := map[*Host]int{}
	attach := func(g guest) {
		g.name = "p" + strconv.Itoa(ports[g.host])
		ports[g.host]++
		all = append(all, g)
	}
	servers := n.B
	if n.Options.SameHost {
		servers = n.A
	}
	for i, p := range n.Pairs {
		mac := func(first net.HardwareAddr) net.HardwareAddr {
			return append(first[:5:5], first[5]+byte(2*i))
		}
		attach(guest{guest: p.Client, host: n.A, mac: mac(ClientMAC), side: 0, addrs: p.client[:]})
		attach(guest{guest: p.Server, host: servers, mac: mac(ServerMAC), side: 1, addrs: p.server[:]})
	}
	return all
}

// Behind lists the guests of a host and its interfaces towards them.
func (n *TwoHosts) Behind(h *Host) (ends []*Host, access []string) {
	for _, g := range n.guests() {
		if g.host == h {
			ends, access = append(ends, g.guest), append(access, g.name)
		}
	}
	return ends, access
}

// EndLinks are the client's and the server's end of the links of a topology with one pair.
func (n *TwoHosts) EndLinks() (client, server LinkEnd) {
	all := n.guests()
	return all[0].end(n.Subnets()), all[1].end(n.Subnets())
}

// end is the guest's end of its link.
func (g guest) end(subnets []Subnet) LinkEnd {
	e := LinkEnd{Host: g.guest, Name: EndName, MAC: g.mac}
	for _, addr := range g.addrs {
		e.Addrs = append(e.Addrs, PrefixOf(addr))
	}
	if subnets != nil {
		for _, gateway := range subnets[g.side].Gateways {
			e.Gateways = append(e.Gateways, gateway.Addr())
		}
	}
	return e
}

// access is the host's end of it.
func (g guest) access() LinkEnd {
	mac := net.HardwareAddr{2, 0, 0, 0, 1, byte(g.side + 1)}
	if g.name != AccessName {
		mac = nil // made of the names
	}
	return LinkEnd{Host: g.host, Name: g.name, MAC: mac}
}

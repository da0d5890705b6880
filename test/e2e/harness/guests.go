package harness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// TransferAll sends so many bytes from each first guest to each second and back, all at once.
func TransferAll(pairs [][2]Guest, size int) error {
	var wg sync.WaitGroup
	errs := make([]error, 2*len(pairs))
	for i, p := range pairs {
		wg.Go(func() { errs[2*i] = Transfer(Way(p[0], p[1], 4), size) })
		wg.Go(func() { errs[2*i+1] = Transfer(Way(p[1], p[0], 6), size) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// What tests of gateways, trunks and MTUs have in common: edges on a switch, and
// guests in numbered subnets behind them.
//
//	subnet S:  10.S.0.0/24 and fd00:S::/64, gateways 10.S.0.254 and fd00:S::fe
//	guest G:   10.S.0.G and fd00:S::G, 02:00:00:00:S:G

// Guest is an end system.
type Guest struct {
	*topo.Host
	Subnet, Number int
}

// Ether is the guest's MAC address.
func (g Guest) Ether() net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, byte(g.Subnet), byte(g.Number)}
}

// Addr is the guest's address of a family, 4 or 6.
func (g Guest) Addr(family int) netip.Addr { return SubnetAddr(g.Subnet, g.Number, family) }

// SubnetAddr is an address in a numbered subnet, of a family.
func SubnetAddr(subnet, number, family int) netip.Addr {
	if family == 4 {
		return netip.AddrFrom4([4]byte{10, byte(subnet), 0, byte(number)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", subnet, number))
}

// GatewayAddr is the anycast gateway of a subnet.
func GatewayAddr(subnet, family int) netip.Addr {
	return SubnetAddr(subnet, map[int]int{4: 254, 6: 0xfe}[family], family)
}

// GatewayMAC is every gateway's unless configured.
var GatewayMAC = dut.GatewayMAC.String()

// End is the guest's end of its link; gateway: with default routes.
func (g Guest) End(gateway bool) topo.LinkEnd {
	e := topo.LinkEnd{Host: g.Host, Name: topo.EndName, MAC: g.Ether(), Addrs: []netip.Prefix{
		netip.PrefixFrom(g.Addr(4), 24), netip.PrefixFrom(g.Addr(6), 64),
	}}
	if gateway {
		e.Gateways = []netip.Addr{GatewayAddr(g.Subnet, 4), GatewayAddr(g.Subnet, 6)}
	}
	return e
}

// Guest plugs a new guest into a port of an edge. Its name says where it is:
// "red1" is number 1 in the subnet of port "red".
func (n *Hub) Guest(name string, subnet, number int, host *topo.Host, port string, mtu int) Guest {
	n.T.Helper()
	g := Guest{n.Host(name), subnet, number}
	n.Must(n.Topo.Link(n.Ctx, g.End(true), topo.LinkEnd{Host: host, Name: port}, mtu))
	return g
}

// Way is from one guest to the other on a family.
func Way(from, to Guest, family int) Direction {
	return Direction{fmt.Sprintf("%s to %s, IPv%d", from.Name, to.Name, family), from.Host, to.Host, to.Addr(family)}
}

// Ways are both ways on both families.
func Ways(a, b Guest) []Direction {
	return []Direction{Way(a, b, 4), Way(b, a, 4), Way(a, b, 6), Way(b, a, 6)}
}

// Pings is a fact for each direction.
func (n *Network) Pings(ds ...Direction) {
	n.T.Helper()
	for _, d := range ds {
		n.Fact("ping from "+d.Name, func() error { return Ping(n.Ctx, d.From, d.Addr) })
	}
}

// Transfers are sent without captures.
func (n *Network) Transfers(size int, ds ...Direction) {
	n.T.Helper()
	n.StopCaptures()
	for _, d := range ds {
		n.Once(fmt.Sprintf("%d bytes intact from %s", size, d.Name), func() error { return Transfer(d, size) })
	}
}

// NewUnderlay is hosts for edges, on a switch, with nothing behind them yet.
func NewUnderlay(t *testing.T, picture string, edges, family int) *Hub {
	t.Helper()
	n := &Hub{Network: NewNetwork(t, picture), Family: family}
	n.Sw = n.Host("switch")
	var ports []string
	for i := 1; i <= edges; i++ {
		host := n.Host(fmt.Sprintf("edge%d", i))
		n.Hosts, n.Teps = append(n.Hosts, host), append(n.Teps, n.Tep(i))
		n.Join(host, i)
		ports = append(ports, fmt.Sprintf("e%d", i))
	}
	n.BridgeOnly()
	n.Must(n.Sw.Bridge(n.Ctx, "br0", 1500, ports...))
	return n
}

// Yaml is a whole configuration out of what follows the underlay. In it REMOTES
// are the other edges' TEPs.
func (n *Hub) Yaml(number int, spec string) string {
	var remotes []string
	for i, tep := range n.Teps {
		if i+1 != number {
			remotes = append(remotes, fmt.Sprintf("%q", tep))
		}
	}
	return Header(dut.EdgeName(n.Hosts[number-1]), n.Teps[number-1], strings.ReplaceAll(spec, "REMOTES", "["+strings.Join(remotes, ", ")+"]"))
}

// Header is an edge's configuration but for what spec says.
func Header(name string, tep netip.Addr, spec string) string {
	return fmt.Sprintf("apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n  underlay: {interfaces: [%s], tep: %q}\n%s",
		name, topo.UnderlayName, tep, strings.TrimPrefix(spec, "\n"))
}

// Edge starts an edge of that number.
func (n *Hub) Edge(number int, spec string) {
	n.T.Helper()
	host := n.Hosts[number-1]
	n.Start(host, dut.EdgeName(host), n.Yaml(number, spec))
}

// EdgesUp starts an edge on each host and waits until they know each other.
func (n *Hub) EdgesUp(specs ...string) {
	n.T.Helper()
	for i, spec := range specs {
		n.Edge(i+1, spec)
	}
	for i := range specs {
		if len(n.Teps) > 1 {
			n.Resolved(n.Hosts[i].Name)
		}
	}
}

// LearnedMAC is a fact: a host has an address at a MAC address.
func (n *Network) LearnedMAC(h *topo.Host, addr netip.Addr, want string) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("%s has %s at %s", h.Name, addr, want), func() error {
		mac, err := Neighbour(n.Ctx, h, addr)
		if err == nil && mac != want {
			err = errors.New("it has " + mac)
		}
		return err
	})
}

// Rewrite changes the text of the configuration of an edge and tells it so.
func (n *Network) Rewrite(host string, pairs ...string) {
	n.T.Helper()
	text, err := os.ReadFile(n.Edges[host].Config)
	n.Must(err)
	changed := strings.NewReplacer(pairs...).Replace(string(text))
	if changed == string(text) {
		n.Fail("rewrite the configuration", fmt.Errorf("nothing of %q in\n%s", pairs, text))
	}
	n.Must(n.Reload(host, changed))
}

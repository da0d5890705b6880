package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// What tests of gateways, trunks and MTUs have in common: edges on a switch, and
// guests in numbered subnets behind them.
//
//	subnet S:  10.S.0.0/24 and fd00:S::/64, gateways 10.S.0.254 and fd00:S::fe
//	guest G:   10.S.0.G and fd00:S::G, 02:00:00:00:S:G

// guest is an end system.
type guest struct {
	*topo.Host
	subnet, number int
}

func (g guest) mac() net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, byte(g.subnet), byte(g.number)}
}

// addr is the guest's address of a family, 4 or 6.
func (g guest) addr(family int) netip.Addr { return subnetAddr(g.subnet, g.number, family) }

func subnetAddr(subnet, number, family int) netip.Addr {
	if family == 4 {
		return netip.AddrFrom4([4]byte{10, byte(subnet), 0, byte(number)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", subnet, number))
}

// gatewayAddr is the anycast gateway of a subnet.
func gatewayAddr(subnet, family int) netip.Addr {
	return subnetAddr(subnet, map[int]int{4: 254, 6: 0xfe}[family], family)
}

// gatewayMAC is every gateway's unless configured.
var gatewayMAC = topo.GatewayMAC.String()

// end is the guest's end of its link; gateway: with default routes.
func (g guest) end(gateway bool) topo.LinkEnd {
	e := topo.LinkEnd{Host: g.Host, Name: topo.EndName, MAC: g.mac(), Addrs: []netip.Prefix{
		netip.PrefixFrom(g.addr(4), 24), netip.PrefixFrom(g.addr(6), 64),
	}}
	if gateway {
		e.Gateways = []netip.Addr{gatewayAddr(g.subnet, 4), gatewayAddr(g.subnet, 6)}
	}
	return e
}

// guest plugs a new guest into a port of an edge. Its name says where it is:
// "red1" is number 1 in the subnet of port "red".
func (n *hub) guest(name string, subnet, number int, host *topo.Host, port string, mtu int) guest {
	n.t.Helper()
	g := guest{n.host(name), subnet, number}
	n.must(n.lab.Link(n.ctx, g.end(true), topo.LinkEnd{Host: host, Name: port}, mtu))
	return g
}

// way is from one guest to the other on a family.
func way(from, to guest, family int) direction {
	return direction{fmt.Sprintf("%s to %s, IPv%d", from.Name, to.Name, family), from.Host, to.Host, to.addr(family)}
}

// ways are both ways on both families.
func ways(a, b guest) []direction {
	return []direction{way(a, b, 4), way(b, a, 4), way(a, b, 6), way(b, a, 6)}
}

// pings is a fact for each direction.
func (n *network) pings(ds ...direction) {
	n.t.Helper()
	for _, d := range ds {
		n.fact("ping from "+d.name, func() error { return ping(n.ctx, d.from, d.addr) })
	}
}

// transfers are sent without captures.
func (n *network) transfers(size int, ds ...direction) {
	n.t.Helper()
	n.quiet()
	for _, d := range ds {
		n.once(fmt.Sprintf("%d bytes intact from %s", size, d.name), func() error { return transfer(d, size) })
	}
}

// newUnderlay is hosts for edges, on a switch, with nothing behind them yet.
func newUnderlay(t *testing.T, picture string, edges, family int) *hub {
	t.Helper()
	n := &hub{network: newNetwork(t, picture), family: family}
	n.sw = n.host("switch")
	var ports []string
	for i := 1; i <= edges; i++ {
		host := n.host(fmt.Sprintf("edge%d", i))
		n.hosts, n.teps = append(n.hosts, host), append(n.teps, n.tep(i))
		n.join(host, i)
		ports = append(ports, fmt.Sprintf("e%d", i))
	}
	n.bridgeOnly()
	n.must(n.sw.Bridge(n.ctx, "br0", 1500, ports...))
	return n
}

// yaml is a whole configuration out of what follows the underlay. In it REMOTES
// are the other edges' TEPs.
func (n *hub) yaml(number int, spec string) string {
	var remotes []string
	for i, tep := range n.teps {
		if i+1 != number {
			remotes = append(remotes, fmt.Sprintf("%q", tep))
		}
	}
	return header(n.hosts[number-1].EdgeName(), n.teps[number-1], strings.ReplaceAll(spec, "REMOTES", "["+strings.Join(remotes, ", ")+"]"))
}

func header(name string, tep netip.Addr, spec string) string {
	return fmt.Sprintf("apiVersion: selvage.dev/v1alpha1\nkind: Edge\nmetadata: {name: %s}\nspec:\n  underlay: {interfaces: [%s], tep: %q}\n%s",
		name, topo.UnderlayName, tep, strings.TrimPrefix(spec, "\n"))
}

// edge starts an edge of that number.
func (n *hub) edge(number int, spec string) {
	n.t.Helper()
	host := n.hosts[number-1]
	n.start(host, host.EdgeName(), n.yaml(number, spec))
}

// edgesUp starts an edge on each host and waits until they know each other.
func (n *hub) edgesUp(specs ...string) {
	n.t.Helper()
	for i, spec := range specs {
		n.edge(i+1, spec)
	}
	for i := range specs {
		if len(n.teps) > 1 {
			n.resolved(n.hosts[i].Name)
		}
	}
}

// learnedMAC is a fact: a host has an address at a MAC address.
func (n *network) learnedMAC(h *topo.Host, addr netip.Addr, want string) {
	n.t.Helper()
	n.fact(fmt.Sprintf("%s has %s at %s", h.Name, addr, want), func() error {
		mac, err := neighbour(n.ctx, h, addr)
		if err == nil && mac != want {
			err = errors.New("it has " + mac)
		}
		return err
	})
}

// rewrite changes the text of the configuration of an edge and tells it so.
func (n *network) rewrite(host string, pairs ...string) {
	n.t.Helper()
	text, err := os.ReadFile(n.edges[host].Config)
	n.must(err)
	changed := strings.NewReplacer(pairs...).Replace(string(text))
	if changed == string(text) {
		n.fail("rewrite the configuration", fmt.Errorf("nothing of %q in\n%s", pairs, text))
	}
	n.must(n.reload(host, changed))
}

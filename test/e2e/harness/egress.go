package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

const egressPicture = `
     red1   red2                                            far 192.168.9.2, 2001:db8:fa::2
   r0 |      | r1                                             | MTU 1300
      +-edge1-+  the sources' edge                         outside  203.0.113.1, 2001:db8:cafe::1
     u0 |   | up0, in some tests                              | lan0 198.51.100.1, 2001:db8:51::1
    e1 switch +---------------------------------------- g1 wan (bridge)
    e2 /    \ e3                                      g2 /    \ g3
   edge2     edge3  gateways: 198.51.100.2 and .3   up0 of edge2 and edge3
   Policies give 198.51.100.20 and .21, 2001:db8:51::20 and ::21. Nobody at the wan
   knows a way to the guests.`

// EgressNet is an edge with guests, two gateways on the same underlay, and a plain
// network behind those. What leaves by a gateway is looked at from the begin.
type EgressNet struct {
	*Hub
	O             EgressOptions
	Red1, Red2    Guest
	Wan, Out, Far *topo.Host
	Untranslated  *Leaks
}

// EgressOptions say how the edges are configured; zero fields get defaults.
type EgressOptions struct {
	Family      int    // of the underlay
	Mode        string // of the group of gateways
	Replication bool
	// Fails is for what ends gateways: they notice each other's loss within three intervals of BFD.
	// Else that takes twenty, so that a busy machine is no loss.
	Fails bool
	// Interval is that of BFD; 200ms by default. Where the kernel is not preemptible, loading the
	// programs of one edge holds a core for up to 350 ms, of which three intervals are more.
	Interval string
	// policies are those of all edges, "name: web, vni: 9001, limit: 4"; what they lack of
	// router, gateways and pool is added.
	Policies []string
	Egress   string // more of spec.egress, in lines
	Uplink   string // the first edge has one too, with this in it: "nat: {masquerade: true}"
	nat      string // of the gateways' uplinks, likewise
	Firewall string // of all edges, in lines
}

const (
	poolOption = `pool: [198.51.100.20-198.51.100.21, "2001:db8:51::20-2001:db8:51::21"]`
	// FarMTU is that of the link far away, which carries less.
	FarMTU = 1300
)

// Addresses of the gateways' pool.
var (
	Pool4 = []netip.Addr{netip.MustParseAddr("198.51.100.20"), netip.MustParseAddr("198.51.100.21")}
	Pool6 = []netip.Addr{netip.MustParseAddr("2001:db8:51::20"), netip.MustParseAddr("2001:db8:51::21")}
)

// PoolOf is what policies translate to, of a family.
func PoolOf(family int) []netip.Addr {
	if family == 4 {
		return Pool4
	}
	return Pool6
}

// WanAddr is an address of the plain network: the outside has number 1, edge N's uplink N.
// The first edge's is 4.
func WanAddr(number, family int) netip.Addr {
	if family == 4 {
		return netip.AddrFrom4([4]byte{198, 51, 100, byte(number)})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:51::%d", number))
}

// FarAddr is the address of the host outside.
func FarAddr(family int) netip.Addr {
	if family == 4 {
		return netip.MustParseAddr("192.168.9.2")
	}
	return netip.MustParseAddr("2001:db8:fa::2")
}

// UplinkMAC is the address of an edge's uplink.
func UplinkMAC(number int) string { return fmt.Sprintf("02:00:00:00:05:%02x", number) }

// NewEgressNet builds the network; no edge runs yet.
func NewEgressNet(t *testing.T, o EgressOptions) *EgressNet {
	t.Helper()
	if o.Family == 0 {
		o.Family = 4
	}
	if o.Mode == "" {
		o.Mode = "active-standby"
	}
	if o.Interval == "" {
		o.Interval = "200ms"
	}
	if o.Policies == nil {
		o.Policies = []string{"name: web, vni: 9001"}
	}
	n := &EgressNet{Hub: NewUnderlay(t, egressPicture, 3, o.Family), O: o}
	mtu := map[int]int{4: 1450, 6: 1430}[o.Family]
	n.Red1 = n.Guest("red1", 0, 1, n.Hosts[0], "r0", mtu)
	n.Red2 = n.Guest("red2", 0, 2, n.Hosts[0], "r1", mtu)
	n.plainNetwork()
	n.Untranslated = n.WatchLeaks(leakFilter(), "g2", "g3")
	return n
}

// Sub is the network in a subtest.
func (n *EgressNet) Sub(t *testing.T) *EgressNet {
	sub := *n
	sub.Hub = n.Hub.Sub(t)
	return &sub
}

// DumpOnFailure shows, of a test that failed, what the edges think of each other.
func (n *EgressNet) DumpOnFailure() {
	if !n.T.Failed() {
		return
	}
	for i, h := range n.Hosts {
		if n.Edges[h.Name] == nil {
			continue
		}
		text, err := n.Command(i+1, "egress")
		n.T.Logf("egress on %s: %v\n%s", h.Name, err, text)
	}
}

// plainNetwork is the bridge "wan", with the uplinks of all edges, and what is behind it.
func (n *EgressNet) plainNetwork() {
	n.T.Helper()
	n.Wan, n.Out, n.Far = n.Host("wan"), n.Host("outside"), n.Host("far")
	prefix := func(words ...string) (list []netip.Prefix) {
		for _, w := range words {
			list = append(list, netip.MustParsePrefix(w))
		}
		return list
	}
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: n.Out, Name: "lan0", Addrs: prefix("198.51.100.1/24", "2001:db8:51::1/64")},
		topo.LinkEnd{Host: n.Wan, Name: "out"}, 1500))
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: n.Far, Name: "lan0", Addrs: prefix("192.168.9.2/24", "2001:db8:fa::2/64"), Gateways: []netip.Addr{
			netip.MustParseAddr("192.168.9.1"), netip.MustParseAddr("2001:db8:fa::1")}},
		topo.LinkEnd{Host: n.Out, Name: "far0", Addrs: prefix("192.168.9.1/24", "2001:db8:fa::1/64")}, FarMTU))
	ports := []string{"out"}
	for i, h := range n.Hosts {
		port := fmt.Sprintf("g%d", i+1)
		n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: h, Name: "up0"}, topo.LinkEnd{Host: n.Wan, Name: port}, 1500))
		ports = append(ports, port)
	}
	n.Must(n.Wan.Bridge(n.Ctx, "br0", 1500, ports...))
	for _, a := range prefix("203.0.113.1/32", "203.0.113.9/32", "2001:db8:cafe::1/128", "2001:db8:cafe::9/128") {
		n.Must(n.Out.AddAddr("lo", a))
	}
	for key, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
		"net/ipv4/icmp_ratelimit": "0", "net/ipv6/icmp/ratelimit": "0", "net/ipv4/icmp_ratemask": "0",
	} {
		n.Must(n.Out.SysctlSet(key, value))
	}
}

// Up starts all edges and waits until guests reach the outside.
func (n *EgressNet) Up() {
	n.T.Helper()
	for i, h := range n.Hosts {
		n.Start(h, dut.EdgeName(h), n.Text(i+1))
	}
	for _, h := range n.Hosts {
		n.Resolved(h.Name)
	}
	n.Serving(2, 3) // until gateways have heard of each other, each has all addresses
	n.Reached(n.Red1, n.Red2)
}

// Serving is a fact: every edge says of these gateways that they serve, and of no others.
func (n *EgressNet) Serving(numbers ...int) {
	n.T.Helper()
	for i := range n.Hosts {
		n.Fact(fmt.Sprintf("to edge%d gateways %v serve", i+1, numbers), func() error { return n.serve(i+1, numbers) })
	}
}

// serve is nil when these gateways serve in the eyes of an edge.
func (n *EgressNet) serve(number int, want []int) error {
	info, err := n.Ask(n.Hosts[number-1].Name).Egress().Info(n.Ctx)
	if err != nil {
		return err
	}
	for _, group := range info.Groups {
		for _, m := range group.Members {
			gateway := slices.Index(n.Teps, m.Address) + 1
			if serves := m.State == "serving"; serves != slices.Contains(want, gateway) {
				err = errors.Join(err, fmt.Errorf("edge%d is %s: %s", gateway, m.State, m.Why))
			}
		}
	}
	if len(info.Groups) == 0 {
		err = errors.New("it has no gateways")
	}
	return err
}

// Reached is a fact: the outside answers guests.
func (n *EgressNet) Reached(guests ...Guest) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		for _, g := range guests {
			n.Pings(n.Outward(g, family))
		}
	}
}

// Outward is from a guest to the outside.
func (n *EgressNet) Outward(g Guest, family int) Direction {
	return Direction{fmt.Sprintf("%s to the outside, IPv%d", g.Name, family), g.Host, n.Out, OutsideAddr(family)}
}

// Text is the configuration of an edge: 1 is the sources', 2 and 3 are gateways.
func (n *EgressNet) Text(number int) string {
	var b strings.Builder
	names := []string{"src", "gw1", "gw2"}
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: %s}\nspec:\n", dut.EdgeName(n.Hosts[number-1]))
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: %q, bfd: {interval: %s, multiplier: %d}}\n  remotes:\n",
		topo.UnderlayName, n.Teps[number-1], n.O.Interval, map[bool]int{true: 3, false: 20}[n.O.Fails])
	for i, tep := range n.Teps {
		if i+1 != number {
			fmt.Fprintf(&b, "  - {name: %s, addresses: [%q]}\n", names[i], tep)
		}
	}
	names[number-1] = dut.EdgeName(n.Hosts[number-1])
	b.WriteString(n.O.egressText(names[1:], number > 1) + n.O.Firewall)
	if number == 1 {
		b.WriteString(n.O.Sources())
	} else {
		fmt.Fprintf(&b, "  routers:\n  - name: tenant\n%s", uplinkText(number, number, n.O.nat))
	}
	return b.String()
}

// egressText is spec.egress.
func (o EgressOptions) egressText(members []string, gateway bool) string {
	var b strings.Builder
	replication := ""
	if o.Replication {
		replication = `, replication: {port: 49789, key: "a secret of three words"}`
	}
	fmt.Fprintf(&b, "  egress:\n%s    gateways:\n    - {name: gws, mode: %s, members: [%s]%s}\n",
		o.Egress, o.Mode, strings.Join(members, ", "), replication)
	if len(o.Policies) == 0 {
		return b.String()
	}
	b.WriteString("    policies:\n")
	for _, p := range o.Policies {
		for _, option := range []string{"router: tenant", "gateways: gws", poolOption} {
			if key, _, _ := strings.Cut(option, ":"); !strings.Contains(p, key+":") {
				p += ", " + option
			}
		}
		if gateway {
			p = strings.Replace(p, "from: [{port: r0}], ", "", 1) + ", uplink: wan" // it has no such port
		}
		fmt.Fprintf(&b, "    - {%s}\n", p)
	}
	return b.String()
}

// Sources is what only the guests' edge has.
func (o EgressOptions) Sources() string {
	text := `  segments:
  - {name: red, vni: 100, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}}
  ports:
  - {name: r0, interface: r0, segment: red, labels: {app: web}}
  - {name: r1, interface: r1, segment: red}
  routers:
  - name: tenant
`
	if o.Uplink != "" {
		text += uplinkText(1, 4, o.Uplink)
	}
	return text
}

// uplinkText is an uplink of an edge and its default routes.
func uplinkText(edge, number int, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf(`    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 198.51.100.1}]}
    - {prefix: "::/0", via: [{address: "2001:db8:51::1"}]}
    uplinks:
    - {name: wan, interface: up0, mac: "%s", addresses: [%s/24, "%s/64"]%s}
`, UplinkMAC(edge), WanAddr(number, 4), WanAddr(number, 6), more)
}

// HeldTogether is the end of each test: nothing has left untranslated, and no peer has seen
// a wrong checksum.
func (n *EgressNet) HeldTogether() {
	n.T.Helper()
	n.Untranslated.None(n.Network)
	n.Once("no checksum is wrong to the outside or to guests", func() error {
		wrong, err := errorsOf([]*topo.Host{n.Out, n.Far, n.Red1.Host, n.Red2.Host})
		for host, counters := range wrong {
			for name, count := range counters {
				if strings.HasSuffix(name, "CsumErrors") { // those of headers count TTLs that ran out
					err = errors.Join(err, fmt.Errorf("%s: %s %d", host, name, count))
				}
			}
		}
		return err
	})
}

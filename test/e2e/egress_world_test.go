package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

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

// egressNet is an edge with guests, two gateways on the same underlay, and a plain
// network behind those. What leaves by a gateway is looked at from the begin.
type egressNet struct {
	*hub
	o             egressOptions
	red1, red2    guest
	wan, out, far *topo.Host
	untranslated  *leaks
}

// egressOptions say how the edges are configured; zero fields get defaults.
type egressOptions struct {
	family      int    // of the underlay
	mode        string // of the group of gateways
	replication bool
	// policies are those of all edges, "name: web, vni: 9001, limit: 4"; what they lack of
	// router, gateways and pool is added.
	policies []string
	egress   string // more of spec.egress, in lines
	uplink   string // the first edge has one too, with this in it: "nat: {masquerade: true}"
	nat      string // of the gateways' uplinks, likewise
	firewall string // of all edges, in lines
}

const (
	poolOption = `pool: [198.51.100.20-198.51.100.21, "2001:db8:51::20-2001:db8:51::21"]`
	// Far away, behind a link that carries less.
	farMTU = 1300
)

var (
	pool4 = []netip.Addr{netip.MustParseAddr("198.51.100.20"), netip.MustParseAddr("198.51.100.21")}
	pool6 = []netip.Addr{netip.MustParseAddr("2001:db8:51::20"), netip.MustParseAddr("2001:db8:51::21")}
)

// poolOf is what policies translate to, of a family.
func poolOf(family int) []netip.Addr {
	if family == 4 {
		return pool4
	}
	return pool6
}

// wanAddr is an address of the plain network: the outside has number 1, edge N's uplink N.
// The first edge's is 4.
func wanAddr(number, family int) netip.Addr {
	if family == 4 {
		return netip.AddrFrom4([4]byte{198, 51, 100, byte(number)})
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:51::%d", number))
}

func farAddr(family int) netip.Addr {
	if family == 4 {
		return netip.MustParseAddr("192.168.9.2")
	}
	return netip.MustParseAddr("2001:db8:fa::2")
}

// uplinkMAC is the address of an edge's uplink.
func uplinkMAC(number int) string { return fmt.Sprintf("02:00:00:00:05:%02x", number) }

func newEgressNet(t *testing.T, o egressOptions) *egressNet {
	t.Helper()
	if o.family == 0 {
		o.family = 4
	}
	if o.mode == "" {
		o.mode = "active-standby"
	}
	if o.policies == nil {
		o.policies = []string{"name: web, vni: 9001"}
	}
	n := &egressNet{hub: newUnderlay(t, egressPicture, 3, o.family), o: o}
	mtu := map[int]int{4: 1450, 6: 1430}[o.family]
	n.red1 = n.guest("red1", 0, 1, n.hosts[0], "r0", mtu)
	n.red2 = n.guest("red2", 0, 2, n.hosts[0], "r1", mtu)
	n.plainNetwork()
	n.untranslated = n.watchLeaks(leakFilter(), "g2", "g3")
	return n
}

// confess shows, of a test that failed, what the edges think of each other.
func (n *egressNet) confess() {
	if !n.t.Failed() {
		return
	}
	for i, h := range n.hosts {
		if n.edges[h.Name] == nil {
			continue
		}
		text, err := n.command(i+1, "egress")
		n.t.Logf("egress on %s: %v\n%s", h.Name, err, text)
	}
}

// plainNetwork is the bridge "wan", with the uplinks of all edges, and what is behind it.
func (n *egressNet) plainNetwork() {
	n.t.Helper()
	n.wan, n.out, n.far = n.host("wan"), n.host("outside"), n.host("far")
	prefix := func(words ...string) (list []netip.Prefix) {
		for _, w := range words {
			list = append(list, netip.MustParsePrefix(w))
		}
		return list
	}
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: n.out, Name: "lan0", Addrs: prefix("198.51.100.1/24", "2001:db8:51::1/64")},
		topo.LinkEnd{Host: n.wan, Name: "out"}, 1500))
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: n.far, Name: "lan0", Addrs: prefix("192.168.9.2/24", "2001:db8:fa::2/64"), Gateways: []netip.Addr{
			netip.MustParseAddr("192.168.9.1"), netip.MustParseAddr("2001:db8:fa::1")}},
		topo.LinkEnd{Host: n.out, Name: "far0", Addrs: prefix("192.168.9.1/24", "2001:db8:fa::1/64")}, farMTU))
	ports := []string{"out"}
	for i, h := range n.hosts {
		port := fmt.Sprintf("g%d", i+1)
		n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: h, Name: "up0"}, topo.LinkEnd{Host: n.wan, Name: port}, 1500))
		ports = append(ports, port)
	}
	n.must(n.wan.Bridge(n.ctx, "br0", 1500, ports...))
	for _, a := range prefix("203.0.113.1/32", "203.0.113.9/32", "2001:db8:cafe::1/128", "2001:db8:cafe::9/128") {
		n.must(n.out.AddAddr("lo", a))
	}
	for key, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1",
		"net/ipv4/icmp_ratelimit": "0", "net/ipv6/icmp/ratelimit": "0", "net/ipv4/icmp_ratemask": "0",
	} {
		n.must(n.out.SysctlSet(key, value))
	}
}

// up starts all edges and waits until guests reach the outside.
func (n *egressNet) up() {
	n.t.Helper()
	for i, h := range n.hosts {
		n.start(h, h.EdgeName(), n.text(i+1))
	}
	for _, h := range n.hosts {
		n.resolved(h.Name)
	}
	n.reached(n.red1, n.red2)
}

// reached is a fact: the outside answers guests.
func (n *egressNet) reached(guests ...guest) {
	n.t.Helper()
	for _, family := range []int{4, 6} {
		for _, g := range guests {
			n.pings(n.outward(g, family))
		}
	}
}

// outward is from a guest to the outside.
func (n *egressNet) outward(g guest, family int) direction {
	return direction{fmt.Sprintf("%s to the outside, IPv%d", g.Name, family), g.Host, n.out, outsideAddr(family)}
}

// text is the configuration of an edge: 1 is the sources', 2 and 3 are gateways.
func (n *egressNet) text(number int) string {
	var b strings.Builder
	names := []string{"src", "gw1", "gw2"}
	fmt.Fprintf(&b, "apiVersion: selvage.dev/v1alpha1\nkind: Edge\nmetadata: {name: %s}\nspec:\n", n.hosts[number-1].EdgeName())
	fmt.Fprintf(&b, "  underlay: {interfaces: [%s], tep: %q, liveness: {interval: 100ms, multiplier: 3}}\n  remotes:\n",
		topo.UnderlayName, n.teps[number-1])
	for i, tep := range n.teps {
		if i+1 != number {
			fmt.Fprintf(&b, "  - {name: %s, addresses: [%q]}\n", names[i], tep)
		}
	}
	names[number-1] = n.hosts[number-1].EdgeName()
	b.WriteString(n.o.egressText(names[1:], number > 1) + n.o.firewall)
	if number == 1 {
		b.WriteString(n.o.sources())
	} else {
		fmt.Fprintf(&b, "  routers:\n  - name: tenant\n%s", uplinkText(number, number, n.o.nat))
	}
	return b.String()
}

// egressText is spec.egress.
func (o egressOptions) egressText(members []string, gateway bool) string {
	var b strings.Builder
	replication := ""
	if o.replication {
		replication = `, replication: {port: 49789, key: "a secret of three words"}`
	}
	fmt.Fprintf(&b, "  egress:\n%s    gateways:\n    - {name: gws, mode: %s, members: [%s]%s}\n",
		o.egress, o.mode, strings.Join(members, ", "), replication)
	if len(o.policies) == 0 {
		return b.String()
	}
	b.WriteString("    policies:\n")
	for _, p := range o.policies {
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

// sources is what only the guests' edge has.
func (o egressOptions) sources() string {
	text := `  segments:
  - {name: red, vni: 100, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}}
  ports:
  - {name: r0, interface: r0, segment: red, labels: {app: web}}
  - {name: r1, interface: r1, segment: red}
  routers:
  - name: tenant
`
	if o.uplink != "" {
		text += uplinkText(1, 4, o.uplink)
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
`, uplinkMAC(edge), wanAddr(number, 4), wanAddr(number, 6), more)
}

// translatedBy is a fact: the outside has addresses of the pool at the uplink of an edge. It
// asks where it has none yet; what it has must have been corrected by who owns them now.
func (n *egressNet) translatedBy(number int, addrs ...netip.Addr) {
	n.t.Helper()
	for _, addr := range addrs {
		n.fact(fmt.Sprintf("the outside has %s at edge%d", addr, number), func() error {
			mac, err := neighbour(n.ctx, n.out, addr)
			if err != nil {
				return errors.Join(err, ping(n.ctx, n.out, addr))
			}
			if mac != uplinkMAC(number) {
				return errors.New("it has it at " + mac)
			}
			return nil
		})
	}
}

// heldTogether is the end of each test: nothing has left untranslated, and no peer has seen
// a wrong checksum.
func (n *egressNet) heldTogether() {
	n.t.Helper()
	n.untranslated.none(n.network)
	n.once("no checksum is wrong to the outside or to guests", func() error {
		wrong, err := errorsOf([]*topo.Host{n.out, n.far, n.red1.Host, n.red2.Host})
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

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

const uplinkPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      r0 |  | up0      | r0
       red1 |         red2 (its way out is edge1's: over the tunnel)
            | 198.51.100.2, 2001:db8:51::2
            | 198.51.100.1, 2001:db8:51::1
         outside ---- 203.0.113.1, 2001:db8:cafe::1 on lo`

var (
	outside4 = netip.MustParseAddr("203.0.113.1")
	outside6 = netip.MustParseAddr("2001:db8:cafe::1")
)

func outsideAddr(family int) netip.Addr {
	if family == 4 {
		return outside4
	}
	return outside6
}

const uplinkSpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  routers:
  - name: tenant
    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 198.51.100.1}]}
    - {prefix: "::/0", via: [{address: "2001:db8:51::1"}]}
    - {prefix: 10.66.0.0/16, type: blackhole}
    - {prefix: 10.77.0.0/16, type: unreachable}
    - {prefix: 10.88.0.0/16, type: prohibit}
    - {prefix: "fd00:66::/64", type: blackhole}
    - {prefix: "fd00:77::/64", type: unreachable}
    - {prefix: "fd00:88::/64", type: prohibit}
    uplinks:
    - {name: wan, interface: up0, addresses: [198.51.100.2/24, "2001:db8:51::2/64"]}
  ports:
  - {name: r0, interface: r0, segment: red}
`

// outside is a router of the Linux kernel at an uplink, with addresses behind it
// and a route back to the guests.
func (n *hub) outside(host *topo.Host, port string, more ...string) *topo.Host {
	n.t.Helper()
	h := n.host("outside")
	addrs := []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:51::1/64")}
	for _, a := range more {
		addrs = append(addrs, netip.MustParsePrefix(a))
	}
	n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: h, Name: "lan0", Addrs: addrs}, topo.LinkEnd{Host: host, Name: port}, 1500))
	n.must(errors.Join(
		h.AddAddr("lo", netip.PrefixFrom(outside4, 32)), h.AddAddr("lo", netip.PrefixFrom(outside6, 128)),
		h.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("198.51.100.2")),
		h.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), netip.MustParseAddr("2001:db8:51::2")),
	))
	return h
}

func TestUplink(t *testing.T) {
	n := newUnderlay(t, uplinkPicture, 2, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "r0", 1450)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "r0", 1450)
	out := n.outside(n.hosts[0], "up0")
	n.record()
	n.edgesUp(uplinkSpec, `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`)
	var both []direction
	for _, inner := range []int{4, 6} {
		for _, g := range []guest{red1, red2} {
			to := direction{fmt.Sprintf("%s to outside, IPv%d", g.Name, inner), g.Host, out, outsideAddr(inner)}
			from := direction{fmt.Sprintf("outside to %s, IPv%d", g.Name, inner), out, g.Host, g.addr(inner)}
			n.routes(to, 1, g)
			n.pings(from)
			both = append(both, to, from)
		}
	}
	t.Run("Refused", func(t *testing.T) { n := *n; n.network = n.in(t); n.refusals(red1); n.refusals(red2) })
	n.fact("the outside pings the router itself", func() error { return ping(n.ctx, out, netip.MustParseAddr("198.51.100.2")) })
	n.fact("the outside sees time exceeded by the router", func() error {
		return pingFails(n.network, out, red1.addr(4), netip.MustParseAddr("198.51.100.2"), timeExceeded, "-t", "1")
	})
	n.transfers(len(content), both...)
	n.noProblems("edge1")
	n.noDrops("no-neighbour", "ttl-exceeded", "blackhole", "unreachable", "prohibited")
}

const timeExceeded = "Time to live exceeded|Time exceeded: Hop limit"

// refusals are routes that lead nowhere, as ping understands it.
func (n *hub) refusals(g guest) {
	n.t.Helper()
	for _, inner := range []int{4, 6} {
		gateway := gatewayAddr(0, inner)
		for subnet, pattern := range map[int]string{
			0x77: "Destination Host Unreachable|Destination unreachable: Address unreachable",
			0x88: "Packet filtered|Destination unreachable: Administratively prohibited",
		} {
			to := netip.MustParseAddr(fmt.Sprintf("fd00:%x::1", subnet))
			if inner == 4 {
				to = netip.MustParseAddr(fmt.Sprintf("10.%x.0.1", subnet))
			}
			n.fact(fmt.Sprintf("%s is told %s of %s", g.Name, pattern, to), func() error {
				return pingFails(n.network, g.Host, to, gateway, pattern)
			})
		}
		to := netip.MustParseAddr("fd00:66::1")
		if inner == 4 {
			to = netip.MustParseAddr("10.66.0.1")
		}
		n.once(g.Name+" hears nothing of "+to.String(), func() error {
			out, err := g.Output(n.ctx, "ping", "-n", "-c1", "-W1", to.String())
			if err == nil || strings.Contains(string(out), "From") {
				return errors.New(string(out))
			}
			return nil
		})
	}
}

const ecmpPicture = `
        edge1 (no tunnels)
      r0 |  | up0     | up1
       red1 |         |        default routes by both
       198.51.100.1  192.168.7.1
            | lan0    | lan1
            outside ---- 203.0.113.1 on lo`

// Two uplinks share the flows; one next hop that leaves takes only its own along.
func TestUplinkECMP(t *testing.T) {
	const spec = `
  segments:
  - name: red
    vni: 100
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  routers:
  - name: tenant
    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 198.51.100.1}, {address: 192.168.7.1}]}
    uplinks:
    - {name: wan, interface: up0, addresses: [198.51.100.2/24, "2001:db8:51::2/64"]}
    - {name: lte, interface: up1, addresses: [192.168.7.2/24]}
  ports:
  - {name: r0, interface: r0, segment: red}
`
	n := newUnderlay(t, ecmpPicture, 1, 4)
	red := n.guest("red1", 0, 1, n.hosts[0], "r0", 1450)
	out := n.outside(n.hosts[0], "up0")
	n.must(n.lab.Link(n.ctx,
		topo.LinkEnd{Host: out, Name: "lan1", Addrs: []netip.Prefix{netip.MustParsePrefix("192.168.7.1/24")}},
		topo.LinkEnd{Host: n.hosts[0], Name: "up1"}, 1500))
	n.must(out.SysctlSet("net/ipv4/conf/all/rp_filter", "0"))
	n.must(out.SysctlSet("net/ipv4/conf/lan1/rp_filter", "0"))
	n.record()
	n.edgesUp(spec)
	to := direction{"red1 to outside", red.Host, out, outside4}
	n.pings(to)
	n.quiet()
	for _, name := range []string{"wan", "lte"} {
		n.fact("the next hop by "+name+" is resolved", func() error {
			if err := echoFlows(to, 8); err != nil {
				return err
			}
			return n.hopResolved("edge1", name)
		})
	}
	before, err := n.sentBy("edge1", "wan", "lte")
	n.must(err)
	n.once("32 flows are answered", func() error { return echoFlows(to, 32) })
	n.once("both uplinks had some of them", func() error {
		after, err := n.sentBy("edge1", "wan", "lte")
		if err != nil {
			return err
		}
		wan, lte := after[0]-before[0], after[1]-before[1]
		if wan+lte < 32 || wan < 6 || lte < 6 {
			return fmt.Errorf("wan %d, lte %d of 32", wan, lte)
		}
		return nil
	})
	n.noProblems("edge1")
	n.transfers(len(content), to, direction{"outside to red1", out, red.Host, red.addr(4)})
	n.rewrite("edge1", ", {address: 192.168.7.1}", "")
	n.fact("one next hop is left", func() error {
		routes, err := n.ask("edge1").Routes(n.ctx)
		for _, r := range routes {
			if r.Prefix.Bits() == 0 && len(r.Hops) == 1 {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("routes %+v", routes), err)
	})
	n.fact("all flows go by it, and none by the other", func() error {
		before, err := n.sentBy("edge1", "lte")
		if err != nil {
			return err
		}
		if err := echoFlows(to, 16); err != nil {
			return err
		}
		after, err := n.sentBy("edge1", "lte")
		if err == nil && after[0] > before[0]+2 { // ARP goes on
			err = fmt.Errorf("%d packets", after[0]-before[0])
		}
		return err
	})
	n.noDrops("no-neighbour", "no-member") // red1 is alone
}

// echoFlows sends a datagram on each of so many flows, which is answered.
func echoFlows(d direction, flows int) error {
	for range flows {
		if err := echo(d, 100); err != nil {
			return err
		}
	}
	return nil
}

func (n *network) hopResolved(host, segment string) error {
	routes, err := n.ask(host).Routes(n.ctx)
	for _, r := range routes {
		for _, h := range r.Hops {
			if h.State == "resolved" && h.Segment == segment {
				return err
			}
		}
	}
	return errors.Join(fmt.Errorf("routes %+v", routes), err)
}

// sentBy counts the packets that left by ports or uplinks.
func (n *network) sentBy(host string, names ...string) ([]uint64, error) {
	ports, err := n.ask(host).Ports(n.ctx)
	sent := make([]uint64, len(names))
	for _, p := range ports {
		for i, name := range names {
			if p.Name == name {
				sent[i] = p.TxPackets
			}
		}
	}
	return sent, err
}

const overlapPicture = `
        edge1
    a0 |  | b0  | c0
     one   two   three      one and two: 10.0.0.1, in routers of their own
                            three: 10.3.0.1, whose network both routers take over`

// The same addresses in two routers, and a network that both know by a leak.
func TestRoutersOverlapAndLeak(t *testing.T) {
	const spec = `
  segments:
  - {name: a, vni: 100, gateway: {router: first, addresses: [10.0.0.254/24]}}
  - {name: b, vni: 200, gateway: {router: second, addresses: [10.0.0.254/24]}}
  - {name: a2, vni: 101, gateway: {router: first, addresses: [10.1.0.254/24]}}
  - {name: b2, vni: 201, gateway: {router: second, addresses: [10.1.0.254/24]}}
  - {name: c, vni: 300, gateway: {router: shared, addresses: [10.3.0.254/24]}}
  routers:
  - {name: first, leaks: [{from: shared, prefixes: [10.3.0.0/16]}]}
  - {name: second}
  - {name: shared, leaks: [{from: first, prefixes: [10.0.0.0/24]}]}
  ports:
  - {name: a0, interface: a0, segment: a}
  - {name: a1, interface: a1, segment: a2}
  - {name: b0, interface: b0, segment: b}
  - {name: b1, interface: b1, segment: b2}
  - {name: c0, interface: c0, segment: c}
`
	n := newUnderlay(t, overlapPicture, 1, 4)
	a := n.guest("a0", 0, 1, n.hosts[0], "a0", 1500)
	a1 := n.guest("a1", 1, 1, n.hosts[0], "a1", 1500)
	b := n.guest("b0", 0, 1, n.hosts[0], "b0", 1500)
	b1 := n.guest("b1", 1, 1, n.hosts[0], "b1", 1500)
	c := n.guest("c0", 3, 1, n.hosts[0], "c0", 1500)
	n.record()
	n.edgesUp(spec)
	for _, p := range [][2]guest{{a, a1}, {b, b1}} {
		n.pings(way(p[0], p[1], 4), way(p[1], p[0], 4))
		n.once(p[1].Name+" itself has the packets from "+p[0].Name, func() error { return transfer(way(p[0], p[1], 4), 1_000_000) })
	}
	n.pings(way(a, c, 4), way(c, a, 4))
	n.once("the second router has no route to the leaked network", func() error {
		return pingFails(n.network, b.Host, c.addr(4), gatewayAddr(0, 4), "Destination Net Unreachable")
	})
	n.transfers(len(content), way(a, c, 4), way(c, a, 4))
	n.noDrops("no-neighbour", "no-prefix", "no-member")
}

package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

func TestUplink(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.UplinkPicture, 2, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1450)
	out := n.Outside(n.Hosts[0], "up0")
	n.Record()
	n.Must(out.AddAddr("lan0", netip.MustParsePrefix("fe80::1/64"))) // as providers have it
	n.EdgesUp(strings.Replace(harness.UplinkSpec, `"2001:db8:51::1"`, `"fe80::1"`, 1), `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`)
	n.Pings(harness.Ways(red1, red2)...)
	n.Pings(harness.Direction{Name: "red2 to outside", From: red2.Host, To: out, Addr: harness.Outside4})
	t.Run("Commands", func(t *testing.T) { commands(n.Sub(t)) })
	var both []harness.Direction
	for _, inner := range []int{4, 6} {
		for _, g := range []harness.Guest{red1, red2} {
			to := harness.Direction{Name: fmt.Sprintf("%s to outside, IPv%d", g.Name, inner), From: g.Host, To: out, Addr: harness.OutsideAddr(inner)}
			from := harness.Direction{Name: fmt.Sprintf("outside to %s, IPv%d", g.Name, inner), From: out, To: g.Host, Addr: g.Addr(inner)}
			n.Routes(to, 1, g)
			n.Pings(from)
			both = append(both, to, from)
		}
	}
	t.Run("Refused", func(t *testing.T) {
		n := n.Sub(t)
		refusals(n, red1)
		refusals(n, red2)
	})
	n.Fact("the outside pings the router itself", func() error { return harness.Ping(n.Ctx, out, netip.MustParseAddr("198.51.100.2")) })
	n.Fact("the outside sees time exceeded by the router", func() error {
		return harness.PingFails(n.Network, out, red1.Addr(4), netip.MustParseAddr("198.51.100.2"), harness.TimeExceeded, "-t", "1")
	})
	n.Transfers(len(harness.Content), both...)
	n.NoProblems("edge1")
	n.NoDrops("no-neighbour", "ttl-exceeded", "blackhole", "unreachable", "prohibited")
}

// refusals are routes that lead nowhere, as ping understands it.
func refusals(n *harness.Hub, g harness.Guest) {
	n.T.Helper()
	for _, inner := range []int{4, 6} {
		gateway := harness.GatewayAddr(0, inner)
		for subnet, pattern := range map[int]string{
			0x77: "Destination Host Unreachable|Destination unreachable: Address unreachable",
			0x88: "Packet filtered|Destination unreachable: Administratively prohibited",
		} {
			to := netip.MustParseAddr(fmt.Sprintf("fd00:%x::1", subnet))
			if inner == 4 {
				to = netip.MustParseAddr(fmt.Sprintf("10.%x.0.1", subnet))
			}
			n.Fact(fmt.Sprintf("%s is told %s of %s", g.Name, pattern, to), func() error {
				return harness.PingFails(n.Network, g.Host, to, gateway, pattern)
			})
		}
		to := netip.MustParseAddr("fd00:66::1")
		if inner == 4 {
			to = netip.MustParseAddr("10.66.0.1")
		}
		n.Once(g.Name+" hears nothing of "+to.String(), func() error {
			out, err := g.Output(n.Ctx, "ping", "-n", "-c1", "-W1", to.String())
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
	t.Parallel()
	n := harness.NewUnderlay(t, ecmpPicture, 1, 4)
	red := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	out := n.Outside(n.Hosts[0], "up0")
	n.Must(n.Topo.Link(n.Ctx,
		topo.LinkEnd{Host: out, Name: "lan1", Addrs: []netip.Prefix{netip.MustParsePrefix("192.168.7.1/24")}},
		topo.LinkEnd{Host: n.Hosts[0], Name: "up1"}, 1500))
	n.Must(out.SysctlSet("net/ipv4/conf/all/rp_filter", "0"))
	n.Must(out.SysctlSet("net/ipv4/conf/lan1/rp_filter", "0"))
	n.Record()
	n.EdgesUp(spec)
	to := harness.Direction{Name: "red1 to outside", From: red.Host, To: out, Addr: harness.Outside4}
	n.Pings(to)
	n.StopCaptures()
	for _, name := range []string{"wan", "lte"} {
		n.Fact("the next hop by "+name+" is resolved", func() error {
			if err := echoFlows(to, 8); err != nil {
				return err
			}
			return hopResolved(n.Network, "edge1", name)
		})
	}
	before, err := sentBy(n.Network, "edge1", "wan", "lte")
	n.Must(err)
	n.Once("32 flows are answered", func() error { return echoFlows(to, 32) })
	n.Once("both uplinks had some of them", func() error {
		after, err := sentBy(n.Network, "edge1", "wan", "lte")
		if err != nil {
			return err
		}
		wan, lte := after[0]-before[0], after[1]-before[1]
		if wan+lte < 32 || wan < 6 || lte < 6 {
			return fmt.Errorf("wan %d, lte %d of 32", wan, lte)
		}
		return nil
	})
	n.NoProblems("edge1")
	uplinksLost(n, out, to)
	n.Transfers(len(harness.Content), to, harness.Direction{Name: "outside to red1", From: out, To: red.Host, Addr: red.Addr(4)})
	n.Rewrite("edge1", ", {address: 192.168.7.1}", "")
	n.Fact("one next hop is left", func() error {
		routes, err := n.Ask("edge1").Routes(n.Ctx, netip.Addr{})
		for _, r := range routes {
			if r.Prefix.Bits() == 0 && len(r.Hops) == 1 {
				return nil
			}
		}
		return errors.Join(fmt.Errorf("routes %+v", routes), err)
	})
	n.Fact("all flows go by it, and none by the other", func() error {
		before, err := sentBy(n.Network, "edge1", "lte")
		if err != nil {
			return err
		}
		if err := echoFlows(to, 16); err != nil {
			return err
		}
		after, err := sentBy(n.Network, "edge1", "lte")
		if err == nil && after[0] > before[0]+2 { // ARP goes on
			err = fmt.Errorf("%d packets", after[0]-before[0])
		}
		return err
	})
	n.NoDrops("no-neighbour", "no-member", "no-route") // red1 is alone
}

// uplinksLost takes the carrier of the uplinks away, one after the other: flows leave the one, then their sender is told that
// there is no way. When both are back both are used.
func uplinksLost(n *harness.Hub, out *topo.Host, to harness.Direction) {
	n.T.Helper()
	link := func(name, state string) {
		_, err := out.Output(n.Ctx, "ip", "link", "set", name, state)
		n.Must(err)
	}
	link("lan1", "down")
	n.Fact("the next hop by lte is out of use", func() error { return hopStates(n.Network, "edge1", "wan resolved", "lte down") })
	n.Once("32 flows are answered without it", func() error { return echoFlows(to, 32) })
	link("lan0", "down")
	n.Fact("no next hop is left", func() error { return hopStates(n.Network, "edge1", "wan down", "lte down") })
	n.Once("the sender is told", func() error {
		return harness.PingFails(n.Network, to.From, to.Addr, harness.GatewayAddr(0, 4), "Destination Net Unreachable")
	})
	link("lan1", "up")
	link("lan0", "up")
	n.Must(out.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("198.51.100.2"))) // went with the link
	n.Fact("both are back", func() error {
		if err := echoFlows(to, 8); err != nil {
			return err
		}
		return hopStates(n.Network, "edge1", "wan resolved", "lte resolved")
	})
	n.NoProblems("edge1")
}

// hopStates compares the next hops of the default route.
func hopStates(n *harness.Network, host string, want ...string) error {
	routes, err := n.Ask(host).Routes(n.Ctx, netip.Addr{})
	var got []string
	for _, r := range routes {
		for _, h := range r.Hops {
			if r.Prefix.Bits() == 0 && r.Prefix.Addr().Is4() {
				got = append(got, h.Segment+" "+h.State)
			}
		}
	}
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("next hops %q", got)
	}
	return err
}

// echoFlows sends a datagram on each of so many flows, which is answered.
func echoFlows(d harness.Direction, flows int) error {
	for range flows {
		if err := harness.Echo(d, 100); err != nil {
			return err
		}
	}
	return nil
}

func hopResolved(n *harness.Network, host, segment string) error {
	routes, err := n.Ask(host).Routes(n.Ctx, netip.Addr{})
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
func sentBy(n *harness.Network, host string, names ...string) ([]uint64, error) {
	ports, err := n.Ask(host).Ports(n.Ctx)
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
	t.Parallel()
	n := harness.NewUnderlay(t, overlapPicture, 1, 4)
	a := n.Guest("a0", 0, 1, n.Hosts[0], "a0", 1500)
	a1 := n.Guest("a1", 1, 1, n.Hosts[0], "a1", 1500)
	b := n.Guest("b0", 0, 1, n.Hosts[0], "b0", 1500)
	b1 := n.Guest("b1", 1, 1, n.Hosts[0], "b1", 1500)
	c := n.Guest("c0", 3, 1, n.Hosts[0], "c0", 1500)
	n.Record()
	n.EdgesUp(spec)
	for _, p := range [][2]harness.Guest{{a, a1}, {b, b1}} {
		n.Pings(harness.Way(p[0], p[1], 4), harness.Way(p[1], p[0], 4))
		n.Once(p[1].Name+" itself has the packets from "+p[0].Name, func() error { return harness.Transfer(harness.Way(p[0], p[1], 4), 1_000_000) })
	}
	n.Pings(harness.Way(a, c, 4), harness.Way(c, a, 4))
	n.Once("the second router has no route to the leaked network", func() error {
		return harness.PingFails(n.Network, b.Host, c.Addr(4), harness.GatewayAddr(0, 4), "Destination Net Unreachable")
	})
	n.Transfers(len(harness.Content), harness.Way(a, c, 4), harness.Way(c, a, 4))
	n.NoDrops("no-neighbour", "no-route", "no-member")
}

package evpn

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const torPicture = `
      red1          gw1  192.0.2.1 --- switch --- gw2  192.0.2.2
        \ r0       /  \                              | up0
          gw1 ----+    up0 ------ wan (bridge) ------+
   uplinks 198.51.100.101 and .102; the hosts themselves 198.51.100.201 and .202
   tor1 … tor4 at the wan: FRR, AS 65100, 198.51.100.1 … .8; all have 203.0.113.1`

const torCount = 4

// tors is edges whose uplinks speak BGP with the routers there.
type tors struct {
	*harness.Hub
	red1    harness.Guest
	routers []*topo.Host
	frr     []*dut.FRR
}

func torAddr(number, family int) netip.Addr { return harness.WanAddr(number, family) }

// newTors is two gateways, one of them with a guest, and routers at the wan.
func newTors(t *testing.T) *tors {
	t.Helper()
	n := &tors{Hub: harness.NewUnderlay(t, torPicture, 2, 4)}
	wan := n.Host("wan")
	var ports []string
	join := func(h *topo.Host, name string, number int) {
		port := fmt.Sprintf("w%d", number)
		n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: h, Name: name, Addrs: []netip.Prefix{
			netip.PrefixFrom(torAddr(number, 4), 24), netip.PrefixFrom(torAddr(number, 6), 64)}},
			topo.LinkEnd{Host: wan, Name: port}, 1500))
		ports = append(ports, port)
	}
	for i, h := range n.Hosts {
		join(h, "up0", 201+i)
	}
	for i := range torCount {
		h := n.Host(fmt.Sprintf("tor%d", i+1))
		join(h, "lan0", i+1)
		for _, a := range []string{"203.0.113.1/32", "2001:db8:cafe::1/128"} {
			n.Must(h.AddAddr("lo", netip.MustParsePrefix(a)))
		}
		n.routers = append(n.routers, h)
	}
	n.Must(wan.Bridge(n.Ctx, "br0", 1500, ports...))
	n.red1 = n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	return n
}

// dumpOnFailure shows what routers at the wan know, of a test that failed.
func (n *tors) dumpOnFailure() {
	if !n.T.Failed() {
		return
	}
	for i, f := range n.frr[:min(2, len(n.frr))] {
		text, err := f.Do(n.Ctx, "show bgp summary", "show ip route bgp", "show ipv6 route bgp")
		n.T.Logf("tor%d: %v\n%s", i+1, err, text)
	}
	for i := range n.Hosts {
		if n.Edges[n.Hosts[i].Name] != nil {
			text, err := n.Command(i+1, "bgp")
			n.T.Logf("bgp of %s: %v\n%s", n.Hosts[i].Name, err, text)
		}
	}
}

// serve starts the routers, each with a session to every gateway on both families.
func (n *tors) speakBGP() {
	n.T.Helper()
	for i, h := range n.routers {
		var b strings.Builder
		fmt.Fprintf(&b, "router bgp 65100\n bgp router-id %s\n no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp 3 9\n", torAddr(i+1, 4))
		for _, family := range []int{4, 6} {
			for e := range n.Hosts {
				fmt.Fprintf(&b, " neighbor %s remote-as 65000\n neighbor %[1]s timers connect 1\n neighbor %[1]s ttl-security hops 1\n neighbor %[1]s password of-the-rack\n", torAddr(201+e, family))
			}
		}
		for family, own := range map[int]string{4: "203.0.113.1/32", 6: "2001:db8:cafe::1/128"} {
			fmt.Fprintf(&b, " address-family ipv%d unicast\n  network %s\n", family, own)
			for e := range n.Hosts {
				fmt.Fprintf(&b, "  neighbor %s activate\n  neighbor %[1]s default-originate\n", torAddr(201+e, family))
			}
			b.WriteString(" exit-address-family\n")
		}
		f, err := dut.StartFRR(n.Ctx, h, dut.FRRConfig{BGP: b.String()})
		n.Must(err)
		n.frr = append(n.frr, f)
	}
}

// spec is a gateway's configuration; the first has the guest.
func (n *tors) spec(number int, more string) string {
	var b strings.Builder
	b.WriteString("  bgp:\n    as: 65000\n    neighbours:\n")
	for i := range n.routers {
		for _, family := range []int{4, 6} {
			fmt.Fprintf(&b, "    - {name: tor%d-%d, address: %q, as: 65100, localAddress: %q, uplink: wan, families: [ipv%d], ttlSecurity: 1, password: of-the-rack, advertise: [connected, loopback, egress], import: [in]}\n",
				i+1, family, torAddr(i+1, family), torAddr(200+number, family), family)
		}
	}
	b.WriteString("    policies:\n    - {name: in, statements: [{prefixes: [{prefix: 0.0.0.0/0}, {prefix: \"::/0\"}]}, {prefixes: [{prefix: 203.0.113.0/24, min: 32}, {prefix: \"2001:db8:cafe::/48\", min: 128}]}, {reject: true}]}\n")
	fmt.Fprintf(&b, "  routers:\n  - name: tenant\n    loopbacks: [10.255.0.%d]\n    uplinks:\n    - {name: wan, interface: up0, mac: %q, addresses: [%s/24, \"%s/64\"]}\n",
		number, harness.UplinkMAC(number), torAddr(100+number, 4), torAddr(100+number, 6))
	if number == 1 {
		b.WriteString("  segments:\n  - {name: red, vni: 100, gateway: {router: tenant, addresses: [10.0.0.254/24, \"fd00:0::fe/64\"]}}\n  ports:\n  - {name: r0, interface: r0, segment: red}\n")
	}
	return b.String() + more
}

// sessions is a fact: those of a gateway with all routers are established.
func (n *tors) sessions(number int) {
	n.T.Helper()
	n.Fact(n.Hosts[number-1].Name+" has sessions with all routers", func() error {
		bgp, err := n.Ask(n.Hosts[number-1].Name).BGP().Info(n.Ctx)
		if err == nil && len(bgp.Neighbours) != 2*len(n.routers) {
			err = fmt.Errorf("%d neighbours", len(bgp.Neighbours))
		}
		for _, s := range bgp.Neighbours {
			if s.State != "established" || !s.Complete {
				err = errors.Join(err, fmt.Errorf("%s is %s: %s", s.Name, s.State, s.Why))
			}
		}
		return err
	})
}

// pool is the address of a policy that the gateways own in turn.
const pool = "100.64.0.30"

// egress has both edges be gateways of a group.
func (n *tors) egress(number int) string {
	names := []string{"gw1", "gw2"}
	names[number-1] = dut.EdgeName(n.Hosts[number-1])
	remote := fmt.Sprintf("  remotes:\n  - {name: gw%d, addresses: [%q]}\n", 3-number, n.Teps[2-number])
	return remote + fmt.Sprintf("  egress:\n    gateways: [{name: gws, mode: active-standby, members: [%s, %s]}]\n    policies:\n    - {name: web, router: tenant, vni: 9001, gateways: gws, from: [192.168.77.0/24], pool: [%s], uplink: wan}\n", names[0], names[1], pool)
}

// A gateway learns the way out of its routers and spreads over all of them; they learn the tenant's networks, and which
// of two gateways owns the addresses of a pool. A router that dies gets nothing any more.
func TestEVPNUplink(t *testing.T) {
	t.Parallel()
	n := newTors(t)
	defer n.dumpOnFailure()
	n.speakBGP()
	n.Record()
	for i, h := range n.Hosts {
		text := harness.Header(dut.EdgeName(h), n.Teps[i], n.spec(i+1, n.egress(i+1)))
		text = strings.Replace(text, fmt.Sprintf("tep: %q", n.Teps[i]), fmt.Sprintf("tep: %q, bfd: {interval: 100ms, multiplier: 3}", n.Teps[i]), 1)
		n.Start(h, dut.EdgeName(h), text)
	}
	for i, h := range n.Hosts {
		n.Resolved(h.Name)
		n.sessions(i + 1)
	}
	for _, prefix := range []string{"0.0.0.0/0", "::/0", "203.0.113.1/32", "2001:db8:cafe::1/128"} {
		n.hops(netip.MustParsePrefix(prefix), torCount)
	}
	for i, f := range n.frr {
		for _, prefix := range []string{"10.0.0.0/24", "10.255.0.1/32", "fd00::/64", pool + "/32"} {
			n.torHas(i+1, f, netip.MustParsePrefix(prefix), 1)
		}
	}
	for _, family := range []int{4, 6} {
		out := map[int]netip.Addr{4: harness.Outside4, 6: harness.Outside6}[family]
		n.Fact(fmt.Sprintf("red1 pings what all routers have, IPv%d", family), func() error { return harness.Ping(n.Ctx, n.red1.Host, out) })
		n.Fact(fmt.Sprintf("tor3 pings red1, IPv%d", family), func() error { return harness.Ping(n.Ctx, n.routers[2], n.red1.Addr(family)) })
	}
	for _, h := range n.routers {
		n.Serve(harness.Guest{Host: h}, harness.PortAllowed)
	}
	n.spreadsOver()
	n.frr[0].Kill()
	n.Must(n.routers[0].Down("lan0"))
	for _, prefix := range []string{"0.0.0.0/0", "::/0"} {
		n.hops(netip.MustParsePrefix(prefix), torCount-1)
	}
	n.Fact("red1 reaches the others", func() error { return harness.Ping(n.Ctx, n.red1.Host, harness.Outside4) })
	n.gatewayIsLost()
}

// gatewayIsLost: routers at the wan follow the addresses of the pool to the other gateway and back.
func (n *tors) gatewayIsLost() {
	n.T.Helper()
	prefix := netip.MustParsePrefix(pool + "/32")
	n.Must(n.Sw.Down("e1"))
	n.Must(n.Host("wan").Down("w201"))
	n.torHas(2, n.frr[1], prefix, 2)
	n.Must(n.Host("wan").Up("w201"))
	n.Must(n.Sw.Up("e1"))
	n.torHas(2, n.frr[1], prefix, 1)
}

// hops is a fact: the data path has so many next hops of a prefix.
func (n *tors) hops(prefix netip.Prefix, count int) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("%s leads to %d routers", prefix, count), func() error {
		routes, err := n.Ask("edge1").Routes(n.Ctx, netip.Addr{})
		for _, r := range routes {
			if r.Prefix != prefix {
				continue
			}
			if len(r.Hops) != count {
				return fmt.Errorf("%d: %+v", len(r.Hops), r.Hops)
			}
			return err
		}
		return errors.Join(errors.New("there is no such route"), err)
	})
}

// torHas is a fact: a router has a prefix by the uplink of a gateway.
func (n *tors) torHas(tor int, f *dut.FRR, prefix netip.Prefix, gateway int) {
	n.T.Helper()
	family, via := "ip", torAddr(100+gateway, 4)
	if prefix.Addr().Is6() {
		family, via = "ipv6", torAddr(100+gateway, 6)
	}
	n.Fact(fmt.Sprintf("tor%d has %s by gw%d", tor, prefix, gateway), func() error {
		out, err := f.Do(n.Ctx, fmt.Sprintf("show %s route %s", family, prefix))
		if err == nil && !strings.Contains(out, "* "+via.String()+",") {
			err = fmt.Errorf("no %s in %s", via, out)
		}
		return err
	})
}

// spreadsOver is the fact that connections of a guest go to several routers.
func (n *tors) spreadsOver() {
	n.T.Helper()
	n.Once("connections go to at least three routers", func() error {
		for range 64 {
			conn, err := harness.DialTCP(n.red1.Host, netip.AddrPortFrom(harness.Outside4, harness.PortAllowed).String())
			if err != nil {
				return err
			}
			n.T.Cleanup(func() { conn.Close() })
			if err := harness.ExchangeLine(conn, harness.Patience); err != nil {
				return err
			}
		}
		with := 0
		for _, h := range n.routers {
			out, err := h.Output(n.Ctx, "ss", "-tnH", "state", "established", "sport", "=", fmt.Sprintf(":%d", harness.PortAllowed))
			if err != nil {
				return err
			}
			if len(strings.TrimSpace(string(out))) > 0 {
				with++
			}
		}
		if with < 3 {
			return fmt.Errorf("%d have some", with)
		}
		return nil
	})
}

package firewall

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What else of an edge changes while its firewall stands.

// turned is the fact that the edge has a firewall, or none.
func (n *policed) turned(host string, on bool) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("firewall of %s: %t", host, on), func() error {
		status, err := n.Ask(host).Status(n.Ctx)
		if err == nil && (status.Firewall != nil) != on {
			err = errors.New("it is otherwise")
		}
		return err
	})
}

// onOff: turning a firewall on and off loses nothing that it allows.
func onOff(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed, harness.PortDropped)
	streams := n.streamsOver()
	conn := n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	some := policy{options: "default: allow", rules: []string{"name: not-7002, action: drop, services: [tcp/7002]"}}
	for range 2 {
		gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortDropped, harness.Answered)
		n.enforce(1, some, "p1", "p2")
		n.turned("edge1", true)
		n.GoOn(streams)
		gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortDropped, harness.Silent)
		n.Once("the connection works", func() error { return harness.ExchangeLine(conn, harness.Patience) })
		n.Must(n.Reload("edge1", n.Yaml(1, policedSpec(none, "p1", "p2"))))
		n.turned("edge1", false)
		n.GoOn(streams)
		n.Once("the connection works without", func() error { return harness.ExchangeLine(conn, harness.Patience) })
	}
	n.LostNothing(streams)
}

// portsChange: a port that is unplugged and plugged in again is never open, and one that takes another's place
// does not inherit what that one's workload had.
func portsChange(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed, harness.PortDropped)
	n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortDropped, harness.Silent)
	n.Must(n.Hosts[0].Delete("p1"))
	n.Fact("port p1 is absent", func() error { return n.PortState("edge1", "p1", "absent") })
	n.Must(n.Topo.Link(n.Ctx, n.red1.End(true), topo.LinkEnd{Host: n.Hosts[0], Name: "p1"}, 1430))
	n.Fact("port p1 is up", func() error { return n.PortState("edge1", "p1", "up") })
	n.Fact("red1 reaches what it may", func() error {
		return harness.Meets(n.red1, "tcp", n.red3.Addr(4), harness.PortAllowed, harness.Answered)
	})
	gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortDropped, harness.Silent)

	// Another port, with the same guest behind it, that may do nothing.
	n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	n.Must(n.Hosts[0].Delete("p1"))
	n.Must(n.Topo.Link(n.Ctx, n.red1.End(true), topo.LinkEnd{Host: n.Hosts[0], Name: "p9"}, 1430))
	p := strictOut
	p.rules = []string{strings.Replace(strictOut.rules[0], "direction: out", "direction: out, appliedTo: [{port: p2}]", 1)}
	n.enforce(1, p, "p9", "p2")
	n.Fact("port p9 is up", func() error { return n.PortState("edge1", "p9", "up") })
	gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortAllowed, harness.Silent)
	gets(n.Hub.Network, n.red2, "tcp", n.red3, harness.PortAllowed, harness.Answered)
	n.Once("no session is of a port that is gone, nor of the one that has nothing", func() error {
		list, err := sessions(n.Hub.Network, "edge1", api.ConnectionQuery{})
		if i := slices.IndexFunc(list.Sessions, func(s api.SessionInfo) bool { return s.Port != "p2" && s.Answered }); err == nil && i >= 0 {
			err = fmt.Errorf("%+v", list.Sessions[i])
		}
		return err
	})
	n.Must(n.Hosts[0].Delete("p9"))
	n.Must(n.Topo.Link(n.Ctx, n.red1.End(true), topo.LinkEnd{Host: n.Hosts[0], Name: "p1"}, 1430))
}

// A firewall stands between a router's uplink and its guests too.
func TestFirewallUplink(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.UplinkPicture, 2, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1450)
	out := n.Outside(n.Hosts[0], "up0")
	p := policy{options: "default: drop, strict: true", rules: []string{
		"name: out, action: allow, direction: out, services: [tcp/7001, icmp/8, icmpv6/128]",
		`name: from-outside, action: allow, from: [203.0.113.0/24, "2001:db8:cafe::/64"], services: [tcp/7002]`,
		`name: from-wan, action: reject, from: [{segment: wan}], services: [tcp/7003]`,
	}}
	n.EdgesUp(harness.UplinkSpec+p.yaml(), `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`+policy{p.options, p.rules[:2]}.yaml()) // there is no uplink
	n.Serve(harness.Guest{Host: out}, harness.PortAllowed, harness.PortDropped)
	n.Serve(red1, harness.PortAllowed, harness.PortDropped, harness.PortRejected)
	n.Serve(red2, harness.PortAllowed, harness.PortDropped, harness.PortRejected)
	world := harness.Guest{Host: out}
	asks := func(from harness.Guest, to netip.Addr, port int, want harness.Outcome) {
		n.T.Helper()
		n.Fact(fmt.Sprintf("%s port %d is %s to %s", to, port, want, from.Name), func() error { return harness.Meets(from, "tcp", to, port, want) })
	}
	for _, inner := range []int{4, 6} {
		n.Fact("red1 pings the outside", func() error { return harness.Ping(n.Ctx, red1.Host, harness.OutsideAddr(inner)) })
		asks(red1, harness.OutsideAddr(inner), harness.PortAllowed, harness.Answered)
		asks(red1, harness.OutsideAddr(inner), harness.PortDropped, harness.Silent)
		asks(world, red1.Addr(inner), harness.PortAllowed, harness.Silent)
		asks(world, red1.Addr(inner), harness.PortRejected, harness.Refused)
		asks(world, red2.Addr(inner), harness.PortRejected, harness.Silent)
	}
}

package firewall

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// An edge with a firewall, and a kernel without one as the other host, which drops what does not fit the tunnel without
// a word: the clamp of one edge serves both sides, and what the edge itself answers gets through.
func TestFirewallKernelPeer(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, harness.Tight(6))
	n.BuildRecorded(n.SelvageHalf(), dut.KernelHalf{TunnelMTU: 1430, UDP6ZeroCsumRx: true})
	n.StopCaptures()
	client, server := harness.Guest{Host: n.Client, Subnet: 0, Number: 1}, harness.Guest{Host: n.Server, Subnet: 0, Number: 2}
	n.Serve(client, harness.PortAllowed, harness.PortDropped, harness.PortRejected)
	n.Serve(server, harness.PortAllowed, harness.PortDropped, harness.PortRejected)
	gets(n.Network, server, "tcp", client, harness.PortDropped, harness.Answered)
	p := policy{options: "default: drop, strict: true", rules: []string{
		"name: dropped, action: drop, services: [tcp/7002, udp/7002]",
		"name: rejected, action: reject, services: [tcp/7003, udp/7003]",
		"name: others, action: allow, from: [{segment: lab}]",
	}}
	n.Must(n.Reload("hosta", n.Config("hosta")+p.yaml()))
	n.Fact("the policy is in force", func() error { return hasRule(n.Network, "hosta", "others") })
	for _, d := range []struct{ from, to harness.Guest }{{client, server}, {server, client}} {
		for network, rejection := range map[string]harness.Outcome{"tcp": harness.Refused, "udp": harness.Prohibited} {
			gets(n.Network, d.from, network, d.to, harness.PortAllowed, harness.Answered)
			gets(n.Network, d.from, network, d.to, harness.PortDropped, harness.Silent)
			gets(n.Network, d.from, network, d.to, harness.PortRejected, rejection)
		}
	}
	for _, inner := range []int{4, 6} {
		for _, d := range n.Directions(inner) {
			n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, len(harness.Content)) })
			n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 1000) })
		}
	}
	n.Once("data packets are on the fast path", func() error { return fastTCP(n.Network, "hosta") })
	for family, by := range map[int]netip.Addr{4: topo.ServerV4, 6: topo.ServerV6} {
		n.Fact("a ping that does not fit is refused", func() error { return harness.TooBigPing(n.Network, n.Directions(family)[0], 1500, 1430, by) })
	}
}

// fastTCP is nil when the TCP flows that are left on an edge take the fast path.
func fastTCP(n *harness.Network, host string) error {
	flows, err := n.Ask(host).Flows(n.Ctx, api.EntryQuery{})
	if err != nil {
		return err
	}
	fast := 0
	for _, f := range flows.List {
		if f.Proto == "tcp" && f.Bytes > 1_000_000 {
			if !f.FastPath {
				return fmt.Errorf("%+v", f)
			}
			fast++
		}
	}
	if fast == 0 {
		return fmt.Errorf("there is none among %d", flows.Matched)
	}
	return nil
}

package e2e

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// An edge with a firewall, and a kernel without one as the other host.
func TestFirewallKernelPeer(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			n.build(n.selvage(), topo.KernelHalf{UDP6ZeroCsumRx: true})
			n.quiet()
			client, server := guest{n.Client, 0, 1}, guest{n.Server, 0, 2}
			n.serve(client, portAllowed, portDropped, portRejected)
			n.serve(server, portAllowed, portDropped, portRejected)
			n.gets(server, "tcp", client, portDropped, answered)
			p := policy{options: "default: drop, strict: true", rules: []string{
				"name: dropped, action: drop, services: [tcp/7002, udp/7002]",
				"name: rejected, action: reject, services: [tcp/7003, udp/7003]",
				"name: others, action: allow, from: [{segment: lab}]",
			}}
			n.must(n.reload("hosta", n.config("hosta")+p.yaml()))
			n.fact("the policy is in force", func() error { return n.hasRule("hosta", "others") })
			for _, d := range []struct{ from, to guest }{{client, server}, {server, client}} {
				for network, rejection := range map[string]outcome{"tcp": refused, "udp": prohibited} {
					n.gets(d.from, network, d.to, portAllowed, answered)
					n.gets(d.from, network, d.to, portDropped, silent)
					n.gets(d.from, network, d.to, portRejected, rejection)
				}
			}
			for _, inner := range []int{4, 6} {
				for _, d := range n.directions(inner) {
					n.once("TCP from "+d.name, func() error { return transfer(d, len(content)) })
					n.fact("large datagrams from "+d.name, func() error { return echo(d, 1, 1000, 5000) })
				}
			}
			n.once("data packets are on the fast path", func() error { return n.fastTCP("hosta") })
		})
	}
}

// fastTCP is nil when the TCP flows that are left on an edge take the fast path.
func (n *network) fastTCP(host string) error {
	flows, err := n.ask(host).Flows(n.ctx)
	if err != nil {
		return err
	}
	fast := 0
	for _, f := range flows {
		if f.Proto == "tcp" && f.Bytes > 1_000_000 {
			if !f.FastPath {
				return fmt.Errorf("%+v", f)
			}
			fast++
		}
	}
	if fast == 0 {
		return fmt.Errorf("there is none among %d", len(flows))
	}
	return nil
}

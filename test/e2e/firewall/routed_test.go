package firewall

import (
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

// Guests of two segments, between which both edges route: rules see the segments at both ends,
// and the addresses that the guests see.
func TestFirewallRouted(t *testing.T) {
	t.Parallel()
	n := harness.NewRoutedHub(t, 4)
	both := policy{options: "default: allow, strict: true", rules: []string{
		"name: red-to-blue, action: drop, from: [{segment: red}], to: [{segment: blue}], services: [tcp/7002, udp/7002]",
		`name: rejected, action: reject, to: [10.1.0.0/24, "fd00:1::/64"], services: [tcp/7003, udp/7003]`,
		"name: to-port, action: drop, to: [{port: b0}], services: [tcp/7004, udp/7004]",
		"name: applied, action: drop, appliedTo: [{port: b0}], direction: in, services: [tcp/7005, udp/7005]",
	}}
	n.EdgesUp(harness.GatewaySpec+both.yaml(), harness.GatewaySpec+both.yaml())
	for _, g := range []harness.Guest{n.Red1, n.Red2, n.Blue1, n.Blue2} {
		n.Serve(g, harness.PortAllowed, harness.PortDropped, harness.PortRejected, harness.PortDroppedOut, harness.PortRejectedIn)
		for _, family := range []int{4, 6} {
			n.GatewayAnswers(g, family)
		}
	}
	for _, inner := range []int{4, 6} {
		n.Pings(harness.Way(n.Red1, n.Blue1, inner), harness.Way(n.Red1, n.Blue2, inner), harness.Way(n.Blue2, n.Red1, inner))
	}
	for _, network := range []string{"tcp", "udp"} {
		rejection := map[string]harness.Outcome{"tcp": harness.Refused, "udp": harness.Prohibited}[network]
		for _, blue := range []harness.Guest{n.Blue1, n.Blue2} {
			gets(n.Hub.Network, n.Red1, network, blue, harness.PortAllowed, harness.Answered)
			gets(n.Hub.Network, n.Red1, network, blue, harness.PortDropped, harness.Silent)
			gets(n.Hub.Network, blue, network, n.Red1, harness.PortDropped, harness.Answered)
			gets(n.Hub.Network, n.Red1, network, blue, harness.PortRejected, rejection)
			gets(n.Hub.Network, n.Red1, network, blue, harness.PortDroppedOut, harness.Silent)
			gets(n.Hub.Network, n.Red1, network, blue, harness.PortRejectedIn, harness.Silent)
			gets(n.Hub.Network, blue, network, n.Red1, harness.PortRejectedIn, harness.Answered)
		}
		gets(n.Hub.Network, n.Red1, network, n.Red2, harness.PortDropped, harness.Answered)
	}
	n.NoDrops("denied", "rejected", "no-neighbour", "no-member")
}

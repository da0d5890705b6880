package e2e

import "testing"

// Guests of two segments, between which both edges route: rules see the segments at both ends,
// and the addresses that the guests see.
func TestFirewallRouted(t *testing.T) {
	n := newRoutedHub(t, 4)
	both := policy{options: "default: allow, strict: true", rules: []string{
		"name: red-to-blue, action: drop, from: [{segment: red}], to: [{segment: blue}], services: [tcp/7002, udp/7002]",
		`name: rejected, action: reject, to: [10.1.0.0/24, "fd00:1::/64"], services: [tcp/7003, udp/7003]`,
		"name: to-port, action: drop, to: [{port: b0}], services: [tcp/7004, udp/7004]",
		"name: applied, action: drop, appliedTo: [{port: b0}], direction: in, services: [tcp/7005, udp/7005]",
	}}
	n.edgesUp(gatewaySpec+both.yaml(), gatewaySpec+both.yaml())
	for _, g := range []guest{n.red1, n.red2, n.blue1, n.blue2} {
		n.serve(g, portAllowed, portDropped, portRejected, portDroppedOut, portRejectedIn)
		for _, family := range []int{4, 6} {
			n.gatewayAnswers(g, family)
		}
	}
	for _, inner := range []int{4, 6} {
		n.pings(way(n.red1, n.blue1, inner), way(n.red1, n.blue2, inner), way(n.blue2, n.red1, inner))
	}
	for _, network := range []string{"tcp", "udp"} {
		rejection := map[string]outcome{"tcp": refused, "udp": prohibited}[network]
		for _, blue := range []guest{n.blue1, n.blue2} {
			n.gets(n.red1, network, blue, portAllowed, answered)
			n.gets(n.red1, network, blue, portDropped, silent)
			n.gets(blue, network, n.red1, portDropped, answered)
			n.gets(n.red1, network, blue, portRejected, rejection)
			n.gets(n.red1, network, blue, portDroppedOut, silent)
			n.gets(n.red1, network, blue, portRejectedIn, silent)
			n.gets(blue, network, n.red1, portRejectedIn, answered)
		}
		n.gets(n.red1, network, n.red2, portDropped, answered)
	}
	n.noDrops("denied", "rejected", "no-neighbour", "no-member")
}

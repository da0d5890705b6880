package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// TestGateway goes from fact to fact with the same edges.
func TestGateway(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 4 {
				tier.Long(t, "TestGateway/IPv6; over IPv4 TestTsharkGateway/IPv4 and TestGatewaySymmetric/IPv4")
			}
			t.Parallel()
			n := harness.NewRoutedHub(t, family)
			n.EdgesUp(harness.GatewaySpec, harness.GatewaySpec)
			routesBetween(n)
			killedRoutes(n)
		})
	}
}

func routesBetween(n *harness.RoutedHub) {
	n.T.Helper()
	for _, inner := range []int{4, 6} {
		for _, g := range []harness.Guest{n.Red1, n.Blue1, n.Red2, n.Blue2} {
			n.GatewayAnswers(g, inner)
		}
		// Hosts that nobody has heard of yet.
		n.Routes(harness.Way(n.Red1, n.Blue1, inner), 1, n.Red1)
		n.Routes(harness.Way(n.Red1, n.Blue2, inner), 1, n.Red1)
		n.Routes(harness.Way(n.Blue1, n.Red2, inner), 1, n.Blue1)
		n.Routes(harness.Way(n.Red1, n.Red2, inner), 0, n.Red1)
	}
	n.Transfers(len(harness.Content), append(harness.Ways(n.Red1, n.Blue1), harness.Ways(n.Red1, n.Blue2)...)...)
	for _, edge := range []string{"edge1", "edge2"} {
		n.Once("routed TCP is on the fast path of "+edge, func() error { return routedFast(n.Network, edge) })
	}
	n.NoDrops("no-neighbour", "ttl-exceeded")
}

// routedFast: the transfer's segments met the flow cache.
func routedFast(n *harness.Network, host string) error {
	flows, err := n.Ask(host).Flows(n.Ctx, api.EntryQuery{})
	for _, f := range flows.List {
		if f.Proto == "tcp" && f.OutSegment != "" && f.OutSegment != f.Segment && f.FastPath && f.Bytes > 10_000_000 {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("flows %+v", flows), err)
}

// Edges that have one subnet each, and a segment between their routers: symmetric
// integrated routing and bridging (RFC 9135 section 4).
func TestGatewaySymmetric(t *testing.T) {
	const spec = `
  segments:
  - name: NAME
    vni: VNI
    gateway: {router: tenant, addresses: [10.MINE.0.254/24, "fd00:MINE::fe/64"]}
  routers:
  - name: tenant
    l3: {vni: 5000, encapsulation: nvgre, mac: "02:00:00:00:04:0MINE", remotes: REMOTES}
    routes:
    - {prefix: 10.THEIRS.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
    - {prefix: "fd00:THEIRS::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
  ports:
  - {name: p0, interface: p0, segment: NAME}
`
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestGatewaySymmetric/IPv4; over IPv6 TestGateway/IPv6")
			}
			t.Parallel()
			n := harness.NewUnderlay(t, harness.GatewayPicture, 2, family)
			red := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1430)
			blue := n.Guest("blue2", 1, 2, n.Hosts[1], "p0", 1430)
			n.Record()
			n.EdgesUp(
				strings.NewReplacer("NAME", "red", "VNI", "100", "MINE", "0", "THEIRS", "1", "PEER", n.Teps[1].String()).Replace(spec),
				strings.NewReplacer("NAME", "blue", "VNI", "200", "MINE", "1", "THEIRS", "0", "PEER", n.Teps[0].String()).Replace(spec),
			)
			for _, inner := range []int{4, 6} {
				n.Routes(harness.Way(red, blue, inner), 2, red)
				n.Routes(harness.Way(blue, red, inner), 2, blue)
				n.Once(fmt.Sprintf("the second router answers too, IPv%d", inner), func() error {
					return harness.PingFails(n.Network, red.Host, blue.Addr(inner), netip.Addr{}, harness.TimeExceeded, "-t", "2")
				})
			}
			n.Transfers(len(harness.Content), harness.Ways(red, blue)...)
			n.NoDrops("no-neighbour", "ttl-exceeded", "no-member") // the guests are alone in their segments
		})
	}
}

const betweenPicture = `
                switch
          e1 /   e2 |    \ e3
        edge1    edge2    edge3     edge2 alone has the gateways
       p0 | red           | p0 blue, in another encapsulation
        red1            blue3`

// An edge in the middle routes from one tunnel to another.
func TestGatewayBetweenTunnels(t *testing.T) {
	const leaf = `
  segments:
  - {name: SEGMENT, vni: 100, encapsulation: ENCAP, MORE remotes: ["MIDDLE"]}
  ports:
  - {name: p0, interface: p0, segment: SEGMENT}
`
	const middle = `
  segments:
  - name: red
    vni: 100
    remotes: ["FIRST"]
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 100
    encapsulation: ENCAP
    MORE
    remotes: ["LAST"]
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
`
	for name, more := range map[string]string{"geneve": "", "geneve with options": "options: " + harness.GeneveOptions, "nvgre": ""} {
		t.Run(name, func(t *testing.T) {
			if name == "geneve" {
				tier.Long(t, "TestGatewayBetweenTunnels/geneve_with_options")
			}
			t.Parallel()
			n := harness.NewUnderlay(t, betweenPicture, 3, 4)
			encapsulation, _, _ := strings.Cut(name, " ")
			words := func(spec, segment, encapsulation, more string) string {
				return strings.NewReplacer("SEGMENT", segment, "ENCAP", encapsulation, "MORE", more,
					"FIRST", n.Teps[0].String(), "MIDDLE", n.Teps[1].String(), "LAST", n.Teps[2].String()).Replace(spec)
			}
			red := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1430)
			blue := n.Guest("blue3", 1, 3, n.Hosts[2], "p0", 1430)
			n.Record()
			short := more
			if short != "" {
				short = `options: "` + harness.GeneveOptions + `",`
			}
			n.EdgesUp(words(leaf, "red", "vxlan", ""), words(middle, "", encapsulation, more), words(leaf, "blue", encapsulation, short))
			for _, inner := range []int{4, 6} {
				n.Routes(harness.Way(red, blue, inner), 1, red)
				n.Routes(harness.Way(blue, red, inner), 1, blue)
			}
			if name != "nvgre" {
				// The kernel cannot make a large segment of a UDP tunnel one of GRE. A network
				// card delivers none in a tunnel, a veth does: gso-nested.
				n.Transfers(len(harness.Content), harness.Ways(red, blue)...)
			}
			n.NoDrops("no-neighbour", "ttl-exceeded", "no-member")
		})
	}
}

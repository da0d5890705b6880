package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// TestGateway goes from fact to fact with the same edges. Over IPv4, TestTsharkGateway.
func TestGateway(t *testing.T) {
	t.Parallel()
	n := harness.NewRoutedHub(t, 6)
	n.EdgesUp(harness.GatewaySpec, harness.GatewaySpec)
	routesBetween(n)
	killedRoutes(n)
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
  - {name: SEGMENT, vni: 100, remotes: ["MIDDLE"]}
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
    encapsulation: geneve
    options: ` + harness.GeneveOptions + `
    remotes: ["LAST"]
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
`
	t.Parallel()
	n := harness.NewUnderlay(t, betweenPicture, 3, 4)
	words := func(spec, segment string) string {
		return strings.NewReplacer("SEGMENT", segment, "FIRST", n.Teps[0].String(), "MIDDLE", n.Teps[1].String(), "LAST", n.Teps[2].String()).Replace(spec)
	}
	red := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1430)
	blue := n.Guest("blue3", 1, 3, n.Hosts[2], "p0", 1430)
	n.Record()
	n.EdgesUp(words(leaf, "red"), words(middle, ""), words(strings.Replace(leaf, "vni: 100", `vni: 100, encapsulation: geneve, options: "`+harness.GeneveOptions+`"`, 1), "blue"))
	for _, inner := range []int{4, 6} {
		n.Routes(harness.Way(red, blue, inner), 1, red)
		n.Routes(harness.Way(blue, red, inner), 1, blue)
	}
	n.Transfers(len(harness.Content), harness.Ways(red, blue)...)
	n.NoDrops("no-neighbour", "ttl-exceeded", "no-member")
}

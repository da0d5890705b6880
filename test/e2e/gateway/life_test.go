package gateway

import (
	"errors"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const movePicture = `
                    switch
          e1 /       e2 |       \ e3
        edge1         edge2       edge3      gateways 10.0.0.254 and fd00:0::fe on all,
     p0 |  | b0    p0 |  | p1   p0 |  | p1   and 10.1.0.254, fd00:1::fe
      red1 blue1    red2 mobile  red3 (mobile, later)`

const moveSpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 200
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
  ports:
  - {name: p0, interface: p0, segment: red}
  - {name: p1, interface: p1, segment: red}
  - {name: b0, interface: b0, segment: blue}
`

// A host moves to another edge, and those who talk to it, bridged and routed,
// follow at once.
func TestHostMovesBehindGateway(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, movePicture, 3, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1450)
	blue1 := n.Guest("blue1", 1, 1, n.Hosts[0], "b0", 1450)
	mobile := n.Guest("mobile", 0, 9, n.Hosts[1], "p1", 1450)
	n.Record()
	n.EdgesUp(moveSpec, moveSpec, moveSpec)
	for _, from := range []harness.Guest{red1, blue1} {
		n.Pings(harness.Ways(from, mobile)...)
	}
	streams := []*harness.Stream{n.StartStream(harness.Way(red1, mobile, 4)), n.StartStream(harness.Way(blue1, mobile, 4))}
	for _, s := range streams {
		n.More(s, harness.StreamRate/10)
	}
	n.Must(n.Hosts[1].Delete("p1"))
	n.Must(n.Topo.Link(n.Ctx, mobile.End(true), topo.LinkEnd{Host: n.Hosts[2], Name: "p1"}, 1450))
	n.Fact("port p1 of edge3 is up", func() error { return n.PortState("edge3", "p1", "up") })
	for _, from := range []harness.Guest{red1, blue1} { // one packet of its own tells the others
		n.Pings(harness.Way(mobile, from, 4))
	}
	n.IsAt(mobile.Ether(), 3, "p1", 1)
	for _, s := range streams {
		n.More(s, harness.StreamRate/10)
	}
	n.Pings(harness.Way(red1, mobile, 6), harness.Way(blue1, mobile, 6), harness.Way(blue1, mobile, 4))
	for _, s := range streams {
		s.End()
	}
}

// killedRoutes is a step of TestGateway: a routed stream does not notice that an edge is
// killed and started again.
func killedRoutes(n *harness.RoutedHub) {
	n.T.Helper()
	n.Pings(append(harness.Ways(n.Red1, n.Blue2), harness.Ways(n.Red1, n.Blue1)...)...)
	var streams []*harness.Stream
	for _, d := range []harness.Direction{harness.Way(n.Red1, n.Blue2, 4), harness.Way(n.Blue2, n.Red1, 6), harness.Way(n.Blue1, n.Red1, 4), harness.Way(n.Red1, n.Red2, 6)} {
		streams = append(streams, n.StartStream(d))
	}
	goOn := func() { n.GoOn(streams) }
	goOn()
	config, name := n.Config("edge1"), n.Edges["edge1"].Name
	n.Edges["edge1"].Kill()
	goOn()
	n.Fact("without its process the edge routes and answers for the gateway", func() error {
		return errors.Join(harness.Ping(n.Ctx, n.Red1.Host, harness.GatewayAddr(0, 4)), harness.Ping(n.Ctx, n.Blue2.Host, n.Red1.Addr(6)))
	})
	n.Start(n.Hosts[0], name, config)
	n.Adopted("edge1")
	goOn()
	n.Must(n.Reload("edge1", config+"  - {name: later, interface: later0, segment: red}\n"))
	n.Fact("a port is added", func() error { return n.PortState("edge1", "later", "absent") })
	goOn()
	n.LostNothing(streams)
	n.NoDrops("no-neighbour", "ttl-exceeded")
}

package gateway

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What goes through routers of the Linux kernel with the same gateways (asymmetric).
func TestGatewayKernel(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 4, Routed: true})
	n.BuildRecorded(n.SelvageHalf(), dut.KernelHalf{})
	n.Resolved(n.A.Name)
	noErrors := n.WatchErrors(n.Client, n.A, n.B, n.Server)
	n.Pings(append(n.Directions(4), n.Directions(6)...)...)
	n.Datagrams()
	n.StopCaptures()
	n.Streams()
	n.SegmentsGoWhole()
	noErrors()
	n.NoDrops("no-neighbour", "no-member") // one side has no port in the other subnet
}

const strangersPicture = `
              switch
          e1 /      \ e2
        edge1        kernel       edge1 alone has the gateways
      r0 |  | b0       | br0 -- vxlan0, VNI 100
       red1 blue1     red2`

// A host behind a plain vxlan bridge of the kernel uses the gateway of an edge.
func TestGatewayServesKernelBridge(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, strangersPicture, 2, 6)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1430)
	blue1 := n.Guest("blue1", 1, 1, n.Hosts[0], "b0", 1430)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "p0", 1430)
	n.Record()
	n.EdgesUp(harness.GatewaySpec)
	n.Must(n.Hosts[1].VXLAN(n.Ctx, "vxlan0", topo.VXLAN{VNI: 100, Local: n.Teps[1], Remotes: n.Teps[:1], MTU: 1430, UDP6ZeroCsumRx: true}))
	n.Must(n.Hosts[1].Bridge(n.Ctx, "br0", 1430, "p0", "vxlan0"))
	for _, inner := range []int{4, 6} {
		n.GatewayAnswers(red2, inner)
		n.Routes(harness.Way(red2, blue1, inner), 1, red2)
		n.Routes(harness.Way(blue1, red2, inner), 1, blue1)
		n.Routes(harness.Way(red1, red2, inner), 0, red1)
	}
	n.Transfers(len(harness.Content), harness.Ways(red2, blue1)...)
	n.NoDrops("no-neighbour", "ttl-exceeded")
}

const kernelRouterPicture = `
              switch
          e1 /      \ e2
        edge1        kernel       edge1: gateway of red; VNI 5000 between the routers
      p0 |            | p0        kernel: 10.1.0.254 on p0, vxlan0 with VNI 5000 and
       red1          blue2                routes to red by it`

// The Linux kernel as the other router of a segment between routers (symmetric).
func TestGatewaySymmetricKernel(t *testing.T) {
	const spec = `
  segments:
  - name: red
    vni: 100
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  routers:
  - name: tenant
    l3: {vni: 5000, mac: "02:00:00:00:04:01", remotes: REMOTES}
    routes:
    - {prefix: 10.1.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:02"}]}
    - {prefix: "fd00:1::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:02"}]}
  ports:
  - {name: p0, interface: p0, segment: red}
`
	t.Parallel()
	n := harness.NewUnderlay(t, kernelRouterPicture, 2, 4)
	red := n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1430)
	blue := harness.Guest{Host: n.Host("blue2"), Subnet: 1, Number: 2}
	n.Must(n.Topo.Link(n.Ctx, blue.End(true), topo.LinkEnd{Host: n.Hosts[1], Name: "p0", Addrs: []netip.Prefix{
		netip.PrefixFrom(harness.GatewayAddr(1, 4), 24), netip.PrefixFrom(harness.GatewayAddr(1, 6), 64),
	}}, 1430))
	n.KernelRouter(n.Hosts[1])
	n.Record()
	n.EdgesUp(strings.ReplaceAll(spec, "PEER", n.Teps[1].String()))
	for _, inner := range []int{4, 6} {
		n.Routes(harness.Way(red, blue, inner), 2, red)
		n.Routes(harness.Way(blue, red, inner), 2, blue)
	}
	noErrors := n.WatchErrors(red.Host, blue.Host, n.Hosts[0], n.Hosts[1])
	n.Transfers(len(harness.Content), harness.Ways(red, blue)...)
	noErrors()
	n.NoDrops("no-neighbour", "ttl-exceeded", "no-member", "not-routed") // MLD of the kernel among routers
}

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// What goes through routers of the Linux kernel with the same gateways (asymmetric).
func TestGatewayKernel(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family, Routed: true})
			kernel := topo.KernelHalf{UDP6ZeroCsumRx: true}
			for _, role := range []struct {
				name string
				a, b topo.Half
			}{{"EdgeAtClient", n.selvage(), kernel}, {"EdgeAtServer", kernel, n.selvage()}} {
				t.Run(role.name, func(t *testing.T) {
					n := n.sub(t)
					clear(n.edges)
					path := n.build(role.a, role.b)
					defer path.Close() // says nothing new after a failure
					for host := range n.edges {
						n.resolved(host)
					}
					noErrors := n.watchErrors(n.Client, n.A, n.B, n.Server)
					n.pings(append(n.directions(4), n.directions(6)...)...)
					n.datagrams()
					n.quiet()
					n.streams()
					n.segmentsGoWhole()
					noErrors()
					n.noDrops("no-neighbour", "no-member") // one side has no port in the other subnet
					n.must(path.Close())
				})
			}
		})
	}
}

const strangersPicture = `
              switch
          e1 /      \ e2
        edge1        kernel       edge1 alone has the gateways
      r0 |  | b0       | br0 -- vxlan0, VNI 100
       red1 blue1     red2`

// A host behind a plain vxlan bridge of the kernel uses the gateway of an edge.
func TestGatewayServesKernelBridge(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newUnderlay(t, strangersPicture, 2, family)
			red1 := n.guest("red1", 0, 1, n.hosts[0], "r0", 1430)
			blue1 := n.guest("blue1", 1, 1, n.hosts[0], "b0", 1430)
			red2 := n.guest("red2", 0, 2, n.hosts[1], "p0", 1430)
			n.record()
			n.edgesUp(gatewaySpec)
			n.must(n.hosts[1].VXLAN(n.ctx, "vxlan0", topo.VXLAN{VNI: 100, Local: n.teps[1], Remotes: n.teps[:1], MTU: 1430, UDP6ZeroCsumRx: true}))
			n.must(n.hosts[1].Bridge(n.ctx, "br0", 1430, "p0", "vxlan0"))
			for _, inner := range []int{4, 6} {
				n.gatewayAnswers(red2, inner)
				n.routes(way(red2, blue1, inner), 1, red2)
				n.routes(way(blue1, red2, inner), 1, blue1)
				n.routes(way(red1, red2, inner), 0, red1)
			}
			n.transfers(len(content), ways(red2, blue1)...)
			n.noDrops("no-neighbour", "ttl-exceeded")
		})
	}
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
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newUnderlay(t, kernelRouterPicture, 2, family)
			red := n.guest("red1", 0, 1, n.hosts[0], "p0", 1430)
			blue := guest{n.host("blue2"), 1, 2}
			n.must(n.lab.Link(n.ctx, blue.end(true), topo.LinkEnd{Host: n.hosts[1], Name: "p0", Addrs: []netip.Prefix{
				netip.PrefixFrom(gatewayAddr(1, 4), 24), netip.PrefixFrom(gatewayAddr(1, 6), 64),
			}}, 1430))
			n.kernelRouter(n.hosts[1])
			n.record()
			n.edgesUp(strings.ReplaceAll(spec, "PEER", n.teps[1].String()))
			for _, inner := range []int{4, 6} {
				n.routes(way(red, blue, inner), 2, red)
				n.routes(way(blue, red, inner), 2, blue)
			}
			noErrors := n.watchErrors(red.Host, blue.Host, n.hosts[0], n.hosts[1])
			n.transfers(len(content), ways(red, blue)...)
			noErrors()
			n.noDrops("no-neighbour", "ttl-exceeded", "no-member", "not-routed") // MLD of the kernel among routers
		})
	}
}

// kernelRouter routes between what is behind p0 and the segment between routers.
func (n *hub) kernelRouter(h *topo.Host) {
	n.t.Helper()
	n.must(h.VXLAN(n.ctx, "vxlan0", topo.VXLAN{VNI: 5000, Local: n.teps[1], Remotes: n.teps[:1], MTU: 1430, UDP6ZeroCsumRx: true}))
	n.must(errors.Join(
		h.SysctlSet("net/ipv4/ip_forward", "1"), h.SysctlSet("net/ipv6/conf/all/forwarding", "1"),
		h.SysctlSet("net/ipv6/conf/vxlan0/disable_ipv6", "0"),
	))
	for _, command := range []string{
		"ip link set vxlan0 address 02:00:00:00:04:02",
		"ip addr add 169.254.0.2/30 dev vxlan0",
		"ip addr add fd99::2/64 dev vxlan0 nodad",
		"ip neigh replace 169.254.0.1 lladdr 02:00:00:00:04:01 dev vxlan0 nud permanent",
		"ip neigh replace fd99::1 lladdr 02:00:00:00:04:01 dev vxlan0 nud permanent",
		"ip route add 10.0.0.0/24 via 169.254.0.1 dev vxlan0",
		"ip route add fd00:0::/64 via fd99::1 dev vxlan0",
	} {
		_, err := h.Output(n.ctx, strings.Fields(command)...)
		n.must(err)
	}
}

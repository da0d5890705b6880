package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

const transitKernelPicture = `
  client ---- edge1 ====== underlay ====== kernel ---- blue
  eth0    up0       u0                 u0         p0   eth0
  10.5.0.1                  vxlan0, VNI 5000, and routes   10.1.0.1`

// The Linux kernel as the router at the other end of the tunnel.
func TestTransitKernel(t *testing.T) {
	const spec = `
  transit: {mode: native}
  routers:
  - name: tenant
    l3: {vni: 5000, mac: "02:00:00:00:04:01", remotes: REMOTES}
    uplinks:
    - {name: wan, interface: up0, mac: "GATEWAY", addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
    routes:
    - {prefix: 10.1.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:02"}]}
    - {prefix: "fd00:1::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:02"}]}
`
	for _, finished := range []bool{true, false} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("IPv%d/finished %t", family, finished), func(t *testing.T) {
				n := &hub{network: newNetwork(t, transitKernelPicture), family: family}
				for i := 1; i <= 2; i++ {
					n.hosts, n.teps = append(n.hosts, n.host(fmt.Sprintf("edge%d", i))), append(n.teps, n.tep(i))
				}
				n.wire(1500)
				client := n.guest("client", 0, 1, n.hosts[0], "up0", 1430)
				blue := guest{n.host("blue"), 1, 1}
				n.must(n.lab.Link(n.ctx, blue.end(true), topo.LinkEnd{Host: n.hosts[1], Name: "p0", Addrs: []netip.Prefix{
					netip.PrefixFrom(gatewayAddr(1, 4), 24), netip.PrefixFrom(gatewayAddr(1, 6), 64),
				}}, 1430))
				n.receives(client, blue)
				if finished {
					n.finish(client, blue)
				}
				n.kernelRouter(n.hosts[1])
				n.edgesUp(strings.NewReplacer("PEER", n.teps[1].String(), "GATEWAY", gatewayMAC).Replace(spec))
				for _, inner := range []int{4, 6} {
					n.routes(way(client, blue, inner), 2, client)
					n.routes(way(blue, client, inner), 2, blue)
				}
				noErrors := n.watchErrors(client.Host, blue.Host, n.hosts[0], n.hosts[1])
				before, err := n.transits("edge1")
				n.must(err)
				for _, d := range ways(client, blue) {
					n.once("datagrams from "+d.name, func() error { return echo(d, 1, 100, 1382, 3000) })
				}
				n.transfers(len(content)/2, ways(client, blue)...)
				n.once("XDP carried what has its checksums", func() error {
					after, err := n.transits("edge1")
					if finished && after-before < 20_000 {
						err = errors.Join(err, fmt.Errorf("%d packets", after-before))
					}
					return err
				})
				noErrors()
				n.noDrops("no-neighbour", "ttl-exceeded", "no-member", "not-routed", "not-taken") // MLD of the kernel among routers
			})
		}
	}
}

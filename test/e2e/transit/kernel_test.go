package transit

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
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
	t.Parallel()
	n := &harness.Hub{Network: harness.NewNetwork(t, transitKernelPicture), Family: 6}
	for i := 1; i <= 2; i++ {
		n.Hosts, n.Teps = append(n.Hosts, n.Host(fmt.Sprintf("edge%d", i))), append(n.Teps, n.Tep(i))
	}
	wire(n, 1500)
	client := n.Guest("client", 0, 1, n.Hosts[0], "up0", 1430)
	blue := harness.Guest{Host: n.Host("blue"), Subnet: 1, Number: 1}
	n.Must(n.Topo.Link(n.Ctx, blue.End(true), topo.LinkEnd{Host: n.Hosts[1], Name: "p0", Addrs: []netip.Prefix{
		netip.PrefixFrom(harness.GatewayAddr(1, 4), 24), netip.PrefixFrom(harness.GatewayAddr(1, 6), 64),
	}}, 1430))
	receives(n, client, blue)
	n.KernelRouter(n.Hosts[1])
	n.EdgesUp(strings.NewReplacer("PEER", n.Teps[1].String(), "GATEWAY", harness.GatewayMAC).Replace(spec))
	for _, inner := range []int{4, 6} {
		n.Routes(harness.Way(client, blue, inner), 2, client)
		n.Routes(harness.Way(blue, client, inner), 2, blue)
	}
	for _, finished := range []bool{false, true} {
		if finished {
			finish(n, client, blue)
		}
		noErrors := n.WatchErrors(client.Host, blue.Host, n.Hosts[0], n.Hosts[1])
		before, err := transits(n.Network, "edge1")
		n.Must(err)
		for _, d := range harness.Ways(client, blue) {
			n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 100, 1382, 3000) })
		}
		n.Transfers(len(harness.Content)/4, harness.Ways(client, blue)...)
		n.Once("XDP carried what has its checksums", func() error {
			after, err := transits(n.Network, "edge1")
			if finished && after-before < 10_000 {
				err = errors.Join(err, fmt.Errorf("%d packets", after-before))
			}
			return err
		})
		noErrors()
	}
	n.NoDrops("no-neighbour", "ttl-exceeded", "no-member", "not-routed", "devmap-drop") // MLD of the kernel among routers
}

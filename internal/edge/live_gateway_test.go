package edge

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
)

const gatewayConfig = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: live}
spec:
  underlay: {interfaces: [under], tep: 192.0.2.1}
  flowCache: {size: 1024}
  fdb: {size: 64}
  segments:
  - name: blue
    vni: 100
    encapsulation: geneve
    options: "0104 0101 deadbeef"
    outer: {dscp: 46, ttl: 7}
    remotes: [192.0.2.2]
    neighbours: [{address: 10.0.0.5, mac: "02:00:00:00:00:05"}, {address: 10.0.0.1, mac: "02:00:00:00:00:01"}]
    fdb: [{mac: "02:00:00:00:00:05", remote: 192.0.2.2}, {mac: "02:00:00:00:00:01", port: p0}]
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00::fe/64"]}
  - {name: red, vni: 5001, encapsulation: nvgre, remotes: [192.0.2.2], gateway: {router: tenant, addresses: [10.0.1.254/24]}}
  routers:
  - name: tenant
    l3: {vni: 5000, mac: "02:00:00:00:01:01", remotes: [192.0.2.2]}
    routes:
    - {prefix: 0.0.0.0/0, via: [{address: 198.51.100.1}]}
    - {prefix: 10.2.0.0/16, via: [{remote: 192.0.2.2, mac: "02:00:00:00:02:01"}]}
    - {prefix: 10.9.0.0/16, type: blackhole}
    uplinks: [{name: wan, interface: up, addresses: [198.51.100.2/24]}]
  ports:
  - {name: p0, interface: port0, segment: blue, vlans: [{vlan: 10, segment: red}]}
`

// A router, a trunk and an uplink on the real data path: the documents know
// them, and traces go each way.
func TestLiveGateway(t *testing.T) {
	l := newLive(t)
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up"}, PeerName: "world"}))
	must(t, os.WriteFile(l.opts.ConfigPath, []byte(gatewayConfig), 0o600))
	for _, name := range []string{"up", "world"} {
		link, err := netlink.LinkByName(name)
		must(t, err)
		must(t, netlink.LinkSetUp(link))
	}
	far, err := netlink.LinkByName("far")
	must(t, err)
	under, err := netlink.LinkByName("under")
	must(t, err)
	must(t, netlink.NeighAdd(&netlink.Neigh{LinkIndex: under.Attrs().Index, State: netlink.NUD_PERMANENT,
		IP: netip.MustParseAddr("192.0.2.2").AsSlice(), HardwareAddr: far.Attrs().HardwareAddr}))

	l.during(func(ctx context.Context, c *api.Client) error {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if s.Ports != (api.Tally{Up: 3, Total: 3}) || s.TEPs != (api.Tally{Up: 1, Total: 1}) || len(s.Segments) != 4 {
			return fmt.Errorf("status %+v", s)
		}
		port := func(packet string) api.TraceQuery { return api.TraceQuery{Port: "p0", Packet: packet} }
		tunnel := func(segment, packet string) api.TraceQuery {
			return api.TraceQuery{Remote: netip.MustParseAddr("192.0.2.2"), Segment: segment, Packet: packet}
		}
		for _, tt := range []struct {
			query api.TraceQuery
			want  []string
		}{
			{port("icmp 10.0.0.1 > 10.0.0.5"), []string{"Geneve VNI 100, options 01040101deadbeef", "DSCP 46, ECN 0, TTL 7"}},
			{port("icmp 10.0.0.1 > 10.2.0.5"), []string{"VXLAN VNI 5000", "02:00:00:00:01:01 > 02:00:00:00:02:01: icmp 10.0.0.1 > 10.2.0.5 echo request, TTL 63"}},
			{port("icmp 10.0.0.1 > 10.9.0.5"), []string{"blackhole"}},
			{port("icmp 10.0.0.1 > 10.0.0.254"), []string{"icmp 10.0.0.254 > 10.0.0.1 echo reply"}},
			{port("arp 10.0.0.1 ? 10.0.0.254"), []string{"arp 10.0.0.254 is at " + overlay.AnycastMAC.String()}},
			{api.TraceQuery{Port: "p0.10", Packet: "icmp 10.0.1.1 > 10.0.0.5", SrcMAC: overlay.MAC{2, 9}}, []string{"Geneve VNI 100"}},
			{api.TraceQuery{Port: "p0", VLAN: 10, Packet: "icmp 10.0.1.1 > 10.0.1.5", SrcMAC: overlay.MAC{2, 9}, DstMAC: overlay.MAC{2, 8}}, []string{"VNI 5001 to remote 192.0.2.2"}},
			{tunnel("blue", "icmp 10.0.0.5 > 10.0.0.1"), []string{"02:00:00:00:00:05 > 02:00:00:00:00:01: icmp 10.0.0.5 > 10.0.0.1 echo request, TTL 64"}},
			{tunnel("tenant-l3", "icmp 10.2.0.5 > 10.0.0.1"), []string{overlay.AnycastMAC.String() + " > 02:00:00:00:00:01: icmp 10.2.0.5 > 10.0.0.1 echo request, TTL 63"}},
			{api.TraceQuery{Port: "wan", Packet: "icmp 198.51.100.1 > 10.0.0.1", SrcMAC: overlay.MAC{2, 7}}, []string{overlay.AnycastMAC.String() + " > 02:00:00:00:00:01: icmp 198.51.100.1 > 10.0.0.1"}},
		} {
			info, err := c.Trace(ctx, tt.query)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%+v", info)
			for _, want := range tt.want {
				if !strings.Contains(text, want) {
					t.Errorf("%+v: no %q in %s", tt.query, want, text)
				}
			}
		}
		routes, err := c.Routes(ctx, netip.Addr{})
		if err != nil || len(routes) != 7 {
			t.Errorf("routes %+v (%v)", routes, err)
		}
		found, err := c.Neighbours(ctx, api.EntryQuery{})
		// The other end of wan may have spoken by itself, as IPv6 does.
		neighbours := slices.DeleteFunc(slices.Clone(found.List), func(n api.NeighbourInfo) bool { return !n.Static })
		if err != nil || len(neighbours) != 2 || neighbours[0].Port != "p0" || neighbours[1].Remote != netip.MustParseAddr("192.0.2.2") {
			t.Errorf("neighbours %+v (%v)", found, err)
		}
		return nil
	})
}

package dut_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// Every path routes between the subnets, and leaves neither addresses nor
// forwarding in the way of the next.
//
//	client 10.0.0.1 ── .254 hosta ══ underlay ══ hostb .254 ── 10.1.0.2 server
func TestRoutedPathsInTurn(t *testing.T) {
	t.Parallel()
	for family, name := range map[int]string{4: "IPv4", 6: "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := testlab.TwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family, Routed: true})
			for _, c := range []struct {
				name  string
				hops  int
				build func(context.Context) (*topo.Path, error)
			}{
				{"wire", 0, func(ctx context.Context) (*topo.Path, error) { return dut.Wire(ctx, n, dut.EndOptions{}) }},
				{"plain", 2, func(ctx context.Context) (*topo.Path, error) { return dut.Plain(ctx, n, dut.EndOptions{MTU: 1400}) }},
				{"kernel", 1, func(ctx context.Context) (*topo.Path, error) {
					return dut.Kernel(ctx, n, dut.KernelOptions{NoUDPCsum: true, UDP6ZeroCsumTx: true, UDP6ZeroCsumRx: true})
				}},
				{"plain", 2, func(ctx context.Context) (*topo.Path, error) { return dut.Plain(ctx, n, dut.EndOptions{}) }},
			} {
				path, err := c.build(t.Context())
				if err != nil {
					t.Fatalf("%s: %v\n%s", c.name, err, n.Picture())
				}
				checkMTU(t, n, path)
				for _, inner := range []int{4, 6} {
					if got := hops(t, n.Client, n.ServerAddr(inner)); got != c.hops {
						t.Errorf("%s: %d routers to %s, want %d", c.name, got, n.ServerAddr(inner), c.hops)
					}
					if got := hops(t, n.Server, n.ClientAddr(inner)); got != c.hops {
						t.Errorf("%s: %d routers back to %s, want %d", c.name, got, n.ClientAddr(inner), c.hops)
					}
				}
				if err := path.Close(); err != nil {
					t.Fatalf("close %s: %v", c.name, err)
				}
				for _, host := range []*topo.Host{n.A, n.B} {
					for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
						if value, err := host.SysctlGet(key); err != nil || value != "0" {
							t.Errorf("after %s: %s of %s is %q (%v)", c.name, key, host.Name, value, err)
						}
					}
				}
			}
		})
	}
}

// hops counts the routers on the way to addr by the TTL of a ping's answer.
func hops(t *testing.T, from *topo.Host, addr netip.Addr) int {
	t.Helper()
	out, err := from.Output(t.Context(), "ping", "-n", "-c1", "-W2", addr.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, after, _ := bytes.Cut(out, []byte("ttl="))
	word, _, _ := strings.Cut(string(after), " ")
	ttl, err := strconv.Atoi(word)
	if err != nil {
		t.Fatalf("TTL in %s: %v", out, err)
	}
	return 64 - ttl
}

// With one MAC address on both hosts a bridge must not take the other's frames
// for its own: Linux says so in its log, and drops nothing, but learns wrong.
func TestRoutedKernelAnycast(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{Routed: true})
	if _, err := dut.Kernel(t.Context(), n, dut.KernelOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, host := range []*topo.Host{n.A, n.B} {
		for _, bridge := range []string{"br-blue", "br-green"} {
			if mac, err := host.MAC(bridge); err != nil || mac.String() != dut.GatewayMAC.String() {
				t.Errorf("MAC of %s/%s is %s (%v), want %s", host.Name, bridge, mac, err, dut.GatewayMAC)
			}
		}
		fdb, err := host.Output(t.Context(), "bridge", "fdb", "show")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(fdb)) {
			if strings.Contains(line, dut.GatewayMAC.String()) && !strings.Contains(line, "permanent") {
				t.Errorf("%s learned the gateways' own MAC: %s", host.Name, line)
			}
		}
	}
	if dut.GatewayMAC.String() != overlay.AnycastMAC.String() {
		t.Errorf("the lab's gateways have MAC %s, edges' %s", dut.GatewayMAC, overlay.AnycastMAC)
	}
}

func TestRoutedOVSIsRefused(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{Routed: true})
	if _, err := dut.OVS(t.Context(), n, dut.OVSOptions{}); err == nil || !strings.Contains(err.Error(), "leave out ovs") {
		t.Errorf("%v, want an error that says to leave out ovs", err)
	}
}

// Open vSwitch carries every encapsulation between two of itself.
func TestOVSEncapsulations(t *testing.T) {
	t.Parallel()
	for _, encapsulation := range []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve, overlay.NVGRE} {
		t.Run(string(encapsulation), func(t *testing.T) {
			n := testlab.TwoHosts(t, topo.TwoHostsOptions{InnerMTU: 1400})
			o := dut.OVSOptions{Encapsulation: encapsulation, VNI: 77}
			path, err := dut.OVS(t.Context(), n, o)
			if err != nil {
				t.Fatalf("%v\n%s", err, n.Picture())
			}
			if !strings.Contains(strings.ToLower(path.Description), string(encapsulation)) {
				t.Errorf("description %q", path.Description)
			}
			dir := t.TempDir()
			filter := map[overlay.Encapsulation]string{overlay.VXLAN: "udp dst port 4789", overlay.Geneve: "udp dst port 6081", overlay.NVGRE: "ip proto 47"}[encapsulation]
			stop, err := n.Lab.Capture(t.Context(), dir, topo.CaptureOptions{Filter: strings.Fields(filter)})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Client.Reach(t.Context(), topo.ServerV4); err != nil {
				t.Error(err)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			checkCaptured(t, dir+"/hosta-u0.pcap")
		})
	}
}

// The routed edge: a segment and a gateway for each subnet, one router.
func TestRoutedEdgeConfiguration(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{Routed: true})
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 2}
	subnets := []topo.Subnet{
		{Name: "blue", Gateways: []netip.Prefix{netip.MustParsePrefix("10.0.0.254/24"), netip.MustParsePrefix("fd00::fe/64")}},
		{Name: "green", Index: 1, End: []netip.Addr{n.ServerAddr(4), n.ServerAddr(6)}, EndMAC: mac, Gateways: []netip.Prefix{netip.MustParsePrefix("10.1.0.254/24"), netip.MustParsePrefix("fd01::fe/64")}},
	}
	site := topo.Site{Host: n.A, Local: n.TEPA, Remote: n.TEPB, Subnets: subnets}
	half := dut.SelvageHalf{Encapsulation: overlay.Geneve, NoClamp: true}
	edge, err := config.Parse("edge.yaml", []byte(half.Config(dut.EdgeName(n.A), site)))
	if err != nil {
		t.Fatalf("%v\n%s", err, half.Config(dut.EdgeName(n.A), site))
	}
	if len(edge.Segments) != 2 || len(edge.Routers) != 1 || edge.Ports[0].Segment != "blue" {
		t.Fatalf("edge %+v", edge)
	}
	if green := edge.Segments[1]; len(green.Static) != 1 || green.Static[0].Remote != n.TEPB || len(green.Neighbours) != 2 || green.Neighbours[1].Addr != topo.RoutedServerV6 {
		t.Errorf("behind the tunnel: %+v, %+v", green.Static, green.Neighbours)
	}
	for i, segment := range edge.Segments {
		gateway := segment.Gateway
		if gateway == nil || gateway.Router != dut.RouterName || gateway.MAC != overlay.AnycastMAC || len(gateway.Addresses) != 2 ||
			gateway.Addresses[0] != subnets[i].Gateways[0] || segment.VNI != overlay.VNI(100+i) || segment.Tunnel.Encapsulation != overlay.Geneve || segment.Tunnel.UDPPort != 6081 || segment.ClampMSS {
			t.Errorf("segment %+v, gateway %+v", segment, gateway)
		}
	}
}

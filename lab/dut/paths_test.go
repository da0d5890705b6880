package dut_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
)

// Every path carries traffic, and none leaves anything in the way of the next.
func TestPathsInTurn(t *testing.T) {
	t.Parallel()
	for family, name := range map[int]string{4: "IPv4", 6: "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := testlab.TwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			kernel := dut.KernelHalf{UDP6ZeroCsumRx: true}
			for _, c := range []struct {
				name  string
				build func(context.Context) (*topo.Path, error)
			}{
				{"wire", func(ctx context.Context) (*topo.Path, error) { return dut.Wire(ctx, n, dut.EndOptions{}) }},
				{"plain", func(ctx context.Context) (*topo.Path, error) { return dut.Plain(ctx, n, dut.EndOptions{MTU: 1400}) }},
				{"limit", func(ctx context.Context) (*topo.Path, error) { return dut.Limit(ctx, n, dut.LimitOptions{}) }},
				{"limit", func(ctx context.Context) (*topo.Path, error) {
					return dut.Limit(ctx, n, dut.LimitOptions{Encapsulation: map[int]overlay.Encapsulation{4: overlay.VXLAN}[family]})
				}},
				{"kernel", func(ctx context.Context) (*topo.Path, error) {
					return dut.Kernel(ctx, n, dut.KernelOptions{NoUDPCsum: true})
				}},
				{"ovs", func(ctx context.Context) (*topo.Path, error) { return dut.OVS(ctx, n, dut.OVSOptions{}) }},
				{"kernel-ovs", func(ctx context.Context) (*topo.Path, error) { return n.Build(ctx, kernel, dut.OVSHalf{}) }},
				{"kernel", func(ctx context.Context) (*topo.Path, error) { return dut.Kernel(ctx, n, dut.KernelOptions{}) }},
			} {
				path, err := c.build(t.Context())
				if err != nil {
					t.Fatalf("%s: %v\n%s", c.name, err, n.Picture())
				}
				if path.Name != c.name {
					t.Errorf("path is named %s, want %s", path.Name, c.name)
				}
				checkMTU(t, n, path)
				for range 2 {
					if err := path.Close(); err != nil {
						t.Fatalf("close %s: %v", c.name, err)
					}
				}
			}
		})
	}
}

func checkMTU(t *testing.T, n *topo.TwoHosts, path *topo.Path) {
	t.Helper()
	for _, end := range []*topo.Host{n.Client, n.Server} {
		if mtu, err := end.MTU(topo.EndName); err != nil || mtu != path.InnerMTU {
			t.Errorf("%s: MTU of %s is %d (%v), want %d", path.Name, end.Name, mtu, err, path.InnerMTU)
		}
	}
}

func TestOnePathAtATime(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	if _, err := dut.Plain(t.Context(), n, dut.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := dut.Wire(t.Context(), n, dut.EndOptions{}); err == nil || !strings.Contains(err.Error(), "plain is up") {
		t.Errorf("error %v, want one that names plain", err)
	}
}

func TestPathThatDoesNotStart(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	_, err := dut.Selvage(t.Context(), n, dut.SelvageOptions{Binary: "/nonexistent/selvage"})
	if err == nil || !strings.Contains(err.Error(), "selvage on hosta") {
		t.Errorf("error %v, want one that names the half and the host", err)
	}
	if _, err := dut.Plain(t.Context(), n, dut.EndOptions{}); err != nil {
		t.Errorf("the next path: %v", err)
	}
}

// What the lab writes for an edge is what an edge reads.
func TestEdgeConfiguration(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	site := topo.Site{Host: n.A, Local: n.TEPA, Remote: n.TEPB}
	half := dut.SelvageHalf{VNI: 7, UDPChecksum: true, NoFlowCache: true}
	name := dut.EdgeName(n.A)
	edge, err := config.Parse("edge.yaml", []byte(half.Config(name, site)))
	if err != nil {
		t.Fatal(err)
	}
	if edge.Name != name || edge.Underlay.TEP != n.TEPA || edge.FlowCache.Enabled || !edge.Segments[0].Tunnel.UDPChecksum ||
		edge.Segments[0].VNI != 7 || edge.Segments[0].Remotes[0] != n.TEPB || edge.Ports[0].Interface != topo.AccessName {
		t.Errorf("edge %+v", edge)
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	n := testlab.TwoHosts(t, topo.TwoHostsOptions{})
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	dir := t.TempDir()
	stop, err := n.Lab.Capture(t.Context(), dir, topo.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.Client.Reach(t.Context(), topo.ServerV4), stop()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client-eth0", "hosta-p0", "hosta-u0", "hostb-u0", "hostb-p0", "server-eth0"} {
		checkCaptured(t, filepath.Join(dir, name+".pcap"))
	}
}

// checkCaptured checks that a capture holds a packet.
func checkCaptured(t *testing.T, name string) {
	t.Helper()
	const header = 24 // bytes of an empty pcap file
	if file, err := os.Stat(name); err != nil || file.Size() <= header {
		t.Errorf("capture %s: %v, %v", filepath.Base(name), file, err)
	}
}

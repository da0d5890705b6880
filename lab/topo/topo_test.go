package topo_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

func newLab(t *testing.T) *topo.Lab {
	t.Helper()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
		if left := leftovers(lab.ID); len(left) > 0 {
			t.Errorf("the lab left %v", left)
		}
	})
	return lab
}

func newTwoHosts(t *testing.T, o topo.TwoHostsOptions) *topo.TwoHosts {
	t.Helper()
	n, err := topo.NewTwoHosts(t.Context(), newLab(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// leftovers are the traces of a lab that is gone.
func leftovers(id string) []string {
	var left []string
	for _, pattern := range []string{"/run/netns/sv-" + id + "-*", "/run/selvage/lab/" + id + "*", "/run/selvage/*" + id + "*", "/sys/fs/bpf/selvage/*" + id + "*"} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	// Every process of a lab has its ID in an argument or works in its namespace;
	// those of the tests below have it in an argument.
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, dir := range dirs {
		if line, _ := os.ReadFile(dir); strings.Contains(string(line), id) {
			left = append(left, dir)
		}
	}
	return left
}

// Every path carries traffic, and none leaves anything in the way of the next.
func TestPathsInTurn(t *testing.T) {
	t.Parallel()
	for family, name := range map[int]string{4: "IPv4", 6: "IPv6"} {
		t.Run(name, func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: family})
			kernel := topo.KernelHalf{UDP6ZeroCsumRx: true}
			for _, c := range []struct {
				name  string
				build func(context.Context) (*topo.Path, error)
			}{
				{"wire", func(ctx context.Context) (*topo.Path, error) { return n.Wire(ctx, topo.EndOptions{}) }},
				{"plain", func(ctx context.Context) (*topo.Path, error) { return n.Plain(ctx, topo.EndOptions{MTU: 1400}) }},
				{"limit", func(ctx context.Context) (*topo.Path, error) { return n.Limit(ctx, topo.EndOptions{}) }},
				{"kernel", func(ctx context.Context) (*topo.Path, error) {
					return n.Kernel(ctx, topo.KernelOptions{NoUDPCsum: true})
				}},
				{"ovs", func(ctx context.Context) (*topo.Path, error) { return n.OVS(ctx, topo.OVSOptions{}) }},
				{"kernel-ovs", func(ctx context.Context) (*topo.Path, error) { return n.Build(ctx, kernel, topo.OVSHalf{}) }},
				{"kernel", func(ctx context.Context) (*topo.Path, error) { return n.Kernel(ctx, topo.KernelOptions{}) }},
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
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	if _, err := n.Plain(t.Context(), topo.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Wire(t.Context(), topo.EndOptions{}); err == nil || !strings.Contains(err.Error(), "plain is up") {
		t.Errorf("error %v, want one that names plain", err)
	}
}

func TestPathThatDoesNotStart(t *testing.T) {
	t.Parallel()
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	_, err := n.Selvage(t.Context(), topo.SelvageOptions{Binary: "/nonexistent/selvage"})
	if err == nil || !strings.Contains(err.Error(), "selvage on hosta") {
		t.Errorf("error %v, want one that names the half and the host", err)
	}
	if _, err := n.Plain(t.Context(), topo.EndOptions{}); err != nil {
		t.Errorf("the next path: %v", err)
	}
}

func TestInnerMTU(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    topo.TwoHostsOptions
		want int
	}{
		{topo.TwoHostsOptions{}, 1450},
		{topo.TwoHostsOptions{UnderlayFamily: 6}, 1430},
		{topo.TwoHostsOptions{UnderlayMTU: 9000}, 8950},
		{topo.TwoHostsOptions{UnderlayMTU: 9000, InnerMTU: 1500}, 1500},
	} {
		if got := newTwoHosts(t, c.o).Options.InnerMTU; got != c.want {
			t.Errorf("%+v: inner MTU %d, want %d", c.o, got, c.want)
		}
	}
	if _, err := topo.NewTwoHosts(t.Context(), newLab(t), topo.TwoHostsOptions{UnderlayFamily: 5}); err == nil {
		t.Error("no error for family 5")
	}
}

// What the lab writes for an edge is what an edge reads.
func TestEdgeConfiguration(t *testing.T) {
	t.Parallel()
	n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	site := topo.Site{Host: n.A, Local: n.TEPA, Remote: n.TEPB}
	half := topo.SelvageHalf{VNI: 7, UDPChecksum: true, NoFlowCache: true}
	name := n.A.EdgeName()
	edge, err := config.Parse("edge.yaml", []byte(half.Config(name, site)))
	if err != nil {
		t.Fatal(err)
	}
	if edge.Name != name || edge.Underlay.TEP != n.TEPA || edge.FlowCache.Enabled || !edge.Segments[0].Tunnel.UDPChecksum ||
		edge.Segments[0].VNI != 7 || edge.Segments[0].Remotes[0] != n.TEPB || edge.Ports[0].Interface != topo.AccessName {
		t.Errorf("edge %+v", edge)
	}
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	n := newTwoHosts(t, topo.TwoHostsOptions{Offloads: map[string]bool{"tx-udp_tnl-segmentation": false}})
	check := func(name string, want bool) {
		t.Helper()
		features, err := n.A.Features(topo.UnderlayName)
		if err != nil || features[name] != want {
			t.Errorf("%s is %t (%v), want %t", name, features[name], err, want)
		}
	}
	check("tx-udp_tnl-segmentation", false)
	restore, err := n.A.SetFeatures(topo.UnderlayName, map[string]bool{"rx-gro": true})
	if err != nil {
		t.Fatal(err)
	}
	check("rx-gro", true)
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	check("rx-gro", false)
	for _, bad := range []string{"no-such-offload", "rx-lro"} {
		if _, err := n.A.SetFeatures(topo.UnderlayName, map[string]bool{bad: true}); err == nil || !strings.Contains(err.Error(), "hosta/u0") {
			t.Errorf("%s: error %v, want one that names hosta/u0", bad, err)
		}
	}
}

func TestBridgeNetfilter(t *testing.T) {
	t.Parallel()
	// get is how a host's bridges stand, "" without br_netfilter.
	get := func(h *topo.Host) string {
		values := make([]string, 0, 3)
		for _, key := range topo.BridgeNetfilterSysctls() {
			value, err := h.SysctlGet(key)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return strings.Join(values, "")
	}
	want := map[topo.BridgeNetfilter]string{"": "000", topo.BridgeNetfilterDefault: "111", topo.BridgeNetfilterOn: "111", topo.BridgeNetfilterOff: "000"}
	off := "000"
	if fresh := newTwoHosts(t, topo.TwoHostsOptions{}); get(fresh.A) == "" {
		off, want = "", map[topo.BridgeNetfilter]string{topo.BridgeNetfilterDefault: "", topo.BridgeNetfilterOff: ""}
		_, err := topo.NewTwoHosts(t.Context(), newLab(t), topo.TwoHostsOptions{BridgeNetfilter: topo.BridgeNetfilterOn})
		if err == nil || !strings.Contains(err.Error(), "modprobe br_netfilter") {
			t.Errorf("on without br_netfilter: %v, want an error that names it", err)
		}
	}
	for choice, want := range want {
		n := newTwoHosts(t, topo.TwoHostsOptions{BridgeNetfilter: choice})
		for h, want := range map[*topo.Host]string{n.A: want, n.B: want, n.Client: off, n.Server: off} {
			if got := get(h); got != want {
				t.Errorf("%q: %s has %q, want %q", choice, h.Name, got, want)
			}
		}
	}
	if _, err := topo.NewTwoHosts(t.Context(), newLab(t), topo.TwoHostsOptions{BridgeNetfilter: "yes"}); err == nil {
		t.Error(`no error for "yes"`)
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	picture := n.Picture()
	for _, want := range []string{"client --1450-- hosta ==1500== hostb --1450-- server", "client/eth0 02:00:00:00:00:01 10.0.0.1/24 fd00::1/64", n.Lab.ID} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	n := newTwoHosts(t, topo.TwoHostsOptions{})
	path, err := n.Plain(t.Context(), topo.EndOptions{})
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

package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const tapPicture = `
      vm                    hosta ====== underlay ====== hostb ---- server
      tap1 <-- this test --> tap0  u0                u0    p0      eth0
      10.0.0.9                                                 10.0.0.2

  The test carries frames between two taps, as a hypervisor does, and looks at each
  that comes out of tap0. The kernel of the namespace vm is the guest.`

// sound is nil when nothing was wrong with any frame.
func sound(c *harness.Cable) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if len(c.Faults) > 0 {
		return errors.New(strings.Join(c.Faults, "\n"))
	}
	return nil
}

func seen(c *harness.Cable) (frames, largest int) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Frames, c.Largest
}

func TestTap(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		offload  bool            // of the tap
		underlay map[string]bool // its offloads: off, the tunnel is cut into packets before it
	}{
		{"IPv4", 4, true, nil},
		{"IPv6", 6, true, nil},
		{"TapWithoutOffloads", 4, false, nil},
		{"UnderlayWithoutSegmentation", 4, true, map[string]bool{"tx-udp_tnl-segmentation": false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "IPv4" {
				tier.Long(t, "TestTap/UnderlayWithoutSegmentation, uncut TestTap/IPv6")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family, Offloads: c.underlay})
			tapWorks(n, c.offload)
		})
	}
}

func tapWorks(n *harness.TwoHosts, offload bool) {
	n.T.Helper()
	n.Topology = tapPicture
	vm, c := plugGuest(n, offload)
	n.Record()
	n.Start(n.A, dut.EdgeName(n.A), edgeConfig{name: dut.EdgeName(n.A), tep: n.TEPA, remotes: []netip.Addr{n.TEPB}, ports: []string{"tap0"}}.yaml())
	n.Start(n.B, dut.EdgeName(n.B), edgeConfig{name: dut.EdgeName(n.B), tep: n.TEPB, remotes: []netip.Addr{n.TEPA}, ports: []string{topo.AccessName}}.yaml())
	for _, host := range []string{"hosta", "hostb"} {
		n.Resolved(host)
	}
	n.Fact("the tap is up and delivers by redirect", func() error {
		ports, err := n.Ask("hosta").Ports(n.Ctx)
		if err == nil && (ports[0].State != "up" || ports[0].Deliver != "redirect") {
			err = fmt.Errorf("%+v", ports)
		}
		return err
	})
	guestWorks(n, vm, c, offload && n.TwoHosts.Options.Offloads == nil)
}

// plugGuest makes the taps and the guest, and joins them.
func plugGuest(n *harness.TwoHosts, offload bool) (vm *topo.Host, c *harness.Cable) {
	n.T.Helper()
	vm, err := n.Topo.Host("vm")
	n.Must(err)
	host, err := harness.OpenTap(n.A, "tap0", offload)
	n.Must(err)
	guest, err := harness.OpenTap(vm, "tap1", offload)
	n.Must(err)
	mtu := n.TwoHosts.Options.InnerMTU
	n.Must(errors.Join(
		n.A.DisableIPv6("tap0"), n.A.SetMTU("tap0", mtu), n.A.Up("tap0"),
		vm.SetMTU("tap1", mtu), vm.Up("tap1"),
		vm.AddAddr("tap1", netip.PrefixFrom(guestV4, 24)), vm.AddAddr("tap1", netip.PrefixFrom(guestV6, 64)),
	))
	c = harness.PlugCable(host, guest, offload)
	n.T.Cleanup(c.Unplug)
	return vm, c
}

var (
	guestV4 = netip.MustParseAddr("10.0.0.9")
	guestV6 = netip.MustParseAddr("fd00::9")
)

func guestWorks(n *harness.TwoHosts, vm *topo.Host, c *harness.Cable, whole bool) {
	n.T.Helper()
	noErrors := n.WatchErrors(vm, n.A, n.B, n.Server)
	ways := []harness.Direction{
		{Name: "guest to server, IPv4", From: vm, To: n.Server, Addr: topo.ServerV4}, {Name: "guest to server, IPv6", From: vm, To: n.Server, Addr: topo.ServerV6},
		{Name: "server to guest, IPv4", From: n.Server, To: vm, Addr: guestV4}, {Name: "server to guest, IPv6", From: n.Server, To: vm, Addr: guestV6},
	}
	for _, d := range ways {
		n.Fact("ping from "+d.Name, func() error { return harness.Ping(n.Ctx, d.From, d.Addr) })
	}
	for _, d := range ways {
		n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 1000, 1400, 5000) })
	}
	n.Once("no frame was dropped on its way into the tap", func() error { return noTapDrops(n) })
	n.StopCaptures()
	for _, d := range ways {
		n.Once("bytes intact from "+d.Name, func() error { return harness.Transfer(d, len(harness.Content)) })
	}
	n.Once("every frame out of the tap is sound", func() error { return sound(c) })
	frames, largest := seen(c)
	n.T.Logf("%d frames out of the tap, the largest has %d bytes", frames, largest)
	noErrors()
	n.NoDrops()
	if whole {
		n.Once("the guest's segments cross the underlay whole", func() error { return n.WholeAt(n.B, ways[0]) })
	}
}

// noTapDrops: a frame that the device cannot hand over, such as a segment that it
// cannot describe, is lost behind the edge. So are those that find its ring full,
// with many at once.
func noTapDrops(n *harness.TwoHosts) error {
	out, err := n.A.Output(n.Ctx, "ip", "-j", "-s", "link", "show", "dev", "tap0")
	if err != nil {
		return err
	}
	var links []struct {
		Stats struct {
			Tx struct{ Packets, Errors, Dropped uint64 } `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal(out, &links); err != nil {
		return err
	}
	if tx := links[0].Stats.Tx; tx.Packets == 0 || tx.Errors+tx.Dropped > 0 {
		return fmt.Errorf("%+v", tx)
	}
	return nil
}

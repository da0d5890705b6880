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

func TestTap(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: 6})
	n.Topology = tapPicture
	vm, c := plugGuest(n)
	n.Record()
	for _, e := range []struct {
		host        *topo.Host
		tep, remote netip.Addr
		port        string
	}{{n.A, n.TEPA, n.TEPB, "tap0"}, {n.B, n.TEPB, n.TEPA, topo.AccessName}} {
		spec := fmt.Sprintf("  segments: [{name: lab, vni: 100, remotes: [%q]}]\n  ports: [{name: %[2]s, interface: %[2]s, segment: lab}]\n", e.remote, e.port)
		n.Start(e.host, dut.EdgeName(e.host), harness.Header(dut.EdgeName(e.host), e.tep, spec))
	}
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
	guestWorks(n, vm, c)
	n.Once("the guest's segments cross the underlay whole", func() error { return n.WholeAt(n.B, guestWays(n, vm)[0]) })
	for _, h := range []*topo.Host{n.A, n.B} { // now the tunnel is cut into packets before the underlay
		_, err := h.SetFeatures(topo.UnderlayName, map[string]bool{"tx-udp_tnl-segmentation": false})
		n.Must(err)
	}
	guestWorks(n, vm, c)
}

// plugGuest makes the taps and the guest, and joins them.
func plugGuest(n *harness.TwoHosts) (vm *topo.Host, c *harness.Cable) {
	n.T.Helper()
	vm, err := n.Topo.Host("vm")
	n.Must(err)
	host, err := harness.OpenTap(n.A, "tap0", true)
	n.Must(err)
	guest, err := harness.OpenTap(vm, "tap1", true)
	n.Must(err)
	mtu := n.TwoHosts.Options.InnerMTU
	n.Must(errors.Join(
		n.A.DisableIPv6("tap0"), n.A.SetMTU("tap0", mtu), n.A.Up("tap0"),
		vm.SetMTU("tap1", mtu), vm.Up("tap1"),
		vm.AddAddr("tap1", netip.PrefixFrom(guestV4, 24)), vm.AddAddr("tap1", netip.PrefixFrom(guestV6, 64)),
	))
	c = harness.PlugCable(host, guest, true)
	n.T.Cleanup(c.Unplug)
	return vm, c
}

var (
	guestV4 = netip.MustParseAddr("10.0.0.9")
	guestV6 = netip.MustParseAddr("fd00::9")
)

func guestWays(n *harness.TwoHosts, vm *topo.Host) []harness.Direction {
	return []harness.Direction{
		{Name: "guest to server, IPv4", From: vm, To: n.Server, Addr: topo.ServerV4}, {Name: "guest to server, IPv6", From: vm, To: n.Server, Addr: topo.ServerV6},
		{Name: "server to guest, IPv4", From: n.Server, To: vm, Addr: guestV4}, {Name: "server to guest, IPv6", From: n.Server, To: vm, Addr: guestV6},
	}
}

func guestWorks(n *harness.TwoHosts, vm *topo.Host, c *harness.Cable) {
	n.T.Helper()
	noErrors := n.WatchErrors(vm, n.A, n.B, n.Server)
	ways := guestWays(n, vm)
	lost := tapDrops(n)
	n.Pings(ways...)
	for _, d := range ways {
		n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 1000, 1400, 5000) })
	}
	if now := tapDrops(n); now > lost {
		n.Fail("no frame is dropped on its way into the tap", fmt.Errorf("%d are", now-lost))
	}
	n.StopCaptures()
	for _, d := range ways {
		n.Once("bytes intact from "+d.Name, func() error { return harness.Transfer(d, len(harness.Content)) })
	}
	n.Once("every frame out of the tap is sound", func() error { return sound(c) })
	noErrors()
	n.NoDrops()
}

// tapDrops counts frames that the device could not hand over, such as a segment that it cannot describe, which are lost behind
// the edge. So are those that find its ring full, with many at once.
func tapDrops(n *harness.TwoHosts) uint64 {
	n.T.Helper()
	out, err := n.A.Output(n.Ctx, "ip", "-j", "-s", "link", "show", "dev", "tap0")
	n.Must(err)
	var links []struct {
		Stats struct {
			Tx struct{ Errors, Dropped uint64 } `json:"tx"`
		} `json:"stats64"`
	}
	n.Must(json.Unmarshal(out, &links))
	return links[0].Stats.Tx.Errors + links[0].Stats.Tx.Dropped
}

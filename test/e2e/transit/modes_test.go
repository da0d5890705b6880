package transit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// inModes: every mode carries everything, each its own way.
func (n *passage) inModes() {
	n.T.Helper()
	n.turn("generic")
	n.NoProblems("edge1")
	n.passes()
	n.unfinished(n.carriesUnfinished)
	n.turn("tc")
	counted(n.Hub, "tc alone takes what passes", func() { n.Transfers(len(harness.Content), harness.Ways(n.client, n.server)...) }, func(host string, grown uint64) error {
		if grown > 0 {
			return fmt.Errorf("the transit programs of %s forwarded %d packets", host, grown)
		}
		return nil
	})
}

// unfinished has hosts leave checksums and the cutting of segments to the device, both hosts and then one: a veth
// does neither, so what XDP sees of such packets is unfinished, and must not go on so.
func (n *passage) unfinished(do func()) {
	n.T.Helper()
	for _, g := range []harness.Guest{n.client, n.server} {
		_, err := g.SetFeatures(topo.EndName, map[string]bool{"tx-checksum-ip-generic": true})
		n.Must(err)
		do()
	}
	finish(n.Hub, n.client, n.server)
}

func (n *passage) carriesUnfinished() {
	n.T.Helper()
	noErrors, noDrops := n.WatchErrors(n.client.Host, n.server.Host, n.Hosts[0], n.Hosts[1]), n.WatchDrops("no-neighbour", "devmap-drop")
	both := harness.Ways(n.client, n.server)
	for _, d := range both {
		// Sums of these are over data of many values, also one byte more or less.
		n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 2, 3, 18, 19, 100, 1000, 1001, 1400, 5000) })
	}
	n.Transfers(len(harness.Content)/10, both...)
	noErrors()
	noDrops()
}

const bridgedPicture = `
  client ---- wire [br] up0 edge1 u0 ====== u0 edge2 up0 ---- server
                    a bridge has no XDP of its own`

// A device without XDP falls back to tc and says why; the rest of the edge does not.
func TestTransitWithoutXDP(t *testing.T) {
	t.Parallel()
	n := newPassage(t, passageOptions{mode: "auto", finished: true})
	n.Topology = bridgedPicture
	n.Must(n.Hosts[0].Delete("up0"))
	n.Must(n.Topo.Link(n.Ctx, n.client.End(true), topo.LinkEnd{Host: n.Hosts[0], Name: "wire"}, n.o.uplink))
	n.Must(n.Hosts[0].Bridge(n.Ctx, "up0", n.o.uplink, "wire"))
	receives(n.Hub, n.client)
	finish(n.Hub, n.client)
	// The router's MAC address is not the bridge's own.
	_, err := n.Hosts[0].Output(n.Ctx, "ip", "link", "set", "up0", "promisc", "on")
	n.Must(err)
	n.up()
	// A veth is left to tc unless native is asked for.
	n.Prints([]string{"interfaces", "-o", "wide"}, "u0", "underlay tcx", "veth's other end", "uplink tcx", "no XDP")
	n.Rewrite("edge1", "mode: auto", "mode: native")
	n.Fact("native is a problem at the bridge", func() error { return n.Problem("edge1", "up0: transit.mode is native") })
	n.Prints([]string{"interfaces", "-o", "wide"}, "u0", "underlay xdp", "uplink tcx", "no XDP")
	n.Once("the kernel has a program at u0 alone", func() error {
		for name, want := range map[string]string{"u0": "xdp", "up0": "", "wire": ""} {
			if mode, err := xdpMode(n.Network, n.Hosts[0], name); err != nil || mode != want {
				return errors.Join(fmt.Errorf("%s has %q, want %q", name, mode, want), err)
			}
		}
		return nil
	})
	noErrors := n.WatchErrors(n.client.Host, n.server.Host, n.Hosts[0], n.Hosts[1])
	n.Transfers(len(harness.Content), harness.Ways(n.client, n.server)...)
	noErrors()
	n.NoDrops("no-neighbour", "devmap-drop")
}

const tappedPicture = `
  vm          edge1 u0 ====== u0 edge2 up0 ---- server
  tap1 <-- this test --> up0
  10.5.0.1`

// A tap as the uplink, as a router in a virtual machine has it.
func TestTransitTap(t *testing.T) {
	t.Parallel()
	n := newPassage(t, passageOptions{finished: true})
	n.Topology = tappedPicture
	n.Must(n.Hosts[0].Delete("up0"))
	vm := n.Host("vm")
	near, err := harness.OpenTap(n.Hosts[0], "up0", false)
	n.Must(err)
	far, err := harness.OpenTap(vm, topo.EndName, false)
	n.Must(errors.Join(err, n.Hosts[0].DisableIPv6("up0"), n.Hosts[0].Up("up0")))
	n.client.Host = vm
	n.Must(configure(n.Ctx, n.client))
	c := harness.PlugCable(near, far, false)
	t.Cleanup(c.Unplug)
	n.up()
	noErrors := n.WatchErrors(vm, n.server.Host, n.Hosts[0], n.Hosts[1])
	for _, d := range harness.Ways(n.client, n.server) {
		n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 1000, n.o.uplink-48) })
	}
	n.Transfers(len(harness.Content)/4, harness.Ways(n.client, n.server)...)
	noErrors()
	n.NoDrops("no-neighbour", "devmap-drop")
	n.Once("the tap saw whole frames with right checksums", func() error {
		c.Mu.Lock()
		defer c.Mu.Unlock()
		if len(c.Faults) > 0 || c.Frames == 0 {
			return fmt.Errorf("%d frames, %s", c.Frames, strings.Join(c.Faults, "; "))
		}
		return nil
	})
}

// configure gives an interface that is there already the guest's addresses.
func configure(ctx context.Context, g harness.Guest) error {
	end := g.End(true)
	command := []string{"ip", "link", "set", topo.EndName, "address", g.Ether().String(), "up"}
	if _, err := g.Output(ctx, command...); err != nil {
		return err
	}
	for _, a := range end.Addrs {
		if err := g.AddAddr(topo.EndName, a); err != nil {
			return err
		}
	}
	for _, gateway := range end.Gateways {
		bits := netip.PrefixFrom(map[bool]netip.Addr{true: netip.IPv4Unspecified(), false: netip.IPv6Unspecified()}[gateway.Is4()], 0)
		if err := g.AddRoute(topo.EndName, bits, gateway); err != nil {
			return err
		}
	}
	return nil
}

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// Every mode carries everything, each its own way; native is TestTransit's too.
func TestTransitModes(t *testing.T) {
	for mode, hook := range map[string]string{"native": "xdp", "generic": "xdpgeneric", "tc": "tcx"} {
		t.Run(mode, func(t *testing.T) {
			n := newPassage(t, passageOptions{mode: mode, finished: true})
			n.up()
			n.hooks(hook)
			n.noProblems("edge1")
			if hook != "tcx" {
				n.passes()
				return
			}
			n.counted("tc alone takes what passes", func() { n.transfers(len(content), ways(n.client, n.server)...) }, func(host string, grown uint64) error {
				if grown > 0 {
					return fmt.Errorf("the transit programs of %s forwarded %d packets", host, grown)
				}
				return nil
			})
		})
	}
}

// Hosts leave checksums and the cutting of segments to the device, and a veth does
// neither: what XDP sees of such packets is unfinished, and must not go on so.
func TestTransitUnfinishedChecksums(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		for _, tunnel := range tunnelsOf {
			if tunnel.name != "VXLAN" && (mode == "generic" || tunnel.name != "NVGRE") {
				continue // Geneve is UDP as well
			}
			t.Run(mode+"/"+tunnel.name, func(t *testing.T) {
				n := newPassage(t, passageOptions{mode: mode, tunnel: tunnel.fields})
				n.up()
				n.carriesUnfinished()
			})
		}
	}
	t.Run("native/IPv6", func(t *testing.T) {
		n := newPassage(t, passageOptions{mode: "native", family: 6})
		n.up()
		n.carriesUnfinished()
	})
	t.Run("turns", func(t *testing.T) { // one host finishes its checksums, then the other
		n := newPassage(t, passageOptions{mode: "native"})
		n.up()
		for _, g := range []guest{n.client, n.server} {
			undo, err := g.SetFeatures(topo.EndName, map[string]bool{"tx-checksum-ip-generic": false})
			n.must(err)
			n.carriesUnfinished()
			n.must(undo())
		}
	})
}

func (n *passage) carriesUnfinished() {
	n.t.Helper()
	noErrors := n.watchErrors(n.client.Host, n.server.Host, n.hosts[0], n.hosts[1])
	both := ways(n.client, n.server)
	for _, d := range both {
		// Sums of these are over data of many values, also one byte more or less.
		n.once("datagrams from "+d.name, func() error { return echo(d, 1, 2, 3, 18, 19, 100, 1000, 1001, 1400, 5000) })
	}
	n.transfers(len(content)/10, both...)
	noErrors()
	n.noDrops("no-neighbour", "not-taken")
}

const bridgedPicture = `
  client ---- wire [br] up0 edge1 u0 ====== u0 edge2 up0 ---- server
                    a bridge has no XDP of its own`

// A device without XDP falls back to tc and says why; the rest of the edge does not.
func TestTransitWithoutXDP(t *testing.T) {
	n := newPassage(t, passageOptions{mode: "auto", finished: true})
	n.picture = bridgedPicture
	n.must(n.hosts[0].Delete("up0"))
	n.must(n.lab.Link(n.ctx, n.client.end(true), topo.LinkEnd{Host: n.hosts[0], Name: "wire"}, n.o.uplink))
	n.must(n.hosts[0].Bridge(n.ctx, "up0", n.o.uplink, "wire"))
	n.receives(n.client)
	n.finish(n.client)
	// The router's MAC address is not the bridge's own.
	_, err := n.hosts[0].Output(n.ctx, "ip", "link", "set", "up0", "promisc", "on")
	n.must(err)
	n.up()
	// A veth is left to tc unless native is asked for.
	n.prints([]string{"interfaces"}, "u0", "underlay tcx", "veth's other end", "uplink tcx", "no XDP")
	n.rewrite("edge1", "mode: auto", "mode: native")
	n.fact("native is a problem at the bridge", func() error { return n.problem("edge1", "up0: transit.mode is native") })
	n.prints([]string{"interfaces"}, "u0", "underlay xdp", "uplink tcx", "no XDP")
	n.once("the kernel has a program at u0 alone", func() error {
		for name, want := range map[string]string{"u0": "xdp", "up0": "", "wire": ""} {
			if mode, err := xdpMode(n.network, n.hosts[0], name); err != nil || mode != want {
				return errors.Join(fmt.Errorf("%s has %q, want %q", name, mode, want), err)
			}
		}
		return nil
	})
	noErrors := n.watchErrors(n.client.Host, n.server.Host, n.hosts[0], n.hosts[1])
	n.transfers(len(content), ways(n.client, n.server)...)
	noErrors()
	n.noDrops("no-neighbour", "not-taken")
	n.transfers(len(content)/4, ways(n.client, n.server)...)
}

const tappedPicture = `
  vm          edge1 u0 ====== u0 edge2 up0 ---- server
  tap1 <-- this test --> up0
  10.5.0.1`

// A tap as the uplink, as a router in a virtual machine has it.
func TestTransitTap(t *testing.T) {
	n := newPassage(t, passageOptions{finished: true})
	n.picture = tappedPicture
	n.must(n.hosts[0].Delete("up0"))
	vm := n.host("vm")
	near, err := openTap(n.hosts[0], "up0", false)
	n.must(err)
	far, err := openTap(vm, topo.EndName, false)
	n.must(errors.Join(err, n.hosts[0].DisableIPv6("up0"), n.hosts[0].Up("up0")))
	n.client.Host = vm
	n.must(n.client.configure(n.ctx))
	c := plugCable(near, far, false)
	t.Cleanup(c.unplug)
	n.up()
	noErrors := n.watchErrors(vm, n.server.Host, n.hosts[0], n.hosts[1])
	for _, d := range ways(n.client, n.server) {
		n.once("datagrams from "+d.name, func() error { return echo(d, 1, 18, 1000, n.o.uplink-48) })
	}
	n.transfers(len(content)/4, ways(n.client, n.server)...)
	noErrors()
	n.noDrops("no-neighbour", "not-taken")
	n.once("the tap saw whole frames with right checksums", func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.faults) > 0 || c.frames == 0 {
			return fmt.Errorf("%d frames, %s", c.frames, strings.Join(c.faults, "; "))
		}
		return nil
	})
}

// configure gives an interface that is there already the guest's addresses.
func (g guest) configure(ctx context.Context) error {
	end := g.end(true)
	command := []string{"ip", "link", "set", topo.EndName, "address", g.mac().String(), "up"}
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

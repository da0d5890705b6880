package egress

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Guests talk to the outside by gateways, which see addresses of the pool alone. TestEgressTshark has the defaults.
func TestEgress(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Family: 6, Mode: "active-active", Policies: []string{"name: web, vni: 9001, encapsulation: geneve"}})
	defer n.DumpOnFailure()
	n.Record()
	n.Up()
	n.Serve(harness.Guest{Host: n.Out}, harness.PortAllowed)
	n.Mirror(n.Out)
	for _, inner := range []int{4, 6} {
		converses(n, inner)
	}
	for _, g := range []harness.Guest{n.Red1, n.Red2} {
		for _, inner := range []int{4, 6} {
			n.Transfers(len(harness.Content), n.Outward(g, inner))
			n.Fetches(len(harness.Content), n.Outward(g, inner))
		}
	}
	n.NoProblems("edge1")
	// At the start both gateways own all until they hear of each other.
	n.NoDrops("no-neighbour", "ttl-exceeded", "too-big", "no-member", "no-gateway", "spoofed-address")
	n.HeldTogether()
}

// converses is everything that guests do with the outside, of a family.
func converses(n *harness.EgressNet, inner int) {
	n.T.Helper()
	to := n.Outward(n.Red1, inner)
	n.Pings(to, n.Outward(n.Red2, inner))
	for _, network := range []string{"tcp", "udp"} {
		first := n.SeenAs(n.Red1, network, to.Addr, harness.PoolOf(inner))
		for range 5 {
			n.SeenAs(n.Red1, network, to.Addr, []netip.Addr{first}) // a source keeps its address
		}
		n.SeenAs(n.Red2, network, to.Addr, harness.PoolOf(inner))
		n.Once(network+" keeps its port where that is free", func() error {
			got, err := harness.Mirrored(n.Red1.Host, network, 40001, netip.AddrPortFrom(to.Addr, harness.MirrorPort))
			if err == nil && got.Port() != 40001 {
				err = fmt.Errorf("it became %s", got)
			}
			return err
		})
		n.Once(network+" to a closed port is refused", func() error { return harness.Meets(n.Red1, network, to.Addr, harness.PortFree, harness.Refused) })
	}
	n.Fact("datagrams, also in fragments, from "+to.Name, func() error { return harness.Echo(to, 1, 18, 1000, 5000, 30000) })
	errorsCome(n, inner)
}

// errorsCome is that guests are told by every router on the way.
func errorsCome(n *harness.EgressNet, inner int) {
	n.T.Helper()
	far := harness.Direction{Name: fmt.Sprintf("red1 to far, IPv%d", inner), From: n.Red1.Host, To: n.Far, Addr: harness.FarAddr(inner)}
	n.Pings(far)
	for ttl, by := range []netip.Addr{1: harness.GatewayAddr(0, inner), 2: {}, 3: harness.WanAddr(1, inner)} {
		if ttl == 0 {
			continue
		}
		n.Fact(fmt.Sprintf("time exceeded at hop %d of %s", ttl, far.Name), func() error {
			return harness.PingFails(n.Network, far.From, far.Addr, by, harness.TimeExceeded, "-t", fmt.Sprint(ttl))
		})
	}
	n.Fact("a ping that does not fit beyond the outside is refused", func() error {
		return harness.TooBigPing(n.Network, far, 1400, harness.FarMTU, harness.WanAddr(1, inner))
	})
	n.Fact("the sender has learned the path's MTU", func() error { return harness.KnowsMTU(n.Network, far, harness.FarMTU) })
	n.Once("TCP crosses the narrow link", func() error { return harness.Transfer(far, 2_000_000) })
	n.Once("and back", func() error { return harness.Fetch(far, 2_000_000) })
	n.Fact("datagrams in fragments cross it", func() error { return harness.Echo(far, 4000) })
}

// Every packet that leaves, and all that comes back, is faultless to Wireshark.
func TestEgressTshark(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{})
	defer n.DumpOnFailure()
	n.Finished(topo.EndName, n.Red1.Host, n.Red2.Host)
	n.Finished("lan0", n.Out, n.Far)
	for h, names := range map[*topo.Host][]string{n.Hosts[0]: {"r0", "r1"}, n.Hosts[1]: {"up0"}} {
		for _, name := range names { // or segments are put together, and have no checksum of their own
			_, err := h.SetFeatures(name, map[string]bool{"rx-gro": false})
			n.Must(err)
		}
	}
	dir := filepath.Join(n.Dir, "whole")
	stop, err := n.Topo.Capture(n.Ctx, dir, topo.CaptureOptions{})
	n.Must(err)
	n.Up()
	n.Serve(harness.Guest{Host: n.Out}, harness.PortAllowed)
	n.Mirror(n.Out)
	for _, inner := range []int{4, 6} {
		converses(n, inner)
	}
	n.Must(stop())
	wan, red := filepath.Join(dir, "edge2-up0.pcap"), filepath.Join(dir, "red1-eth0.pcap")
	n.Intact(wan)
	n.Once("what comes back is in order too", func() error { // TCP data may be put together, see faultless
		lines, err := n.Tshark(red, "_ws.malformed || ip.checksum.status == bad || udp.checksum.status == bad || icmp.checksum.status == bad ||"+
			" icmpv6.checksum.status == bad || (tcp.checksum.status == bad && tcp.len == 0)")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%v", lines[:min(10, len(lines))])
		}
		return err
	})
	for _, filter := range []string{
		"tcp && ip.src == 198.51.100.20/31", "udp && ipv6.src == 2001:db8:51::20/124", "icmp.type == 8 && ip.src == 198.51.100.20/31",
		"icmpv6.type == 128", "ip.flags.mf == 1 && ip.src == 198.51.100.20/31", "ipv6.fraghdr.more == 1",
	} {
		n.Sees(filepath.Join(dir, "outside-lan0.pcap"), 1, filter)
	}
	for _, filter := range []string{
		"icmp.type == 11 && icmp.code == 0 && ip.src == 198.51.100.1", "icmpv6.type == 3 && ipv6.src == 2001:db8:51::1",
		"icmp.type == 3 && icmp.code == 3", "icmpv6.type == 1 && icmpv6.code == 4", "icmp.type == 3 && icmp.code == 4", "icmpv6.type == 2",
	} {
		n.Sees(red, 1, filter)
	}
	n.Once("no packet of the outside names a guest, not even quoted", func() error {
		lines, err := n.Tshark(wan, "ip.addr == 10.0.0.0/8 || ipv6.addr == fd00::/64")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%v", lines[:min(10, len(lines))])
		}
		return err
	})
	n.HeldTogether()
}

package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// Guests talk to the outside by a gateway, which sees addresses of the pool alone.
func TestEgress(t *testing.T) {
	for _, c := range []struct {
		name   string
		family int
		policy string
		mode   string
	}{
		{"VXLAN/IPv4", 4, "", "active-standby"},
		{"Geneve/IPv6", 6, ", encapsulation: geneve", "active-active"},
		{"NVGRE/IPv4", 4, ", encapsulation: nvgre", "active-active"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newEgressNet(t, egressOptions{family: c.family, mode: c.mode, policies: []string{"name: web, vni: 9001" + c.policy}})
			defer n.confess()
			n.record()
			n.up()
			n.serve(guest{Host: n.out}, portAllowed)
			n.mirror(n.out)
			for _, inner := range []int{4, 6} {
				n.converses(inner)
			}
			for _, g := range []guest{n.red1, n.red2} {
				for _, inner := range []int{4, 6} {
					n.transfers(len(content), n.outward(g, inner))
					n.fetches(len(content), n.outward(g, inner))
				}
			}
			if c.mode == "active-standby" {
				n.translatedBy(2, pool4...)
				n.translatedBy(2, pool6...)
			}
			n.noProblems("edge1")
			// At the start both gateways own all until they hear of each other.
			n.noDrops("no-neighbour", "ttl-exceeded", "too-big", "no-member", "no-gateway", "spoofed-address")
			n.heldTogether()
		})
	}
}

// converses is everything that guests do with the outside, of a family.
func (n *egressNet) converses(inner int) {
	n.t.Helper()
	to := n.outward(n.red1, inner)
	n.pings(to, n.outward(n.red2, inner))
	for _, network := range []string{"tcp", "udp"} {
		first := n.seenAs(n.red1, network, to.addr, poolOf(inner))
		for range 5 {
			n.seenAs(n.red1, network, to.addr, []netip.Addr{first}) // a source keeps its address
		}
		n.seenAs(n.red2, network, to.addr, poolOf(inner))
		n.once(network+" keeps its port where that is free", func() error {
			got, err := mirrored(n.red1.Host, network, 40001, netip.AddrPortFrom(to.addr, mirrorPort))
			if err == nil && got.Port() != 40001 {
				err = fmt.Errorf("it became %s", got)
			}
			return err
		})
		n.once(network+" to a closed port is refused", func() error { return meets(n.red1, network, to.addr, portFree, refused) })
	}
	n.fact("datagrams, also in fragments, from "+to.name, func() error { return echo(to, 1, 18, 1000, 5000, 30000) })
	n.errorsCome(inner)
}

// errorsCome is that guests are told by every router on the way.
func (n *egressNet) errorsCome(inner int) {
	n.t.Helper()
	far := direction{fmt.Sprintf("red1 to far, IPv%d", inner), n.red1.Host, n.far, farAddr(inner)}
	n.pings(far)
	for ttl, by := range []netip.Addr{1: gatewayAddr(0, inner), 2: {}, 3: wanAddr(1, inner)} {
		if ttl == 0 {
			continue
		}
		n.fact(fmt.Sprintf("time exceeded at hop %d of %s", ttl, far.name), func() error {
			return pingFails(n.network, far.from, far.addr, by, timeExceeded, "-t", fmt.Sprint(ttl))
		})
	}
	n.fact("a ping that does not fit beyond the outside is refused", func() error { return tooBigPing(n.network, far, 1400, farMTU, wanAddr(1, inner)) })
	n.fact("the sender has learned the path's MTU", func() error { return knowsMTU(n.network, far, farMTU) })
	n.once("TCP crosses the narrow link", func() error { return transfer(far, 2_000_000) })
	n.once("and back", func() error { return fetch(far, 2_000_000) })
	n.fact("datagrams in fragments cross it", func() error { return echo(far, 4000) })
}

// Every packet that leaves, and all that comes back, is faultless to Wireshark.
func TestEgressTshark(t *testing.T) {
	n := newEgressNet(t, egressOptions{})
	defer n.confess()
	n.finished(topo.EndName, n.red1.Host, n.red2.Host)
	n.finished("lan0", n.out, n.far)
	for h, names := range map[*topo.Host][]string{n.hosts[0]: {"r0", "r1"}, n.hosts[1]: {"up0"}} {
		for _, name := range names { // or segments are put together, and have no checksum of their own
			_, err := h.SetFeatures(name, map[string]bool{"rx-gro": false})
			n.must(err)
		}
	}
	dir := filepath.Join(n.dir, "whole")
	stop, err := n.lab.Capture(n.ctx, dir, topo.CaptureOptions{})
	n.must(err)
	n.up()
	n.serve(guest{Host: n.out}, portAllowed)
	n.mirror(n.out)
	for _, inner := range []int{4, 6} {
		n.converses(inner)
	}
	n.must(stop())
	wan, red := filepath.Join(dir, "edge2-up0.pcap"), filepath.Join(dir, "red1-eth0.pcap")
	n.intact(wan)
	n.once("what comes back is in order too", func() error { // TCP data may be put together, see faultless
		lines, err := n.tshark(red, "_ws.malformed || ip.checksum.status == bad || udp.checksum.status == bad || icmp.checksum.status == bad ||"+
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
		n.sees(filepath.Join(dir, "outside-lan0.pcap"), 1, filter)
	}
	for _, filter := range []string{
		"icmp.type == 11 && icmp.code == 0 && ip.src == 198.51.100.1", "icmpv6.type == 3 && ipv6.src == 2001:db8:51::1",
		"icmp.type == 3 && icmp.code == 3", "icmpv6.type == 1 && icmpv6.code == 4", "icmp.type == 3 && icmp.code == 4", "icmpv6.type == 2",
	} {
		n.sees(red, 1, filter)
	}
	n.once("no packet of the outside names a guest, not even quoted", func() error {
		lines, err := n.tshark(wan, "ip.addr == 10.0.0.0/8 || ipv6.addr == fd00::/64")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%v", lines[:min(10, len(lines))])
		}
		return err
	})
	n.heldTogether()
}

package bridge

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	                      ^ capture, read by tshark
//
// Wireshark's dissectors find nothing to complain about, checksums included.
// The end systems finish their checksums and segments themselves here, which a
// veth would leave to the next device.

func TestTshark(t *testing.T) {
	for _, c := range []struct {
		name     string
		family   int
		checksum bool
	}{{"IPv4", 4, false}, {"IPv6", 6, false}, {"IPv6Checksums", 6, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "IPv6" {
				tier.Long(t, "TestTshark/IPv6Checksums; zero checksums TestTshark/IPv4")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family, Offloads: map[string]bool{"tx-checksum-ip-generic": false}})
			half := n.SelvageHalf()
			half.UDPChecksum = c.checksum
			n.BuildRecorded(half, half)
			n.StopCaptures() // without the first packets, which had offloads
			n.Finished(topo.EndName, n.Client, n.Server)
			stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
			n.Must(err)
			for family, sizes := range map[int][]int{4: {1, 18, 1000, 5000}, 6: {1, 18, 1000, 5000}} {
				for _, d := range n.Directions(family) {
					n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, sizes...) })
					n.Fact("ping from "+d.Name, func() error { return harness.Ping(n.Ctx, d.From, d.Addr) })
					n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, 200_000) })
				}
			}
			n.Must(stop())
			decodes(n.Network, filepath.Join(n.Dir, "hostb-u0.pcap"), c.checksum)
		})
	}
}

// decodes: tshark finds tunnel packets, and no fault in them.
func decodes(n *harness.Network, file string, checksum bool) {
	n.T.Helper()
	n.Faultless(file)
	n.Once("tshark sees tunnel packets, their outer checksums as configured", func() error {
		lines, err := n.Tshark(file, "vxlan", "udp.checksum")
		if err == nil && len(lines) < 100 {
			err = fmt.Errorf("%d tunnel packets", len(lines))
		}
		for _, line := range lines {
			// The first is the outer one; an inner datagram has its own.
			outer, _, _ := strings.Cut(line, ",")
			if zero := outer == "0x0000"; zero == checksum {
				err = errors.Join(err, fmt.Errorf("an outer checksum is %s", outer))
				break
			}
		}
		return err
	})
}

// Every header that an edge makes, tags and options included.
func TestTsharkEncapsulations(t *testing.T) {
	for _, c := range []struct {
		encapsulation overlay.Encapsulation
		more          []string
		filter        string
	}{
		{overlay.Geneve, []string{"options: " + harness.GeneveOptions}, "geneve.vni == 100 && geneve.option.class == 0x0104 && geneve.option.type == 0x01"},
		{overlay.NVGRE, nil, "gre.proto == 0x6558 && gre.flags.key == 1 && gre.flags.version == 0"},
		{overlay.VXLAN, nil, "vxlan.vni == 100"},
	} {
		for _, family := range []int{4, 6} {
			if c.encapsulation == overlay.VXLAN && family == 6 {
				continue // TestTshark has it
			}
			t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, family), func(t *testing.T) {
				if c.encapsulation == overlay.Geneve && family == 4 || c.encapsulation == overlay.NVGRE && family == 6 {
					tier.Long(t, "TestTsharkEncapsulations/geneve/IPv6 and nvgre/IPv4")
				}
				t.Parallel()
				o := harness.Tight(family)
				o.Offloads = map[string]bool{"tx-checksum-ip-generic": false}
				n := harness.NewTwoHosts(t, o)
				half := n.Ours(c.encapsulation, append([]string{"vlanTransparent: true", "outer: {dscp: inherit, ttl: inherit, df: inherit}"}, c.more...)...)
				n.BuildRecorded(half, half)
				n.StopCaptures() // without the first packets, which had offloads
				n.Finished(topo.EndName, n.Client, n.Server)
				stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
				n.Must(err)
				talk(n)
				n.Must(stop())
				tunnel := filepath.Join(n.Dir, "hostb-u0.pcap")
				for _, file := range []string{tunnel, filepath.Join(n.Dir, "client-eth0.pcap"), filepath.Join(n.Dir, "server-eth0.pcap")} {
					n.Faultless(file)
				}
				n.Sees(tunnel, 200, c.filter)
				n.Sees(tunnel, 4, c.filter+" && vlan.id == 7")
				n.Sees(filepath.Join(n.Dir, "client-eth0.pcap"), 1, "icmp.type == 3 && icmp.code == 4")
				n.Sees(filepath.Join(n.Dir, "client-eth0.pcap"), 1, "icmpv6.type == 2")
			})
		}
	}
}

// talk is some of all that guests say, also what does not fit and with tags.
func talk(n *harness.TwoHosts) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		for _, d := range n.Directions(family) {
			n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 1000, 5000) })
			n.Fact("ping from "+d.Name, func() error { return harness.Ping(n.Ctx, d.From, d.Addr) })
			n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, 200_000) })
		}
		_ = harness.PingSize(n.Network, n.Directions(family)[0], 1500) // it is refused
	}
	n.Once("tagged frames cross", func() error {
		out, err := harness.OpenFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.Close()
		in, err := harness.OpenFrames(n.Server, topo.EndName, false)
		if err != nil {
			return err
		}
		defer in.Close()
		for _, words := range []string{"arp 10.0.0.1 ? 10.0.0.2", "udp 10.0.0.1:1 > 10.0.0.2:2 100", "udp [fd00::1]:1 > [fd00::2]:2 100", "tcp 10.0.0.1:1 > 10.0.0.2:2 syn"} {
			frame := pkttest.Frame(harness.ClientMAC, harness.ServerMAC, "vlan 7 "+words)
			if err := errors.Join(out.Send(frame), expect(in, frame)); err != nil {
				return err
			}
		}
		return nil
	})
}

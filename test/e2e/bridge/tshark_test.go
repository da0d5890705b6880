package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	                      ^ capture, read by tshark
//
// Wireshark's dissectors find nothing to complain about, checksums included: in every header that an edge makes,
// tags and options too. The end systems finish their checksums and segments themselves here, which a veth would
// leave to the next device.

func TestTshark(t *testing.T) {
	const plain = "      vni: 100\n"
	for _, c := range []struct {
		family  int
		other   string // lines of the segment
		becomes overlay.Encapsulation
		filter  string // what tshark has to find of it
	}{
		{4, plain + "      encapsulation: nvgre\n", overlay.NVGRE, "gre.proto == 0x6558 && gre.flags.key == 1 && gre.flags.version == 0"},
		{6, plain + "      encapsulation: geneve\n      options: " + harness.GeneveOptions + "\n", overlay.Geneve,
			"geneve.vni == 100 && geneve.option.class == 0x0104 && geneve.option.type == 0x01"},
	} {
		t.Run(fmt.Sprintf("IPv%d", c.family), func(t *testing.T) {
			t.Parallel()
			o := harness.Tight(c.family)
			o.Offloads = map[string]bool{"tx-checksum-ip-generic": false}
			n := harness.NewTwoHosts(t, o)
			half := n.Ours(overlay.VXLAN, "vlanTransparent: true", "outer: {dscp: inherit, ttl: inherit, df: inherit}")
			half.UDPChecksum = c.family == 6
			n.BuildRecorded(half, half)
			n.StopCaptures()
			n.Finished(topo.EndName, n.Client, n.Server)
			captured(n, "vxlan.vni == 100")
			outerChecksums(n, c.family == 6)
			for _, host := range []string{n.A.Name, n.B.Name} {
				if c.family == 6 {
					n.Rewrite(host, "      udpChecksum: true\n", "")
				}
				n.Rewrite(host, plain, c.other)
				n.Fact(fmt.Sprintf("%s has %s", host, c.becomes), func() error {
					status, err := n.Ask(host).Status(n.Ctx)
					if err == nil && status.Segments[0].Encapsulation != c.becomes {
						err = fmt.Errorf("%+v", status.Segments)
					}
					return err
				})
			}
			captured(n, c.filter)
		})
	}
}

// captured: guests talk, and tshark finds tunnel packets by a filter, and no fault in anything.
func captured(n *harness.TwoHosts, filter string) {
	n.T.Helper()
	stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
	n.Must(err)
	talk(n)
	n.Must(stop())
	tunnel, client := filepath.Join(n.Dir, "hostb-u0.pcap"), filepath.Join(n.Dir, "client-eth0.pcap")
	for _, file := range []string{tunnel, client, filepath.Join(n.Dir, "server-eth0.pcap")} {
		n.Faultless(file)
	}
	n.Sees(tunnel, 200, filter)
	n.Sees(tunnel, 4, filter+" && vlan.id == 7")
	n.Sees(client, 1, "icmp.type == 3 && icmp.code == 4")
	n.Sees(client, 1, "icmpv6.type == 2")
}

// outerChecksums of VXLAN are there, or none is.
func outerChecksums(n *harness.TwoHosts, want bool) {
	n.T.Helper()
	n.Once("outer checksums are as configured", func() error {
		lines, err := n.Tshark(filepath.Join(n.Dir, "hostb-u0.pcap"), "vxlan", "udp.checksum")
		for _, line := range lines {
			// The first is the outer one; an inner datagram has its own.
			if outer, _, _ := strings.Cut(line, ","); (outer != "0x0000") != want {
				return errors.Join(err, fmt.Errorf("one is %s", outer))
			}
		}
		return err
	})
}

// talk is some of all that guests say, also what does not fit and with tags.
func talk(n *harness.TwoHosts) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		for _, d := range n.Directions(family) {
			n.Fact("ping from "+d.Name, func() error { return harness.Ping(n.Ctx, d.From, d.Addr) })
			n.Fact("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 18, 1000, 5000) })
			n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, 200_000) })
		}
		_ = harness.TooBigPing(n.Network, n.Directions(family)[0], 1500, 0, netip.Addr{}) // it is refused
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

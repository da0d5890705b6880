package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
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
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayFamily: c.family, Offloads: map[string]bool{"tx-checksum-ip-generic": false}})
			half := n.selvage()
			half.UDPChecksum = c.checksum
			n.build(half, half)
			n.quiet() // without the first packets, which had offloads
			for _, h := range []*topo.Host{n.Client, n.Server} {
				_, err := h.SetFeatures(topo.EndName, map[string]bool{"tx-checksum-ip-generic": false})
				n.must(err)
			}
			stop, err := n.lab.Capture(n.ctx, n.dir, topo.CaptureOptions{})
			n.must(err)
			for family, sizes := range map[int][]int{4: {1, 18, 1000, 5000}, 6: {1, 18, 1000, 5000}} {
				for _, d := range n.directions(family) {
					n.fact("datagrams from "+d.name, func() error { return echo(d, sizes...) })
					n.fact("ping from "+d.name, func() error { return ping(n.ctx, d.from, d.addr) })
					n.once("TCP from "+d.name, func() error { return transfer(d, 200_000) })
				}
			}
			n.must(stop())
			n.decodes(filepath.Join(n.dir, "hostb-u0.pcap"), c.checksum)
		})
	}
}

// decodes: tshark finds tunnel packets, and no fault in them.
func (n *network) decodes(file string, checksum bool) {
	n.t.Helper()
	tshark := func(filter string, fields ...string) ([]string, error) {
		argv := []string{
			"tshark", "-n", "-r", file, "-Y", filter,
			"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
			"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // RFC 6935
			// What TCP does about time and loss is no fault of a header.
			"-o", "tcp.analyze_sequence_numbers:FALSE",
		}
		for _, f := range fields {
			argv = append(argv, "-T", "fields", "-e", f)
		}
		h, err := n.lab.Host("client")
		if err != nil {
			return nil, err
		}
		out, err := h.Output(n.ctx, argv...)
		return strings.Split(strings.TrimSpace(string(out)), "\n"), err
	}
	n.once("tshark finds no fault", func() error {
		lines, err := tshark("_ws.malformed || (_ws.expert.severity >= warning && !tcp.options.sack.dsack && !tcp.analysis.flags) || ip.checksum.status == bad || udp.checksum.status == bad || tcp.checksum.status == bad")
		if err == nil && lines[0] != "" {
			err = fmt.Errorf("%d faults:\n%s", len(lines), strings.Join(lines[:min(10, len(lines))], "\n"))
		}
		return err
	})
	n.once("tshark sees tunnel packets, their outer checksums as configured", func() error {
		lines, err := tshark("vxlan", "udp.checksum")
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

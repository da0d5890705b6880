package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
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
			n.finished(topo.EndName, n.Client, n.Server)
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
	n.faultless(file)
	n.once("tshark sees tunnel packets, their outer checksums as configured", func() error {
		lines, err := n.tshark(file, "vxlan", "udp.checksum")
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

// onEphemeralPorts are the protocols that tshark takes a connection for whose client
// happens to have their port: IRC on 57000 finds fault with random data.
var onEphemeralPorts = sync.OnceValues(func() (names []string, err error) {
	const firstEphemeral = 32768 // of Linux
	out, err := exec.Command("tshark", "-G", "decodes").Output()
	if err != nil {
		return nil, fmt.Errorf("list what tshark decodes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line) // table, port, protocol
		if len(f) != 3 || f[0] != "tcp.port" && f[0] != "udp.port" {
			continue
		}
		if port, err := strconv.Atoi(f[1]); err == nil && port >= firstEphemeral && !slices.Contains(names, f[2]) {
			names = append(names, f[2])
		}
	}
	return names, nil
})

// tshark prints the packets of a capture that a filter finds, or fields of them.
func (n *network) tshark(file, filter string, fields ...string) ([]string, error) {
	argv := []string{
		"-n", "-r", file, "-Y", filter,
		"-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE",
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE", // RFC 6935
		// What TCP does about time and loss is no fault of a header.
		"-o", "tcp.analyze_sequence_numbers:FALSE",
	}
	for _, f := range fields {
		argv = append(argv, "-T", "fields", "-e", f)
	}
	others, err := onEphemeralPorts()
	if err != nil {
		return nil, err
	}
	for _, name := range others {
		argv = append(argv, "--disable-protocol", name)
	}
	out, err := exec.CommandContext(n.ctx, "tshark", argv...).Output()
	text := strings.TrimSpace(string(out))
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}

// faultless: tshark reads a capture without a complaint. Linux writes the TCP
// checksum zero as 0xffff, as UDP wants it. At a guest, TCP data may have been put
// together again from several packets, also small ones, and then has no checksum yet:
// those are checked on the underlay, where each packet is by itself.
func (n *network) faultless(file string) {
	n.t.Helper()
	whole := "!(tcp.checksum == 0xffff) && frame.len < 1600"
	if !strings.HasSuffix(file, "-u0.pcap") {
		whole = "!(tcp.checksum == 0xffff) && tcp.len == 0"
	}
	n.once("tshark finds no fault in "+filepath.Base(file), func() error {
		lines, err := n.tshark(file, "_ws.malformed || (_ws.expert.severity >= warning && !tcp.options.sack.dsack && !tcp.analysis.flags && (!tcp || "+whole+")) ||"+
			" ip.checksum.status == bad || udp.checksum.status == bad || (tcp.checksum.status == bad && "+whole+") || icmp.checksum.status == bad || icmpv6.checksum.status == bad")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%d faults:\n%s", len(lines), strings.Join(lines[:min(10, len(lines))], "\n"))
		}
		return err
	})
}

// sees: tshark finds at least so many packets that match a filter.
func (n *network) sees(file string, least int, filter string) {
	n.t.Helper()
	n.once("tshark sees "+filter, func() error {
		lines, err := n.tshark(file, filter)
		if err == nil && len(lines) < least {
			err = fmt.Errorf("%d packets in %s, want %d", len(lines), filepath.Base(file), least)
		}
		return err
	})
}

// finished has interfaces finish their checksums, and thus segments, themselves.
func (n *network) finished(name string, hosts ...*topo.Host) {
	n.t.Helper()
	for _, h := range hosts {
		_, err := h.SetFeatures(name, map[string]bool{"tx-checksum-ip-generic": false})
		n.must(err)
	}
}

// Every header that an edge makes, tags and options included.
func TestTsharkEncapsulations(t *testing.T) {
	for _, c := range []struct {
		encapsulation overlay.Encapsulation
		more          []string
		filter        string
	}{
		{overlay.Geneve, []string{"options: " + geneveOptions}, "geneve.vni == 100 && geneve.option.class == 0x0104 && geneve.option.type == 0x01"},
		{overlay.NVGRE, nil, "gre.proto == 0x6558 && gre.flags.key == 1 && gre.flags.version == 0"},
		{overlay.VXLAN, nil, "vxlan.vni == 100"},
	} {
		for _, family := range []int{4, 6} {
			if c.encapsulation == overlay.VXLAN && family == 6 {
				continue // TestTshark has it
			}
			t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, family), func(t *testing.T) {
				o := tight(family)
				o.Offloads = map[string]bool{"tx-checksum-ip-generic": false}
				n := newTwoHosts(t, o)
				half := n.ours(c.encapsulation, append([]string{"keepTags: true", "outer: {dscp: inherit, ttl: inherit, df: inherit}"}, c.more...)...)
				n.build(half, half)
				n.quiet() // without the first packets, which had offloads
				n.finished(topo.EndName, n.Client, n.Server)
				stop, err := n.lab.Capture(n.ctx, n.dir, topo.CaptureOptions{})
				n.must(err)
				n.talk()
				n.must(stop())
				tunnel := filepath.Join(n.dir, "hostb-u0.pcap")
				for _, file := range []string{tunnel, filepath.Join(n.dir, "client-eth0.pcap"), filepath.Join(n.dir, "server-eth0.pcap")} {
					n.faultless(file)
				}
				n.sees(tunnel, 200, c.filter)
				n.sees(tunnel, 4, c.filter+" && vlan.id == 7")
				n.sees(filepath.Join(n.dir, "client-eth0.pcap"), 1, "icmp.type == 3 && icmp.code == 4")
				n.sees(filepath.Join(n.dir, "client-eth0.pcap"), 1, "icmpv6.type == 2")
			})
		}
	}
}

// talk is some of all that guests say, also what does not fit and with tags.
func (n *twoHosts) talk() {
	n.t.Helper()
	for _, family := range []int{4, 6} {
		for _, d := range n.directions(family) {
			n.fact("datagrams from "+d.name, func() error { return echo(d, 1, 18, 1000, 5000) })
			n.fact("ping from "+d.name, func() error { return ping(n.ctx, d.from, d.addr) })
			n.once("TCP from "+d.name, func() error { return transfer(d, 200_000) })
		}
		_ = pingSize(n.network, n.directions(family)[0], 1500) // it is refused
	}
	n.once("tagged frames cross", func() error {
		out, err := openFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.close()
		in, err := openFrames(n.Server, topo.EndName, false)
		if err != nil {
			return err
		}
		defer in.close()
		for _, words := range []string{"arp 10.0.0.1 ? 10.0.0.2", "udp 10.0.0.1:1 > 10.0.0.2:2 100", "udp [fd00::1]:1 > [fd00::2]:2 100", "tcp 10.0.0.1:1 > 10.0.0.2:2 syn"} {
			frame := pkttest.Frame(clientMAC, serverMAC, "vlan 7 "+words)
			if err := errors.Join(out.send(frame), in.expect(frame)); err != nil {
				return err
			}
		}
		return nil
	})
}

// What a gateway says of itself: answers, errors, questions, in and out of tunnels.
func TestTsharkGateway(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newRoutedHub(t, family)
			n.quiet()
			n.finished(topo.EndName, n.red1.Host, n.red2.Host, n.blue1.Host, n.blue2.Host)
			n.finished(topo.UnderlayName, n.hosts...)
			stop, err := n.lab.Capture(n.ctx, n.dir, topo.CaptureOptions{})
			n.must(err)
			n.edgesUp(gatewaySpec, gatewaySpec)
			for _, inner := range []int{4, 6} {
				n.gatewayAnswers(n.red1, inner)
				n.routes(way(n.red1, n.blue2, inner), 1, n.red1)
				n.fact("no route to nowhere", func() error {
					return pingFails(n.network, n.red1.Host, map[int]netip.Addr{4: outside4, 6: outside6}[inner], gatewayAddr(0, inner), "Net Unreachable|No route")
				})
				n.once("the gateway's own ports are closed", func() error { return refusedUDP(n.red1.Host, gatewayAddr(0, inner)) })
				n.once("TCP crosses", func() error { return transfer(way(n.red1, n.blue2, inner), 200_000) })
			}
			n.must(stop())
			red := filepath.Join(n.dir, "red1-eth0.pcap")
			for _, file := range []string{red, filepath.Join(n.dir, "blue2-eth0.pcap"), filepath.Join(n.dir, "edge2-u0.pcap")} {
				n.faultless(file)
			}
			for _, filter := range []string{
				"arp.opcode == 2 && arp.src.hw_mac == " + gatewayMAC, "icmpv6.type == 136 && eth.src == " + gatewayMAC,
				"icmp.type == 11", "icmpv6.type == 3", "icmp.type == 3 && icmp.code == 0", "icmpv6.type == 1 && icmpv6.code == 0",
				"icmp.type == 3 && icmp.code == 3", "icmpv6.type == 1 && icmpv6.code == 4",
			} {
				n.sees(red, 1, filter)
			}
		})
	}
}

// refusedUDP is nil when a datagram is answered by "port unreachable".
func refusedUDP(h *topo.Host, addr netip.Addr) error {
	conn, err := dialUDP(h, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := echoOne(conn, []byte("question"), time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w, want refusal", err)
	}
	return nil
}

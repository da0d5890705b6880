package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What a gateway says of itself: answers, errors, questions, in and out of tunnels.
func TestTsharkGateway(t *testing.T) {
	t.Parallel()
	n := harness.NewRoutedHub(t, 4)
	n.StopCaptures()
	n.Finished(topo.EndName, n.Red1.Host, n.Red2.Host, n.Blue1.Host, n.Blue2.Host)
	n.Finished(topo.UnderlayName, n.Hosts...)
	stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
	n.Must(err)
	n.EdgesUp(harness.GatewaySpec, harness.GatewaySpec)
	for _, inner := range []int{4, 6} {
		n.GatewayAnswers(n.Red1, inner)
		n.Routes(harness.Way(n.Red1, n.Blue2, inner), 1, n.Red1)
		n.Fact("no route to nowhere", func() error {
			return harness.PingFails(n.Network, n.Red1.Host, map[int]netip.Addr{4: harness.Outside4, 6: harness.Outside6}[inner], harness.GatewayAddr(0, inner), "Net Unreachable|No route")
		})
		n.Once("the gateway's own ports are closed", func() error { return refusedUDP(n.Red1.Host, harness.GatewayAddr(0, inner)) })
		n.Once("TCP crosses", func() error { return harness.Transfer(harness.Way(n.Red1, n.Blue2, inner), 200_000) })
	}
	n.Must(stop())
	red := filepath.Join(n.Dir, "red1-eth0.pcap")
	for _, file := range []string{red, filepath.Join(n.Dir, "blue2-eth0.pcap"), filepath.Join(n.Dir, "edge2-u0.pcap")} {
		n.Faultless(file)
	}
	for _, filter := range []string{
		"arp.opcode == 2 && arp.src.hw_mac == " + harness.GatewayMAC, "icmpv6.type == 136 && eth.src == " + harness.GatewayMAC,
		"icmp.type == 11", "icmpv6.type == 3", "icmp.type == 3 && icmp.code == 0", "icmpv6.type == 1 && icmpv6.code == 0",
		"icmp.type == 3 && icmp.code == 3", "icmpv6.type == 1 && icmpv6.code == 4",
	} {
		n.Sees(red, 1, filter)
	}
}

// refusedUDP is nil when a datagram is answered by "port unreachable".
func refusedUDP(h *topo.Host, addr netip.Addr) error {
	conn, err := harness.DialUDP(h, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := harness.EchoOne(conn, []byte("question"), time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w, want refusal", err)
	}
	return nil
}

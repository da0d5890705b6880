package underlay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// Anybody on the underlay says in an ICMP message that edge1's tunnel packets to edge2 are too
// big, with a quote as good as a router's. The network is that of narrow.
func (n *narrow) forged(t *testing.T, mtu int) []byte {
	t.Helper()
	dst, err := n.Hosts[0].MAC("u0")
	n.Must(err)
	src, err := n.near.MAC("e0")
	n.Must(err)
	inner := pkttest.Frame("02:00:00:00:00:01", "02:00:00:00:00:02", "udp 10.0.0.1:1 > 10.0.0.2:2 200")
	quote := pkttest.Outer{Src: n.Teps[0], Dst: n.Teps[1], VNI: 100, DstMAC: dst.String(), SrcMAC: src.String()}.Wrap(inner)[14:]
	eth := pkttest.Ether(src.String(), dst.String())
	if n.Family == 4 {
		return pkttest.Packet(eth, pkttest.IPv4("203.0.113.99", n.Teps[0].String()), pkttest.ICMP(3, 4, uint32(mtu)), pkttest.Bytes(quote))
	}
	rest := binary.BigEndian.AppendUint32(nil, uint32(mtu))
	return pkttest.Packet(eth, pkttest.IPv6("2001:db8:3::99", n.Teps[0].String()), pkttest.ICMP6(2, 0), pkttest.Bytes(append(rest, quote...)))
}

// flood sends the message some thousand times a second until the returned function is called.
func (n *narrow) flood(message []byte) (end func() error) {
	n.T.Helper()
	frames, err := harness.OpenFrames(n.near, "e0", false)
	n.Must(err)
	ctx, cancel := context.WithCancel(n.Ctx)
	var owned sync.WaitGroup
	var failed error
	owned.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for failed == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for range 20 {
				failed = errors.Join(failed, frames.Send(message))
			}
		}
	})
	return func() error {
		cancel()
		owned.Wait()
		frames.Close()
		return failed
	}
}

// A flood of forged messages beside a TCP stream: not one packet of the stream is refused, and
// the edge believes what its probes say.
func TestForgedReports(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestForgedReports/IPv4")
			}
			t.Parallel()
			n := newNarrow(t, family, 1500)
			n.EdgesUp(narrowSpec(overlay.VXLAN, "true"), narrowSpec(overlay.VXLAN, "true"))
			n.Fact("edge1 has probed the path", func() error { return pathMTU(n.Network, "edge1", 1500, "confirmed") })
			n.StopCaptures()
			d := harness.Way(n.red1, n.red2, 4)
			least := map[int]int{4: 576, 6: 1280}[family]
			end := n.flood(n.forged(t, least))
			for range 4 {
				n.Once("a transfer beside forged messages", func() error { return harness.Transfer(d, len(harness.Content)) })
				n.Must(pathMTU(n.Network, "edge1", 1500, "confirmed"))
			}
			n.Fact("a probe has refuted them", func() error { return reportsBecame(n.Network, "edge1", "refuted") })
			n.Must(end())
			n.NoDrops()
		})
	}
}

// Where the remote answers no probes, such a message costs size and no connections: IPv6 keeps
// its minimum inside.
func TestForgedReportsUnanswered(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, 4, 1500)
	n.Must(n.Hosts[1].SysctlSet("net/ipv4/icmp_echo_ignore_all", "1"))
	n.EdgesUp(narrowSpec(overlay.VXLAN, "true"), narrowSpec(overlay.VXLAN, "true"))
	n.Fact("edge2 answers no probes", func() error { return pathMTU(n.Network, "edge1", 1500, "unanswered") })
	n.StopCaptures()
	end := n.flood(n.forged(t, 576))
	n.Fact("edge1 obeys as far as it must", func() error { return pathMTU(n.Network, "edge1", 1280+50, "reported by ICMP") })
	n.Transfers(len(harness.Content), harness.Ways(n.red1, n.red2)...)
	n.Must(errors.Join(end(), pathMTU(n.Network, "edge1", 1280+50, "reported by ICMP")))
	n.Fact("a report was not confirmed", func() error { return reportsBecame(n.Network, "edge1", "unconfirmed") })
	n.NoDrops("too-big")
}

// reportsBecame is nil when some reports had that outcome.
func reportsBecame(n *harness.Network, host, outcome string) error {
	text, err := n.Ask(host).Metrics(n.Ctx)
	if err != nil {
		return err
	}
	if line := fmt.Sprintf("selvage_path_mtu_reports_total{outcome=%q} 0\n", outcome); strings.Contains(text, line) {
		return errors.New("no report was " + outcome)
	}
	return nil
}

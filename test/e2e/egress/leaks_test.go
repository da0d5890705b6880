package egress

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// The watch finds what it should, and nothing else.
func TestEgressLeaks(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{})
	defer n.DumpOnFailure()
	outMAC, err := n.Out.MAC("lan0")
	n.Must(err)
	uplink, err := harness.OpenFrames(n.Hosts[1], "up0", false)
	n.Must(err)
	t.Cleanup(uplink.Close)
	const fromPool4, fromPool6 = "198.51.100.20:2000", "[2001:db8:51::21]:2000"
	fine := []string{
		"tcp " + fromPool4 + " > 203.0.113.1:80 syn", "udp " + fromPool6 + " > [2001:db8:cafe::1]:53 18", "icmp 198.51.100.21 > 203.0.113.1 56",
		"icmp 198.51.100.2 > 203.0.113.1 11/0 56", "arp 198.51.100.2 ? 198.51.100.1", "arp 198.51.100.20 ! 198.51.100.20",
		"ns 2001:db8:51::2 ? 2001:db8:51::1", "fragment 198.51.100.20 > 203.0.113.1 1480 64",
	}
	leaking := []string{
		"tcp 10.0.0.1:2000 > 203.0.113.1:80 syn", "udp [fd00::1]:2000 > [2001:db8:cafe::1]:53 18", "icmp 10.0.0.1 > 203.0.113.1 56",
		"fragment 10.0.0.1 > 203.0.113.1 1480 64", "ip 10.0.0.1 > 203.0.113.1 132 20", "arp 10.0.0.1 ? 198.51.100.1", "ns fd00::1 ? 2001:db8:51::1",
		"tcp 198.51.100.2:2000 > 203.0.113.1:80 syn", "tcp 198.51.100.22:2000 > 203.0.113.1:80 syn", "raw 0x88b5 46",
	}
	inject := func(frame []byte) { n.Must(uplink.Send(frame)) }
	for _, words := range fine {
		inject(pkttest.Frame(harness.UplinkMAC(2), outMAC.String(), words))
	}
	inject(quoting(harness.UplinkMAC(2), outMAC.String(), harness.Pool4[0]))
	n.Untranslated.None(n.Network)
	for _, words := range leaking {
		inject(pkttest.Frame(harness.UplinkMAC(2), outMAC.String(), words))
	}
	inject(quoting(harness.UplinkMAC(2), outMAC.String(), n.Red1.Addr(4)))
	n.Fact("every leak is found", func() error {
		n.Untranslated.Mu.Lock()
		defer n.Untranslated.Mu.Unlock()
		if want := len(leaking) + 1; n.Untranslated.Count != want {
			return fmt.Errorf("%d of %d: %s", n.Untranslated.Count, want, strings.Join(n.Untranslated.Found, "\n"))
		}
		return nil
	})
}

// quoting is an error of a pool's address about a packet that was sent to an address.
func quoting(src, dst string, to netip.Addr) []byte {
	quoted := pkttest.Frame(dst, src, fmt.Sprintf("udp 203.0.113.1:53 > %s:2000 18", to))[14:]
	frame := pkttest.Frame(src, dst, fmt.Sprintf("icmp 198.51.100.20 > 203.0.113.1 3/3 %d", len(quoted)))
	return append(bytes.Clone(frame[:len(frame)-len(quoted)]), quoted...)
}

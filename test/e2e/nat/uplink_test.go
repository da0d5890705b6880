package nat

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// masquerading starts the first edge alone, whose uplink translates by itself, and looks at what leaves there.
func masquerading(n *harness.EgressNet) {
	n.T.Helper()
	own := []string{"src host " + harness.WanAddr(4, 4).String(), "src host " + harness.WanAddr(4, 6).String()}
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(own, own), "g1")
	n.Start(n.Hosts[0], dut.EdgeName(n.Hosts[0]), harness.Header(dut.EdgeName(n.Hosts[0]), n.Teps[0], n.O.Sources()))
	n.Reached(n.Red1, n.Red2)
}

// forwarding leads ports of the uplink to red1.
const forwarding = `nat: {masquerade: true, required: true, portForwards: [
        {protocol: tcp, port: 8100-8101, to: 10.0.0.1, toPort: 7100}, {protocol: udp, port: 8100-8101, to: 10.0.0.1, toPort: 7100},
        {protocol: tcp, port: 8100-8101, to: "fd00::1", toPort: 7100}, {protocol: udp, port: 8100-8101, to: "fd00::1", toPort: 7100}]}`

// forwardTalks are those of who asks a forwarded port: the outside and, by a hairpin, guests.
func forwardTalks() []conversation {
	var list []conversation
	for _, network := range []string{"tcp", "udp"} {
		for port := uint16(8100); port <= 8101; port++ {
			list = append(list, conversation{fmt.Sprintf("%s port %d", network, port), func(n *harness.EgressNet, family int) string {
				var words []string
				for _, h := range []*topo.Host{n.Out, n.Red2.Host, n.Red1.Host} {
					as, err := harness.Mirrored(h, network, 44000+port, netip.AddrPortFrom(harness.WanAddr(4, family), port))
					if err != nil {
						words = append(words, h.Name+" fails")
						continue
					}
					words = append(words, fmt.Sprintf("%s is %s", h.Name, as.Addr()))
				}
				return strings.Join(words, "; ")
			}})
		}
	}
	return list
}

// forwards has the uplink lead ports to red1, too.
func forwards(n *harness.EgressNet) {
	n.T.Helper()
	n.Rewrite("edge1", "nat: {masquerade: true}", forwarding)
	n.Fact("a forwarded port answers", func() error {
		_, err := harness.Mirrored(n.Out, "tcp", 0, netip.AddrPortFrom(harness.WanAddr(4, 4), 8100))
		return err
	})
}

// forwardsEnd: who has forwarded ports is translated too, and a port that leads nowhere is silent.
func forwardsEnd(n *harness.EgressNet) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		n.SeenAs(n.Red1, "tcp", harness.OutsideAddr(family), []netip.Addr{harness.WanAddr(4, family)})
		for _, network := range []string{"tcp", "udp"} {
			n.Once("a port that leads nowhere is silent", func() error {
				return harness.Meets(harness.Guest{Host: n.Out}, network, harness.WanAddr(4, family), 8102, harness.Silent)
			})
		}
	}
}

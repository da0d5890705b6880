package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// told is a fact: a command about an edge prints lines with all these words in this order.
func told(n *harness.EgressNet, number int, command []string, lines ...string) {
	n.T.Helper()
	n.Fact(fmt.Sprintf("%s on edge%d prints", strings.Join(command, " "), number), func() error {
		text, err := n.Command(number, command...)
		words := strings.Join(strings.Fields(text), " ")
		for _, line := range lines {
			if !strings.Contains(words, line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, text))
			}
		}
		if err == nil {
			n.T.Logf("%s on edge%d:\n%s", strings.Join(command, " "), number, text)
		}
		return err
	})
}

// What a user types about gateways and translation, at the sources' edge and at a gateway.
func TestEgressCommands(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Replication: true, Policies: []string{"name: web, vni: 9001, ports: 2000-2009, limit: 100"}})
	defer n.DumpOnFailure()
	n.Up()
	n.Serving(2, 3)
	talks := talk(n)
	talks.gap("so far")
	seen := sockets(n, n.Red1, netip.AddrPortFrom(harness.Outside4, harness.MirrorPort+1), 25) // all ports of both addresses
	n.Once("ports ran out", func() error {
		if len(seen) != 20 {
			return fmt.Errorf("%d sockets were served, want 20", len(seen))
		}
		return nil
	})
	const groups = "GROUP MODE GATEWAY NAME STATE SINCE WHY gws active-standby 192.0.2.2 "
	told(n, 1, []string{"egress", "-o", "wide"}, "web tenant 9001 gws - paired address-and-port-dependent 2000-2009 100 ", groups+"gw1 serving ", "192.0.2.3 gw2 serving ",
		"198.51.100.20 web 192.0.2.2 192.0.2.2 ", "web ipv4 100.00 % 192.0.2.2 web ipv6 100.00 % 192.0.2.2")
	told(n, 2, []string{"egress"}, "web tenant 9001 gws wan ", "(this edge) serving ", "192.0.2.3:49789 synchronised ")
	told(n, 2, []string{"nat", "--proto", "tcp", "--state", "established", "-o", "wide"}, "web tcp 10.0.0.1:", " 203.0.113.1:7001 established 192.0.2.1 ", "web tcp [fd00::2]:")
	told(n, 3, []string{"nat", "--proto", "tcp", "--addr", "203.0.113.1", "--limit", "1", "-o", "wide"}, " established 192.0.2.1 ", " replica ", "1 of ")
	told(n, 2, []string{"nat", "--top", "addresses"}, "198.51.100.20 ", "198.51.100.21 ")
	told(n, 2, []string{"nat", "--port-usage"}, "198.51.100.20 udp 203.0.113.1:7101 web 10 10 100.00 %")
	told(n, 2, []string{"nat", "--stats"}, "nat-sessions ", "nat-created ", "nat-next-address ")
	told(n, 2, []string{"drops"}, "nat-exhausted 5 ")
	told(n, 1, []string{"trace", "--port", "r0", "tcp 10.0.0.1:1000 > 203.0.113.1:80 syn"}, "egress ", "192.0.2.2")
	list, err := answers[api.NATSessionList](n.Hub, 2, "nat", "--proto", "tcp", "--state", "established")
	n.Must(err)
	n.Once("-o json has the connections, their addresses and ports", func() error {
		if list.Matched < len(talks.conns) {
			return fmt.Errorf("%d of %d", list.Matched, len(talks.conns))
		}
		for _, b := range list.Sessions {
			if b.Policy != "web" || b.Via != n.Teps[0] || b.Egress == b.Inside || b.EgressPort < 2000 || b.EgressPort > 2009 || b.Replica || !b.Answered {
				return fmt.Errorf("%+v", b)
			}
		}
		return nil
	})
	mend := faults[0].strike(n, 2)
	talks.live("after a failover")
	told(n, 1, []string{"egress"}, "gw1 gone ", " gws 192.0.2.2 serving>gone ", "web ipv4 100.00 % 192.0.2.3")
	told(n, 3, []string{"egress"}, " gws 192.0.2.2 serving>gone ", "198.51.100.20 web this edge this edge ")
	mend()
	n.Serving(2, 3)
	drains(n, 2, "drain", "--timeout", "0s")
	told(n, 2, []string{"egress"}, "it was drained")
	drains(n, 2, "undrain")
	n.Serving(2, 3)
	talks.live("at the end")
	n.HeldTogether()
}

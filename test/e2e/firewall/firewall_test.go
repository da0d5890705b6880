package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const firewallPicture = `
                switch
            e1 /      \ e2
          edge1        edge2       the firewall stands at p1, p2 and p3
         p1 |  | p2     | p3
         red1  red2    red3
     10.0.0.1  .0.2    .0.3`

// policed is two edges with three guests of one segment, two of them behind edge1.
type policed struct {
	*harness.Hub
	red1, red2, red3 harness.Guest
}

// policy is a firewall in YAML; none without options.
type policy struct {
	options string   // "default: drop, strict: true"
	rules   []string // "name: web, action: allow, services: [tcp/80]"
}

func (p policy) yaml() string {
	if p.options == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("  firewall:\n")
	for option := range strings.SplitSeq(p.options, ", ") {
		fmt.Fprintf(&b, "    %s\n", option)
	}
	if len(p.rules) > 0 {
		b.WriteString("    sections:\n    - name: test\n      rules:\n")
	}
	for _, rule := range p.rules {
		fmt.Fprintf(&b, "      - {%s}\n", rule)
	}
	return b.String()
}

var (
	// open is a firewall that lets everything pass, and none is no firewall.
	open = policy{options: "default: allow"}
	none = policy{}
)

func policedSpec(firewall policy, ports ...string) string {
	var b strings.Builder
	b.WriteString("  segments:\n  - {name: red, vni: 100, remotes: REMOTES}\n  ports:\n")
	for _, port := range ports {
		fmt.Fprintf(&b, "  - {name: %s, interface: %s, segment: red}\n", port, port)
	}
	return b.String() + firewall.yaml()
}

// newPoliced starts both edges, each with its policy, and has all guests know each other.
func newPoliced(t *testing.T, one, two policy) *policed {
	t.Helper()
	n := &policed{Hub: harness.NewUnderlay(t, firewallPicture, 2, 4)}
	n.red1 = n.Guest("red1", 0, 1, n.Hosts[0], "p1", 1430)
	n.red2 = n.Guest("red2", 0, 2, n.Hosts[0], "p2", 1430)
	n.red3 = n.Guest("red3", 0, 3, n.Hosts[1], "p3", 1430)
	n.Record()
	n.EdgesUp(policedSpec(one, "p1", "p2"), policedSpec(two, "p3"))
	n.acquainted()
	n.StopCaptures()
	return n
}

// step is one of the tests that go on with the same edges, under policies of its own.
type step struct {
	name     string
	one, two policy
	do       func(*policed)
}

// inSteps does one step after the other, each with another policy.
func inSteps(t *testing.T, steps ...step) {
	t.Helper()
	all := newPoliced(t, steps[0].one, steps[0].two)
	for i, s := range steps {
		if !t.Run(s.name, func(t *testing.T) {
			n := *all
			n.Hub = all.Hub.Sub(t)
			if i > 0 {
				n.settle(1, s.one, "p1", "p2")
				n.settle(2, s.two, "p3")
			}
			s.do(&n)
		}) {
			return
		}
	}
}

// settle gives an edge another policy, or none, and waits until that is so.
func (n *policed) settle(number int, p policy, ports ...string) {
	n.T.Helper()
	if p.options != "" {
		n.enforce(number, p, ports...)
		return
	}
	host := n.Hosts[number-1].Name
	n.Must(n.Reload(host, n.Yaml(number, policedSpec(p, ports...))))
	n.turned(host, false)
}

// acquainted is the fact that ARP and neighbour discovery pass whatever the policy.
func (n *policed) acquainted() {
	n.T.Helper()
	guests := []harness.Guest{n.red1, n.red2, n.red3}
	for _, from := range guests {
		for _, to := range guests {
			if from == to {
				continue
			}
			for _, family := range []int{4, 6} {
				n.Fact(fmt.Sprintf("%s resolves %s", from.Name, to.Addr(family)), func() error {
					conn, err := harness.DialUDP(from.Host, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.Addr(family), 9)))
					if err != nil {
						return err
					}
					defer conn.Close()
					if _, err := conn.Write([]byte("who are you?")); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
						return err
					}
					mac, err := harness.Neighbour(n.Ctx, from.Host, to.Addr(family))
					if err == nil && mac != to.Ether().String() {
						err = errors.New("it is at " + mac)
					}
					return err
				})
			}
		}
	}
}

// enforce gives an edge another policy and waits until it is in force.
func (n *policed) enforce(number int, p policy, ports ...string) {
	n.T.Helper()
	changes(n.Hub, number, func(mark string) string { return policedSpec(p.with(mark), ports...) })
}

// with is the policy and, at its end, a rule that decides about nothing.
func (p policy) with(mark string) policy {
	p.rules = append(slices.Clone(p.rules), fmt.Sprintf("name: %s, action: drop, services: [ip/253]", mark))
	return p
}

// changes writes what spec returns, in which is a rule of the name mark, and waits until
// the edge has that rule.
func changes(n *harness.Hub, number int, spec func(mark string) string) {
	n.T.Helper()
	host, mark := n.Hosts[number-1].Name, fmt.Sprintf("mark-%d", time.Now().UnixNano())
	n.Must(n.Reload(host, n.Yaml(number, spec(mark))))
	n.Fact("the changed policy is in force on "+host, func() error { return hasRule(n.Network, host, mark) })
}

// hasRule is nil when a rule of that name is in force.
func hasRule(n *harness.Network, host, name string) error {
	rules, err := n.Ask(host).Rules(n.Ctx)
	if err == nil && !slices.ContainsFunc(rules, func(r api.RuleInfo) bool { return r.Name == name }) {
		err = fmt.Errorf("none of %d rules is %s", len(rules), name)
	}
	return err
}

// strictOut allows what guests of edge1 begin on port 7001, and nothing else.
var strictOut = policy{options: "default: drop, strict: true", rules: []string{
	"name: out, action: allow, direction: out, services: [tcp/7001, udp/7001, icmp/8, icmpv6/128]",
}}

// verdicts has every action, in both directions.
var verdicts = policy{options: "default: allow", rules: []string{
	"name: allowed, action: allow, services: [tcp/7001, udp/7001]",
	"name: dropped, action: drop, services: [tcp/7002, udp/7002]",
	"name: rejected, action: reject, services: [tcp/7003, udp/7003]",
	"name: dropped-out, action: drop, direction: out, services: [tcp/7004, udp/7004]",
	"name: of-both, action: allow, services: [tcp/7004, udp/7004]",
}}

// TestFirewall is everything that docs/guide/firewall.md shows, on the same edges.
func TestFirewall(t *testing.T) {
	t.Parallel()
	inSteps(t,
		step{"Commands", watched, none, commands},
		step{"Verdicts", verdicts, open, verdictsHold},
		step{"Rejects", verdicts, open, rejects},
		step{"Ports", strictOut, none, portsChange},
		step{"KilledEdge", strictOut, strictOut, killedEdge},
		step{"ChangedWhileDead", strictOut, none, changedWhileDead},
	)
}

// verdictsHold: a verdict is one from a guest of the same host and from behind the tunnel.
func verdictsHold(n *policed) {
	n.T.Helper()
	for _, g := range []harness.Guest{n.red1, n.red2, n.red3} {
		n.Serve(g, harness.PortFree, harness.PortAllowed, harness.PortDropped, harness.PortRejected, harness.PortDroppedOut)
	}
	for network, rejection := range map[string]harness.Outcome{"tcp": harness.Refused, "udp": harness.Prohibited} {
		for _, c := range []struct {
			from, to harness.Guest
			out      harness.Outcome // of what is dropped on its way out
		}{{n.red1, n.red2, harness.Silent}, {n.red1, n.red3, harness.Silent}, {n.red3, n.red1, harness.Answered}} {
			gets(n.Hub.Network, c.from, network, c.to, harness.PortFree, harness.Answered)
			gets(n.Hub.Network, c.from, network, c.to, harness.PortAllowed, harness.Answered)
			gets(n.Hub.Network, c.from, network, c.to, harness.PortDropped, harness.Silent)
			gets(n.Hub.Network, c.from, network, c.to, harness.PortRejected, rejection)
			gets(n.Hub.Network, c.from, network, c.to, harness.PortDroppedOut, c.out)
		}
	}
	n.Pings(append(harness.Ways(n.red1, n.red2), harness.Ways(n.red1, n.red3)...)...)
	n.Transfers(2_000_000, harness.Ways(n.red1, n.red3)...)
}

// rejects: what a rejected sender gets is in order, and tshark agrees.
func rejects(n *policed) {
	n.T.Helper()
	n.Finished(topo.EndName, n.red1.Host, n.red2.Host, n.red3.Host)
	stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
	n.Must(err)
	for _, c := range []struct{ from, to harness.Guest }{{n.red1, n.red2}, {n.red1, n.red3}, {n.red3, n.red1}} {
		gets(n.Hub.Network, c.from, "tcp", c.to, harness.PortRejected, harness.Refused)
		gets(n.Hub.Network, c.from, "udp", c.to, harness.PortRejected, harness.Prohibited)
	}
	n.Must(stop())
	for _, name := range []string{"red1", "red3"} {
		file := filepath.Join(n.Dir, name+"-eth0.pcap")
		n.Intact(file)
		for _, filter := range []string{
			"ip && tcp.flags.reset == 1 && tcp.flags.ack == 1 && tcp.srcport == 7003", "ipv6 && tcp.flags.reset == 1 && tcp.flags.ack == 1 && tcp.srcport == 7003",
			"icmp.type == 3 && icmp.code == 13 && udp.dstport == 7003", "icmpv6.type == 1 && icmpv6.code == 1 && udp.dstport == 7003",
		} {
			n.Sees(file, 1, filter)
		}
	}
	n.Intact(filepath.Join(n.Dir, "edge1-u0.pcap"))
}

// gets is a fact: a client sees this of a service, over both families.
func gets(n *harness.Network, from harness.Guest, network string, to harness.Guest, port int, want harness.Outcome) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		n.Once(fmt.Sprintf("%s port %d of %s, IPv%d, is %s to %s", network, port, to.Name, family, want, from.Name), func() error {
			return harness.Meets(from, network, to.Addr(family), port, want)
		})
	}
}

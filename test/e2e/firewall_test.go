package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/topo"
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
	*hub
	red1, red2, red3 guest
	marks            atomic.Uint64 // of frames that follow others
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
func newPoliced(t *testing.T, family int, one, two policy) *policed {
	t.Helper()
	n := &policed{hub: newUnderlay(t, firewallPicture, 2, family)}
	n.red1 = n.guest("red1", 0, 1, n.hosts[0], "p1", 1430)
	n.red2 = n.guest("red2", 0, 2, n.hosts[0], "p2", 1430)
	n.red3 = n.guest("red3", 0, 3, n.hosts[1], "p3", 1430)
	n.record()
	n.edgesUp(policedSpec(one, "p1", "p2"), policedSpec(two, "p3"))
	n.acquainted()
	n.quiet()
	return n
}

// acquainted is the fact that ARP and neighbour discovery pass whatever the policy.
func (n *policed) acquainted() {
	n.t.Helper()
	guests := []guest{n.red1, n.red2, n.red3}
	for _, from := range guests {
		for _, to := range guests {
			if from == to {
				continue
			}
			for _, family := range []int{4, 6} {
				n.fact(fmt.Sprintf("%s resolves %s", from.Name, to.addr(family)), func() error {
					conn, err := dialUDP(from.Host, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to.addr(family), 9)))
					if err != nil {
						return err
					}
					defer conn.Close()
					if _, err := conn.Write([]byte("who are you?")); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
						return err
					}
					mac, err := neighbour(n.ctx, from.Host, to.addr(family))
					if err == nil && mac != to.mac().String() {
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
	n.t.Helper()
	n.changes(number, func(mark string) string { return policedSpec(p.with(mark), ports...) })
}

// with is the policy and, at its end, a rule that decides about nothing.
func (p policy) with(mark string) policy {
	p.rules = append(slices.Clone(p.rules), fmt.Sprintf("name: %s, action: drop, services: [ip/253]", mark))
	return p
}

// changes writes what spec returns, in which is a rule of the name mark, and waits until
// the edge has that rule.
func (n *hub) changes(number int, spec func(mark string) string) {
	n.t.Helper()
	host, mark := n.hosts[number-1].Name, fmt.Sprintf("mark-%d", time.Now().UnixNano())
	n.must(n.reload(host, n.yaml(number, spec(mark))))
	n.fact("the changed policy is in force on "+host, func() error { return n.hasRule(host, mark) })
}

// hasRule is nil when a rule of that name is in force.
func (n *network) hasRule(host, name string) error {
	rules, err := n.ask(host).Rules(n.ctx)
	if err == nil && !slices.ContainsFunc(rules, func(r edge.RuleInfo) bool { return r.Name == name }) {
		err = fmt.Errorf("none of %d rules is %s", len(rules), name)
	}
	return err
}

// Ports of services, by what the policy says about them.
const (
	portFree = 7000 + iota // about which no rule is
	portAllowed
	portDropped
	portRejected
	portDroppedOut
	portRejectedIn
	portFrom // from red1 alone
	portMAC  // from red2's MAC alone
)

// verdicts has every action, in both directions and by both addresses.
func verdicts(defaults string) policy {
	return policy{options: "default: " + defaults, rules: []string{
		"name: allowed, action: allow, services: [tcp/7001, udp/7001]",
		"name: dropped, action: drop, services: [tcp/7002, udp/7002]",
		"name: rejected, action: reject, services: [tcp/7003, udp/7003]",
		"name: dropped-out, action: drop, direction: out, services: [tcp/7004, udp/7004]",
		"name: rejected-in, action: reject, direction: in, services: [tcp/7005, udp/7005]",
		`name: from-red1, action: allow, from: [10.0.0.1, "fd00::/127"], services: [tcp/7006, udp/7006]`,
		`name: from-red2, action: allow, from: ["02:00:00:00:00:02"], services: [tcp/7007, udp/7007]`,
		"name: not-from-others, action: drop, services: [tcp/7006-7007, udp/7006-7007]",
		"name: of-both, action: allow, services: [tcp/7004-7005, udp/7004-7005]",
	}}
}

// A verdict is one from a guest of the same host and from behind the tunnel, and the
// firewall of each port has its say.
func TestFirewallVerdicts(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newPoliced(t, family, verdicts("allow"), open)
			for _, g := range []guest{n.red1, n.red2, n.red3} {
				n.serve(g, portFree, portAllowed, portDropped, portRejected, portDroppedOut, portRejectedIn, portFrom, portMAC)
			}
			networks := []string{"tcp", "udp"}
			if family == 6 { // what differs is the tunnel
				networks = networks[:1]
			}
			for _, network := range networks {
				rejection := map[string]outcome{"tcp": refused, "udp": prohibited}[network]
				for _, c := range []struct {
					from, to guest
					port     int
					want     outcome
				}{
					{n.red1, n.red2, portFree, answered},
					{n.red1, n.red2, portAllowed, answered},
					{n.red1, n.red2, portDropped, silent},
					{n.red1, n.red2, portRejected, rejection},
					{n.red1, n.red2, portDroppedOut, silent},
					{n.red1, n.red2, portRejectedIn, rejection},
					{n.red1, n.red2, portFrom, answered},
					{n.red1, n.red2, portMAC, silent},
					{n.red2, n.red1, portFrom, silent},
					{n.red2, n.red1, portMAC, answered},

					{n.red1, n.red3, portFree, answered},
					{n.red1, n.red3, portAllowed, answered},
					{n.red1, n.red3, portDropped, silent},
					{n.red1, n.red3, portRejected, rejection},
					{n.red1, n.red3, portDroppedOut, silent},
					{n.red1, n.red3, portRejectedIn, answered}, // edge2 does not mind
					{n.red2, n.red3, portFrom, silent},
					{n.red2, n.red3, portMAC, answered},

					{n.red3, n.red1, portFree, answered},
					{n.red3, n.red1, portAllowed, answered},
					{n.red3, n.red1, portDropped, silent},
					{n.red3, n.red1, portRejected, rejection},
					{n.red3, n.red1, portDroppedOut, answered}, // what goes in at edge1
					{n.red3, n.red1, portRejectedIn, rejection},
					{n.red3, n.red1, portFrom, silent},
				} {
					n.gets(c.from, network, c.to, c.port, c.want)
				}
			}
			n.pings(append(ways(n.red1, n.red2), ways(n.red1, n.red3)...)...)
			n.once("edge2 drops nothing", func() error {
				drops, err := n.drops("edge2")
				delete(drops, "no-member")
				if err == nil && len(drops) > 0 {
					err = fmt.Errorf("%v", drops)
				}
				return err
			})
		})
	}
}

// The default decides about what no rule does; each segment may have its own.
func TestFirewallDefaults(t *testing.T) {
	n := newPoliced(t, 4, verdicts("drop"), open)
	for _, g := range []guest{n.red1, n.red2, n.red3} {
		n.serve(g, portFree, portAllowed)
	}
	check := func(free outcome) {
		n.t.Helper()
		for _, c := range []struct{ from, to guest }{{n.red1, n.red2}, {n.red1, n.red3}, {n.red3, n.red1}} {
			n.gets(c.from, "tcp", c.to, portAllowed, answered)
			n.gets(c.from, "tcp", c.to, portFree, free)
		}
	}
	check(silent)
	n.enforce(1, verdicts("reject"), "p1", "p2")
	check(refused)
	n.changes(1, func(mark string) string {
		return strings.Replace(policedSpec(verdicts("drop").with(mark), "p1", "p2"), "{name: red, ", "{name: red, firewall: allow, ", 1)
	})
	check(answered)
}

// What a rejected sender gets is in order, and tshark agrees.
func TestFirewallRejects(t *testing.T) {
	n := newPoliced(t, 4, verdicts("allow"), open)
	n.finished(topo.EndName, n.red1.Host, n.red2.Host, n.red3.Host)
	stop, err := n.lab.Capture(n.ctx, n.dir, topo.CaptureOptions{})
	n.must(err)
	for _, c := range []struct{ from, to guest }{{n.red1, n.red2}, {n.red1, n.red3}, {n.red3, n.red1}} {
		n.gets(c.from, "tcp", c.to, portRejected, refused)
		n.gets(c.from, "udp", c.to, portRejected, prohibited)
	}
	n.must(stop())
	for _, name := range []string{"red1", "red3"} {
		file := filepath.Join(n.dir, name+"-eth0.pcap")
		n.intact(file)
		for _, filter := range []string{
			"ip && tcp.flags.reset == 1 && tcp.flags.ack == 1 && tcp.srcport == 7003", "ipv6 && tcp.flags.reset == 1 && tcp.flags.ack == 1 && tcp.srcport == 7003",
			"icmp.type == 3 && icmp.code == 13 && udp.dstport == 7003", "icmpv6.type == 1 && icmpv6.code == 1 && udp.dstport == 7003",
		} {
			n.sees(file, 1, filter)
		}
	}
	n.intact(filepath.Join(n.dir, "edge1-u0.pcap"))
}

// intact: tshark finds every header whole and every checksum right. Beyond that it warns of each
// reset.
func (n *network) intact(file string) {
	n.t.Helper()
	n.once("tshark finds nothing broken in "+filepath.Base(file), func() error {
		lines, err := n.tshark(file, "_ws.malformed || _ws.expert.severity >= error || ip.checksum.status == bad || udp.checksum.status == bad ||"+
			" tcp.checksum.status == bad || icmp.checksum.status == bad || icmpv6.checksum.status == bad")
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("%d packets:\n%s", len(lines), strings.Join(lines[:min(10, len(lines))], "\n"))
		}
		return err
	})
}

package nat

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// masquerading starts the first edge alone, whose uplink translates by itself, and looks at
// what leaves there.
func masquerading(n *harness.EgressNet) {
	n.T.Helper()
	own := []string{"src host " + harness.WanAddr(4, 4).String(), "src host " + harness.WanAddr(4, 6).String()}
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(own, own), "g1")
	edgeAlone(n, masqueradeText(n))
}

// masqueradeText is a configuration without egress policies.
func masqueradeText(n *harness.EgressNet) string {
	return harness.Header(dut.EdgeName(n.Hosts[0]), n.Teps[0], n.O.Egress+n.O.Firewall+n.O.Sources())
}

// alone starts the first edge, which is the one gateway of its policy.
func alone(n *harness.EgressNet) {
	n.T.Helper()
	own := []string{"src host " + harness.WanAddr(4, 4).String(), "src host " + harness.WanAddr(4, 6).String()}
	var pool []string
	for _, family := range []int{4, 6} {
		for _, a := range harness.PoolOf(family) {
			pool = append(pool, "src host "+a.String())
		}
	}
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(pool, own), "g1")
	edgeAlone(n, aloneText(n))
}

func aloneText(n *harness.EgressNet) string {
	name := dut.EdgeName(n.Hosts[0])
	if n.O.Uplink == "" {
		n.O.Uplink = "nat: {required: true}"
	}
	return harness.Header(name, n.Teps[0], n.O.EgressText([]string{name}, true)+n.O.Firewall+n.O.Sources())
}

func edgeAlone(n *harness.EgressNet, text string) {
	n.T.Helper()
	n.Start(n.Hosts[0], dut.EdgeName(n.Hosts[0]), text)
	n.Reached(n.Red1, n.Red2)
}

// An uplink's own translation.
func TestNATMasquerade(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Uplink: "nat: {masquerade: true}", Policies: []string{}})
	defer n.DumpOnFailure()
	masquerading(n)
	n.Mirror(n.Out)
	for _, family := range []int{4, 6} {
		for _, g := range []harness.Guest{n.Red1, n.Red2} {
			for _, network := range []string{"tcp", "udp"} {
				n.SeenAs(g, network, harness.OutsideAddr(family), []netip.Addr{harness.WanAddr(4, family)})
			}
		}
		n.Transfers(len(harness.Content), n.Outward(n.Red1, family))
		n.Fetches(len(harness.Content), n.Outward(n.Red1, family))
		n.Fact("the outside pings the router itself", func() error { return harness.Ping(n.Ctx, n.Out, harness.WanAddr(4, family)) })
	}
	n.Pings(harness.Ways(n.Red1, n.Red2)...)
	n.NoProblems("edge1")
	n.HeldTogether()
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

// Forwards and hairpins are the kernel's too, with the source of who asks from outside.
func TestNATForwards(t *testing.T) {
	reference := kernelResults(t, forwardTalks())
	t.Run("Selvage", func(t *testing.T) {
		n := harness.NewEgressNet(t, harness.EgressOptions{Uplink: forwarding, Policies: []string{}})
		defer n.DumpOnFailure()
		masquerading(n)
		alike(n, converse(n, forwardTalks()), reference)
		for _, family := range []int{4, 6} {
			n.Once("connections of who has forwarded ports are translated too", func() error {
				as, err := harness.Mirrored(n.Red1.Host, "tcp", 0, netip.AddrPortFrom(harness.OutsideAddr(family), harness.MirrorPort))
				if err == nil && as.Addr() != harness.WanAddr(4, family) {
					err = fmt.Errorf("it is %s", as)
				}
				return err
			})
			for _, network := range []string{"tcp", "udp"} {
				n.Once("a port that leads nowhere is silent", func() error {
					return harness.Meets(harness.Guest{Host: n.Out}, network, harness.WanAddr(4, family), 8102, harness.Silent)
				})
			}
		}
		n.HeldTogether()
	})
}

// Where translation is required nothing else leaves, and what comes for nobody goes nowhere.
func TestNATRequired(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprintf("required %t", required), func(t *testing.T) {
			t.Parallel()
			n := harness.NewEgressNet(t, harness.EgressOptions{
				Uplink:   fmt.Sprintf("nat: {required: %t}", required),
				Policies: []string{`name: web, vni: 9001, from: [10.0.0.1, "fd00::1"]`},
			})
			defer n.DumpOnFailure()
			n.Must(n.Out.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), harness.WanAddr(4, 4)))
			n.Must(n.Out.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), harness.WanAddr(4, 6)))
			n.Start(n.Hosts[0], dut.EdgeName(n.Hosts[0]), aloneText(n))
			n.Reached(n.Red1)
			n.Mirror(n.Out)
			leaks := n.WatchLeaks("(src host 10.0.0.2 or src host fd00::2) and not arp", "g1")
			for _, family := range []int{4, 6} {
				n.SeenAs(n.Red1, "tcp", harness.OutsideAddr(family), harness.PoolOf(family))
				if required {
					n.Once("red2 reaches nobody", func() error {
						return errors.Join(harness.Meets(n.Red2, "tcp", harness.OutsideAddr(family), harness.MirrorPort, harness.Silent), harness.Meets(n.Red2, "udp", harness.OutsideAddr(family), harness.MirrorPort, harness.Silent))
					})
				} else {
					n.SeenAs(n.Red2, "tcp", harness.OutsideAddr(family), []netip.Addr{n.Red2.Addr(family)})
				}
			}
			if required {
				leaks.None(n.Network)
				n.Fact("it is said why", func() error {
					drops, err := n.Drops("edge1")
					if err == nil && drops["no-translation"] < 4 {
						err = fmt.Errorf("%v", drops)
					}
					return err
				})
			}
			n.Untranslated.None(n.Network)
		})
	}
}

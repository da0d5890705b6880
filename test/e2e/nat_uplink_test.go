package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// masquerading starts the first edge alone, whose uplink translates by itself, and looks at
// what leaves there.
func (n *egressNet) masquerading() {
	n.t.Helper()
	own := []string{"src host " + wanAddr(4, 4).String(), "src host " + wanAddr(4, 6).String()}
	n.untranslated = n.watchLeaks(leakFilterOf(own, own), "g1")
	n.edgeAlone(n.masqueradeText())
}

// masqueradeText is a configuration without egress policies.
func (n *egressNet) masqueradeText() string {
	return header(n.hosts[0].EdgeName(), n.teps[0], n.o.egress+n.o.firewall+n.o.sources())
}

// alone starts the first edge, which is the one gateway of its policy.
func (n *egressNet) alone() {
	n.t.Helper()
	own := []string{"src host " + wanAddr(4, 4).String(), "src host " + wanAddr(4, 6).String()}
	var pool []string
	for _, family := range []int{4, 6} {
		for _, a := range poolOf(family) {
			pool = append(pool, "src host "+a.String())
		}
	}
	n.untranslated = n.watchLeaks(leakFilterOf(pool, own), "g1")
	n.edgeAlone(n.aloneText())
}

func (n *egressNet) aloneText() string {
	name := n.hosts[0].EdgeName()
	if n.o.uplink == "" {
		n.o.uplink = "nat: {required: true}"
	}
	return header(name, n.teps[0], n.o.egressText([]string{name}, true)+n.o.firewall+n.o.sources())
}

func (n *egressNet) edgeAlone(text string) {
	n.t.Helper()
	n.start(n.hosts[0], n.hosts[0].EdgeName(), text)
	n.reached(n.red1, n.red2)
}

// An uplink's own translation.
func TestNATMasquerade(t *testing.T) {
	n := newEgressNet(t, egressOptions{uplink: "nat: {masquerade: true}", policies: []string{}})
	defer n.confess()
	n.masquerading()
	n.mirror(n.out)
	for _, family := range []int{4, 6} {
		for _, g := range []guest{n.red1, n.red2} {
			for _, network := range []string{"tcp", "udp"} {
				n.seenAs(g, network, outsideAddr(family), []netip.Addr{wanAddr(4, family)})
			}
		}
		n.transfers(len(content), n.outward(n.red1, family))
		n.fetches(len(content), n.outward(n.red1, family))
		n.fact("the outside pings the router itself", func() error { return ping(n.ctx, n.out, wanAddr(4, family)) })
	}
	n.pings(ways(n.red1, n.red2)...)
	n.noProblems("edge1")
	n.heldTogether()
}

// forwarding leads ports of the uplink to red1.
const forwarding = `nat: {masquerade: true, required: true, forwards: [
        {protocol: tcp, port: 8100-8101, to: 10.0.0.1, toPort: 7100}, {protocol: udp, port: 8100-8101, to: 10.0.0.1, toPort: 7100},
        {protocol: tcp, port: 8100-8101, to: "fd00::1", toPort: 7100}, {protocol: udp, port: 8100-8101, to: "fd00::1", toPort: 7100}]}`

// forwardTalks are those of who asks a forwarded port: the outside and, by a hairpin, guests.
func forwardTalks() []conversation {
	var list []conversation
	for _, network := range []string{"tcp", "udp"} {
		for port := uint16(8100); port <= 8101; port++ {
			list = append(list, conversation{fmt.Sprintf("%s port %d", network, port), func(n *egressNet, family int) string {
				var words []string
				for _, h := range []*topo.Host{n.out, n.red2.Host, n.red1.Host} {
					as, err := mirrored(h, network, 44000+port, netip.AddrPortFrom(wanAddr(4, family), port))
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
		n := newEgressNet(t, egressOptions{uplink: forwarding, policies: []string{}})
		defer n.confess()
		n.masquerading()
		n.alike(n.converse(forwardTalks()), reference)
		for _, family := range []int{4, 6} {
			n.once("connections of who has forwarded ports are translated too", func() error {
				as, err := mirrored(n.red1.Host, "tcp", 0, netip.AddrPortFrom(outsideAddr(family), mirrorPort))
				if err == nil && as.Addr() != wanAddr(4, family) {
					err = fmt.Errorf("it is %s", as)
				}
				return err
			})
			for _, network := range []string{"tcp", "udp"} {
				n.once("a port that leads nowhere is silent", func() error {
					return meets(guest{Host: n.out}, network, wanAddr(4, family), 8102, silent)
				})
			}
		}
		n.heldTogether()
	})
}

// Where translation is required nothing else leaves, and what comes for nobody goes nowhere.
func TestNATRequired(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprintf("required %t", required), func(t *testing.T) {
			n := newEgressNet(t, egressOptions{
				uplink:   fmt.Sprintf("nat: {required: %t}", required),
				policies: []string{`name: web, vni: 9001, from: [10.0.0.1, "fd00::1"]`},
			})
			defer n.confess()
			n.must(n.out.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), wanAddr(4, 4)))
			n.must(n.out.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), wanAddr(4, 6)))
			n.start(n.hosts[0], n.hosts[0].EdgeName(), n.aloneText())
			n.reached(n.red1)
			n.mirror(n.out)
			leaks := n.watchLeaks("(src host 10.0.0.2 or src host fd00::2) and not arp", "g1")
			for _, family := range []int{4, 6} {
				n.seenAs(n.red1, "tcp", outsideAddr(family), poolOf(family))
				if required {
					n.once("red2 reaches nobody", func() error {
						return errors.Join(meets(n.red2, "tcp", outsideAddr(family), mirrorPort, silent), meets(n.red2, "udp", outsideAddr(family), mirrorPort, silent))
					})
				} else {
					n.seenAs(n.red2, "tcp", outsideAddr(family), []netip.Addr{n.red2.addr(family)})
				}
			}
			if required {
				leaks.none(n.network)
				n.fact("it is said why", func() error {
					drops, err := n.drops("edge1")
					if err == nil && drops["untranslated"] < 4 {
						err = fmt.Errorf("%v", drops)
					}
					return err
				})
			}
			n.untranslated.none(n.network)
		})
	}
}

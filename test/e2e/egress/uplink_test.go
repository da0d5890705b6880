package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

// uplinkAddresses are those of an edge's uplink, as a filter has them.
func uplinkAddresses(number int) []string {
	return []string{"src host " + harness.WanAddr(number, 4).String(), "src host " + harness.WanAddr(number, 6).String()}
}

// newUplinkNet has policies that give the address of the gateway's uplink. Nothing else may leave by a gateway.
func newUplinkNet(t *testing.T, o harness.EgressOptions) (*harness.EgressNet, *harness.Leaks) {
	t.Helper()
	o.Policies = []string{"name: web, vni: 9001, pool: [uplink]"}
	n := harness.NewEgressNet(t, o)
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(uplinkAddresses(2), uplinkAddresses(2)), "g2")
	return n, n.WatchLeaks(harness.LeakFilterOf(uplinkAddresses(3), uplinkAddresses(3)), "g3")
}

// seenAs is the fact that new connections of all guests leave by a gateway, with its address.
func seenAs(n *harness.EgressNet, number int, when string) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		for _, g := range []harness.Guest{n.Red1, n.Red2} {
			for _, network := range []string{"tcp", "udp"} {
				n.Fact(fmt.Sprintf("%s, %s, IPv%d, leaves by edge%d %s", g.Name, network, family, number, when), func() error {
					got, err := harness.Mirrored(g.Host, network, 0, netip.AddrPortFrom(harness.OutsideAddr(family), harness.MirrorPort))
					if err == nil && got.Addr() != harness.WanAddr(number, family) {
						err = fmt.Errorf("it comes from %s, want %s", got, harness.WanAddr(number, family))
					}
					return err
				})
			}
		}
	}
}

// With the address of the uplink, new connections leave with that of the gateway that serves: of the next one once the first is gone,
// and of the first again when it is back. Connections that the next one has then stay there.
func TestEgressUplinkAddress(t *testing.T) {
	t.Parallel()
	n, leaks := newUplinkNet(t, harness.EgressOptions{Replication: true, Fails: true})
	defer n.DumpOnFailure()
	n.Up()
	n.Mirror(n.Out)
	seenAs(n, 2, "at first")
	n.Once("only its sessions are not replicated", func() error { return replicated(n, 0) })
	hostsOwn(n)

	text, name := n.Config("edge2"), n.Edges["edge2"].Name
	n.Edges["edge2"].Kill()
	seenAs(n, 3, "without edge2")
	n.Serve(harness.Guest{Host: n.Out}, harness.PortAllowed)
	streams := []*harness.Stream{n.StartStream(n.Outward(n.Red1, 4)), n.StartStream(n.Outward(n.Red2, 6))}
	n.GoOn(streams)
	n.Start(n.Hosts[1], name, text)
	n.Serving(2, 3)
	seenAs(n, 2, "with the next edge2")
	n.GoOn(streams)
	stayed(n, streams)
	n.LostNothing(streams)
	n.HeldTogether()
	leaks.None(n.Network)
}

// stayed is the fact that all datagrams of a stream have had one source.
func stayed(n *harness.EgressNet, streams []*harness.Stream) {
	n.T.Helper()
	for _, s := range streams {
		n.Once("a stream keeps its address", func() error {
			if from := s.From(); len(from) != 1 {
				return fmt.Errorf("datagrams came from %v", from)
			}
			return nil
		})
	}
}

// replicated is nil when so many records went to each other gateway.
func replicated(n *harness.EgressNet, want uint64) error {
	info, err := n.Ask("edge2").Egress().Info(n.Ctx)
	if err != nil {
		return err
	}
	if len(info.Replication) == 0 {
		return errors.New("there is no replication")
	}
	for _, r := range info.Replication {
		if r.Sent != want {
			return fmt.Errorf("%d records went to %s, want %d", r.Sent, r.Gateway, want)
		}
	}
	return nil
}

// hostsOwn is the fact that the host of a gateway has connections of its own by the interface of the uplink.
func hostsOwn(n *harness.EgressNet) {
	n.T.Helper()
	own := map[int]netip.Prefix{4: netip.MustParsePrefix("198.51.100.12/24"), 6: netip.MustParsePrefix("2001:db8:51::12/64")}
	router := map[int]netip.Addr{4: harness.WanAddr(1, 4), 6: harness.WanAddr(1, 6)}
	n.Untranslated.Close()
	n.Must(n.Hosts[1].SysctlSet("net/ipv6/conf/up0/disable_ipv6", "0"))
	for family, a := range own {
		n.Must(n.Hosts[1].AddAddr("up0", a))
		n.Fact(fmt.Sprintf("edge2's host reaches the outside by itself, IPv%d", family), func() error {
			got, err := harness.Mirrored(n.Hosts[1], "tcp", 0, netip.AddrPortFrom(router[family], harness.MirrorPort))
			if err == nil && got.Addr() != a.Addr() {
				err = fmt.Errorf("it comes from %s, want %s", got, a.Addr())
			}
			return err
		})
	}
	// The kernel reports the groups of its address, too (MLDv2, RFC 3810 section 5.2.14).
	both := append(uplinkAddresses(2), "src host "+own[4].Addr().String(), "src host "+own[6].Addr().String(), "dst host ff02::16")
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(both, both), "g2")
}

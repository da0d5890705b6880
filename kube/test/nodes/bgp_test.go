package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Addresses of a network that is nowhere, so that only BGP leads to them.
var (
	advertised4, advertised6 = netip.MustParseAddr("100.64.0.20"), netip.MustParseAddr("2001:db8:64::20")
)

// A router outside, which is FRR, has routes to the addresses of pods by the node that answers for them, and no others. When that
// node's edge is killed, when it does not reach the router although its link is up, and when the whole node is gone, routes lead to
// the other node, and connections go on.
func TestBGP(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	f := b.advertise()
	defer func() {
		if t.Failed() {
			text, err := f.Do(b.Ctx, "show bgp summary", "show ip route", "show ipv6 route", "show bfd peers")
			t.Logf("%v\n%s", err, text)
		}
	}()
	b.Record()
	b.up()
	b.routed(f, 3)
	for _, network := range []string{"tcp", "udp"} {
		b.leaves(b.web1, network, harness.Outside4, advertised4)
		b.leaves(b.web2, network, harness.Outside6, advertised6)
	}
	open := b.open(b.web1)
	moved := b.moves(f, 4, func() { b.Edges[b.Hosts[2].Name].Kill() })
	t.Logf("the routes moved %s after the kill of an edge", moved.Round(time.Millisecond))
	b.Once("the connection goes on", open)

	h := b.Hosts[2]
	paused := b.pause(open, func() {
		b.Start(h, dut.EdgeName(h), string(b.plans[h.Name].Edge))
		b.serving(3, 4)
		b.routed(f, 3)
	})
	b.briefly("the node came back", paused)
	moved = b.moves(f, 4, func() {
		b.Must(b.wan.Nft(b.Ctx, "hole", `table bridge hole {
	chain drops { type filter hook forward priority 0; iifname "g3" drop; oifname "g3" drop; }
}`))
	})
	t.Logf("the routes moved %s after the router was out of reach", moved.Round(time.Millisecond))
	b.Once("the connection goes on where the router is reached", open)
	paused = b.pause(open, func() {
		b.Must(b.wan.Nft(b.Ctx, "filled", "delete table bridge hole"))
		b.routed(f, 3)
	})
	b.briefly("the router was reached again", paused)
	moved = b.moves(f, 4, func() { b.kill(3) })
	t.Logf("the routes moved %s after the end of a node", moved.Round(time.Millisecond))
	b.Once("the connection goes on at the other", open)
	b.leaves(b.web1, "tcp", harness.Outside4, advertised4)
}

// advertise has the gateway advertise addresses to the host outside, which knows no other way to them.
func (b *cluster) advertise() *dut.FRR {
	b.T.Helper()
	g := &b.input.Gateways[0]
	g.Spec.Uplink.BGP = &v1alpha1.BGP{AS: 65010, Neighbours: []v1alpha1.BGPNeighbour{{Address: "198.51.100.1", AS: 65100, BFD: v1alpha1.Enabled}}}
	b.input.Policies[0].Status.Addresses = []string{advertised4.String(), advertised6.String()}
	bgp := "router bgp 65100\n bgp router-id 198.51.100.1\n no bgp default ipv4-unicast\n no bgp ebgp-requires-policy\n bgp graceful-restart\n"
	families, bfd := "", "bfd\n"
	for number := 3; number <= 4; number++ {
		h, session := b.Hosts[number-1], harness.WanAddr(200+number, 4)
		b.uplinks[h.Name] = append(b.uplinks[h.Name], netip.PrefixFrom(session, 24))
		b.Must(h.AddAddr("eth1", netip.PrefixFrom(session, 24)))
		bgp += fmt.Sprintf(" neighbor %s remote-as 65010\n neighbor %[1]s timers connect 1\n neighbor %[1]s bfd\n", session)
		families += fmt.Sprintf("  neighbor %s activate\n", session)
		bfd += fmt.Sprintf(" peer %s\n  receive-interval 100\n  transmit-interval 100\n  detect-multiplier 20\n", session)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		bgp += " address-family " + family + " unicast\n" + families + " exit-address-family\n"
	}
	f, err := dut.StartFRR(b.Ctx, b.out, dut.FRRConfig{BGP: bgp, BFD: bfd})
	b.Must(err)
	return f
}

// routed is a fact: the router leads to the addresses by the uplink of a node, and by no other.
func (b *cluster) routed(f *dut.FRR, number int) {
	b.T.Helper()
	b.Fact(fmt.Sprintf("routes lead to edge%d", number), func() error { return routesLeadTo(b.Ctx, f, number) })
}

func routesLeadTo(ctx context.Context, f *dut.FRR, number int) error {
	var errs []error
	for family, a := range map[int]netip.Addr{4: advertised4, 6: advertised6} {
		command := fmt.Sprintf("show %s route %s", map[int]string{4: "ip", 6: "ipv6"}[family], netip.PrefixFrom(a, a.BitLen()))
		out, err := f.Do(ctx, command)
		if via := "* " + harness.WanAddr(number, family).String() + ","; err == nil && (!strings.Contains(out, via) || strings.Count(out, "  * ") != 1) {
			err = fmt.Errorf("not by %s alone: %s", via, out)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// moves is how long after what is done the routes lead to a node.
func (b *cluster) moves(f *dut.FRR, number int, do func()) time.Duration {
	b.T.Helper()
	begin := time.Now()
	do()
	b.Must(await.That(b.Ctx, fmt.Sprintf("routes to lead to edge%d", number), func() error { return routesLeadTo(b.Ctx, f, number) }))
	return time.Since(begin)
}

// briefly judges a pause while a node comes: TCP sends a lost segment again after 200 ms, then after 600 ms, then after 1.4 s.
func (b *cluster) briefly(when string, paused time.Duration) {
	b.T.Helper()
	b.T.Logf("an answer took %s at most while %s", paused.Round(time.Millisecond), when)
	if paused > time.Second {
		b.T.Error("it took the addresses before the router had a route to them")
	}
}

// pause is the longest time that a line took over an open connection, while something is done.
func (b *cluster) pause(exchange func() error, do func()) (longest time.Duration) {
	b.T.Helper()
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-ended:
				failed <- nil
				return
			case <-pace.C:
			}
			begin := time.Now()
			if err := exchange(); err != nil {
				failed <- err
				return
			}
			longest = max(longest, time.Since(begin))
		}
	}()
	do()
	close(ended)
	b.Must(<-failed)
	return longest
}

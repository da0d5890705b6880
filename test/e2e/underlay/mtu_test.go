package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// With a clamp TCP never sends too much; without, the senders are told what fits, and by whom.
func TestMTU(t *testing.T) {
	const inner = 1500 - 20 - 8 - 8 - 12 - 14 // inside of 1500 outside
	t.Parallel()
	n := harness.NewTwoHosts(t, harness.Tight(4))
	ours := n.Ours(overlay.Geneve, "options: "+harness.GeneveOptions)
	n.BuildRecorded(ours, ours)
	clamped(n, inner)
	n.NoDrops()
	for _, host := range []string{"hosta", "hostb"} {
		n.Rewrite(host, "      vni: 100\n", "      vni: 100\n      clampMSS: false\n      icmpSources: [10.9.9.9, \"fd09::9\"]\n")
	}
	told(n, inner)
	n.NoDrops("too-big")
}

func clamped(n *harness.TwoHosts, inner int) {
	n.T.Helper()
	n.Fact("the tunnel's inner MTU is known", func() error { return innerMTU(n.Network, "hosta", inner) })
	for family, headers := range map[int]int{4: 20 + 20 + 12, 6: 40 + 20 + 12} { // with TCP timestamps
		for _, d := range n.Directions(family) {
			n.Once("TCP has an MSS that fits, "+d.Name, func() error { return harness.HasMSS(d, inner-headers) })
		}
	}
	n.Streams()
}

func told(n *harness.TwoHosts, inner int) {
	n.T.Helper()
	for _, host := range []string{"hosta", "hostb"} {
		n.Resolved(host)
	}
	teller := map[int]netip.Addr{4: netip.MustParseAddr("10.9.9.9"), 6: netip.MustParseAddr("fd09::9")}
	for family, by := range teller {
		there, back := n.Directions(family)[0], n.Directions(family)[1]
		// First TCP: who knows better asks for smaller segments from the start.
		n.Fact("TCP is clamped no longer, "+back.Name, func() error { return harness.HasMSS(back, 1500-map[int]int{4: 52, 6: 72}[family]) })
		n.Once("TCP from "+back.Name, func() error { return harness.Transfer(back, len(harness.Content)) })
		n.Once("the sender has learned the path's MTU, "+back.Name, func() error { return harness.KnowsMTU(n.Network, back, inner) })
		n.Fact("a ping that does not fit is refused, "+there.Name, func() error { return harness.TooBigPing(n.Network, there, 1500, inner, by) })
		n.Fact("the sender has learned the path's MTU, "+there.Name, func() error { return harness.KnowsMTU(n.Network, there, inner) })
		n.Fact("a ping that fits is answered, "+there.Name, func() error { return harness.PingSize(n.Network, there, inner) })
	}
	n.Datagrams()
	n.Streams()
}

func innerMTU(n *harness.Network, host string, want int) error {
	teps, err := n.Ask(host).TEPs(n.Ctx)
	if err == nil && teps[0].InnerMTU != want {
		err = fmt.Errorf("it is %d, want %d", teps[0].InnerMTU, want)
	}
	return err
}

const narrowPicture = `
  red1 -- edge1 ====== near ====== far ====== edge2 -- red2
         u0      1500       1400        1500   u0
  192.0.2.1, .254              198.51.100.254, .2     MTU 1450 at the guests`

// narrow is an underlay with two routers and a narrow link between them.
type narrow struct {
	*harness.Hub
	near, far  *topo.Host
	red1, red2 harness.Guest
}

func newNarrow(t *testing.T, family, mtu int) *narrow {
	t.Helper()
	n := &narrow{Hub: &harness.Hub{Network: harness.NewNetwork(t, narrowPicture), Family: family}}
	n.near, n.far = n.Host("near"), n.Host("far")
	pair := func(four, six string) netip.Prefix {
		if family == 6 {
			return netip.MustParsePrefix(six)
		}
		return netip.MustParsePrefix(four)
	}
	edges := []netip.Prefix{pair("192.0.2.1/24", "2001:db8:1::1/64"), pair("198.51.100.2/24", "2001:db8:2::2/64")}
	gateways := []netip.Prefix{pair("192.0.2.254/24", "2001:db8:1::fe/64"), pair("198.51.100.254/24", "2001:db8:2::fe/64")}
	between := []netip.Prefix{pair("203.0.113.1/24", "2001:db8:3::1/64"), pair("203.0.113.2/24", "2001:db8:3::2/64")}
	for i, router := range []*topo.Host{n.near, n.far} {
		host := n.Host(fmt.Sprintf("edge%d", i+1))
		n.Hosts, n.Teps = append(n.Hosts, host), append(n.Teps, edges[i].Addr())
		n.Must(n.Topo.Link(n.Ctx,
			topo.LinkEnd{Host: host, Name: topo.UnderlayName, MAC: harness.UnderlayMAC(i + 1), Addrs: edges[i : i+1], Gateways: []netip.Addr{gateways[i].Addr()}},
			topo.LinkEnd{Host: router, Name: "e0", Addrs: gateways[i : i+1]}, 1500))
		n.Must(errors.Join(router.SysctlSet("net/ipv4/ip_forward", "1"), router.SysctlSet("net/ipv6/conf/all/forwarding", "1")))
	}
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: n.near, Name: "r0", Addrs: between[:1]}, topo.LinkEnd{Host: n.far, Name: "r0", Addrs: between[1:]}, mtu))
	n.Must(errors.Join(
		n.near.AddRoute("r0", edges[1].Masked(), between[1].Addr()),
		n.far.AddRoute("r0", edges[0].Masked(), between[0].Addr()),
	))
	n.red1 = n.Guest("red1", 0, 1, n.Hosts[0], "p0", 1450)
	n.red2 = n.Guest("red2", 0, 2, n.Hosts[1], "p0", 1450)
	n.Record()
	return n
}

const redSpec = `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: p0, interface: p0, segment: red}
`

func pathMTU(n *harness.Network, host string, want int, states ...string) error {
	teps, err := n.Ask(host).TEPs(n.Ctx)
	if err == nil && (teps[0].PathMTU != want || !strings.Contains(strings.Join(states, ","), teps[0].PathMTUState)) {
		err = fmt.Errorf("it is %d, %s; want %d, one of %s", teps[0].PathMTU, teps[0].PathMTUState, want, states)
	}
	return err
}

// A narrow link somewhere on the underlay is found by probes before anybody sends.
func TestMTUNarrowUnderlay(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, 6, 1400)
	n.EdgesUp(redSpec, redSpec)
	const inner = 1330
	for _, host := range []string{"edge1", "edge2"} {
		n.Fact(host+" has probed the path", func() error { return pathMTU(n.Hub.Network, host, 1400, "confirmed") })
		n.Fact(host+" knows what fits", func() error { return innerMTU(n.Hub.Network, host, inner) })
	}
	for _, d := range harness.Ways(n.red1, n.red2) {
		headers := map[bool]int{true: 52, false: 72}[d.Addr.Is4()]
		n.Once("TCP has an MSS that fits, "+d.Name, func() error { return harness.HasMSS(d, inner-headers) })
	}
	n.Transfers(len(harness.Content), harness.Ways(n.red1, n.red2)...)
	n.NoDrops()
}

// A link becomes narrow under a running connection: the underlay's message about the tunnel's packets becomes one for the
// guest. Then routers say nothing: the edge finds that by itself while packets are sent.
func TestMTUBecomesNarrow(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, 4, 1500)
	n.EdgesUp(redSpec, redSpec)
	n.Pings(harness.Ways(n.red1, n.red2)...)
	for _, host := range []string{"edge1", "edge2"} {
		n.Fact(host+" has probed the path", func() error { return pathMTU(n.Network, host, 1500, "confirmed") })
	}
	n.StopCaptures()
	for i, d := range []harness.Direction{harness.Way(n.red1, n.red2, 4), harness.Way(n.red2, n.red1, 6)} {
		n.Once("a connection survives, "+d.Name, func() error { return n.narrowed(d, 1400-40*i) })
	}
	n.Fact("the edge that it happened to says so", func() error {
		return pathMTU(n.Network, "edge2", 1360, "confirmed", "probing", "reported by ICMP")
	})
	n.Transfers(len(harness.Content), harness.Ways(n.red1, n.red2)...)

	for _, router := range []*topo.Host{n.near, n.far} {
		n.Must(router.Nft(n.Ctx, "silent", "table inet silent { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }"))
		n.Must(router.SetMTU("r0", 1300))
	}
	n.Patience = time.Minute
	d := harness.Way(n.red1, n.red2, 4)
	n.Fact("edge1 has found that the path shrank", func() error {
		return errors.Join(harness.Ping(n.Ctx, d.From, d.Addr), pathMTU(n.Network, "edge1", 1300, "confirmed"))
	})
	n.Fact("what fits passes", func() error { return harness.PingSize(n.Network, d, 1250) })
	n.NoDrops("too-big")
}

// narrowed lowers the MTU of the link in the middle during a transfer, which then
// must go on soon.
func (n *narrow) narrowed(d harness.Direction, mtu int) error {
	var lowered, first time.Time
	var failed error
	err := harness.TransferBytes(d, harness.Content, func(received int) {
		switch {
		case lowered.IsZero() && received > len(harness.Content)/3:
			failed = errors.Join(n.near.SetMTU("r0", mtu), n.far.SetMTU("r0", mtu))
			lowered = time.Now()
		case first.IsZero() && received > len(harness.Content)*2/3:
			first = time.Now()
		}
	})
	if pause := first.Sub(lowered); err == nil && pause > 3*time.Second {
		err = fmt.Errorf("it took %v to go on", pause)
	}
	return errors.Join(err, failed)
}

package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

var roomOf = []struct {
	encapsulation overlay.Encapsulation
	more          []string
	family        int
	inner         int // MTU inside of 1500 outside
}{
	{overlay.VXLAN, nil, 4, 1500 - 20 - 8 - 8 - 14},
	{overlay.VXLAN, nil, 6, 1500 - 40 - 8 - 8 - 14},
	{overlay.Geneve, []string{"options: " + harness.GeneveOptions}, 4, 1500 - 20 - 8 - 8 - 12 - 14},
	{overlay.NVGRE, nil, 6, 1500 - 40 - 8 - 14},
}

// With a clamp TCP never sends too much; without, the senders are told what fits, and by whom.
func TestMTU(t *testing.T) {
	for _, c := range roomOf {
		t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, c.family), func(t *testing.T) {
			if c.encapsulation == overlay.VXLAN && c.family == 6 {
				tier.Long(t, "TestMTU/vxlan/IPv4; over IPv6 TestMTUNarrowUnderlay/IPv6 and TestMTU/nvgre/IPv6")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, harness.Tight(c.family))
			n.BuildRecorded(n.Ours(c.encapsulation, c.more...), n.Ours(c.encapsulation, c.more...))
			clamped(n, c.inner)
			n.NoDrops()
			for _, host := range []string{"hosta", "hostb"} {
				n.Rewrite(host, "      vni: 100\n", "      vni: 100\n      clampMSS: false\n      icmpSources: [10.9.9.9, \"fd09::9\"]\n")
			}
			told(n, c.inner)
			n.NoDrops("too-big")
		})
	}
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

// The peers here drop what does not fit without a word: the clamp of one edge
// serves both sides.
func TestMTUPeers(t *testing.T) {
	for _, c := range []struct {
		name   string
		family int
		peer   topo.Half
	}{
		{"Kernel/IPv4", 4, dut.KernelHalf{TunnelMTU: 1450}},
		{"Kernel/IPv6", 6, dut.KernelHalf{TunnelMTU: 1430, UDP6ZeroCsumRx: true}},
		{"OpenVSwitch/IPv4", 4, dut.OVSHalf{}},
		{"OpenVSwitch/IPv6", 6, dut.OVSHalf{UDPChecksum: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "Kernel/IPv6" || c.name == "OpenVSwitch/IPv4" {
				tier.Long(t, "TestMTUPeers/Kernel/IPv4 and OpenVSwitch/IPv6")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, harness.Tight(c.family))
			n.BuildRecorded(n.SelvageHalf(), c.peer)
			n.Resolved("hosta")
			n.StopCaptures()
			for _, d := range append(n.Directions(4), n.Directions(6)...) {
				n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, len(harness.Content)) })
			}
			d := n.Directions(4)[0]
			n.Fact("what does not fit is refused, "+d.Name, func() error {
				return harness.TooBigPing(n.Network, d, 1500, map[int]int{4: 1450, 6: 1430}[c.family], d.Addr)
			})
			n.NoDrops("too-big")
		})
	}
}

// Guests of 9000 on an underlay of 9000.
func TestMTUJumbo(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 9000, InnerMTU: 9000})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.Resolved("hosta")
	segments := func(what string, mtu int, before func() error) {
		for family, headers := range map[int]int{4: 52, 6: 72} {
			for _, d := range n.Directions(family) {
				n.Fact(what+", "+d.Name, func() error { return errors.Join(before(), harness.HasMSS(d, mtu-headers)) })
			}
		}
	}
	known := func() error { return nil }
	forgotten := func() (err error) {
		for _, h := range []*topo.Host{n.Client, n.Server} {
			for _, family := range []string{"-4", "-6"} {
				_, failed := h.Output(n.Ctx, "ip", family, "route", "flush", "cache")
				err = errors.Join(err, failed)
			}
		}
		return err
	}
	n.Datagrams()
	n.Streams()
	segments("segments are as large as the tunnel carries", 8950, forgotten)
	for _, host := range []string{"hosta", "hostb"} {
		n.Rewrite(host, "      vni: 100\n", "      vni: 100\n      clampMSS: false\n")
	}
	segments("without a clamp they are as large as the link", 9000, forgotten)
	n.Datagrams()
	n.Streams()
	segments("and then as the tunnel carries", 8950, known)
	n.NoDrops("too-big")
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
  - {name: red, vni: 100, encapsulation: ENCAP, clampMSS: CLAMP, remotes: REMOTES}
  ports:
  - {name: p0, interface: p0, segment: red}
`

func narrowSpec(encapsulation overlay.Encapsulation, clamp string) string {
	return strings.NewReplacer("ENCAP", string(encapsulation), "CLAMP", clamp).Replace(redSpec)
}

func pathMTU(n *harness.Network, host string, want int, states ...string) error {
	teps, err := n.Ask(host).TEPs(n.Ctx)
	if err == nil && (teps[0].PathMTU != want || !strings.Contains(strings.Join(states, ","), teps[0].PathMTUState)) {
		err = fmt.Errorf("it is %d, %s; want %d, one of %s", teps[0].PathMTU, teps[0].PathMTUState, want, states)
	}
	return err
}

// A narrow link somewhere on the underlay is found by probes before anybody sends.
func TestMTUNarrowUnderlay(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 4 {
				tier.Long(t, "TestMTUNarrowUnderlay/IPv6; over IPv4 TestMTUUnderlayBecomesNarrow/vxlan/IPv4")
			}
			t.Parallel()
			n := newNarrow(t, family, 1400)
			n.EdgesUp(narrowSpec(overlay.VXLAN, "true"), narrowSpec(overlay.VXLAN, "true"))
			inner := map[int]int{4: 1350, 6: 1330}[family]
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
		})
	}
}

// A link becomes narrow under a running connection: the underlay's message about
// the tunnel's packets becomes one for the guest.
func TestMTUUnderlayBecomesNarrow(t *testing.T) {
	for _, c := range []struct {
		encapsulation overlay.Encapsulation
		family        int
	}{{overlay.VXLAN, 4}, {overlay.Geneve, 6}, {overlay.NVGRE, 6}} {
		t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, c.family), func(t *testing.T) {
			if c.encapsulation == overlay.Geneve {
				tier.Long(t, "TestMTUUnderlayBecomesNarrow/nvgre/IPv6")
			}
			t.Parallel()
			n := newNarrow(t, c.family, 1500)
			n.EdgesUp(narrowSpec(c.encapsulation, "true"), narrowSpec(c.encapsulation, "true"))
			for _, d := range harness.Ways(n.red1, n.red2) {
				n.Pings(d)
			}
			for _, host := range []string{"edge1", "edge2"} {
				n.Fact(host+" has probed the path", func() error { return pathMTU(n.Hub.Network, host, 1500, "confirmed") })
			}
			n.StopCaptures()
			for i, d := range []harness.Direction{harness.Way(n.red1, n.red2, 4), harness.Way(n.red2, n.red1, 6)} {
				n.Once("a connection survives, "+d.Name, func() error { return n.narrowed(d, 1400-40*i) })
			}
			if c.encapsulation == overlay.VXLAN { // once is enough: it takes ten seconds
				n.Fact("the edge that it happened to says so", func() error { return pathMTU(n.Hub.Network, "edge2", 1360, "confirmed", "probing", "reported by ICMP") })
			}
			n.Transfers(len(harness.Content), harness.Ways(n.red1, n.red2)...)
			n.NoDrops("too-big")
		})
	}
}

// A link becomes narrow and its routers say nothing. The edge finds that by itself while packets are sent,
// and only then.
func TestMTUShrinksWithoutICMP(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, 4, 1500)
	n.EdgesUp(narrowSpec(overlay.VXLAN, "true"), narrowSpec(overlay.VXLAN, "true"))
	n.Fact("edge1 has probed the path", func() error { return pathMTU(n.Network, "edge1", 1500, "confirmed") })
	n.StopCaptures()
	for _, router := range []*topo.Host{n.near, n.far} {
		n.Must(router.Nft(n.Ctx, "silent", "table inet silent { chain out { type filter hook output priority 0; icmp type destination-unreachable drop; }; }"))
		n.Must(router.SetMTU("r0", 1400))
	}
	n.Patience = time.Minute
	d := harness.Way(n.red1, n.red2, 4)
	n.Fact("edge1 has found that the path shrank", func() error {
		return errors.Join(harness.Ping(n.Ctx, d.From, d.Addr), pathMTU(n.Network, "edge1", 1400, "confirmed"))
	})
	n.Fact("what fits passes", func() error { return harness.PingSize(n.Network, d, 1350) })
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

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	MTU 1500                   1500                  MTU 1500
//
// The guests believe in more than the tunnel carries, and nothing disappears.

// tight is a network whose guests send too much.
func tight(family int) topo.TwoHostsOptions {
	return topo.TwoHostsOptions{UnderlayMTU: 1500, InnerMTU: 1500, UnderlayFamily: family}
}

var roomOf = []struct {
	encapsulation overlay.Encapsulation
	more          []string
	family        int
	inner         int // MTU inside of 1500 outside
}{
	{overlay.VXLAN, nil, 4, 1500 - 20 - 8 - 8 - 14},
	{overlay.VXLAN, nil, 6, 1500 - 40 - 8 - 8 - 14},
	{overlay.Geneve, []string{"options: " + geneveOptions}, 4, 1500 - 20 - 8 - 8 - 12 - 14},
	{overlay.NVGRE, nil, 6, 1500 - 40 - 8 - 14},
}

func TestMTUClamp(t *testing.T) {
	for _, c := range roomOf {
		t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, c.family), func(t *testing.T) {
			n := newTwoHosts(t, tight(c.family))
			n.build(n.ours(c.encapsulation, c.more...), n.ours(c.encapsulation, c.more...))
			n.fact("the tunnel's inner MTU is known", func() error { return n.innerMTU("hosta", c.inner) })
			for family, headers := range map[int]int{4: 20 + 20 + 12, 6: 40 + 20 + 12} { // with TCP timestamps
				for _, d := range n.directions(family) {
					n.once("TCP has an MSS that fits, "+d.name, func() error { return hasMSS(d, c.inner-headers) })
				}
			}
			n.quiet()
			n.streams()
			n.noDrops()
		})
	}
}

func (n *network) innerMTU(host string, want int) error {
	teps, err := n.ask(host).TEPs(n.ctx)
	if err == nil && teps[0].InnerMTU != want {
		err = fmt.Errorf("it is %d, want %d", teps[0].InnerMTU, want)
	}
	return err
}

// hasMSS opens a connection and reads what it sends in one segment.
func hasMSS(d direction, want int) error {
	l, err := listenTCP(d.to, d.addr)
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := dialTCP(d.from, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var mss int
	var failed error
	err = raw.Control(func(fd uintptr) { mss, failed = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	if err = errors.Join(err, failed); err == nil && mss != want {
		err = fmt.Errorf("it is %d, want %d", mss, want)
	}
	return err
}

// Without a clamp the senders are told what fits, and by whom.
func TestMTUTooBig(t *testing.T) {
	teller := map[int]netip.Addr{4: netip.MustParseAddr("10.9.9.9"), 6: netip.MustParseAddr("fd09::9")}
	for _, c := range roomOf {
		t.Run(fmt.Sprintf("%s/IPv%d", c.encapsulation, c.family), func(t *testing.T) {
			n := newTwoHosts(t, tight(c.family))
			more := append([]string{"clampMSS: false", `tooBigFrom: [10.9.9.9, "fd09::9"]`}, c.more...)
			n.build(n.ours(c.encapsulation, more...), n.ours(c.encapsulation, more...))
			for _, host := range []string{"hosta", "hostb"} {
				n.resolved(host)
			}
			for family, by := range teller {
				there, back := n.directions(family)[0], n.directions(family)[1]
				// First TCP: who knows better asks for smaller segments from the start.
				n.once("TCP from "+back.name, func() error { return transfer(back, len(content)) })
				n.once("the sender has learned the path's MTU, "+back.name, func() error { return knowsMTU(n.network, back, c.inner) })
				n.fact("a ping that does not fit is refused, "+there.name, func() error { return tooBigPing(n.network, there, 1500, c.inner, by) })
				n.fact("the sender has learned the path's MTU, "+there.name, func() error { return knowsMTU(n.network, there, c.inner) })
				n.fact("a ping that fits is answered, "+there.name, func() error { return pingSize(n.network, there, c.inner) })
			}
			n.datagrams()
			n.quiet()
			n.streams()
			n.noDrops("too-big")
		})
	}
}

// pingSize sends one echo request in an IP packet of size bytes with "don't fragment".
func pingSize(n *network, d direction, size int) error {
	out, err := d.from.Output(n.ctx, pingSized(d, size)...)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
}

func pingSized(d direction, size int) []string {
	headers := 28
	if d.addr.Is6() {
		headers = 48
	}
	return []string{"ping", "-n", "-c1", "-W1", "-M", "do", "-s", strconv.Itoa(size - headers), d.addr.String()}
}

// tooBigPing is nil when a ping of size is refused with that MTU, by that address.
func tooBigPing(n *network, d direction, size, mtu int, by netip.Addr) error {
	if _, err := d.from.Output(n.ctx, "ip", "route", "flush", "cache"); err != nil {
		return err
	}
	if _, err := d.from.Output(n.ctx, "ip", "-6", "route", "flush", "cache"); err != nil {
		return err
	}
	out, _ := d.from.Output(n.ctx, pingSized(d, size)...)
	for _, form := range []string{"From %s icmp_seq=1 Frag needed and DF set (mtu = %d)", "From %s icmp_seq=1 Packet too big: mtu=%d"} {
		if strings.Contains(string(out), fmt.Sprintf(form, by, mtu)) {
			return nil
		}
	}
	return fmt.Errorf("want MTU %d from %s: %s", mtu, by, out)
}

// knowsMTU is nil when the kernel of a sender has the path's MTU.
func knowsMTU(n *network, d direction, mtu int) error {
	out, err := d.from.Output(n.ctx, "ip", "route", "get", d.addr.String())
	if err == nil && !strings.Contains(string(out), fmt.Sprintf(" mtu %d ", mtu)) {
		err = errors.New(string(out))
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
		{"Kernel/IPv4", 4, topo.KernelHalf{TunnelMTU: 1450}},
		{"Kernel/IPv6", 6, topo.KernelHalf{TunnelMTU: 1430, UDP6ZeroCsumRx: true}},
		{"OpenVSwitch/IPv4", 4, topo.OVSHalf{}},
		{"OpenVSwitch/IPv6", 6, topo.OVSHalf{UDPChecksum: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTwoHosts(t, tight(c.family))
			n.build(n.selvage(), c.peer)
			n.resolved("hosta")
			n.quiet()
			for _, d := range append(n.directions(4), n.directions(6)...) {
				n.once("TCP from "+d.name, func() error { return transfer(d, len(content)) })
			}
			d := n.directions(4)[0]
			n.fact("what does not fit is refused, "+d.name, func() error {
				return tooBigPing(n.network, d, 1500, map[int]int{4: 1450, 6: 1430}[c.family], d.addr)
			})
			n.noDrops("too-big")
		})
	}
}

// Guests of 9000 on an underlay of 9000.
func TestMTUJumbo(t *testing.T) {
	for clamp, more := range map[bool][]string{true: nil, false: {"clampMSS: false"}} {
		t.Run(fmt.Sprintf("clamp %t", clamp), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 9000, InnerMTU: 9000})
			n.build(n.ours(overlay.VXLAN, more...), n.ours(overlay.VXLAN, more...))
			n.resolved("hosta")
			n.datagrams()
			n.quiet()
			n.streams()
			for family, headers := range map[int]int{4: 52, 6: 72} {
				for _, d := range n.directions(family) {
					n.once("segments are as large as the tunnel carries, "+d.name, func() error { return hasMSS(d, 8950-headers) })
				}
			}
			n.noDrops("too-big")
		})
	}
}

const narrowPicture = `
  red1 -- edge1 ====== near ====== far ====== edge2 -- red2
         u0      1500       1400        1500   u0
  192.0.2.1, .254              198.51.100.254, .2     MTU 1450 at the guests`

// narrow is an underlay with two routers and a narrow link between them.
type narrow struct {
	*hub
	near, far  *topo.Host
	red1, red2 guest
}

func newNarrow(t *testing.T, family, mtu int) *narrow {
	t.Helper()
	n := &narrow{hub: &hub{network: newNetwork(t, narrowPicture), family: family}}
	n.near, n.far = n.host("near"), n.host("far")
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
		host := n.host(fmt.Sprintf("edge%d", i+1))
		n.hosts, n.teps = append(n.hosts, host), append(n.teps, edges[i].Addr())
		n.must(n.lab.Link(n.ctx,
			topo.LinkEnd{Host: host, Name: topo.UnderlayName, MAC: underlayMAC(i + 1), Addrs: edges[i : i+1], Gateways: []netip.Addr{gateways[i].Addr()}},
			topo.LinkEnd{Host: router, Name: "e0", Addrs: gateways[i : i+1]}, 1500))
		n.must(errors.Join(router.SysctlSet("net/ipv4/ip_forward", "1"), router.SysctlSet("net/ipv6/conf/all/forwarding", "1")))
	}
	n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: n.near, Name: "r0", Addrs: between[:1]}, topo.LinkEnd{Host: n.far, Name: "r0", Addrs: between[1:]}, mtu))
	n.must(errors.Join(
		n.near.AddRoute("r0", edges[1].Masked(), between[1].Addr()),
		n.far.AddRoute("r0", edges[0].Masked(), between[0].Addr()),
	))
	n.red1 = n.guest("red1", 0, 1, n.hosts[0], "p0", 1450)
	n.red2 = n.guest("red2", 0, 2, n.hosts[1], "p0", 1450)
	n.record()
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

func (n *network) pathMTU(host string, want int, states ...string) error {
	teps, err := n.ask(host).TEPs(n.ctx)
	if err == nil && (teps[0].PathMTU != want || !strings.Contains(strings.Join(states, ","), teps[0].PathMTUState)) {
		err = fmt.Errorf("it is %d, %s; want %d, one of %s", teps[0].PathMTU, teps[0].PathMTUState, want, states)
	}
	return err
}

// A narrow link somewhere on the underlay is found by probes before anybody sends.
func TestMTUNarrowUnderlay(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newNarrow(t, family, 1400)
			n.edgesUp(narrowSpec(overlay.VXLAN, "true"), narrowSpec(overlay.VXLAN, "true"))
			inner := map[int]int{4: 1350, 6: 1330}[family]
			for _, host := range []string{"edge1", "edge2"} {
				n.fact(host+" has probed the path", func() error { return n.pathMTU(host, 1400, "confirmed") })
				n.fact(host+" knows what fits", func() error { return n.innerMTU(host, inner) })
			}
			for _, d := range ways(n.red1, n.red2) {
				headers := map[bool]int{true: 52, false: 72}[d.addr.Is4()]
				n.once("TCP has an MSS that fits, "+d.name, func() error { return hasMSS(d, inner-headers) })
			}
			n.transfers(len(content), ways(n.red1, n.red2)...)
			n.noDrops()
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
			n := newNarrow(t, c.family, 1500)
			n.edgesUp(narrowSpec(c.encapsulation, "true"), narrowSpec(c.encapsulation, "true"))
			for _, d := range ways(n.red1, n.red2) {
				n.pings(d)
			}
			for _, host := range []string{"edge1", "edge2"} {
				n.fact(host+" has probed the path", func() error { return n.pathMTU(host, 1500, "confirmed") })
			}
			n.quiet()
			for i, d := range []direction{way(n.red1, n.red2, 4), way(n.red2, n.red1, 6)} {
				n.once("a connection survives, "+d.name, func() error { return n.narrowed(d, 1400-40*i) })
			}
			if c.encapsulation == overlay.VXLAN { // once is enough: it takes ten seconds
				n.fact("the edge that it happened to says so", func() error { return n.pathMTU("edge2", 1360, "confirmed", "probing", "reported by ICMP") })
			}
			n.transfers(len(content), ways(n.red1, n.red2)...)
			n.noDrops("too-big")
		})
	}
}

// narrowed lowers the MTU of the link in the middle during a transfer, which then
// must go on soon.
func (n *narrow) narrowed(d direction, mtu int) error {
	var lowered, first time.Time
	var failed error
	err := transferBytes(d, content, func(received int) {
		switch {
		case lowered.IsZero() && received > len(content)/3:
			failed = errors.Join(n.near.SetMTU("r0", mtu), n.far.SetMTU("r0", mtu))
			lowered = time.Now()
		case first.IsZero() && received > len(content)*2/3:
			first = time.Now()
		}
	})
	if pause := first.Sub(lowered); err == nil && pause > 3*time.Second {
		err = fmt.Errorf("it took %v to go on", pause)
	}
	return errors.Join(err, failed)
}

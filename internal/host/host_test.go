package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/tier"
)

/*
 namespace near                   namespace far
 ┌───────────────────────┐        ┌──────────────────────┐
 │ us   192.0.2.1/24     ├────────┤ them 192.0.2.2/24    │
 │      2001:db8::1/64   │  veth  │      2001:db8::2/64  │
 │ v0 ── v1              │        └──────────────────────┘
 └───────────────────────┘
*/

var (
	us4    = netip.MustParsePrefix("192.0.2.1/24")
	them4  = netip.MustParsePrefix("192.0.2.2/24")
	us6    = netip.MustParsePrefix("2001:db8::1/64")
	them6  = netip.MustParsePrefix("2001:db8::2/64")
	silent = netip.MustParseAddr("192.0.2.9")
)

// bench is the picture above. The test's thread is in namespace near.
type bench struct {
	t         *testing.T
	near, far *netlink.Handle
	us, them  netlink.Link
	record    string
}

func newBench(t *testing.T) *bench {
	tier.Root(t)
	t.Parallel()
	return anotherBench(t)
}

func anotherBench(t *testing.T) *bench {
	runtime.LockOSThread() // never unlocked: the thread ends with the test and its namespace with it
	b := &bench{t: t, record: filepath.Join(t.TempDir(), "a.held")}
	far, err := netns.New()
	b.must(err)
	near, err := netns.New()
	b.must(err)
	b.far, err = netlink.NewHandleAt(far)
	b.must(err)
	b.near, err = netlink.NewHandleAt(near)
	b.must(err)
	t.Cleanup(func() {
		b.near.Close()
		b.far.Close()
		near.Close()
		far.Close()
	})
	b.must(b.near.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "us", MTU: 1600}, PeerName: "them", PeerNamespace: netlink.NsFd(far),
	}))
	b.must(b.near.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}))
	b.us, b.them = b.link(b.near, "us"), b.link(b.far, "them")
	b.addr(b.near, b.us, us4)
	b.addr(b.near, b.us, us6)
	b.addr(b.far, b.them, them4)
	b.addr(b.far, b.them, them6)
	b.must(b.near.LinkSetUp(b.us))
	b.must(b.far.LinkSetUp(b.them))
	b.must(b.near.LinkSetUp(b.link(b.near, "lo")))
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(h *netlink.Handle, name string) netlink.Link {
	b.t.Helper()
	l, err := h.LinkByName(name)
	b.must(err)
	return l
}

func (b *bench) addr(h *netlink.Handle, l netlink.Link, p netip.Prefix) {
	b.t.Helper()
	flags := 0
	if p.Addr().Is6() {
		flags = unix.IFA_F_NODAD
	}
	b.must(h.AddrAdd(l, &netlink.Addr{IPNet: ipnet(p), Flags: flags}))
}

func ipnet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (b *bench) open() *Host {
	b.t.Helper()
	h, err := Open(b.record, slog.New(slog.DiscardHandler))
	b.must(err)
	return h
}

// within waits for ok, which is asked at every change of h and now and then.
func within(t *testing.T, h *Host, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-h.Changed():
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func (b *bench) state(h *Host, tep netip.Addr, remotes ...netip.Addr) State {
	b.t.Helper()
	want := Want{Interfaces: []string{"us", "v0", "lo", "none"}, TEPs: []netip.Addr{tep}}
	for _, remote := range remotes {
		want.Pairs = append(want.Pairs, overlay.Pair{Local: tep, Remote: remote})
	}
	v, err := h.Observe(want)
	b.must(err)
	return v
}

// route is the path between two addresses of view.
func (v State) route(local, remote netip.Addr) Path {
	return v.Routes[overlay.Pair{Local: local, Remote: remote}]
}

func (b *bench) neigh(addr netip.Addr) (netlink.Neigh, bool) {
	b.t.Helper()
	list, err := b.near.NeighList(b.us.Attrs().Index, family(addr))
	b.must(err)
	for _, n := range list {
		if n.IP.Equal(addr.AsSlice()) {
			return n, true
		}
	}
	return netlink.Neigh{}, false
}

func TestObserveLinks(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	within(t, h, "link up", func() bool { return b.state(h, us4.Addr()).Links["us"].Up })
	v := b.state(h, us4.Addr())
	us := v.Links["us"]
	if us.Kind != "veth" || us.MTU != 1600 || us.Index != b.us.Attrs().Index || !us.PeerElsewhere || us.Physical() {
		t.Errorf("us is %+v, want a veth of MTU 1600 with its peer elsewhere", us)
	}
	if !us.Segments || !v.Links["v0"].Segments {
		t.Errorf("us %+v and v0 %+v, want them to take large TCP segments as every new veth does", us, v.Links["v0"])
	}
	if us.MAC != overlay.MAC(b.us.Attrs().HardwareAddr) {
		t.Errorf("MAC %s, want %s", us.MAC, b.us.Attrs().HardwareAddr)
	}
	if v0 := v.Links["v0"]; v0.PeerElsewhere || v0.Up {
		t.Errorf("v0 is %+v, want down and its peer here", v0)
	}
	if lo := v.Links["lo"]; !lo.Loopback || !lo.Up || lo.Physical() {
		t.Errorf("lo is %+v, want an enabled loopback", lo)
	}
	if _, ok := v.Links["none"]; ok || len(v.Links) != 3 {
		t.Errorf("links %v, want the three that exist", v.Links)
	}
}

// Of tun there are no Ethernet headers, of tap and veth there are.
func TestObserveInterfacesWithoutEthernetHeader(t *testing.T) {
	b := newBench(t)
	b.must(b.near.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tun0"}, Mode: netlink.TUNTAP_MODE_TUN}))
	b.must(b.near.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap0"}, Mode: netlink.TUNTAP_MODE_TAP}))
	h := b.open()
	defer h.Close()
	v, err := h.Observe(Want{Interfaces: []string{"tun0", "tap0", "us", "lo"}})
	b.must(err)
	for name, want := range map[string]string{"tun0": "none", "tap0": "", "us": "", "lo": ""} {
		if got := v.Links[name].NotEthernet; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// What the operator turns off is seen, and raises an event. The test's thread
// leaves the host's namespace, in which the question must be asked all the same.
func TestObserveSegments(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	within(t, h, "link up", func() bool { return b.state(h, us4.Addr()).Links["us"].Up })
	tool, err := ethtool.Open()
	b.must(err)
	defer tool.Close()
	elsewhere, err := netns.New()
	b.must(err)
	defer elsewhere.Close()
	for _, on := range []bool{false, true} {
		quiet(h)
		b.must(tool.Change("us", map[string]bool{"tx-tcp-segmentation": on}))
		select {
		case <-h.Changed():
		case <-time.After(5 * time.Second):
			t.Errorf("no event of segmentation offload that becomes %v", on)
		}
		v := b.state(h, us4.Addr())
		if v.Links["us"].Segments != on || !v.Links["v0"].Segments {
			t.Errorf("us is %+v, v0 %+v, want segments %v on us alone", v.Links["us"], v.Links["v0"], on)
		}
	}
	if !h.takesSegments("none") {
		t.Error("a link that cannot be asked shall count as one that takes segments")
	}
}

func TestObservePaths(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	routed, narrow := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("203.0.113.7")
	gw := them4.Addr().AsSlice()
	b.must(b.near.RouteAdd(&netlink.Route{Dst: ipnet(netip.MustParsePrefix("198.51.100.0/24")), Gw: gw}))
	b.must(b.near.RouteAdd(&netlink.Route{Dst: ipnet(netip.MustParsePrefix("203.0.113.0/24")), Gw: gw, MTU: 1400}))
	b.must(b.near.RouteAdd(&netlink.Route{Dst: ipnet(netip.MustParsePrefix("10.1.0.0/16")), Type: unix.RTN_BLACKHOLE}))
	nowhere, hole := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.1.0.1")

	v := b.state(h, us4.Addr(), them4.Addr(), routed, narrow, us4.Addr(), nowhere, hole)
	if !v.TEPs[us4.Addr()] {
		t.Error("TEP is not found on the host")
	}
	index, mac := b.us.Attrs().Index, overlay.MAC(b.us.Attrs().HardwareAddr)
	base := Path{NextHop: NextHop{index, them4.Addr()}, Interface: "us", MTU: 1600, SrcMAC: mac}
	if got := v.route(us4.Addr(), them4.Addr()); got != base {
		t.Errorf("direct path %+v, want %+v", got, base)
	}
	if got := v.route(us4.Addr(), routed); got != base {
		t.Errorf("routed path %+v, want the gateway's %+v", got, base)
	}
	base.MTU = 1400
	if got := v.route(us4.Addr(), narrow); got != base {
		t.Errorf("path with the route's own MTU %+v, want %+v", got, base)
	}
	if got := v.route(us4.Addr(), us4.Addr()); !got.Local {
		t.Errorf("path to an own address %+v, want local", got)
	}
	for _, remote := range []netip.Addr{nowhere, hole} {
		if p, ok := v.Routes[overlay.Pair{Local: us4.Addr(), Remote: remote}]; ok {
			t.Errorf("path to %s without a route is %+v", remote, p)
		}
	}
	elsewhere := b.state(h, netip.MustParseAddr("192.0.2.77"), them4.Addr())
	if len(elsewhere.Routes) != 1 || len(elsewhere.TEPs) != 0 {
		t.Errorf("with a TEP of another host: present %v, ways %v", elsewhere.TEPs, elsewhere.Routes)
	}
}

// With rules by source address, two TEPs of one host reach the same remote by
// different interfaces; without a rule, the route is that of the destination.
func TestObserveRoutesBySource(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	second, far := netip.MustParsePrefix("198.51.100.1/24"), them4.Addr()
	v0 := b.link(b.near, "v0")
	b.addr(b.near, v0, second)
	b.must(b.near.LinkSetUp(v0))
	b.must(b.near.LinkSetUp(b.link(b.near, "v1")))
	pairs := []overlay.Pair{{Local: us4.Addr(), Remote: far}, {Local: second.Addr(), Remote: far}}
	interfaces := func() [2]string {
		v, err := h.Observe(Want{TEPs: []netip.Addr{us4.Addr(), second.Addr()}, Pairs: pairs})
		b.must(err)
		if !v.TEPs[us4.Addr()] || !v.TEPs[second.Addr()] {
			t.Errorf("TEPs %v, want both", v.TEPs)
		}
		return [2]string{v.Routes[pairs[0]].Interface, v.Routes[pairs[1]].Interface}
	}
	within(t, h, "both ways by the destination's interface", func() bool { return interfaces() == [2]string{"us", "us"} })
	const table = 100
	rule := netlink.NewRule()
	rule.Src, rule.Table, rule.Family = ipnet(netip.PrefixFrom(second.Addr(), 32)), table, unix.AF_INET
	b.must(b.near.RuleAdd(rule))
	gw := netip.MustParseAddr("198.51.100.254")
	b.must(b.near.RouteAdd(&netlink.Route{LinkIndex: v0.Attrs().Index, Gw: gw.AsSlice(), Table: table}))
	within(t, h, "the ruled way by its own interface", func() bool { return interfaces() == [2]string{"us", "v0"} })
}

func TestEnsureResolvesNextHop(t *testing.T) {
	for name, addrs := range map[string][2]netip.Addr{
		"IPv4": {us4.Addr(), them4.Addr()}, "IPv6": {us6.Addr(), them6.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			h := b.open()
			defer h.Close()
			tep, remote := addrs[0], addrs[1]
			within(t, h, "link up", func() bool { return b.state(h, tep).Links["us"].Up })
			hop := b.state(h, tep, remote).route(tep, remote).NextHop
			b.must(h.Ensure(Desired{NextHops: []NextHop{hop}}))
			want := overlay.MAC(b.them.Attrs().HardwareAddr)
			within(t, h, "next hop resolved", func() bool { return b.state(h, tep, remote).route(tep, remote).NextMAC == want })
			if n, ok := b.neigh(remote); !ok || n.FlagsExt&netlink.NTF_EXT_MANAGED == 0 {
				t.Errorf("neighbour %+v is not kept resolved by the kernel", n)
			}
			b.must(h.Ensure(Desired{NextHops: []NextHop{hop}})) // idempotent

			// The remote gets another MAC address: an event tells, and what is held stays held.
			moved := overlay.MAC{2, 0, 0, 0, 0, 0x77}
			b.must(b.far.LinkSetHardwareAddr(b.them, moved[:]))
			b.must(b.near.NeighDel(&netlink.Neigh{LinkIndex: hop.Ifindex, IP: remote.AsSlice(), Family: family(remote)}))
			within(t, h, "next hop resolved again", func() bool {
				b.must(h.Ensure(Desired{NextHops: []NextHop{hop}}))
				return b.state(h, tep, remote).route(tep, remote).NextMAC == moved
			})

			b.must(h.Ensure(Desired{}))
			if n, ok := b.neigh(remote); ok {
				t.Errorf("neighbour %+v is left behind", n)
			}
			if _, err := os.Stat(b.record); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("record is left behind: %v", err)
			}
		})
	}
}

func TestEnsureLeavesWhatWasThere(t *testing.T) {
	b := newBench(t)
	index := b.us.Attrs().Index
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 9}
	fixed := &netlink.Neigh{LinkIndex: index, IP: silent.AsSlice(), HardwareAddr: mac, State: unix.NUD_PERMANENT}
	b.must(b.near.NeighAdd(fixed))
	known := &netlink.Neigh{LinkIndex: index, IP: them4.Addr().AsSlice(), HardwareAddr: b.them.Attrs().HardwareAddr, State: unix.NUD_STALE}
	b.must(b.near.NeighAdd(known))
	b.must(b.near.SetPromiscOn(b.link(b.near, "v1")))
	v0, v1 := b.link(b.near, "v0").Attrs().Index, b.link(b.near, "v1").Attrs().Index

	h := b.open()
	want := Desired{NextHops: []NextHop{{index, silent}, {index, them4.Addr()}, {9999, silent}}, Promisc: []int{v0, v1, 9999}}
	b.must(h.Ensure(want))
	if n, _ := b.neigh(silent); n.State != unix.NUD_PERMANENT || n.FlagsExt != 0 {
		t.Errorf("permanent neighbour was changed: %+v", n)
	}
	if n, _ := b.neigh(them4.Addr()); n.FlagsExt&netlink.NTF_EXT_MANAGED == 0 {
		t.Errorf("known neighbour %+v is not kept resolved", n)
	}
	if !b.promisc("v0") {
		t.Error("v0 is not promiscuous")
	}
	b.must(h.Close()) // as if it were killed

	h = b.open()
	defer h.Close()
	if !b.promisc("v0") {
		t.Error("what was held did not survive the process")
	}
	b.must(h.Ensure(Desired{}))
	if n, _ := b.neigh(silent); n.State != unix.NUD_PERMANENT {
		t.Errorf("permanent neighbour is gone: %+v", n)
	}
	if n, ok := b.neigh(them4.Addr()); !ok || n.FlagsExt&netlink.NTF_EXT_MANAGED != 0 {
		t.Errorf("known neighbour %+v, want it there and no longer managed", n)
	}
	if b.promisc("v0") || !b.promisc("v1") {
		t.Errorf("promiscuous v0 %v, v1 %v: want only v1, which was so before", b.promisc("v0"), b.promisc("v1"))
	}
}

func (b *bench) promisc(name string) bool {
	return b.link(b.near, name).Attrs().RawFlags&unix.IFF_PROMISC != 0
}

func TestRecordOfAnotherNamespaceIsNotTakenOver(t *testing.T) {
	b := newBench(t)
	h := b.open()
	b.must(h.Ensure(Desired{Promisc: []int{b.us.Attrs().Index}}))
	b.must(h.Close())
	other := anotherBench(t)
	other.record = b.record
	other.must(other.near.SetPromiscOn(other.us)) // the same name and index, but an operator's wish
	h = other.open()
	defer h.Close()
	other.must(h.Ensure(Desired{}))
	if !other.promisc("us") {
		t.Error("a record of another namespace changed this one")
	}
}

func TestChanged(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	within(t, h, "link up", func() bool { return b.state(h, us4.Addr()).Links["us"].Up })
	quiet(h)
	events := []struct {
		name string
		do   func() error
	}{
		{"link", func() error { return b.near.LinkSetMTU(b.us, 1400) }},
		{"address", func() error {
			return b.near.AddrAdd(b.us, &netlink.Addr{IPNet: ipnet(netip.MustParsePrefix("192.0.2.3/32"))})
		}},
		{"route", func() error {
			return b.near.RouteAdd(&netlink.Route{LinkIndex: b.us.Attrs().Index, Dst: ipnet(netip.MustParsePrefix("198.51.100.0/24"))})
		}},
		{"new link", func() error {
			return b.near.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "tap0"}, Mode: netlink.TUNTAP_MODE_TAP})
		}},
		{"link gone", func() error { return b.near.LinkDel(b.link(b.near, "v0")) }},
	}
	for _, e := range events {
		b.must(e.do())
		select {
		case <-h.Changed():
		case <-time.After(5 * time.Second):
			t.Errorf("%s: no event", e.name)
		}
		quiet(h)
	}
	// A neighbour that no remote uses is no event. The kernel may have one of its own
	// just then (an IPv6 address that is ready), but not each time.
	for try := range byte(4) {
		b.must(b.near.NeighSet(&netlink.Neigh{LinkIndex: b.us.Attrs().Index, IP: silent.AsSlice(),
			HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9 + try}, State: unix.NUD_STALE}))
		select {
		case <-h.Changed():
			quiet(h)
		case <-time.After(4 * debounce):
			return
		}
	}
	t.Error("a neighbour of no concern raised an event each time")
}

// A link without carrier is told of by its index, as one that is gone; nothing else is.
func TestLinksLost(t *testing.T) {
	b := newBench(t)
	h := b.open()
	defer h.Close()
	within(t, h, "link up", func() bool { return b.state(h, us4.Addr()).Links["us"].Up })
	lost := func(what string, index int, do func() error) {
		t.Helper()
		for len(h.LinksLost()) > 0 {
			<-h.LinksLost()
		}
		b.must(do())
		for limit := time.After(5 * time.Second); ; {
			select {
			case i := <-h.LinksLost():
				if i == index {
					return
				}
			case <-limit:
				t.Errorf("%s: it is not told of", what)
				return
			}
		}
	}
	quiet(h)
	for len(h.LinksLost()) > 0 { // v0 and v1 are down
		<-h.LinksLost()
	}
	b.must(b.near.LinkSetMTU(b.us, 1400))
	quiet(h)
	if n := len(h.LinksLost()); n > 0 {
		t.Errorf("%d links are lost, though one has another MTU", n)
	}
	lost("no carrier", b.us.Attrs().Index, func() error { return b.far.LinkSetDown(b.them) })
	b.must(b.far.LinkSetUp(b.them))
	within(t, h, "link up again", func() bool { return b.state(h, us4.Addr()).Links["us"].Up })
	lost("set down", b.us.Attrs().Index, func() error { return b.near.LinkSetDown(b.us) })
	v0 := b.link(b.near, "v0")
	lost("gone", v0.Attrs().Index, func() error { return b.near.LinkDel(v0) })
	for range 2 * lostMost { // nobody reads
		b.must(b.near.LinkSetMTU(b.us, 1400))
		b.must(b.near.LinkSetMTU(b.us, 1401))
	}
	within(t, h, "it goes on", func() bool { return b.state(h, us4.Addr()).Links["us"].MTU == 1401 })
}

// quiet waits until no event came for some debounce times.
func quiet(h *Host) {
	for {
		select {
		case <-h.Changed():
		case <-time.After(6 * debounce):
			return
		}
	}
}

// A subscription that breaks is made again, and what happened meanwhile is an event.
func TestWatchSubscribesAgain(t *testing.T) {
	b := newBench(t)
	ns, err := netns.Get()
	b.must(err)
	defer ns.Close()
	h := &Host{}
	h.watcher = &watcher{ns: ns, known: &h.known, facts: &h.facts, log: slog.New(slog.DiscardHandler), changed: make(chan struct{}, 1), lost: make(chan int, lostMost)}
	broken, err := h.watcher.subscribe()
	b.must(err)
	broken.Close()
	ctx, cancel := context.WithCancel(t.Context())
	h.watcher.watch(ctx, broken)
	defer h.watcher.owned.Wait()
	defer cancel()
	select {
	case <-h.Changed():
	case <-time.After(10 * time.Second):
		t.Fatal("no event after the break")
	}
	mtu := 1300
	again := func() bool { // an event that is of now, not of the break
		mtu++
		b.must(b.near.LinkSetMTU(b.us, mtu))
		select {
		case <-h.Changed():
			return true
		case <-time.After(2 * debounce):
			return false
		}
	}
	for deadline := time.Now().Add(10 * time.Second); !again(); {
		if time.Now().After(deadline) {
			t.Fatal("no event after subscribing again")
		}
	}
}

func TestIsLoss(t *testing.T) {
	for name, c := range map[string]struct {
		message uint16
		flags   uint32
		want    bool
	}{
		"carrier":    {unix.RTM_NEWLINK, unix.IFF_UP | unix.IFF_RUNNING, false},
		"no carrier": {unix.RTM_NEWLINK, unix.IFF_UP, true},
		"down":       {unix.RTM_NEWLINK, 0, true},
		"deleted":    {unix.RTM_DELLINK, unix.IFF_UP | unix.IFF_RUNNING, true},
		"a route":    {unix.RTM_NEWROUTE, 0, false},
	} {
		link := nl.NewIfInfomsg(unix.AF_UNSPEC)
		link.Flags = c.flags
		if got := isLoss(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: c.message}, Data: link.Serialize()}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if isLoss(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}}) {
		t.Error("an empty message is none")
	}
}

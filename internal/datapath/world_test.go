package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// world is one edge in a network namespace of its own. Every device is a veth
// whose other end stands beside it, named with an x, and has nothing attached.
//
//	p0x ─ p0 ┐                       blue: VNI 100, both remotes
//	p1x ─ p1 ┼ edge ─ u0 ─ u0x       green: VNI 200, the first remote
//	p2x ─ p2 ┘                       p0, p1 in blue, p2 in green
//	s0x ─ s0   no port
type world struct {
	name    string
	ns      netns.NsHandle
	nl      *netlink.Handle
	dp      *Datapath
	cfg     Config
	tables  fib.Tables
	dev     map[string]*net.Interface
	family  family
	tracers map[string]kernel.Program

	requested uint64 // requests for next hops at the last refill
}

// family is an underlay of IPv4 or of IPv6.
type family struct {
	name    string
	tep     netip.Addr
	remotes [2]netip.Addr
	unknown netip.Addr
}

var (
	underIPv4 = family{"IPv4", netip.MustParseAddr("192.0.2.1"),
		[2]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")}, netip.MustParseAddr("192.0.2.9")}
	underIPv6 = family{"IPv6", netip.MustParseAddr("2001:db8::1"),
		[2]netip.Addr{netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8::3")}, netip.MustParseAddr("2001:db8::9")}
	families = []family{underIPv4, underIPv6}
)

const (
	blueVNI     = 100
	greenVNI    = 200
	portMTU     = 1450
	underlayMTU = 1500
	deviceMTU   = 9000 // TEST_RUN bounds what change_head may make by it
	testFlows   = 4096
	testFDB     = 1024

	alice   = "02:00:00:00:00:0a"
	bob     = "02:00:00:00:00:0b"
	carol   = "02:00:00:00:00:0c"
	nobody  = "02:00:00:00:00:ee"
	nextHop = "02:00:00:00:02:02"
	all     = "ff:ff:ff:ff:ff:ff"
)

var worlds atomic.Int32

func TestMain(m *testing.M) {
	removeStale()
	code := m.Run()
	if err := removePool(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// removeStale removes the pins of test processes that were killed: the fuzzer
// ends its workers so.
func removeStale() {
	dirs, _ := filepath.Glob("/sys/fs/bpf/selvage-test-*")
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "selvage-test-"))
		if err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			os.RemoveAll(dir)
		}
	}
}

// adapt sets what the world is configured with: the default and the changes.
func (w *world) adapt(change []func(*Config, *fib.Tables)) {
	w.configure()
	for _, c := range change {
		c(&w.cfg, &w.tables)
	}
	if w.cfg.Transit {
		w.planTransit()
	}
}

// ownWorld is a new world that is removed after the test.
func ownWorld(t testing.TB, f family, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	w := emptyWorld(t, f)
	w.adapt(change)
	w.open(t)
	w.removeAfter(t)
	w.apply(t)
	return w
}

// emptyWorld has devices and a configuration, but no data path yet.
func emptyWorld(t testing.TB, f family) *world {
	t.Helper()
	tier.Root(t)
	w := &world{dev: map[string]*net.Interface{}, family: f}
	w.enterNew(t)
	for i, name := range []string{"u0", "p0", "p1", "p2", "s0"} {
		w.addVeth(t, name, i)
	}
	w.name = fmt.Sprintf("w%d", worlds.Add(1))
	w.configure()
	return w
}

// configure sets the default configuration.
func (w *world) configure() {
	f := w.family
	w.cfg = Config{
		Name: w.name, PinRoot: fmt.Sprintf("/sys/fs/bpf/selvage-test-%d", os.Getpid()),
		TEPs: []netip.Addr{f.tep}, UDPPorts: []UDPPort{{4789, overlay.VXLAN}, {4790, overlay.VXLAN}, {6081, overlay.Geneve}}, NVGRE: true,
		FlowCache: overlay.FlowCache{Enabled: true, Size: testFlows},
		FDB:       overlay.FDB{Size: testFDB, Ageing: 5 * time.Minute},
	}
	w.tables = fib.Tables{
		Underlays: []int{w.dev["u0"].Index},
		Segments: []overlay.Segment{
			{Name: "blue", VNI: blueVNI, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}, Remotes: f.remotes[:]},
			{Name: "green", VNI: greenVNI, Tunnel: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4790}, Remotes: f.remotes[:1]},
		},
		Ports: []fib.Port{w.port("p0", "blue"), w.port("p1", "blue"), w.port("p2", "green")},
		TEPs:  []fib.TEP{w.tep(f.remotes[0]), w.tep(f.remotes[1])},
	}
}

func (w *world) port(dev, segment string) fib.Port {
	return fib.Port{Name: dev, Ifindex: w.dev[dev].Index, Segment: segment, MTU: portMTU, Segments: true}
}

func (w *world) tep(addr netip.Addr) fib.TEP {
	return fib.TEP{Addr: addr, Ifindex: w.dev["u0"].Index, MTU: underlayMTU, SrcMAC: macOf(w.dev["u0"].HardwareAddr.String()), NextMAC: macOf(nextHop)}
}

func hardware(mac string) net.HardwareAddr {
	m := macOf(mac)
	return m[:]
}

func macOf(s string) overlay.MAC {
	m, err := overlay.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

func (w *world) enterNew(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := netns.Get()
	must(t, err)
	defer old.Close()
	if w.ns, err = netns.New(); err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	// Nothing may send what no test asked for.
	err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	if back := netns.Set(old); back != nil {
		panic(back) // this thread must not be used by anybody
	}
	must(t, err)
	if w.nl, err = netlink.NewHandleAt(w.ns); err != nil {
		t.Fatal(err)
	}
}

func (w *world) addVeth(t testing.TB, name string, number int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, deviceMTU
	attrs.HardwareAddr = net.HardwareAddr{2, 0, 0, 0, 1, byte(number)}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "x", PeerHardwareAddr: net.HardwareAddr{2, 0, 0, 0, 2, byte(number)}}
	if err := w.nl.LinkAdd(veth); err != nil {
		t.Fatalf("add %s: %v", name, err)
	}
	for _, end := range []string{name, name + "x"} {
		l, err := w.nl.LinkByName(end)
		must(t, err)
		must(t, w.nl.LinkSetUp(l))
		w.dev[end] = &net.Interface{Index: l.Attrs().Index, Name: end, HardwareAddr: l.Attrs().HardwareAddr}
	}
}

// do runs f on this goroutine inside the namespace.
func (w *world) do(t testing.TB, f func()) {
	t.Helper()
	runtime.LockOSThread()
	old, err := netns.Get()
	must(t, err)
	defer func() {
		if err := netns.Set(old); err != nil {
			panic(err)
		}
		old.Close()
		runtime.UnlockOSThread()
	}()
	must(t, netns.Set(w.ns))
	f()
}

// open loads the programs, or takes over those that the world has closed.
func (w *world) open(t testing.TB) {
	t.Helper()
	w.do(t, func() {
		dp, err := Open(w.cfg)
		must(t, err)
		w.dp = dp
	})
}

// removeAfter ends the data path that is open at the end of the test.
func (w *world) removeAfter(t testing.TB) {
	t.Cleanup(func() {
		if err := w.remove(); err != nil {
			t.Error(err)
		}
	})
}

func (w *world) remove() error {
	err := w.dp.Remove()
	w.nl.Close()
	os.Remove(w.cfg.PinRoot) // when it is empty: the last world's
	return errors.Join(err, w.ns.Close())
}

func (w *world) apply(t testing.TB) {
	t.Helper()
	w.do(t, func() {
		must(t, w.dp.Apply(w.tables))
	})
}

// outer is the header of a tunnel packet from a remote to this edge in blue.
func (w *world) outer(remote netip.Addr) pkttest.Outer { return w.outerIn("blue", remote) }

// outerIn is that in any segment; one that is not configured is blue as it was.
func (w *world) outerIn(segment string, remote netip.Addr) pkttest.Outer {
	o := pkttest.Outer{SrcMAC: nextHop, DstMAC: w.dev["u0"].HardwareAddr.String(), Src: remote, Dst: w.family.tep, VNI: blueVNI}
	if s := w.segment(segment); s != nil {
		o.VNI, o.Encapsulation, o.DstPort, o.GeneveOptions = uint32(s.VNI), s.Tunnel.Encapsulation, s.Tunnel.UDPPort, s.Tunnel.Options
	}
	return o
}

// segment is one that is configured, or nil.
func (w *world) segment(name string) *overlay.Segment {
	for i := range w.tables.Segments {
		if w.tables.Segments[i].Name == name {
			return &w.tables.Segments[i]
		}
	}
	return nil
}

// fromRemote is a tunnel packet of the first remote in blue.
func (w *world) fromRemote(frame []byte) []byte { return w.outer(w.family.remotes[0]).Wrap(frame) }

// unknownRoute is a third remote, for which there is no route.
func (f family) unknownRoute() netip.Addr { return f.unknown.Next() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

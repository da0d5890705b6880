package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// inNamespace marks the process that runs the tests: GoBGP opens connections from any
// thread, so all of the process is in a network namespace of its own.
const inNamespace = "SELVAGE_TEST_SPEAKER"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inNamespace) != "" {
		os.Exit(m.Run())
	}
	// What they wait for are timers of BGP, so there may be more of them at once than cores.
	cmd := exec.Command("unshare", append([]string{"--net", "--", os.Args[0], "-test.parallel=8"}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "unshare (util-linux):", err)
		os.Exit(1)
	}
}

var (
	here4 = netip.MustParseAddr("192.0.2.1")
	frr4  = netip.MustParseAddr("192.0.2.2")
	frr6  = netip.MustParseAddr("2001:db8::2")
)

// live is this process' namespace joined to a host with FRR. Tests run side by side, so each
// has a network of its own, and its texts (configurations, commands, what they print) are of
// the addresses that are drawn here:
//
//	speaker 192.0.2.1/24 w0 ─── u0 192.0.2.2/24 FRR
//	        2001:db8::1/64        2001:db8::2/64
type live struct {
	t                 *testing.T
	lab               *topo.Lab
	far               *topo.Host
	frr               *dut.FRR
	here, there       *strings.Replacer // from what is drawn to what is, and back
	here4, frr4, frr6 netip.Addr
	dev               string // w0
}

var lives atomic.Int32

// newLive has the test run beside the others.
func newLive(t *testing.T) *live {
	tier.Root(t)
	t.Parallel()
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	number := lives.Add(1)
	net4, net6, dev := fmt.Sprintf("198.18.%d.", number), fmt.Sprintf("2001:db8:a%02x::", number), fmt.Sprintf("w%d", number)
	l := &live{t: t, lab: lab, dev: dev,
		here:  strings.NewReplacer("192.0.2.", net4, "2001:db8::", net6),
		there: strings.NewReplacer(net4, "192.0.2.", net6, "2001:db8::"),
	}
	l.here4, l.frr4, l.frr6 = l.addr(here4), l.addr(frr4), l.addr(frr6)
	t.Cleanup(func() {
		if t.Failed() && l.frr != nil {
			advertised, _ := l.frr.Log("bgpd")
			t.Logf("bgpd said:\n%s", advertised)
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
		// The peer's end goes with its namespace, later.
		_ = exec.Command("ip", "link", "del", dev).Run()
	})
	l.far, err = lab.Host("frr")
	l.must(err)
	for _, line := range []string{
		"ip link set lo up",
		"sysctl -qw net.ipv6.conf.default.accept_dad=0",
		"ip link add w0 type veth peer name u0 netns " + l.far.Namespace,
		"ip addr add 192.0.2.1/24 dev w0",
		"ip addr add 2001:db8::1/64 dev w0 nodad",
		"ip link set w0 up",
	} {
		l.run(nil, line)
	}
	l.run(l.far, "ip addr add 192.0.2.2/24 dev u0")
	l.run(l.far, "ip addr add 2001:db8::2/64 dev u0 nodad")
	l.run(l.far, "ip link set u0 up")
	// Without a link-local address FRR does not open sessions over IPv6.
	l.run(l.far, "ip addr replace fe80::2/64 dev u0 nodad")
	return l
}

// addr is an address of this test's network.
func (l *live) addr(drawn netip.Addr) netip.Addr {
	return netip.MustParseAddr(l.here.Replace(drawn.String()))
}

// hostRoute is a type 2 of this side.
func (l *live) hostRoute(n byte) evpn.Route {
	r := hostRoute(n)
	r.RD, r.NextHop = overlay.AddrDistinguisher(l.here4, 7), l.here4
	return r
}

// config is one with these neighbours.
func (l *live) config(neighbours ...overlay.BGPNeighbour) overlay.BGP {
	b := config(neighbours...)
	b.RouterID = l.here4
	return b
}

func (l *live) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// run runs a command on a host, or in this process' namespace.
func (l *live) run(h *topo.Host, line string) string {
	l.t.Helper()
	argv := strings.Fields(l.here.Replace(line))
	for i := range argv {
		if argv[i] == "w0" {
			argv[i] = l.dev
		}
	}
	var out []byte
	var err error
	if h != nil {
		out, err = h.Output(l.t.Context(), argv...)
	} else {
		out, err = exec.CommandContext(l.t.Context(), argv[0], argv[1:]...).CombinedOutput()
	}
	if err != nil {
		l.t.Fatalf("%s: %v: %s", line, err, out)
	}
	return l.there.Replace(string(out))
}

var routerLine = regexp.MustCompile(`(?m)^router bgp \d+$`)

// start runs FRR with this configuration of bgpd and zebra.
func (l *live) start(bgp, zebra string) {
	l.t.Helper()
	if _, err := os.Stat("/usr/lib/frr/bgpd"); err != nil {
		if os.Getenv("CI") == "true" {
			l.t.Fatalf("%v: install it with `scripts/packages.sh test`", err)
		}
		l.t.Skipf("%v: install it with `scripts/packages.sh test`", err)
	}
	// FRR waits for more that it could say for a second.
	bgp = routerLine.ReplaceAllString(bgp, "$0\n coalesce-time 50")
	var err error
	l.frr, err = dut.StartFRR(l.t.Context(), l.far, dut.FRRConfig{BGP: l.here.Replace(bgp), Zebra: zebra})
	l.must(err)
}

// do runs commands of vtysh.
func (l *live) do(commands ...string) string {
	l.t.Helper()
	for i, c := range commands {
		commands[i] = l.here.Replace(c)
	}
	out, err := l.frr.Do(l.t.Context(), commands...)
	l.must(err)
	return l.there.Replace(out)
}

func (l *live) await(what string, try func() error) {
	l.t.Helper()
	l.must(awaitLong(l.t.Context(), what, try))
}

// awaitLong is await.That for what takes several of a session's timers.
func awaitLong(ctx context.Context, what string, try func() error) error {
	return await.Within(ctx, 3*await.Patience, what, try)
}

// received is what a speaker told.
type received struct {
	mu       sync.Mutex
	routes   map[evpn.Key]map[netip.Addr]evpn.Route
	sessions []evpn.Session
	updates  int
	gone     int // withdrawn
}

func (h *received) receive(updates []evpn.Update) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range updates {
		h.updates++
		if u.Withdrawn {
			h.gone++
			delete(h.routes[u.Route.Key], u.Neighbour)
			continue
		}
		if h.routes[u.Route.Key] == nil {
			h.routes[u.Route.Key] = make(map[netip.Addr]evpn.Route)
		}
		h.routes[u.Route.Key][u.Neighbour] = u.Route
	}
}

func (h *received) session(s evpn.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = append(h.sessions, s)
}

// last returns what was last told of a neighbour's session, and how often it was lost.
func (h *received) last(addr netip.Addr) (last evpn.Session, lost int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.sessions {
		if s.Neighbour == addr {
			last = s
			if !s.Up {
				lost++
			}
		}
	}
	return last, lost
}

// find returns a route that a neighbour has said.
func (h *received) find(addr netip.Addr, match func(evpn.Route) bool) (evpn.Route, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, by := range h.routes {
		if r, ok := by[addr]; ok && match(r) {
			return r, nil
		}
	}
	return evpn.Route{}, fmt.Errorf("not among %d routes", len(h.routes))
}

func (h *received) counts() (updates, gone int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.updates, h.gone
}

// speak runs a speaker that ends with the test.
func speak(t *testing.T, b overlay.BGP, change ...func(*Options)) (*Speaker, *received) {
	t.Helper()
	h := &received{routes: make(map[evpn.Key]map[netip.Addr]evpn.Route)}
	o := Options{Config: b, NextHop: b.RouterID, Receive: h.receive, Session: h.session,
		Log: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, c := range change {
		c(&o)
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(false); err != nil {
			t.Error(err)
		}
	})
	return s, h
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// config is one with these neighbours.
func config(neighbours ...overlay.BGPNeighbour) overlay.BGP {
	return overlay.BGP{AS: 65000, RouterID: here4, Neighbours: neighbours, Restart: overlay.BGPRestart{Time: 20 * time.Second, Stale: time.Minute}}
}

// peer is a neighbour with the usual timers.
func peer(addr netip.Addr, families ...overlay.BGPFamily) overlay.BGPNeighbour {
	return overlay.BGPNeighbour{Name: "frr", Addr: addr, Port: 179, AS: 65000, Families: families,
		Timers: overlay.BGPTimers{Hold: 9 * time.Second, Keepalive: 3 * time.Second, ConnectRetry: time.Second}}
}

func (l *live) awaitUp(s *Speaker, h *received, addr netip.Addr, complete bool) {
	l.t.Helper()
	l.await(fmt.Sprintf("session with %s", addr), func() error {
		if last, _ := h.last(addr); last.Up && (last.Complete || !complete) {
			return nil
		}
		return fmt.Errorf("%+v", s.Neighbours())
	})
}

func (l *live) awaitRoute(h *received, what string, addr netip.Addr, match func(evpn.Route) bool) (found evpn.Route) {
	l.t.Helper()
	l.await(what, func() (err error) {
		found, err = h.find(addr, match)
		return err
	})
	return found
}

// evpnLearned has FRR's host hold a segment with a host of MAC and address, and an L3 segment.
func (l *live) evpnNetwork() {
	for _, line := range []string{
		"ip link add br10 type bridge",
		"ip link set br10 addrgenmode none up",
		"ip link add vx10 type vxlan id 10010 local 192.0.2.2 dstport 4789 nolearning",
		"ip link set vx10 addrgenmode none master br10 up",
		"ip link add p0 type veth peer name p1",
		"ip link set p0 master br10 up",
		"ip link set p1 up",
		"ip addr add 10.0.10.254/24 dev br10",
		"bridge fdb add 02:00:00:00:10:05 dev p0 master static",
		"ip neigh add 10.0.10.5 lladdr 02:00:00:00:10:05 dev br10",
		// A router: FRR says so by a community that GoBGP does not know (RFC 9047).
		"ip addr add 2001:db8:10::254/64 dev br10 nodad",
		"ip neigh add 2001:db8:10::5 lladdr 02:00:00:00:10:05 router dev br10",
		"ip link add br99 address 02:00:00:00:99:99 type bridge",
		"ip link set br99 addrgenmode none up",
		"ip link add vx99 type vxlan id 50099 local 192.0.2.2 dstport 4789 nolearning",
		"ip link set vx99 addrgenmode none master br99 up",
	} {
		l.run(l.far, line)
	}
}

const evpnPeer = `
router bgp 65000
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 timers 3 9
 address-family l2vpn evpn
  neighbor 192.0.2.1 activate
  advertise-all-vni
  advertise ipv4 unicast
  advertise ipv6 unicast
 exit-address-family
 address-family ipv4 unicast
  network 10.0.10.0/24
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8::/64
 exit-address-family
`

// FRR's routes of a segment reach this side with all that they say, and this side's reach
// FRR, which finds them good.
func TestFRRExchangesEVPN(t *testing.T) {
	l := newLive(t)
	here4, frr4 := l.here4, l.frr4
	l.evpnNetwork()
	l.start(evpnPeer, "vni 50099\n")
	s, h := speak(t, l.config(peer(frr4, overlay.FamilyEVPN)))
	mac := overlay.MAC{2, 0, 0, 0, 1, 1}
	rd := overlay.AddrDistinguisher(here4, 7)
	targets := []overlay.RouteTarget{overlay.ASTarget(65000, 10010)}
	host := evpn.Route{Key: evpn.Key{Type: evpn.MACIP, RD: rd, MAC: mac, Addr: netip.MustParseAddr("10.0.10.1")}, NextHop: here4, VNI: 10010,
		Targets: targets, Encapsulation: overlay.VXLAN, Sequence: 3}
	flood := evpn.Route{Key: evpn.Key{Type: evpn.Multicast, RD: rd, Addr: here4}, NextHop: here4, VNI: 10010, Targets: targets, Encapsulation: overlay.VXLAN}
	l3 := []overlay.RouteTarget{overlay.ASTarget(65000, 50099)}
	prefix := evpn.Route{Key: evpn.Key{Type: evpn.Prefix, RD: rd, Prefix: netip.MustParsePrefix("10.0.77.0/24")}, NextHop: here4, VNI: 50099,
		Targets: l3, Encapsulation: overlay.VXLAN, RouterMAC: overlay.MAC{2, 0, 0, 0, 0x99, 1}}
	prefix6 := prefix
	prefix6.Prefix = netip.MustParsePrefix("2001:db8:77::/64")
	here6 := host // a router, in both directions
	here6.Addr, here6.ND = netip.MustParseAddr("2001:db8:10::1"), rib.NDRouter|rib.NDOverride
	l.must(s.Announce([]evpn.Route{host, here6, flood, prefix, prefix6}))
	l.awaitUp(s, h, frr4, true)

	r := l.awaitRoute(h, "type 3 of FRR", frr4, func(r evpn.Route) bool { return r.Type == evpn.Multicast && r.VNI == 10010 })
	if r.VNI != 10010 || r.Addr != frr4 || r.NextHop != frr4 || r.Encapsulation != overlay.VXLAN || !slices.Equal(r.Targets, targets) {
		t.Errorf("type 3 of FRR is %+v", r)
	}
	r = l.awaitRoute(h, "type 2 with an address of FRR", frr4, func(r evpn.Route) bool {
		return r.Type == evpn.MACIP && r.Addr == netip.MustParseAddr("10.0.10.5")
	})
	if r.MAC != (overlay.MAC{2, 0, 0, 0, 0x10, 5}) || r.VNI != 10010 || r.L3VNI != 50099 || r.NextHop != frr4 || !slices.Equal(r.Targets, slices.Concat(targets, l3)) {
		t.Errorf("type 2 of FRR is %+v", r)
	}
	router := func(r evpn.Route) bool { return r.Addr == netip.MustParseAddr("2001:db8:10::5") }
	mended := l.awaitRoute(h, "type 2 of a router with IPv6", frr4, router)
	if want := []overlay.RouteTarget{targets[0], l3[0]}; mended.VNI != 10010 || mended.L3VNI != 50099 || mended.NextHop != frr4 ||
		!slices.Equal(mended.Targets, want) || mended.ND != rib.NDRouter || mended.RouterMAC != (overlay.MAC{2, 0, 0, 0, 0x99, 0x99}) {
		t.Errorf("type 2 of a router is %+v", mended)
	}
	if out := l.do("show bgp l2vpn evpn"); !strings.Contains(out, "ND:Router Flag") {
		t.Errorf("FRR does not say that it is one:\n%s", out)
	}
	before, _ := h.counts()
	l.must(s.Refresh(frr4, true))
	l.await("all once more", func() error {
		if now, _ := h.counts(); now <= before {
			return fmt.Errorf("%d updates", now)
		}
		_, err := h.find(frr4, router)
		return err
	})
	if n := s.Neighbours()[0]; n.Malformed != 0 {
		t.Errorf("the neighbour is %+v", n)
	}
	for _, want := range []string{"10.0.10.0/24", l.here.Replace("2001:db8::/64")} {
		r = l.awaitRoute(h, "type 5 of FRR", frr4, func(r evpn.Route) bool {
			return r.Type == evpn.Prefix && r.Prefix == netip.MustParsePrefix(want)
		})
		if r.VNI != 50099 || r.NextHop != frr4 || r.RouterMAC != (overlay.MAC{2, 0, 0, 0, 0x99, 0x99}) || r.Gateway.IsValid() || !slices.Equal(r.Targets, l3) {
			t.Errorf("type 5 of FRR is %+v", r)
		}
	}
	l.await("FRR to use this side's host", func() error {
		out := l.do("show evpn mac vni 10010")
		if !strings.Contains(out, mac.String()) {
			return errors.New(out)
		}
		return nil
	})
	out := l.do("show bgp l2vpn evpn route rd 192.0.2.1:7")
	for _, want := range []string{"[2]:[0]:[48]:[02:00:00:00:01:01]:[32]:[10.0.10.1] VNI 10010", "MM:3", "RT:65000:10010", "ET:8", "[3]:[0]:[32]:[192.0.2.1]",
		"[5]:[0]:[24]:[10.0.77.0] VNI 50099", "[5]:[0]:[64]:[2001:db8:77::] VNI 50099", "Rmac:02:00:00:00:99:01",
		"[2]:[0]:[48]:[02:00:00:00:01:01]:[128]:[2001:db8:10::1] VNI 10010", "ND:Router Flag"} {
		if !strings.Contains(out, want) {
			t.Errorf("FRR does not show %q of\n%s", want, out)
		}
	}
	l.run(l.far, "ip neigh del 2001:db8:10::5 dev br10")
	l.run(l.far, "bridge fdb del 02:00:00:00:10:05 dev p0 master")
	l.must(s.Withdraw([]evpn.Key{host.Key, here6.Key}))
	l.await("FRR to know of this side's host no more", func() error {
		if out := l.do("show bgp l2vpn evpn route rd 192.0.2.1:7"); strings.Contains(out, "[10.0.10.1]") {
			return errors.New(out)
		}
		return nil
	})
	l.await("FRR's router to be withdrawn", func() error {
		if r, err := h.find(frr4, router); err == nil {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
	l.await("FRR's host to be withdrawn", func() error {
		if r, err := h.find(frr4, func(r evpn.Route) bool { return r.MAC == overlay.MAC{2, 0, 0, 0, 0x10, 5} }); err == nil {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// FRR as a route reflector between two speakers: each hears of the other's routes as they
// were said, and none of its own.
func TestFRRReflects(t *testing.T) {
	l := newLive(t)
	here4, frr4 := l.here4, l.frr4
	l.run(nil, "ip addr add 192.0.2.3/24 dev w0")
	l.start(`
router bgp 65000
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.3 remote-as 65000
 address-family l2vpn evpn
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 route-reflector-client
  neighbor 192.0.2.3 activate
  neighbor 192.0.2.3 route-reflector-client
 exit-address-family
`, "")
	one, two := peer(frr4, overlay.FamilyEVPN), peer(frr4, overlay.FamilyEVPN)
	one.Local, two.Local = here4, l.addr(netip.MustParseAddr("192.0.2.3"))
	second := l.config(two)
	second.RouterID = two.Local
	s1, h1 := speak(t, l.config(one))
	s2, h2 := speak(t, second)
	want := l.hostRoute(1)
	want.Sequence, want.L3VNI, want.RouterMAC = 4, 50099, overlay.MAC{2, 0, 0, 0, 9, 9}
	want.Encapsulation = overlay.Geneve
	gateway := l.hostRoute(254)
	gateway.DefaultGateway, gateway.Sticky = true, true
	l.must(s1.Announce([]evpn.Route{want, gateway}))
	l.must(s2.Announce([]evpn.Route{l.hostRoute(2)}))
	l.awaitUp(s1, h1, frr4, true)
	l.awaitUp(s2, h2, frr4, true)
	for _, r := range []evpn.Route{want, gateway} {
		r.LocalPref = defaultLocalPref
		got := l.awaitRoute(h2, "a reflected host", frr4, func(x evpn.Route) bool { return x.Key == r.Key })
		if !reflect.DeepEqual(got, r) {
			t.Errorf("reflected is\n%+v, said was\n%+v", got, r)
		}
	}
	l.awaitRoute(h1, "the other's host", frr4, func(r evpn.Route) bool { return r.Key == l.hostRoute(2).Key })
	if r, err := h1.find(frr4, func(r evpn.Route) bool { return r.Key == want.Key }); err == nil {
		t.Errorf("its own came back: %+v", r)
	}
	l.must(s1.Withdraw([]evpn.Key{want.Key}))
	l.await("the withdrawal to be reflected", func() error {
		if r, err := h2.find(frr4, func(r evpn.Route) bool { return r.Key == want.Key }); err == nil {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

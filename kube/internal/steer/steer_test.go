package steer_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/steer"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

//	pod 10.244.1.2, fd02::2 ---- c0  node  u0 ---- u0 out
//	                                   |
//	                          selvage0 = selvage1: here packets are looked at, there is no edge
//
// Each datagram has a destination port of its own, by which it is known where it goes.

var (
	pod4, pod6 = netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("fd02::2")
	far4, far6 = netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8:1::1")
	pair       = plan.DefaultLinkPair
	all        = []plan.Steer{{Policy: "shop/all", Pods: []netip.Addr{pod4, pod6}, Gateway: "out"}}
)

// Ways of a packet.
const (
	toEdge  = "the edge"
	byNode  = "the node's own way"
	refused = "refused by ICMP"
)

type site struct {
	t              *testing.T
	pod, node, out *topo.Host
	port           uint16
	steer.Steerer
	edge, far *harness.Frames
}

func newSite(t *testing.T) *site {
	t.Helper()
	tier.Root(t)
	lab := testlab.New(t)
	s := &site{t: t, port: 20000, Steerer: steer.Steerer{Config: steer.Default(pair, 1450, prefixes("10.244.0.0/16", "10.96.0.0/16", "fd02::/16"))}}
	for name, h := range map[string]**topo.Host{"pod": &s.pod, "node": &s.node, "out": &s.out} {
		var err error
		*h, err = lab.Host(name)
		s.must(err)
	}
	s.must(lab.Link(t.Context(),
		topo.LinkEnd{Host: s.pod, Name: "eth0", Addrs: prefixes("10.244.1.2/24", "fd02::2/64"), Gateways: addrs("10.244.1.1", "fd02::1")},
		topo.LinkEnd{Host: s.node, Name: "c0", Addrs: prefixes("10.244.1.1/24", "fd02::1/64")}, 1500))
	s.must(lab.Link(t.Context(),
		topo.LinkEnd{Host: s.node, Name: "u0", Addrs: prefixes("192.0.2.1/24", "2001:db8:2::1/64"), Gateways: addrs("192.0.2.9", "2001:db8:2::9")},
		topo.LinkEnd{Host: s.out, Name: "u0", Addrs: prefixes("192.0.2.9/24", "2001:db8:2::9/64")}, 1500))
	s.must(s.out.AddAddrs("lo", netip.PrefixFrom(far4, 32), netip.PrefixFrom(far6, 128)))
	s.must(s.out.AddRoute("u0", netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("192.0.2.1")))
	_, err := s.node.Forward()
	s.must(err)
	return s
}

// setup makes the pair, and answers for the edge that is not there.
func (s *site) setup() {
	s.t.Helper()
	s.must(s.node.Do(s.Setup))
	mac, err := s.node.MAC("selvage1")
	s.must(err)
	for _, a := range pair.EdgeAddrs {
		s.run("ip", "neigh", "replace", a.Addr().String(), "lladdr", mac.String(), "dev", "selvage0", "nud", "permanent")
	}
	if s.edge == nil {
		s.edge, s.far = s.frames(s.node, "selvage1"), s.frames(s.out, "u0")
	}
}

func (s *site) frames(h *topo.Host, name string) *harness.Frames {
	s.t.Helper()
	f, err := harness.OpenFrames(h, name, false)
	s.must(err)
	s.t.Cleanup(f.Close)
	return f
}

func (s *site) apply(list []plan.Steer, gone ...string) {
	s.t.Helper()
	away := map[string]bool{}
	for _, g := range gone {
		away[g] = true
	}
	s.must(s.node.Do(func() error { return s.Apply(s.t.Context(), list, away) }))
}

func (s *site) run(argv ...string) string {
	s.t.Helper()
	out, err := s.node.Output(s.t.Context(), argv...)
	s.must(err)
	return string(out)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// send sends a datagram to a port of its own; what ICMP answers is an error of the connection.
func (s *site) send(to netip.Addr) (c net.Conn, port uint16) {
	s.t.Helper()
	s.port++
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		return errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
			if to.Is6() {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
			}
		}), err)
	}}
	s.must(s.pod.Do(func() (err error) {
		if c, err = d.DialContext(s.t.Context(), "udp", netip.AddrPortFrom(to, s.port).String()); err == nil {
			_, err = c.Write([]byte("x"))
		}
		return err
	}))
	return c, s.port
}

// goes sends a datagram to an address, and is where it goes, and with which addresses.
func (s *site) goes(to netip.Addr) (way string, from, dest netip.Addr) {
	s.t.Helper()
	c, port := s.send(to)
	defer c.Close()
	for deadline := time.Now().Add(harness.Patience); time.Now().Before(deadline); {
		s.must(c.SetReadDeadline(time.Now().Add(time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		for name, f := range map[string]*harness.Frames{toEdge: s.edge, byNode: s.far} { // after an error too: what it tells of was sent before
			if src, dst, ok := find(f, port); ok {
				return name, src, dst
			}
		}
		if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) {
			return refused, from, dest
		}
	}
	return "lost", from, dest
}

// find reads what has come for a UDP datagram to a port.
func find(f *harness.Frames, port uint16) (src, dst netip.Addr, ok bool) {
	for {
		frame, err := f.Waiting()
		if err != nil {
			return src, dst, false
		}
		if src, dst, got := datagram(frame); got == port {
			return src, dst, true
		}
	}
}

// datagram is the addresses and destination port of a UDP datagram without options, or port 0.
func datagram(b []byte) (src, dst netip.Addr, port uint16) {
	switch {
	case len(b) >= 42 && b[12] == 0x08 && b[13] == 0 && b[14] == 0x45 && b[23] == 17:
		src, _ = netip.AddrFromSlice(b[26:30])
		dst, _ = netip.AddrFromSlice(b[30:34])
		return src, dst, uint16(b[36])<<8 | uint16(b[37])
	case len(b) >= 62 && b[12] == 0x86 && b[13] == 0xdd && b[20] == 17:
		src, _ = netip.AddrFromSlice(b[22:38])
		dst, _ = netip.AddrFromSlice(b[38:54])
		return src, dst, uint16(b[56])<<8 | uint16(b[57])
	}
	return src, dst, 0
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

func addrs(texts ...string) (list []netip.Addr) {
	for _, t := range texts {
		list = append(list, netip.MustParseAddr(t))
	}
	return list
}

// The first policy that matches decides; destinations of the cluster, and what no policy has, go as before.
func TestWays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	both := addrs("10.244.1.2", "fd02::2")
	s.must(s.node.Nft(t.Context(), "services", `table ip services { chain nat { type nat hook prerouting priority dstnat;
	ip daddr 10.96.0.10 dnat to 10.244.2.5
	ip daddr 10.96.0.11 dnat to 198.51.100.7
}
}
`))
	s.must(s.node.AddRoute("u0", netip.MustParsePrefix("10.244.2.0/24"), netip.MustParseAddr("192.0.2.9")))
	steering := []plan.Steer{
		{Policy: "one", Pods: both, To: prefixes("198.51.100.0/24", "2001:db8:1::/48"), Except: prefixes("198.51.100.128/25", "2001:db8:1:8::/64"), Gateway: "out"},
		{Policy: "two", Pods: addrs("10.244.1.3"), Gateway: "out"},
		{Policy: "three", Pods: both, To: prefixes("203.0.113.0/24", "198.51.100.0/24"), Gateway: "away", NodeWhenGone: true},
		{Policy: "four", Pods: both, To: prefixes("192.88.99.0/24"), Gateway: "away"},
		{Policy: "five", Pods: both, To: prefixes("203.0.113.0/24", "10.0.0.0/8"), Gateway: "out"},
		{Policy: "six", Pods: both, To: prefixes("203.0.114.0/24", "169.254.0.0/16", "fd00:ec2::/32"), Gateway: "out"},
	}
	s.apply(steering, "away")
	for to, want := range map[string]string{
		"198.51.100.1":     toEdge + " 198.51.100.1",
		"198.51.100.200":   byNode + " 198.51.100.200", // except of the first
		"203.0.113.1":      byNode + " 203.0.113.1",    // the third's gateway is away
		"192.88.99.1":      toEdge + " 192.88.99.1",    // the fourth holds its packets then
		"192.0.2.9":        byNode + " 192.0.2.9",
		"10.244.2.5":       byNode + " 10.244.2.5", // of the cluster, whatever the fifth says
		"10.96.0.10":       byNode + " 10.244.2.5", // a service of pods
		"10.96.0.11":       toEdge + " 198.51.100.7",
		"10.1.1.1":         toEdge + " 10.1.1.1",
		"2001:db8:1::1":    toEdge + " 2001:db8:1::1",
		"2001:db8:1:8::1":  byNode + " 2001:db8:1:8::1",
		"2001:db8:ffff::1": byNode + " 2001:db8:ffff::1",
		"169.254.169.254":  byNode + " 169.254.169.254", // answers for the node, whatever the sixth says
		"fd00:ec2::254":    byNode + " fd00:ec2::254",
		"203.0.114.1":      toEdge + " 203.0.114.1",
	} {
		way, from, dest := s.goes(netip.MustParseAddr(to))
		if got := fmt.Sprintf("%s %s", way, dest); got != want || from != both[0] && from != both[1] {
			t.Errorf("to %s: by %s, from %s; want by %s", to, got, from, want)
		}
		if said := s.decided(steering, both[0], dest); said != way {
			t.Errorf("to %s: by %s; by plan.Decide it would be by %s", to, way, said)
		}
	}
}

// decided is by which way a pod's packet goes, as plan.Decide has it.
func (s *site) decided(steering []plan.Steer, pod, to netip.Addr) string {
	words := func(list []netip.Prefix) (out []v1alpha1.Network) {
		for _, p := range list {
			out = append(out, v1alpha1.Network(p.String()))
		}
		return out
	}
	if slices.ContainsFunc(slices.Concat(s.Cluster, plan.NodeLocal), func(p netip.Prefix) bool { return p.Contains(to) }) {
		return byNode
	}
	for _, p := range steering {
		decision := plan.Decide(v1alpha1.EgressPolicySpec{To: words(p.To), Except: words(p.Except)}, to)
		switch {
		case !slices.Contains(p.Pods, pod) || decision == plan.Passes:
		case decision == plan.Excepts || p.NodeWhenGone:
			return byNode
		default:
			return toEdge
		}
	}
	return byNode
}

// While there is no edge, what is sent to it ends there.
func TestWithoutEdge(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply(all)
	for _, far := range []netip.Addr{far4, far6} {
		if way, _, _ := s.goes(far); way != toEdge {
			t.Fatalf("to %s: by %s", far, way)
		}
		if _, _, again := find(s.edge, s.port); again {
			t.Errorf("to %s: it goes to the edge once more", far)
		}
	}
}

// Answers of a pod to who asks it from outside go back the way that the question came.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply(all)
	d := harness.Direction{Name: "from outside to a pod", From: s.out, To: s.pod, Addr: pod4}
	s.must(harness.Echo(d, 100))
}

// Whatever masquerades, the edge sees the pod's source, and others leave as before. Rules are as those programs write them.
func TestMasquerade(t *testing.T) {
	t.Parallel()
	iptables := func(program string, rules ...string) func(*site) {
		return func(s *site) {
			for _, rule := range rules {
				s.run(append([]string{program, "-w", "-t", "nat"}, strings.Fields(rule)...)...)
			}
		}
	}
	bridge := []string{ // plugins/pkg/ip/ipmasq_linux.go
		"-N CNI-1", "-A CNI-1 -d 10.244.1.0/24 -j ACCEPT", "-A CNI-1 ! -d 224.0.0.0/4 -j MASQUERADE", "-A POSTROUTING -s 10.244.1.2 -j CNI-1",
	}
	flannel := []string{ // pkg/trafficmngr/iptables
		"-N FLANNEL-POSTRTG", "-A POSTROUTING -j FLANNEL-POSTRTG", "-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN",
		"-A FLANNEL-POSTRTG -s 10.244.1.0/24 -d 10.244.0.0/16 -j RETURN", "-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully",
	}
	calico := []string{ // felix/rules/nat.go, its sets as networks
		"-N cali-nat-outgoing", "-N cali-POSTROUTING", "-I POSTROUTING -j cali-POSTROUTING", "-A cali-POSTROUTING -j cali-nat-outgoing",
		"-A cali-nat-outgoing -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE --random-fully",
	}
	for name, masquerade := range map[string]func(*site){
		"bridge, nft":    iptables("iptables-nft", bridge...),
		"bridge, legacy": iptables("iptables-legacy", bridge...),
		"flannel":        iptables("iptables-nft", flannel...),
		"calico":         iptables("iptables-legacy", calico...),
		"nft": func(s *site) {
			s.must(s.node.Nft(s.t.Context(), "masq", `table inet cni { chain post { type nat hook postrouting priority srcnat; ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade fully-random
	ip6 saddr fd02::/16 ip6 daddr != fd02::/16 masquerade
}
}
`))
		},
		"kube-proxy in nftables mode": func(s *site) { // pkg/proxy/nftables: what is marked 0x4000 is masqueraded; here all is
			s.must(s.node.Nft(s.t.Context(), "masq", `table ip kube-proxy {
	chain marking { type filter hook prerouting priority -100; ip saddr 10.244.1.2 meta mark set mark or 0x4000; }
	chain masquerading { mark and 0x4000 == 0 return
		mark set mark xor 0x4000
		masquerade fully-random
	}
	chain nat_postrouting { type nat hook postrouting priority 100; jump masquerading; }
}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			masquerade(s)
			s.setup()
			if way, from, _ := s.goes(far4); way != byNode || from != netip.MustParseAddr("192.0.2.1") {
				t.Fatalf("without steering a packet goes by %s from %s", way, from)
			}
			s.apply(all)
			for _, far := range []netip.Addr{far4, far6} {
				if way, from, _ := s.goes(far); way != toEdge || from != pod4 && from != pod6 {
					t.Errorf("to %s: by %s, from %s", far, way, from)
				}
			}
			s.must(s.node.Do(func() error { return s.Remove(t.Context()) }))
			if way, from, _ := s.goes(far4); way != byNode || from != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("after the removal a packet goes by %s from %s", way, from)
			}
		})
	}
}

// A change is one transaction: while policies and pods change around it, no packet of a pod that is in all of them leaves by the node.
func TestApplyIsOneStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply(all)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 60 {
			list := []plan.Steer{{Policy: "shop/all", Pods: append(others(1+i%7*40), pod4, pod6), Gateway: "out"}}
			if err := s.node.Do(func() error { return s.Apply(t.Context(), list, nil) }); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for sent := 1; ; sent++ {
		c, port := s.send(far4) // a connection of its own
		src, ok := s.arrives(port)
		c.Close()
		if !ok || src != pod4 {
			t.Fatalf("datagram %d: came to the edge: %t, from %s", sent, ok, src)
		}
		select {
		case <-done:
			t.Logf("%d datagrams while the table was replaced 60 times", sent)
			return
		default:
		}
	}
}

// arrives waits for a datagram at the edge.
func (s *site) arrives(port uint16) (src netip.Addr, ok bool) {
	s.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; {
		frame, err := s.edge.Next(deadline)
		if err != nil {
			return src, false
		}
		if src, _, got := datagram(frame); got == port {
			return src, true
		}
	}
}

// others are addresses of pods that there are not.
func others(count int) (list []netip.Addr) {
	for a := netip.MustParseAddr("10.244.8.1"); len(list) < count; a = a.Next() {
		list = append(list, a)
	}
	return list
}

// What nft refuses changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply(all)
	before := s.run("nft", "list", "ruleset")
	bad := s.Steerer
	bad.Link.Host = `"`
	if err := s.node.Do(func() error {
		return bad.Apply(t.Context(), []plan.Steer{{Policy: "one", Pods: all[0].Pods, Held: true}}, nil)
	}); err == nil {
		t.Fatal("nft takes a name of an interface that there cannot be")
	}
	if after := s.run("nft", "list", "ruleset"); after != before {
		t.Errorf("was %s, is %s", before, after)
	}
}

// What is set up again is as it was; what goes leaves nothing, and can go again.
func TestSetupAndRemove(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	state := func() (text string) {
		for _, argv := range [][]string{{"nft", "list", "ruleset"}, {"ip", "rule"}, {"ip", "-6", "rule"}, {"ip", "-o", "link"}, {"ip", "route", "show", "table", "all"}, {"ip", "-6", "route", "show", "table", "all"}} {
			text += s.run(argv...)
		}
		return text
	}
	empty := state()
	whole := func() {
		s.must(s.node.Do(s.Setup))
		s.apply(all)
		s.must(s.node.Do(func() error { return s.Hold(all[0].Pods) }))
	}
	whole()
	full := state()
	whole()
	if again := state(); again != full {
		t.Errorf("was\n%s\nis\n%s", full, again)
	}
	for range 2 {
		s.must(s.node.Do(func() error { return s.Remove(t.Context()) }))
		if left := state(); left != empty {
			t.Errorf("was\n%s\nis\n%s", empty, left)
		}
	}
}

// Without the pair, what is marked goes nowhere; others go on.
func TestWithoutPair(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply([]plan.Steer{{Policy: "one", Pods: addrs("10.244.1.2"), To: prefixes("198.51.100.0/24"), Gateway: "out"}, {Policy: "two", Pods: addrs("fd02::2"), Gateway: "out"}})
	s.run("ip", "link", "del", "selvage0")
	for to, want := range map[string]string{"198.51.100.1": refused, "2001:db8:1::1": refused, "192.0.2.9": byNode} {
		if way, _, _ := s.goes(netip.MustParseAddr(to)); way != want {
			t.Errorf("to %s: %s, want %s", to, way, want)
		}
	}
}

// The cost of a change of one pod among 10,000, in ten policies, and of looking whether it is still there.
func BenchmarkApply(b *testing.B) {
	for _, pods := range []int{100, 1000, 10000} {
		list := make([]plan.Steer, 10)
		for i, a := range others(pods) {
			p := &list[i%10]
			p.Policy, p.Gateway, p.Pods = fmt.Sprintf("shop/%d", i%10), "out", append(p.Pods, a)
		}
		for name, do := range map[string]func(steer.Steerer) error{
			"apply": func(s steer.Steerer) error { return s.Apply(b.Context(), list, nil) },
			"look":  func(s steer.Steerer) error { _, err := s.Listed(b.Context()); return err },
		} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) {
				h, s := bench(b)
				s2 := func() error { return do(s) }
				if err := h.Do(func() error { return errors.Join(s.Setup(), s.Apply(b.Context(), list, nil)) }); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if err := h.Do(s2); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func bench(b *testing.B) (*topo.Host, steer.Steerer) {
	b.Helper()
	tier.Root(b)
	lab, err := topo.New(b.Context(), b.Name())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	h, err := lab.Host("node")
	if err != nil {
		b.Fatal(err)
	}
	return h, steer.Steerer{Config: steer.Default(pair, 1450, prefixes("10.244.0.0/16"))}
}

// In a container /proc/sys is read-only; what is set up goes by another mount of the node's.
func TestSysctlsOfAContainer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	writable := t.TempDir()
	s.must(os.Mkdir(filepath.Join(writable, "net"), 0o755))
	s.must(s.node.Do(func() error { // on a thread that nobody else gets
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		for _, m := range []struct {
			from, to string
			flags    uintptr
		}{
			{"", "/", unix.MS_REC | unix.MS_PRIVATE}, {"/proc/sys/net", filepath.Join(writable, "net"), unix.MS_BIND},
			{"/proc/sys", "/proc/sys", unix.MS_BIND}, {"", "/proc/sys", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY},
		} {
			if err := unix.Mount(m.from, m.to, "", m.flags, ""); err != nil {
				return fmt.Errorf("mount %s: %w", m.to, err)
			}
		}
		if err := s.Setup(); !errors.Is(err, unix.EROFS) {
			t.Errorf("while it is read-only: %v", err)
		}
		s.Sysctls = writable
		return s.Setup()
	}))
	s.must(s.node.Do(func() error {
		got, err := os.ReadFile("/proc/sys/net/ipv4/conf/selvage0/rp_filter")
		if strings.TrimSpace(string(got)) != "2" {
			t.Errorf("rp_filter is %q", got)
		}
		return err
	}))
}

package speaker

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/tier"
)

// loopbackPort is the first of those where two speakers of one process meet.
const loopbackPort = 1800

var (
	one = netip.MustParseAddr("127.0.0.1")
	two = netip.MustParseAddr("127.0.0.2")
)

// loopback brings it up, where tests run in a namespace of their own.
func loopback(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// pair is two speakers, of which the first listens, over the loopback.
func pair(t testing.TB, port uint16, restart overlay.BGPRestart, fromTwo func([]evpn.Update), sessions func(evpn.Session)) (first, second *Speaker) {
	t.Helper()
	loopback(t)
	b := overlay.BGP{AS: 65000, RouterID: one, Restart: restart, Listen: []netip.AddrPort{netip.AddrPortFrom(one, port)}}
	n := peer(two, overlay.FamilyEVPN, overlay.FamilyIPv4)
	n.Passive, n.Local, n.Name, n.Uplink, n.Password = true, one, "two", "north", "secret"
	b.Neighbours = []overlay.BGPNeighbour{n}
	first, err := Start(t.Context(), Options{Config: b, NextHop: one, Receive: fromTwo, Session: sessions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close(false) })
	return first, startTwo(t, port, restart, false)
}

func startTwo(t testing.TB, port uint16, restart overlay.BGPRestart, adopted bool) *Speaker {
	t.Helper()
	n := peer(one, overlay.FamilyEVPN, overlay.FamilyIPv4)
	n.Port, n.Local, n.Name, n.Uplink, n.Password = port, two, "one", "wan", "secret"
	s, err := Start(t.Context(), Options{Config: overlay.BGP{AS: 65000, RouterID: two, Restart: restart, Neighbours: []overlay.BGPNeighbour{n}},
		NextHop: two, Adopted: adopted, Receive: func([]evpn.Update) {}, Session: func(evpn.Session) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(false) })
	return s
}

// Two speakers, of which one listens: the process of the other is replaced, and nothing is
// taken for withdrawn that the new one says again. Without graceful restart there is no
// End-of-RIB, and they are complete all the same.
func TestRestartBetweenSpeakers(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	for port, restart := range map[uint16]overlay.BGPRestart{loopbackPort: {Time: 20 * time.Second, Stale: time.Minute}, loopbackPort + 1: {}} {
		t.Run(fmt.Sprintf("for %s", restart.Time), func(t *testing.T) {
			t.Parallel()
			h := &received{routes: make(map[evpn.Key]map[netip.Addr]evpn.Route)}
			first, second := pair(t, port, restart, h.receive, h.session)
			await := func(what string, try func() error) {
				t.Helper()
				must(t, awaitLong(t.Context(), what, try))
			}
			complete := func() error {
				if last, _ := h.last(two); !last.Complete {
					return fmt.Errorf("%+v", first.Neighbours())
				}
				return nil
			}
			routes := many(20, 2)
			must(t, second.Announce(routes))
			await("the session", complete)
			awaitCount(t, h, len(routes))
			must(t, second.Close(true))
			await("its end", func() error {
				if last, _ := h.last(two); last.Up || last.Ended {
					return fmt.Errorf("%+v", last)
				}
				return nil
			})
			second = startTwo(t, port, restart, true)
			must(t, second.Announce(routes[1:]))
			await("the new session", complete)
			awaitCount(t, h, 2*len(routes)-1)
			if _, gone := h.counts(); gone != 0 {
				t.Errorf("%d routes were withdrawn", gone)
			}
			must(t, second.Withdraw([]evpn.Key{routes[1].Key, routes[0].Key}))
			lower := routes[2]
			lower.Sequence = 5
			must(t, second.Announce([]evpn.Route{lower}))
			lower.Sequence = 4
			must(t, second.Announce([]evpn.Route{lower}))
			await("a withdrawal, and a sequence number that falls", func() error {
				_, gone := h.counts()
				r, err := h.find(two, func(r evpn.Route) bool { return r.Key == lower.Key })
				if err != nil || r.Sequence != 4 || gone == 0 {
					return fmt.Errorf("%d are gone, %+v, %w", gone, r, err)
				}
				return nil
			})
			bad := hostRoute(9)
			bad.Encapsulation = "gre"
			if err := second.Announce([]evpn.Route{bad, routes[0]}); err == nil || !strings.Contains(err.Error(), "host 02:00:00:00:01:09 10.0.10.9") {
				t.Errorf("a bad route is refused as %v", err)
			}
			over := unicast("10.9.0.0/24", netip.MustParseAddr("2001:db8::9"))
			must(t, second.Announce([]evpn.Route{over}))
			await("an IPv4 prefix with an IPv6 next hop (RFC 8950)", func() error {
				r, err := h.find(two, func(r evpn.Route) bool { return r.Prefix == over.Prefix })
				if err != nil || r.NextHop != over.NextHop || r.Uplink != "north" {
					return fmt.Errorf("%+v, %w", r, err)
				}
				return nil
			})
			await("the good one beside a bad", func() error {
				_, err := h.find(two, func(r evpn.Route) bool { return r.Key == routes[0].Key })
				return err
			})
		})
	}
}

// many are routes of hosts, and a tenth as many prefixes.
func many(hosts, prefixes int) []evpn.Route {
	routes := make([]evpn.Route, 0, hosts+prefixes)
	for i := range hosts {
		r := hostRoute(1)
		r.RD = overlay.AddrDistinguisher(two, uint16(i/1000))
		r.Addr = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		r.MAC = overlay.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}
		r.NextHop = netip.AddrFrom4([4]byte{192, 0, 2, byte(i / 1000)})
		routes = append(routes, r)
	}
	for i := range prefixes {
		routes = append(routes, evpn.Route{
			Key:     evpn.Key{Type: evpn.Prefix, RD: overlay.AddrDistinguisher(two, 9), Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(i >> 8), byte(i), 0}), 24)},
			NextHop: two, VNI: 50099, Targets: []overlay.RouteTarget{overlay.ASTarget(65000, 50099)}, Encapsulation: overlay.VXLAN, RouterMAC: overlay.MAC{2, 9, 9, 9, 9, 9},
		})
	}
	return routes
}

// All of many routes arrive, once, and their loss as one session's.
func BenchmarkBulk(b *testing.B) {
	const hosts, prefixes, ten = 100_000, 10_000, 10_000
	for b.Loop() {
		h := &received{routes: make(map[evpn.Key]map[netip.Addr]evpn.Route)}
		var first, last time.Time
		first1, second := pair(b, loopbackPort, overlay.BGPRestart{}, func(u []evpn.Update) {
			if first.IsZero() {
				first = time.Now()
			}
			h.receive(u)
			last = time.Now()
		}, h.session)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		routes := many(hosts, prefixes)
		must(b, second.Announce(routes))
		announced := time.Since(start)
		awaitCount(b, h, hosts+prefixes)
		b.ReportMetric(float64(hosts+prefixes)/last.Sub(first).Seconds(), "routes/s")
		b.ReportMetric(announced.Seconds(), "announce-s")
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(hosts+prefixes), "B/route")

		changed := routes[:ten]
		for i := range changed {
			changed[i].Sequence++
		}
		start = time.Now()
		must(b, second.Announce(changed))
		b.ReportMetric(time.Since(start).Seconds(), "change10k-s")
		awaitCount(b, h, hosts+prefixes+ten)
		b.ReportMetric(last.Sub(start).Seconds(), "arrive10k-s")
		one := routes[ten]
		one.Sequence++
		start = time.Now()
		must(b, second.Announce([]evpn.Route{one}))
		awaitCount(b, h, hosts+prefixes+ten+1)
		b.ReportMetric(last.Sub(start).Seconds()*1000, "single-ms")
		start = time.Now()
		must(b, second.Close(false))
		must(b, awaitLong(b.Context(), "the session to go", func() error {
			if s, _ := h.last(two); s.Up {
				return fmt.Errorf("%+v", s)
			}
			return nil
		}))
		b.ReportMetric(time.Since(start).Seconds(), "loss-s")
		if _, gone := h.counts(); gone != 0 {
			b.Errorf("%d routes of a lost session were withdrawn", gone)
		}
		must(b, first1.Close(false))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func awaitCount(t testing.TB, h *received, n int) {
	t.Helper()
	must(t, awaitLong(t.Context(), fmt.Sprintf("%d updates", n), func() error {
		if got, _ := h.counts(); got < n {
			return fmt.Errorf("%d came", got)
		}
		return nil
	}))
}

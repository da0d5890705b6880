package datapath

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// want fails the test unless the verdict is that.
func (r result) want(t testing.TB, in []byte, v verdict) {
	t.Helper()
	if r.verdict != v {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: r.out}}, "%v, want %v", r.verdict, v)
	}
}

// step is a packet and where it must have gone: a port's name, a remote's
// address, "flood", "drop" or "host".
type step struct {
	from  string // a port's name, "first" or "second": a remote
	frame []byte
	to    string
}

func (w *world) send(t testing.TB, from string, frame []byte) result {
	t.Helper()
	switch from {
	case "first":
		return w.fromUnderlay(t, w.outer(w.family.remotes[0]).Wrap(frame))
	case "second":
		return w.fromUnderlay(t, w.outer(w.family.remotes[1]).Wrap(frame))
	}
	return w.fromPort(t, from, frame)
}

// went finds out by the counters where a packet has gone.
func (w *world) went(t testing.TB, s step) string {
	t.Helper()
	portsBefore, tepsBefore := w.traffic(t)
	var r result
	_, events := w.counted(t, func() { r = w.send(t, s.from, s.frame) })
	if events["flooded"] > 0 {
		return "flood"
	}
	switch r.verdict {
	case dropped:
		return "drop"
	case next:
		return "host"
	}
	ports, teps := w.traffic(t)
	for name, c := range ports {
		if c.Tx != portsBefore[name].Tx {
			return name
		}
	}
	for addr, c := range teps {
		if c.Tx != tepsBefore[addr].Tx {
			return map[string]string{w.family.remotes[0].String(): "first", w.family.remotes[1].String(): "second"}[addr]
		}
	}
	return "nowhere"
}

func (w *world) traffic(t testing.TB) (map[string]PortCounters, map[string]TEPCounters) {
	t.Helper()
	ports, err := w.dp.Traffic.Ports()
	must(t, err)
	byAddr, err := w.dp.Traffic.TEPs()
	must(t, err)
	teps := map[string]TEPCounters{}
	for addr, c := range byAddr {
		teps[addr.String()] = c
	}
	return ports, teps
}

func (w *world) follow(t *testing.T, steps []step) {
	t.Helper()
	for i, s := range steps {
		if to := w.went(t, s); to != s.to {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: s.frame}}, "step %d from %s went to %s, want %s", i, s.from, to, s.to)
		}
	}
}

// say is a frame of one station to another.
func say(src, dst string) []byte { return pkttest.Frame(src, dst, udp4) }

func TestSwitching(t *testing.T) {
	both(t, func(t *testing.T, cache bool) {
		w := newWorld(t, underIPv4, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cache })
		for name, steps := range map[string][]step{
			"learned at ports": {
				{"p0", say(alice, bob), "flood"}, {"p1", say(bob, alice), "p0"}, {"p0", say(alice, bob), "p1"}, {"p0", say(alice, bob), "p1"},
			},
			"learned behind the tunnel": {
				{"p0", say(alice, all), "flood"}, {"first", say(bob, alice), "p0"}, {"p0", say(alice, bob), "first"}, {"p0", say(alice, bob), "first"},
			},
			"moves from a port to a remote and on": {
				{"p0", say(alice, all), "flood"}, {"p1", say(bob, alice), "p0"}, {"p0", say(alice, bob), "p1"},
				{"first", say(bob, alice), "p0"}, {"p0", say(alice, bob), "first"},
				{"second", say(bob, alice), "p0"}, {"p0", say(alice, bob), "second"},
				{"p1", say(bob, alice), "p0"}, {"p0", say(alice, bob), "p1"},
			},
			"split horizon": {
				{"first", say(alice, all), "flood"}, {"second", say(bob, alice), "drop"}, {"second", say(bob, carol), "flood"}, {"p0", say(carol, alice), "first"},
			},
			"own port": {
				{"p0", say(alice, all), "flood"}, {"p0", say(bob, alice), "drop"},
			},
			"segments are apart": {
				{"p0", say(alice, all), "flood"}, {"p2", say(bob, alice), "flood"}, {"p0", say(alice, bob), "flood"},
			},
			"group and broadcast": {
				{"p1", say(bob, all), "flood"}, {"p0", say(alice, "01:00:5e:00:00:01"), "flood"}, {"p0", say(alice, "33:33:00:00:00:01"), "flood"}, {"p0", say(alice, all), "flood"},
			},
			"ARP is answered": {
				{"p0", pkttest.Frame(alice, all, arp), "flood"}, {"first", pkttest.Frame(bob, alice, arp), "p0"},
				{"p0", pkttest.Frame(alice, bob, arp), "first"}, {"first", say(bob, alice), "p0"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				w.forget(t)
				w.follow(t, steps)
			})
		}
	})
}

// forget empties what the data path has learned and heard.
func (w *world) forget(t testing.TB) {
	t.Helper()
	w.refill(t)
	w.forgetReports(t)
	must(t, w.dp.Hosts.deleteNeighbours(func(_ bpfNeighbourKey, n bpfNeighbour) bool { return n.Origin == bpfHostOriginORIGIN_LEARNED }))
	if _, err := w.dp.Hosts.deleteFDB(func(_ bpfFdbKey, e bpfFdbEntry) bool { return e.Origin == bpfHostOriginORIGIN_LEARNED }); err != nil {
		t.Fatal(err)
	}
	var keys []uint64
	must(t, walk(w.dp.Flows.maps.Flows, func(k uint64, _ bpfFlow) { keys = append(keys, k) }))
	for _, k := range keys {
		must(t, w.dp.Flows.maps.Flows.Delete(k))
	}
}

// both runs a test with the flow cache on and off.
func both(t *testing.T, f func(t *testing.T, cache bool)) {
	t.Run("cache", func(t *testing.T) { f(t, true) })
	t.Run("no cache", func(t *testing.T) { f(t, false) })
}

func TestAgeing(t *testing.T) {
	w := newWorld(t, underIPv4)
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"p1", say(bob, alice), "p0"}, {"p1", say(bob, alice), "p0"}})
	if n, err := w.dp.Age(time.Hour); err != nil || n != 0 {
		t.Errorf("%d entries aged (%v), want none yet", n, err)
	}
	if n, err := w.dp.Age(0); err != nil || n != 0 {
		t.Errorf("%d entries aged (%v), 0 keeps them", n, err)
	}
	if n, err := w.dp.Age(time.Nanosecond); err != nil || n != 2 {
		t.Errorf("%d entries aged (%v), want 2", n, err)
	}
	w.follow(t, []step{{"p1", say(bob, alice), "flood"}}) // the cached decision is outdated
}

// ageHosts lets time pass for what the data path knows of hosts.
func (w *world) ageHosts(t testing.TB, by time.Duration) {
	t.Helper()
	changeEach[bpfFdbKey](t, w.dp.Hosts.maps.Fdb, func(e *bpfFdbEntry) { e.SeenNs -= uint64(by) })
	changeEach[bpfNeighbourKey](t, w.dp.Hosts.maps.Neighbours, func(n *bpfNeighbour) { n.SeenNs -= uint64(by) })
}

// A flow that is replayed from the cache keeps its source's entry young.
func TestCachedFlowKeepsItsSourceYoung(t *testing.T) {
	w := newWorld(t, underIPv4)
	w.follow(t, []step{{"p0", say(alice, all), "flood"}, {"p1", say(bob, alice), "p0"}})
	const turns, pause = 100, 4 * time.Second // together longer than hosts live in silence
	_, events := w.counted(t, func() {
		for range turns {
			w.ageHosts(t, pause)
			w.ageFlows(t, pause)
			w.send(t, "p1", say(bob, alice))
		}
	})
	if events["hit"] == 0 || events["revalidated"] < turns/3 || events["hit"]+events["revalidated"] != turns {
		t.Errorf("events %v, want %d hits and decisions taken again", events, turns)
	}
	if _, err := w.dp.Age(w.cfg.FDB.Ageing); err != nil {
		t.Fatal(err)
	}
	if got := w.fdb(t, bob); got != "p1" {
		t.Errorf("bob, who never stopped talking, is at %q", got)
	}
	if got := w.fdb(t, alice); got != "" {
		t.Errorf("alice, who is silent, is at %q", got)
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t, underIPv4)
	for _, c := range []struct {
		what string
		f    func()
		want map[string]uint64
	}{
		{"a first packet", func() { w.send(t, "p0", say(alice, bob)) }, map[string]uint64{"miss": 1, "learned": 1, "flooded": 1, "flood-copy": 3}},
		{"a flow to an unknown address", func() { w.send(t, "p0", say(alice, bob)) }, map[string]uint64{"flooded": 1, "flood-copy": 3}},
		{"the answer", func() { w.send(t, "p1", say(bob, alice)) }, map[string]uint64{"miss": 1, "learned": 1}},
		{"the next answer", func() { w.send(t, "p1", say(bob, alice)) }, map[string]uint64{"hit": 1}},
		{"a flow whose address became known", func() { w.send(t, "p0", say(alice, bob)) }, map[string]uint64{}},
		{"its next packet", func() { w.send(t, "p0", say(alice, bob)) }, map[string]uint64{"hit": 1}},
		{"a move", func() { w.send(t, "first", say(bob, alice)) }, map[string]uint64{"miss": 1, "moved": 1}},
		{"what the move outdated", func() { w.send(t, "p0", say(alice, bob)) }, map[string]uint64{"stale": 1}},
		{"a packet for the host", func() { w.fromUnderlay(t, pkttest.Frame(nextHop, w.dev["u0"].HardwareAddr.String(), tcp4)) }, map[string]uint64{"not-tunnel": 1}},
	} {
		drops, events := w.counted(t, c.f)
		for k := range events {
			if events[k] != c.want[k] {
				t.Errorf("%s: events %v, want %v", c.what, events, c.want)
				break
			}
		}
		if sum(events) != sum(c.want) || sum(drops) != 0 {
			t.Errorf("%s: events %v and drops %v, want %v", c.what, events, drops, c.want)
		}
	}
}

// What is not a tunnel packet of this edge is the host's, untouched.
func TestLeftToTheHost(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f)
			outer := w.outer(f.remotes[0])
			tunnel := func(change func(*pkttest.Outer)) []byte {
				o := outer
				change(&o)
				return o.Wrap(say(alice, bob))
			}
			me := outer.DstMAC
			for name, in := range map[string][]byte{
				"other UDP port":        tunnel(func(o *pkttest.Outer) { o.DstPort = 4791 }),
				"other address":         tunnel(func(o *pkttest.Outer) { o.Dst = f.unknown }),
				"for another station":   tunnel(func(o *pkttest.Outer) { o.DstMAC = bob }),
				"broadcast":             tunnel(func(o *pkttest.Outer) { o.DstMAC = all }),
				"TCP":                   pkttest.Frame(nextHop, me, tcp4),
				"ICMPv6":                pkttest.Frame(nextHop, me, icmp6),
				"ARP":                   pkttest.Frame(nextHop, me, arp),
				"LLDP":                  pkttest.Frame(nextHop, me, "lldp"),
				"later fragment of UDP": pkttest.Frame(nextHop, me, "fragment "+f.remotes[0].String()+" > "+f.tep.String()+" 1480 64"),
			} {
				r := w.fromUnderlay(t, in)
				r.want(t, in, next)
				check.Equal(t, name, in, r.out)
			}
		})
	}
}

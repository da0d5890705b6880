package datapath

import (
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// attackPackets is more than a core's token bucket for all ports ever held.
const attackPackets = 3000

// limit gives a port of the tables limits.
func limit(tables *fib.Tables, port string, l overlay.Limits) {
	i := slices.IndexFunc(tables.Ports, func(p fib.Port) bool { return p.Name == port })
	tables.Ports[i].Limits = l
}

// rateOf is what has been counted of a port's or segment's rate.
func (w *world) rateOf(t testing.TB, owner, rate string) RateUsage {
	t.Helper()
	all, err := w.dp.Limits.LimitUsages()
	must(t, err)
	for _, u := range all {
		i := slices.IndexFunc(u.Rates, func(r RateUsage) bool { return r.Name == rate })
		if u.Owner == owner && i >= 0 {
			return u.Rates[i]
		}
	}
	t.Fatalf("nobody tells of the rate %s of %s", rate, owner)
	return RateUsage{}
}

// A guest that sends packets without end of which each causes an ICMP error takes none of the errors of other ports: their path MTU discovery goes on.
func TestPortsDoNotShareErrors(t *testing.T) {
	w := routedWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { limit(tables, "p0", overlay.Limits{ICMPErrors: 5}) })
	onOneCPU(t)
	w.refill(t)
	_, events := w.counted(t, func() {
		for range attackPackets {
			w.fromPort(t, "p0", pkttest.Frame(alice, gatewayMAC, "ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 30"))
		}
	})
	if sent := events["icmp-sent"]; sent < 5 || sent > 50 || events["icmp-limited"] != attackPackets-sent {
		t.Errorf("events %v, want about 5 errors for the attacker", events)
	}
	_, events = w.counted(t, func() {
		w.fromPort(t, "p1", pkttest.Frame(carol, gatewayMAC, "ttl 1 udp 10.0.1.12:1 > 10.0.2.13:2 30"))
		w.sendIn(t, "blue", "first", pkttest.Frame(bob, gatewayMAC, "ttl 1 udp 10.0.1.11:1 > 10.0.2.13:2 30"))
	})
	if events["icmp-sent"] != 2 {
		t.Errorf("events %v, want the errors of another port and of a tunnel", events)
	}
}

// A next hop that does not answer is asked once a second, whoever sends to it: a flood to it is no flood of requests. Others are asked meanwhile.
func TestSilentNextHopIsAskedOnceASecond(t *testing.T) {
	w := routedWorld(t, ways()[0])
	to := func(src, from, host string) []byte {
		return pkttest.Frame(src, gatewayMAC, "udp "+from+":1 > "+host+":2 30")
	}
	send := func() {
		for range 10 {
			w.fromPort(t, "p0", to(alice, "10.0.1.10", "10.0.2.77"))
			w.fromPort(t, "p1", to(carol, "10.0.1.12", "10.0.2.77"))
		}
	}
	drops, events := w.counted(t, send)
	if drops["no-neighbour"] != 20 || events["neigh-requested"] > 2 || events["neigh-requested"] == 0 {
		t.Errorf("drops %v, events %v; want 20 drops and a request", drops, events)
	}
	_, events = w.counted(t, func() { w.fromPort(t, "p0", to(alice, "10.0.1.10", "10.0.2.78")) })
	if events["neigh-requested"] != 1 {
		t.Errorf("events %v, want a request for another host", events)
	}
	for key, asked := range w.requests(t) {
		must(t, w.dp.prog.objs.NeighbourRequests.Put(key, asked-1e9))
	}
	_, events = w.counted(t, send)
	if n := events["neigh-requested"]; n == 0 || n > 2 {
		t.Errorf("events %v, want a request after a second", events)
	}
}

// A port's broadcast, multicast and unknown unicast frames have a rate each; what is above is dropped. Other ports and other kinds are not concerned.
func TestStormControl(t *testing.T) {
	const sent, allowed = 200, 20
	for name, c := range map[string]struct {
		to     string
		limits overlay.Limits
		rate   string
	}{
		"broadcast":       {all, overlay.Limits{Broadcast: allowed}, "broadcast"},
		"multicast":       {"33:33:00:00:00:05", overlay.Limits{Multicast: allowed}, "multicast"},
		"unknown unicast": {"02:00:00:00:77:01", overlay.Limits{UnknownUnicast: allowed}, "unknown-unicast"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { limit(tables, "p0", c.limits) })
			w.refill(t)
			before := w.rateOf(t, "p0", c.rate).Exceeded
			drops, events := w.counted(t, func() {
				for range sent {
					w.fromPort(t, "p0", say(alice, c.to))
				}
			})
			if n := events["flooded"]; n < allowed || n > 2*allowed || drops["storm-control"] != sent-n {
				t.Errorf("drops %v, events %v; want about %d frames flooded", drops, events, allowed)
			}
			if r := w.rateOf(t, "p0", c.rate); r.Exceeded-before != drops["storm-control"] || r.Limit != allowed {
				t.Errorf("the rate is %+v, from %d; want %d drops", r, before, drops["storm-control"])
			}
			others := []string{all, "33:33:00:00:00:05", "02:00:00:00:77:01"}
			drops, _ = w.counted(t, func() {
				for range 2 * allowed {
					for _, to := range others {
						w.fromPort(t, "p1", say(bob, to))
						if to != c.to {
							w.fromPort(t, "p0", say(alice, to))
						}
					}
				}
			})
			if len(drops) != 0 {
				t.Errorf("drops %v of another port, and of other kinds", drops)
			}
		})
	}
}

// What the firewall denies is decided again each time, by all its rules: above its rate a port's packets without a cached decision are dropped before.
func TestNewFlowsAreLimited(t *testing.T) {
	w := walledWorld(t, wall(allow("dns", 53)))
	limit(&w.tables, "p0", overlay.Limits{NewFlows: 20})
	w.apply(t)
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}})
	w.refill(t)
	drops, _ := w.counted(t, func() {
		for i := range 200 {
			w.fromPort(t, "p0", udpTo(fmt.Sprint(1000+i)))
		}
	})
	if n := drops["denied"]; n < 20 || n > 40 || drops["new-flow-limit"] != 200-n {
		t.Errorf("drops %v, want about 20 denied and the others before", drops)
	}
	_, events := w.counted(t, func() { w.follow(t, []step{{"p0", udpTo("53"), "p1"}}) })
	if events["hit"] != 1 {
		t.Errorf("events %v, want a hit", events)
	}
	must(t, w.dp.Changes.invalidate(w.dp.numbers.names.segIDs["blue"]))
	drops, events = w.counted(t, func() {
		w.fromPort(t, "p0", udpTo("53"))
		w.fromPort(t, "p0", pkttest.Frame(alice, all, arp))
	})
	if len(drops) != 0 || events["stale"] != 1 {
		t.Errorf("drops %v, events %v; want a known flow that is decided again, and ARP", drops, events)
	}
	if drops, _ = w.counted(t, func() { w.fromPort(t, "p1", pkttest.Frame(bob, alice, "udp 10.0.0.2:7 > 10.0.0.1:7 18")) }); drops["denied"] != 1 {
		t.Errorf("drops %v of another port, want one denied", drops)
	}
}

// A port that fills the firewall's log hides no line of another, and is told how many it lost.
func TestLogLinesAreByPort(t *testing.T) {
	fw := wall(allow("dns", 53))
	fw.Rules[0].Log, fw.Rules[0].Direction = true, overlay.Out
	w := walledWorld(t, fw)
	limit(&w.tables, "p0", overlay.Limits{LogLines: 5})
	limit(&w.tables, "p1", overlay.Limits{LogLines: 5})
	w.apply(t)
	onOneCPU(t)
	w.refill(t)
	w.logs(t)
	line := func(dev, src, dst, from, to string, port int) {
		w.fromPort(t, dev, pkttest.Frame(src, dst, fmt.Sprintf("udp %s:%d > %s:53 18", from, port, to)))
	}
	_, events := w.counted(t, func() {
		for i := range attackPackets {
			line("p0", alice, bob, "10.0.0.1", "10.0.0.2", 1000+i)
		}
	})
	noise := w.logs(t)
	if len(noise) < 5 || len(noise) > 50 || int(events["log-lost"]) != attackPackets-len(noise) {
		t.Errorf("%d lines, %d lost; want about 5", len(noise), events["log-lost"])
	}
	line("p1", bob, alice, "10.0.0.2", "10.0.0.1", 1000)
	if got := w.logs(t); len(got) != 1 || got[0].Port != "p1" || got[0].Lost != 0 {
		t.Errorf("lines %+v, want that of p1, which lost none", got)
	}
	lost := 0
	for _, l := range noise {
		lost += int(l.Lost)
	}
	refillBuckets(t, w)
	line("p0", alice, bob, "10.0.0.1", "10.0.0.2", 999)
	if got := w.logs(t); len(got) != 1 || lost+int(got[0].Lost) != attackPackets-len(noise) {
		t.Errorf("lines %+v after %d, want all that were lost in it", got, lost)
	}
}

// A bucket that cores share may be filled by one whose clock is read later: the time does not run backwards, which would fill it.
func TestBucketOfAnotherCoresClock(t *testing.T) {
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { limit(tables, "p0", overlay.Limits{Broadcast: 1000}) })
	id := w.dp.numbers.names.portIDs["p0"]
	now, err := kernel.Host().Clock.Monotonic()
	must(t, err)
	var u bpfLimitUsage
	must(t, w.dp.Limits.maps.OwnerUsages.Lookup(ownerIndex(id), &u))
	u.Buckets[bpfLimitedRateRATE_BROADCAST] = bpfTokenBucket{FilledNs: now + 1e9}
	must(t, w.dp.Limits.maps.OwnerUsages.Put(ownerIndex(id), u))
	if drops, _ := w.counted(t, func() { w.fromPort(t, "p0", say(alice, all)) }); drops["storm-control"] != 1 {
		t.Errorf("drops %v, want the frame refused", drops)
	}
	w.refill(t)
}

// Ports and remotes that take all of a segment's rate leave each other member its part.
func TestStormLeavesOthersTheirPart(t *testing.T) {
	const rate = 100
	w := newWorld(t, underIPv4, func(_ *Config, tables *fib.Tables) { tables.Segments[0].Limits = overlay.Limits{Broadcast: rate} })
	w.refill(t)
	flooded := func(send func(), n int) uint64 {
		_, events := w.counted(t, func() {
			for range n {
				send()
			}
		})
		return events["flooded"]
	}
	remote := func() { w.send(t, "first", say(erin, all)) }
	port := func() { w.fromPort(t, "p0", say(alice, all)) }
	if n := flooded(remote, 1000); n < rate || n > 3*rate {
		t.Errorf("%d frames of a remote are flooded, want about %d", n, rate)
	}
	if n := flooded(port, 8); n != 8 {
		t.Errorf("%d of 8 frames of a port are flooded beside a remote's storm", n)
	}
	flooded(port, 1000)
	if n := flooded(func() { w.fromPort(t, "p1", say(bob, all)) }, 8); n != 8 {
		t.Errorf("%d of 8 frames of a port are flooded beside another's storm", n)
	}
	if n := flooded(func() { w.send(t, "second", say(dave, all)) }, 8); n != 8 {
		t.Errorf("%d of 8 frames of a remote are flooded beside the storms of others", n)
	}
}

// A guest that scans silent addresses does not keep others from finding their next hops.
func TestScanDoesNotStarveNeighbours(t *testing.T) {
	w := routedWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) { limit(tables, "p0", overlay.Limits{NeighbourRequests: 5}) })
	onOneCPU(t)
	w.refill(t)
	_, events := w.counted(t, func() {
		for i := range attackPackets {
			w.fromPort(t, "p0", pkttest.Frame(alice, gatewayMAC, fmt.Sprintf("udp [2001:db8:1::a]:1 > [2001:db8:2::1:%x]:2 30", i+1)))
		}
	})
	if n := events["neigh-requested"]; n < 5 || n > 50 {
		t.Errorf("events %v, want about 5 requests for the attacker", events)
	}
	_, events = w.counted(t, func() {
		w.fromPort(t, "p1", pkttest.Frame(carol, gatewayMAC, "udp [2001:db8:1::c]:1 > [2001:db8:2::77]:2 30"))
	})
	if events["neigh-requested"] != 1 {
		t.Errorf("events %v, want the request of another port", events)
	}
}

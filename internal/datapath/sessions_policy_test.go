package datapath

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/datapath/kernel"
)

// A new process finds policy, counters and connections as they were.
func TestTakeoverOfTheFirewall(t *testing.T) {
	t.Parallel()
	fw := wall(allow("dns", 53), allow("ntp", 123))
	w := walledWorld(t, fw)
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"}})
	rules, number, generation := w.ruleCounters(t), w.dp.Firewall.inForce.Policy, w.generation(t, "blue")
	w.reopen(t)
	w.guard(t, fw)
	w.apply(t)
	if got := w.dp.Firewall.inForce.Policy; got != number {
		t.Errorf("policy %d, want %d: nothing has changed", got, number)
	}
	if got := w.generation(t, "blue"); got != generation {
		t.Errorf("generation %d, want %d", got, generation)
	}
	for name, want := range rules {
		if got := w.ruleCounters(t)[name]; got.Connections != want.Connections || got.Packets != want.Packets {
			t.Errorf("rule %v counts %+v, want %+v", name, got, want)
		}
	}
	for port, list := range w.sessions(t) {
		if len(list) != 1 || !list[0].Current || list[0].Rule != (RuleName{"s", "dns"}) {
			t.Errorf("sessions of %s: %+v", port, list)
		}
	}
	w.reopen(t)
	w.guard(t, wall(allow("ntp", 123), allow("dns", 53)))
	w.apply(t)
	if got := w.dp.Firewall.inForce.Policy; got == number {
		t.Errorf("another policy has number %d too", got)
	}
	w.follow(t, []step{{"p1", udpFrom("53"), "p0"}}) // known, and still allowed
}

// Connections find their way into tables of another size.
func TestOtherSizesKeepConnections(t *testing.T) {
	t.Parallel()
	fw := wall(allow("dns", 53))
	w := walledWorld(t, fw)
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"}})
	for i, size := range []uint32{8192, 1024} {
		fw.Sizes.Connections, fw.Sizes.HalfOpen = size, size/2
		w.guard(t, fw)
		w.reopen(t)
		if i == 1 { // a process that ended before it had applied anything
			w.reopen(t)
		}
		w.apply(t)
		if got := w.dp.Firewall.maps.CtEstablished.MaxEntries(); got != size {
			t.Fatalf("the table has %d entries, want %d", got, size)
		}
		w.follow(t, []step{{"p1", udpFrom("53"), "p0"}})
		for port, list := range w.sessions(t) {
			if len(list) != 1 || !list[0].Answered || list[0].Orig.Packets != 1 {
				t.Errorf("sessions of %s: %+v", port, list)
			}
		}
	}
}

// The policy changes while packets go: none of what both policies allow is lost.
func TestChangeDropsNothing(t *testing.T) {
	w := walledWorld(t, wall(allow("dns", 53)))
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}})
	stop, lost := make(chan struct{}), make(chan int)
	var offered atomic.Int64
	go func() {
		n := 0
		defer func() { lost <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			w.do(t, func() {
				r, err := runProgram(w.dp.prog.objs.FromPort, w.dev["p0"].Index, packet{bytes: udpTo("53")})
				if err != nil || r.verdict != forwarded {
					n++
				}
			})
			offered.Add(1)
		}
	}()
	for i := range 20 {
		w.change(t, wall(allow("ntp", uint16(1000+i)), allow("dns", 53)))
		before := offered.Load()
		must(t, await.That(t.Context(), "packets under the policy", func() error {
			if n := offered.Load() - before; n < 20 {
				return fmt.Errorf("%d packets", n)
			}
			return nil
		}))
	}
	close(stop)
	if n := <-lost; n > 0 {
		t.Errorf("%d packets were not forwarded", n)
	}
}

// What the former programs still did after the first copy is carried over too, unless the new ones know better.
func TestCarriageTakesWhatChanged(t *testing.T) {
	t.Parallel()
	fw := wall(allow("dns", 53))
	w := walledWorld(t, fw)
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"}})
	fw.Sizes.Connections *= 2
	w.guard(t, fw)
	w.reopen(t)
	carried, err := w.dp.carrier.carry()
	must(t, err)
	previous := carried.previous[bpfMapCtEstablished]
	now, err := kernel.Host().Clock.Monotonic()
	must(t, err)
	late, newer := bpfCtKey{Proto: 17, InsidePort: 7}, bpfCtKey{Proto: 17, InsidePort: 8}
	for k, m := range map[bpfCtKey][2]bpfCtEntry{late: {{SeenNs: now, Rule: 7}, {}}, newer: {{SeenNs: now, Rule: 8}, {SeenNs: now + 1, Rule: 9}}} {
		must(t, previous.Put(k, m[0]))
		if m[1].SeenNs != 0 {
			must(t, w.dp.Firewall.maps.CtEstablished.Put(k, m[1]))
		}
	}
	must(t, carried.finish(w.dp.carrier))
	for k, want := range map[bpfCtKey]uint32{late: 7, newer: 9} {
		var got bpfCtEntry
		if err := w.dp.Firewall.maps.CtEstablished.Lookup(k, &got); err != nil || got.Rule != want {
			t.Errorf("connection %d has rule %d, %v, want %d", k.InsidePort, got.Rule, err, want)
		}
	}
	w.apply(t)
	if n := len(w.sessions(t)["p1"]); n != 1 {
		t.Errorf("p1 has %d sessions, want the one from before", n)
	}
	if again, err := w.dp.carrier.carry(); err != nil || len(again.previous) != 0 {
		t.Errorf("former tables are left: %v, %v", again, err)
	}
}

// A port in another segment has no connections: the policy that allowed them may be the same there, and the addresses somebody else's.
func TestPortInAnotherSegmentHasNoConnections(t *testing.T) {
	w := firewallWorld(t, openFirewall(true))
	w.passes(t, "alice > bob udp 53 from 2000")
	w.passes(t, "carol > bob udp 53 from 2000")
	connections := func() (zones map[uint32]int) {
		zones = map[uint32]int{}
		for _, m := range []kernel.Map{w.dp.Firewall.maps.CtHalfOpen, w.dp.Firewall.maps.CtEstablished} {
			each(t, m, func(k bpfCtKey, _ bpfCtEntry) { zones[k.Zone]++ })
		}
		return zones
	}
	before, stays := w.dp.numbers.names.portIDs["p0"], w.dp.numbers.names.portIDs["p1"]
	if n := connections(); n[before] != 1 || n[stays] != 1 {
		t.Fatalf("%v connections by port, want one each of %d and %d", n, before, stays)
	}
	w.tables.Ports[0].Segment = "green"
	w.apply(t)
	if n := connections(); n[before]+n[w.dp.numbers.names.portIDs["p0"]] != 0 || n[stays] != 1 {
		t.Errorf("%v connections by port after %d went to another segment", n, before)
	}
}

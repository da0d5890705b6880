package datapath

import (
	"math"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// Times are told apart by their difference, on both sides of when the clock began.
func TestTimes(t *testing.T) {
	for _, c := range []struct{ now, ns, then uint64 }{
		{1000, 0, 1000}, {1000, 1, 999}, {1000, 1000, 0}, {1000, 1001, math.MaxUint64},
		{0, uint64(time.Hour), math.MaxUint64 - uint64(time.Hour) + 1},
	} {
		if then := ago(c.now, c.ns); then != c.then || since(c.now, then) != c.ns || isBefore(then, c.now) != (c.ns > 0) || isBefore(c.now, then) {
			t.Errorf("%d ago at %d: %d, %d before", c.ns, c.now, then, since(c.now, then))
		}
	}
	if idle := since(1000, 1001); idle != 0 {
		t.Errorf("what another core has seen a moment later was %d ago", idle)
	}
	if then := ago(1000, math.MaxUint64); !isBefore(then, 1000) || since(1000, then) < uint64(100*365*24*time.Hour) {
		t.Errorf("what nobody can have seen was at %d", then)
	}
}

// beyondBoot is longer than the machine has been on.
func beyondBoot(t testing.TB) time.Duration {
	t.Helper()
	now, err := kernel.Host().Clock.Monotonic()
	must(t, err)
	return time.Duration(now) + time.Hour
}

// A connection may have had its last packet before the machine was on, as those of a test
// that lets time pass, and it stays for as long as its timeout says.
func TestConnectionsBeforeBoot(t *testing.T) {
	lasts := beyondBoot(t)
	fw := wall(allow("dns", 53))
	fw.Timeouts.UDPReplied, fw.Timeouts.UDPStream = lasts, lasts
	w := walledWorld(t, fw)
	w.follow(t, []step{{"p0", udpTo("53"), "p1"}, {"p1", udpFrom("53"), "p0"}})
	idle := lasts - 5*time.Second
	w.age(t, idle)
	for _, list := range w.sessions(t) {
		if got := time.Duration(list[0].IdleNS); got < idle || got > idle+5*time.Second {
			t.Errorf("idle for %s, want %s", got, idle)
		}
	}
	if c := w.sweep(t); c.Expired != 0 || c.Connections != 2 {
		t.Errorf("before their time: %+v", c)
	}
	w.follow(t, []step{{"p1", udpFrom("53"), "p0"}})
	w.age(t, lasts+5*time.Second)
	w.follow(t, []step{{"p1", udpFrom("53"), "drop"}})
	if c := w.sweep(t); c.Connections != 0 {
		t.Errorf("after their time: %+v", c)
	}
}

// So may sessions, and a gateway that was on for longer may hand over what it saw then.
func TestNATSessionsBeforeBoot(t *testing.T) {
	lasts := beyondBoot(t)
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) {
		c.Egress.Timeouts = overlay.DefaultNATTimeouts
		c.Egress.Timeouts.Established = lasts
	})
	for i, step := range opened3() {
		from, frame := natStep(step, false)
		if why, _ := w.natOffer(t, from, frame); why != "" {
			t.Fatalf("step %d: %s", i+1, why)
		}
	}
	w.lasts(t, lasts)

	r := natRecord("web", 0)
	idle := lasts - time.Minute // it is seen later than that, by the second record
	for _, r.IdleNS = range []uint64{uint64(idle), uint64(idle - 5*time.Minute), uint64(idle)} {
		r.AgeNS = r.IdleNS + uint64(time.Hour)
		if taken, conflicts := w.putNATSessions(t, r); taken != 1 || conflicts != 0 {
			t.Errorf("%d taken, %d conflicts", taken, conflicts)
		}
	}
	w.reopen(t)
	w.apply(t)
	list := w.natSessions(t)
	if len(list) != 1 {
		t.Fatalf("sessions %+v", list)
	}
	b := list[0]
	if got := time.Duration(b.IdleNS); got < idle-5*time.Minute || got >= idle || b.LeftNS != uint64(lasts)-b.IdleNS || b.AgeNS+2<<bornShift < b.IdleNS+uint64(time.Hour) {
		t.Errorf("idle for %s, want %s; age %d, left %d", got, idle-5*time.Minute, b.AgeNS, b.LeftNS)
	}
	w.lasts(t, lasts-time.Duration(b.IdleNS))
}

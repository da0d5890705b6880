package bgp

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
)

// While the data path takes nothing, few prefixes that come and go take no more memory than they are,
// and in the end the last word counts.
func TestChurnWhileTheWriterIsBlocked(t *testing.T) {
	w := start(t, nil)
	w.done()
	w.gate.Lock()
	w.options.Receive([]evpn.Update{hostAt(hostA, 0)}) // which the goroutine is held up with
	w.within("the goroutine waits for the data path", func() bool { return w.process.inbox.len() == 0 })
	const hosts, rounds = 10, 50_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for round := range rounds {
		for n := range hosts {
			u := hostAt(macOf(n), uint32(round))
			u.Withdrawn = (round+n)%2 == 0
			w.options.Receive([]evpn.Update{u})
		}
	}
	if waits := w.process.inbox.len(); waits > hosts {
		t.Errorf("%d updates of %d prefixes wait", waits, hosts)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are kept of %d updates of %d prefixes", grown, hosts*rounds, hosts)
	}
	w.gate.Unlock()
	w.done()
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range hosts {
		if _, there := w.macs[macOf(n)]; there == ((rounds-1+n)%2 == 0) {
			t.Errorf("host %d: it is in the table: %v", n, there)
		}
	}
	if w.puts > 1+hosts || len(w.failed) > 0 {
		t.Errorf("%d entries were written, sessions failed: %v", w.puts, w.failed)
	}
}

// A neighbour that says more than may wait begins anew, which is counted and told. Others stay.
func TestTooManyUpdatesResetTheSession(t *testing.T) {
	const most = 1000
	now := time.Unix(1_000_000, 0)
	w := start(t, func(o *Options) { o.MaxWaiting, o.Now = most, func() time.Time { return now } })
	w.done()
	other := addr("192.0.2.101")
	w.gate.Lock()
	w.options.Receive([]evpn.Update{hostAt(hostA, 0)})
	w.within("the goroutine waits for the data path", func() bool { return w.process.inbox.len() == 0 })
	from := hostAt(hostB, 0)
	from.Neighbour = other
	w.options.Receive([]evpn.Update{from})
	for n := range most {
		w.options.Receive([]evpn.Update{hostAt(macOf(n), 0)})
	}
	if len(w.failed) > 0 {
		t.Fatalf("failed with %d updates: %v", most, w.failed)
	}
	w.options.Receive([]evpn.Update{hostAt(macOf(most), 0)})
	if len(w.failed) != 1 || !strings.Contains(w.failed[0], rr.String()+": more than 1000 of its updates waited") {
		t.Fatalf("failed: %v", w.failed)
	}
	if waits := w.process.inbox.len(); waits != 1 {
		t.Errorf("%d updates wait, want that of the other neighbour", waits)
	}
	w.gate.Unlock()
	w.done()
	if _, there := w.macs[hostB]; !there || len(w.macs) != 2 {
		t.Errorf("%v is written", w.macs)
	}
	info := w.process.State().Info(now, nil)
	if info.Neighbours[0].Overflows != 1 || len(info.Problems) != 1 || !strings.Contains(info.Problems[0].Text, "reset 1 times") {
		t.Errorf("told are %d overflows and %v", info.Neighbours[0].Overflows, info.Problems)
	}
	if c := w.process.State().Counters(); c.Neighbours[0].Overflows != 1 {
		t.Errorf("counted are %+v", c.Neighbours)
	}
	if later := w.process.State().Problems(now.Add(overflowRemembered)); len(later) > 0 {
		t.Errorf("long after: %v", later)
	}
}

// What a neighbour said in a session stands before the end of that session, and is not overtaken by
// what it says in the next one.
func TestSessionsDivideUpdates(t *testing.T) {
	i := newInbox(100)
	var order []string
	said := func(sequence uint32) { i.receive([]evpn.Update{hostAt(hostA, sequence)}, time.Time{}) }
	said(1)
	said(2)
	i.postSession(rr, func() { order = append(order, "lost") })
	said(3)
	i.postLast("look", func() { order = append(order, "first look") })
	said(4)
	i.postLast("look", func() { order = append(order, "look") })
	for i.len() > 0 {
		do, updates, _ := i.take()
		if do != nil {
			do()
		}
		for _, u := range updates {
			order = append(order, fmt.Sprint(u.Route.Sequence))
		}
	}
	if got := strings.Join(order, ", "); got != "2, lost, 4, look" {
		t.Errorf("done are %s", got)
	}
	if len(i.at)+len(i.waiting)+i.hosts > 0 {
		t.Errorf("left are %d keys and %v", len(i.at), i.waiting)
	}
}

// More hosts than may wait are left to the next look at all of them.
func TestTooManyHostsAreLookedFor(t *testing.T) {
	w := start(t, nil)
	w.done()
	w.gate.Lock()
	w.options.Receive([]evpn.Update{hostAt(hostA, 0)})
	w.within("the goroutine waits for the data path", func() bool { return w.process.inbox.len() == 0 })
	some := make([]Host, mostHosts/2)
	for range 3 {
		w.process.HostsCame(some)
	}
	w.within("hosts are missed", func() bool { return slices.Contains(w.events, "missed") })
	if waits := w.process.inbox.len(); waits != 2 {
		t.Errorf("%d jobs wait", waits)
	}
	w.gate.Unlock()
	w.done()
}

// A withdrawal waits for none of the 100,000 routes that came before it, but for those that are being installed.
func TestWithdrawalsOvertake(t *testing.T) {
	w := start(t, nil)
	w.options.Receive([]evpn.Update{hostAt(hostB, 0)})
	w.done()
	w.gate.Lock()
	w.options.Receive([]evpn.Update{hostAt(hostA, 0)})
	w.within("the goroutine waits for the data path", func() bool { return w.process.inbox.len() == 0 })
	const installs = 100_000
	list := make([]evpn.Update, 0, installs)
	for n := range installs {
		list = append(list, hostAt(macOf(n), 0))
	}
	w.options.Receive(list)
	w.options.Session(evpn.Session{Neighbour: rr, Up: true, Complete: true})
	gone := hostAt(hostB, 0)
	gone.Withdrawn = true
	w.options.Receive([]evpn.Update{gone})
	// What is said again after it counts, and what was said before it as well.
	again, first := hostAt(macOf(1), 1), hostAt(macOf(2), 1)
	again.Withdrawn, first.Withdrawn = true, true
	w.options.Receive([]evpn.Update{again, first})
	w.options.Receive([]evpn.Update{hostAt(macOf(1), 2)})
	w.gate.Unlock()
	w.done()
	w.mu.Lock()
	defer w.mu.Unlock()
	if after, ok := w.gone[hostB]; !ok || after > takeMost {
		t.Errorf("gone %t after %d entries were written, want after %d at most", ok, after, takeMost)
	}
	if _, there := w.macs[macOf(1)]; !there || len(w.macs) != installs {
		t.Errorf("%d hosts, the one that came again is there: %t", len(w.macs), there)
	}
}

// Time passes each second while updates come, and seldom when there is nothing that lasts for a time.
func TestTickEvery(t *testing.T) {
	w := start(t, nil)
	every := func() (d time.Duration) {
		w.process.wait(func() { d = w.process.tickEvery() })
		return d
	}
	w.options.Session(evpn.Session{Neighbour: rr, Up: true, Complete: true})
	if got := every(); got != tickIdle {
		t.Errorf("without anything a tick each %s, want %s", got, tickIdle)
	}
	w.options.Receive([]evpn.Update{hostAt(hostB, 0)})
	if got := every(); got != tick {
		t.Errorf("after an update a tick each %s, want %s", got, tick)
	}
	w.within("the goroutine's own ticks to come, and then seldom", func() bool { return every() == tickIdle })
}

package datapath

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/test/pkttest"
)

// follower collects what FollowHostEvents tells.
type follower struct {
	reported chan []HostEvent
}

// followHostEvents tells of arrivals until the test's end; those of former tests are taken out.
func (w *world) followHostEvents(t testing.TB) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f, ended := &follower{reported: make(chan []HostEvent, 4096)}, make(chan error)
	go func() { ended <- w.dp.HostEvents.FollowHostEvents(ctx, func(list []HostEvent) { f.reported <- list }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.mark(t, f)
	return f
}

// markMAC is a host that only marks what came before it.
const markMAC = "02:00:00:00:0f:00"

// mark has a host come, and takes out all up to it.
func (w *world) mark(t testing.TB, f *follower) (before []HostEvent) {
	t.Helper()
	w.refillHostEvents(t)
	w.send(t, "p0", say(markMAC, all))
	w.forgetHost(t, markMAC)
	for {
		select {
		case list := <-f.reported:
			for _, a := range list {
				if a.MAC == macOf(markMAC) {
					return before
				}
				if a != (HostEvent{}) { // of the time before the test
					before = append(before, a)
				}
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nobody was told of the last host")
		}
	}
}

func (w *world) forgetHost(t testing.TB, mac string) {
	t.Helper()
	must(t, w.dp.Hosts.Forget("blue", macOf(mac)))
}

// refillHostEvents lets the data path tell of hosts again.
func (w *world) refillHostEvents(t testing.TB) {
	t.Helper()
	w.setHostEvents(t, bpfTokenBucket{})
}

// emptyHostEvents has the data path tell of no host until the next tick of its clock.
func (w *world) emptyHostEvents(t testing.TB) {
	t.Helper()
	now, err := kernel.Host().Clock.Coarse()
	must(t, err)
	w.setHostEvents(t, bpfTokenBucket{FilledNs: now})
}

// setHostEvents sets the tokens that each core has to tell of hosts.
func (w *world) setHostEvents(t testing.TB, to bpfTokenBucket) {
	t.Helper()
	var works []bpfHostWork
	must(t, w.dp.HostEvents.maps.HostWorks.Lookup(uint32(0), &works))
	for i := range works {
		works[i].Events = to
	}
	must(t, w.dp.HostEvents.maps.HostWorks.Put(uint32(0), works))
	for _, owner := range []uint32{w.dp.numbers.names.portIDs["p0"], segmentOwner + w.dp.numbers.names.segIDs["blue"]} {
		w.dp.Limits.usage(owner).Buckets[bpfLimitedRateRATE_HOST_EVENTS] = bpfTokenBucket{}
	}
}

// Who comes to a port is told of once, from a remote or from nowhere; who goes to a remote is the other edge's to tell of.
func TestHostEvents(t *testing.T) {
	w := newWorld(t, underIPv4)
	f := w.followHostEvents(t)
	come := func(port string, from netip.Addr) []HostEvent {
		return []HostEvent{{Segment: "blue", Port: port, MAC: macOf(bob), WasRemote: from.IsValid(), Remote: from}}
	}
	for i, s := range []struct {
		from string
		want []HostEvent
	}{
		{"first", nil},
		{"p0", come("p0", underIPv4.remotes[0])},
		{"p0", nil},
		{"second", nil},
		{"first", nil},
		{"p1", come("p1", underIPv4.remotes[0])},
		{"p0", nil},
	} {
		w.send(t, s.from, say(bob, all))
		if got := w.mark(t, f); !slices.Equal(got, s.want) {
			t.Errorf("step %d, from %s: %+v, want %+v", i, s.from, got, s.want)
		}
	}
	w.forget(t)
	w.send(t, "p0", say(bob, all))
	if got := w.mark(t, f); !slices.Equal(got, come("p0", netip.Addr{})) {
		t.Errorf("a new host: %+v", got)
	}
}

// An address is told of when it is new at a port, or has another MAC address, or was heard from a remote.
func TestHostEventsOfAddresses(t *testing.T) {
	w := suppressing(t, ways()[0])
	f := w.followHostEvents(t)
	w.send(t, "p0", say(alice, all))
	w.send(t, "p1", say(bob, all))
	w.mark(t, f)
	reported := func(port, mac, address string) []HostEvent {
		e := HostEvent{Segment: "blue", Port: port, MAC: macOf(mac), Addr: addr(address)}
		if e.Addr.Is6() { // what its advertisement said
			e.ND = rib.NDOverride
		}
		return []HostEvent{e}
	}
	for i, s := range []struct {
		from, mac, words string
		want             []HostEvent
	}{
		{"p0", alice, "arp 10.0.1.77 ! 10.0.1.77", reported("p0", alice, "10.0.1.77")},
		{"p0", alice, "arp 10.0.1.77 ! 10.0.1.77", nil},
		{"p1", bob, "arp 10.0.1.77 ! 10.0.1.77", reported("p1", bob, "10.0.1.77")},
		{"p0", alice, "na 2001:db8:1::77 ! ff02::1", reported("p0", alice, "2001:db8:1::77")},
		{"first", carol, "arp 10.0.1.78 ! 10.0.1.78", nil},
	} {
		w.send(t, s.from, pkttest.Frame(s.mac, all, s.words))
		if got := w.mark(t, f); !slices.Equal(got, s.want) {
			t.Errorf("step %d: %+v, want %+v", i, got, s.want)
		}
	}
	w.send(t, "p1", pkttest.Frame(carol, all, "arp 10.0.1.78 ! 10.0.1.78"))
	want := append([]HostEvent{{Segment: "blue", Port: "p1", MAC: macOf(carol), WasRemote: true, Remote: underIPv4.remotes[0]}}, reported("p1", carol, "10.0.1.78")...)
	if got := w.mark(t, f); !slices.Equal(got, want) {
		t.Errorf("a host with an address that came from a remote: %+v, want %+v", got, want)
	}
}

// A sender of many addresses is told of for a while; then it is told that some were lost, once an interval at most, and Hosts has all of them.
func TestFloodOfHostEvents(t *testing.T) {
	w := ownWorld(t, underIPv4, func(c *Config, _ *fib.Tables) { c.FDB.Size = 16384 })
	f := w.followHostEvents(t)
	const senders = 8192
	begin := time.Now()
	_, events := w.counted(t, func() {
		w.do(t, func() {
			for i := range senders {
				if i >= senders/4 {
					w.emptyHostEvents(t)
				}
				mac := overlay.MAC{2, 0, 0, 3, byte(i >> 8), byte(i)}
				if _, err := runProgram(w.dp.prog.objs.FromPort, w.dev["p0"].Index, packet{bytes: pkttest.Frame(mac.String(), bob, arp)}); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	reported, zeros := 0, 0
	lost := int(events["host-event-lost"])
	for vport := time.After(10 * time.Second); zeros == 0 || reported+lost < senders; {
		select {
		case list := <-f.reported:
			for _, a := range list {
				if a == (HostEvent{}) {
					zeros++
				} else {
					reported++
				}
			}
		case <-vport:
			t.Fatalf("%d told of and %d lost of %d; that was told %d times", reported, lost, senders, zeros)
		}
	}
	if reported < senders/4 || lost == 0 || reported+lost != senders || zeros == 0 || zeros > 1+int(time.Since(begin)/lossInterval) {
		t.Errorf("%d told of and %d lost of %d; that was told %d times", reported, lost, senders, zeros)
	}
	hosts, err := w.dp.Hosts.Hosts()
	if err != nil || len(hosts) != senders {
		t.Errorf("%d hosts (%v), want %d", len(hosts), err, senders)
	}
}

package breakdown

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/lab/measure"
)

// script makes transactions and stamps from the words of a way, each with its time.
type script struct {
	now          time.Duration
	transactions []measure.Transaction
	stamps       map[string][]datapath.Stamp
}

var (
	cached = []datapath.Point{datapath.PointParsed, datapath.PointCached, datapath.PointSent}
	slow   = []datapath.Point{datapath.PointParsed, datapath.PointSwitched, datapath.PointPoliced, datapath.PointDecided, datapath.PointSent}
)

func (s *script) leg(host string, entry datapath.Point, points []datapath.Point) {
	for _, p := range append([]datapath.Point{entry}, points...) {
		s.now += 100 * time.Nanosecond
		s.stamps[host] = append(s.stamps[host], datapath.Stamp{At: s.now, Point: p})
	}
}

func (s *script) pass(d time.Duration) time.Duration {
	s.now += d
	return s.now
}

// request is one over an open connection between two hosts.
func (s *script) request(points []datapath.Point) {
	t := measure.Transaction{Sent: s.pass(time.Microsecond)}
	s.pass(900 * time.Nanosecond) // the client's stack: 1 µs with the first stamp
	s.leg(HostA, datapath.PointPort, points)
	s.leg(HostB, datapath.PointUnderlay, points)
	t.ServerReceived = s.pass(3 * time.Microsecond)
	t.ServerSent = s.pass(50 * time.Nanosecond)
	s.leg(HostB, datapath.PointPort, points)
	s.leg(HostA, datapath.PointUnderlay, points)
	t.Received = s.pass(2 * time.Microsecond)
	s.transactions = append(s.transactions, t)
}

func newScript() *script { return &script{stamps: map[string][]datapath.Stamp{}} }

func words(b *Breakdown) string {
	var out []string
	for _, s := range b.Steps {
		out = append(out, fmt.Sprintf("%s@%s %s/%d", s.Part, s.Place, s.Times[0], s.Stamps))
	}
	return strings.Join(out, ", ")
}

func TestRequests(t *testing.T) {
	s := newScript()
	for range 10 {
		s.request(cached)
	}
	b, err := TwoHosts(false).Put(s.transactions, s.stamps)
	if err != nil {
		t.Fatal(err)
	}
	want := "stack@client 1µs/0, parse@host A 100ns/1, cache@host A 100ns/1, encap@host A 100ns/1, underlay@underlay 100ns/1, " +
		"parse@host B 100ns/1, cache@host B 100ns/1, decap@host B 100ns/1, stack@server 3µs/1, program@server 50ns/0, stack@server 100ns/0, " +
		"parse@host B 100ns/1, cache@host B 100ns/1, encap@host B 100ns/1, underlay@underlay 100ns/1, " +
		"parse@host A 100ns/1, cache@host A 100ns/1, decap@host A 100ns/1, stack@client 2µs/1"
	if got := words(b); got != want || len(b.RTT) != 10 || b.LeftOut != 0 {
		t.Errorf("%d followed, %d left out:\n%s\nwant\n%s", len(b.RTT), b.LeftOut, got, want)
	}
}

// moment is a stamp of a guest.
func (s *script) moment(p datapath.Point) {
	s.now += 200 * time.Nanosecond
	s.stamps[AllGuests] = append(s.stamps[AllGuests], datapath.Stamp{At: s.now, Point: p})
}

// With stamps of guests their stacks are told from the ports and the wake-ups. What else is
// sent meanwhile is in the step that it is in, with its cost.
func TestGuests(t *testing.T) {
	s := newScript()
	for range 5 {
		one := measure.Transaction{Sent: s.pass(time.Microsecond)}
		s.moment(pointLeaves) // of another packet
		s.moment(pointLeaves)
		s.leg(HostA, datapath.PointPort, cached)
		s.moment(pointReady)
		one.ServerReceived = s.pass(time.Microsecond)
		one.ServerSent = s.pass(50 * time.Nanosecond)
		s.moment(pointLeaves)
		s.leg(HostA, datapath.PointPort, cached)
		one.Received = s.pass(time.Microsecond) // the client did not sleep
		s.transactions = append(s.transactions, one)
	}
	b, err := SameHost(false).Put(s.transactions, s.stamps)
	if err != nil {
		t.Fatal(err)
	}
	passes := "parse@host A 100ns/1, cache@host A 100ns/1, deliver@host A 100ns/1, "
	want := "stack@client 400ns/1, port@client 100ns/1, " + passes + "stack@server 200ns/1, wake@server 1µs/1, program@server 50ns/0, " +
		"stack@server 200ns/0, port@server 100ns/1, " + passes + "stack@client 1µs/1"
	if got := words(b); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// The way of a connection's opening has the client's ACK within its call, or not.
func TestConnect(t *testing.T) {
	for _, acked := range []bool{true, false} {
		s := newScript()
		for range 4 {
			one := measure.Transaction{Sent: s.pass(time.Microsecond)}
			s.leg(HostA, datapath.PointPort, slow)
			s.leg(HostA, datapath.PointPort, slow)
			if !acked {
				one.Received = s.pass(time.Microsecond)
			}
			s.leg(HostA, datapath.PointPort, cached)
			if acked {
				one.Received = s.pass(time.Microsecond)
			}
			s.transactions = append(s.transactions, one)
		}
		b, err := SameHost(true).Put(s.transactions, s.stamps)
		if err != nil {
			t.Fatal(err)
		}
		opening := ", parse@host A 100ns/1, decide@host A 100ns/1, firewall@host A 100ns/1, keep@host A 100ns/1, deliver@host A 100ns/1, "
		want := "stack@client 100ns/0" + opening + "stack@server 100ns/1" + opening
		if acked {
			want += "stack@client 100ns/1, parse@host A 100ns/1, cache@host A 100ns/1, deliver@host A 100ns/1, stack@ends 1µs/1"
		} else {
			want += "stack@client 1µs/1"
		}
		if got := words(b); got != want {
			t.Errorf("acked %t:\n%s\nwant\n%s", acked, got, want)
		}
	}
}

// What cannot be followed, and what went another way than most, is left out.
func TestLeftOut(t *testing.T) {
	for name, disturb := range map[string]func(*script){
		"another packet":     func(s *script) { s.leg(HostA, datapath.PointPort, cached) },
		"a lost packet":      func(s *script) { s.stamps[HostB] = slices.Delete(s.stamps[HostB], 4, 8) },
		"the slow path":      func(s *script) { s.transactions = s.transactions[:len(s.transactions)-1]; s.request(slow) },
		"clocks that differ": func(s *script) { s.stamps[HostA][1].At += time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			for range 9 {
				s.request(cached)
			}
			s.request(cached)
			if name == "another packet" {
				s.transactions[9].Received += time.Second
			}
			disturb(s)
			b, err := TwoHosts(false).Put(s.transactions, s.stamps)
			if err != nil || b.LeftOut != 1 || len(b.RTT) != 9 {
				t.Errorf("%+v, %v; want one left out of ten", b, err)
			}
		})
	}
	s := newScript()
	s.request(cached)
	if b, err := TwoHosts(false).Put(s.transactions, nil); err == nil {
		t.Errorf("%+v without stamps", b)
	}
}

// The steps make up the whole, whatever the times.
func TestWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	s := newScript()
	for range 200 {
		s.pass(time.Duration(random.IntN(5000)))
		if random.IntN(3) == 0 {
			s.request(slow)
		} else {
			s.request(cached)
		}
	}
	b, err := TwoHosts(false).Put(s.transactions, s.stamps)
	if err != nil {
		t.Fatal(err)
	}
	for i, rtt := range b.RTT {
		sum := time.Duration(0)
		for _, step := range b.Steps {
			sum += step.Times[i]
		}
		if sum != rtt {
			t.Fatalf("transaction %d: steps make %s of %s", i, sum, rtt)
		}
	}
	stamps := 0
	for _, step := range b.Steps {
		stamps += step.Stamps
	}
	if stamps != 16 || !slices.ContainsFunc(b.Steps, func(s Step) bool { return s.Part == CachePart }) {
		t.Errorf("%d stamps a transaction", stamps)
	}
}

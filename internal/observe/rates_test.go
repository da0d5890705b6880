package observe

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
)

// Rates are differences of exact numbers, of the same row, over the time between.
func TestRates(t *testing.T) {
	var rates Rates
	ports := func(at time.Duration, list ...api.PortInfo) string {
		t.Helper()
		rates.Next(started.Add(at))
		var got bytes.Buffer
		if err := Ports(Writer{Writer: &got, Rates: &rates}, list); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(got.String()), " ")
	}
	const header = "NAME INTERFACE VLAN SEGMENT STATE MTU RX-PACKETS /S RX-BYTES /S TX-PACKETS /S TX-BYTES /S DROPS /S "
	a := api.PortInfo{Name: "a", Interface: "eth0", Segment: "red", State: "up", RxPackets: 1_000_000, RxBytes: 5}
	if got, want := ports(0, a), header+"a eth0 - red up - 1.00M - 5B - 0 - 0B - 0 -"; got != want {
		t.Errorf("first:\n%s\n%s", got, want)
	}
	// The sum still reads 1.00M; the rate is of the 20 packets.
	a.RxPackets += 20
	b := api.PortInfo{Name: "b", Interface: "eth1", Segment: "red", State: "up"}
	if got, want := ports(2*time.Second, b, a), header+"b eth1 - red up - 0 - 0B - 0 - 0B - 0 - a eth0 - red up - 1.00M 10 5B 0 0 0 0B 0 0 0"; got != want {
		t.Errorf("second:\n%s\n%s", got, want)
	}
	a.RxPackets = 0 // the data path was loaded anew
	if got, want := ports(3*time.Second, a), header+"a eth0 - red up - 0 - 5B 0 0 0 0B 0 0 0"; got != want {
		t.Errorf("third:\n%s\n%s", got, want)
	}
}

// A row is the same though its age is another.
func TestRatesOfWhatAges(t *testing.T) {
	var rates Rates
	s := sessionList().Sessions[0]
	var last string
	for i := range 2 {
		rates.Next(started.Add(time.Duration(i) * time.Second))
		s.Age, s.Idle, s.OrigBytes = s.Age+1, s.Idle+1, s.OrigBytes+uint64(100*i)
		var got bytes.Buffer
		if err := Sessions(Writer{Writer: &got, Wide: true, Rates: &rates}, api.SessionList{Sessions: []api.SessionInfo{s}}); err != nil {
			t.Fatal(err)
		}
		last = got.String()
	}
	if !strings.Contains(last, " 100 ") {
		t.Errorf("no rate of 100 bytes a second:\n%s", last)
	}
}

func TestRatesOfStatus(t *testing.T) {
	var rates Rates
	s := busy()
	var got bytes.Buffer
	for range 2 {
		rates.Next(s.Started.Add(time.Duration(s.Dropped) * time.Second))
		s.Dropped++
		got.Reset()
		if err := Status(Writer{Writer: &got, Rates: &rates}, s, started); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(got.String(), "44 packets (1.0/s)") || !strings.Contains(got.String(), "look-ups (0/s)") {
		t.Errorf("no rates in\n%s", got.String())
	}
}

// Two edges on one page do not mix their counters.
func TestRatesOfSeveral(t *testing.T) {
	r, at := &Rates{}, time.Unix(0, 0)
	for i := range uint64(2) {
		r.Next(at.Add(time.Duration(i) * time.Second))
		a, b := r.Of("a").rate("packets", 10*i), r.Of("b").rate("packets", 5*i)
		if i == 1 && (a != "10" || b != "5.0") {
			t.Errorf("%s/s and %s/s, want 10 and 5.0", a, b)
		}
	}
	if (*Rates)(nil).Of("a") != nil {
		t.Error("rates that nobody wants")
	}
}

package speaker

import (
	"net/netip"
	"testing"
	"time"
)

// Sessions are looked at often only while a neighbour is about to have said all.
func TestTickEvery(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		name string
		of   *neighbour
		want time.Duration
	}{
		{"down", &neighbour{}, absent},
		{"up", &neighbour{up: true}, settling},
		{"complete", &neighbour{up: true, complete: true}, settled},
		{"in a pause", &neighbour{revive: time.Now()}, absent},
	} {
		s := &sessions{neighbours: map[netip.Addr]*neighbour{a: {up: true, complete: true}, b: c.of}}
		if got := s.tickEvery(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

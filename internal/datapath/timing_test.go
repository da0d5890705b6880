package datapath

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
)

// stampsOf runs f and returns the points that its packets passed.
func (w *world) stampsOf(t *testing.T, f func()) []Point {
	t.Helper()
	s, err := OpenStamps(w.cfg.PinRoot, w.cfg.Name)
	must(t, err)
	defer s.Close()
	must(t, s.Clear())
	f()
	stamps, lost, err := s.Read()
	if err != nil || lost > 0 {
		t.Fatalf("%d stamps lost, %v", lost, err)
	}
	slices.SortStableFunc(stamps, func(a, b Stamp) int { return int(a.At - b.At) })
	var points []Point
	for _, stamp := range stamps {
		points = append(points, stamp.Point)
	}
	return points
}

// A packet passes the points in the order of the stages; a cached decision skips those of the slow path.
func TestStamps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, underIPv4, func(c *Config, _ *fib.Tables) { c.Timing = true })
	slow := []Point{PointParsed, PointSwitched, PointDecided, PointSent} // no port has a firewall
	fast := []Point{PointParsed, PointCached, PointSent}
	for range 2 { // who is where
		w.send(t, "first", say(carol, alice))
		w.send(t, "p0", say(alice, carol))
	}
	for _, c := range []struct {
		what, from string
		frame      []byte
		want       []Point
	}{
		{"a flow's first packet", "p0", say(alice, bob), append([]Point{PointPort}, slow...)},
		{"the next into the tunnel", "p0", say(alice, carol), append([]Point{PointPort}, fast...)},
		{"the next out of it", "first", say(carol, alice), append([]Point{PointUnderlay}, fast...)},
		{"what is refused", "p0", say(alice, carol)[:36], []Point{PointPort}},
	} {
		got := w.stampsOf(t, func() { w.send(t, c.from, c.frame) })
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: points %v, want %v", c.what, got, c.want)
		}
	}
}

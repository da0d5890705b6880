package gateway

import (
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// steering remembers what was said last.
type steering struct{ said bfd.Service }

func (s *steering) SetService(service bfd.Service) { s.said = service }
func (s *steering) SteerEgress([]fib.Egress) error { return nil }

// Two gateways that held each other back stop at the same moment, before either has heard of it. Neither
// leaves its work to the other; it does when the other goes on holding it back.
func TestHeldForAMoment(t *testing.T) {
	up := bfd.Result{State: bfd.Up, Since: noon, ServiceSince: noon}
	holds := up
	holds.Holds = true
	both := bfd.Result{State: bfd.Down, Held: true, Holds: true, Since: noon, ServiceSince: noon}
	config := configOf(gw1)
	config.Egress.Gateways[0].Replication = nil
	r := NewRole(slog.New(slog.DiscardHandler), &Replication{})
	for _, c := range []struct {
		after  time.Duration
		result bfd.Result
		own    nat.State
		said   bfd.Service
	}{
		{0, up, nat.Gone, bfd.OutOfService}, // it asks for next hops
		{300, up, nat.Serving, bfd.OutOfService},
		{400, up, nat.Serving, bfd.InService},
		{1000, both, nat.Serving, bfd.InService},
		{2000, holds, nat.Serving, bfd.InService}, // its own hold ended, the word of the other's has not come
		{2007, up, nat.Serving, bfd.InService},
		{3000, holds, nat.Serving, bfd.InService},
		{3499, holds, nat.Serving, bfd.InService},
		{3500, holds, nat.Gone, bfd.OutOfService},
		{4000, holds, nat.Gone, bfd.OutOfService},
		{5000, up, nat.Serving, bfd.OutOfService},
		{5100, up, nat.Serving, bfd.InService},
	} {
		var to steering
		f := Facts{
			Config: config, HostState: host.State{Links: map[string]host.Link{"wan0": {Up: true}}},
			Results: map[overlay.Pair]bfd.Result{pair: c.result}, Watched: noon,
		}
		if _, err := r.Move(f, &to, at(c.after*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if own := r.States()[gw1]; own.State != c.own || to.said != c.said {
			t.Errorf("after %d ms it is %s (%s) and says %s, want %s and %s", c.after, own.State, own.Why, to.said, c.own, c.said)
		}
	}
}

// Events of liveness and of time save at once; each write is whole.
func TestSavesAtOnce(t *testing.T) {
	r := NewRole(slog.New(slog.DiscardHandler), &Replication{})
	dir := t.TempDir()
	if err := r.Join(filepath.Join(dir, "egress"), filepath.Join(dir, "drain"), false); err != nil {
		t.Fatal(err)
	}
	var owned sync.WaitGroup
	for i := range 8 {
		owned.Go(func() {
			for j := range 50 {
				r.SetDrain(t.Context(), &Drain{Asked: at(time.Duration(i*j) * time.Second)})
				if err := r.Save(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	owned.Wait()
}

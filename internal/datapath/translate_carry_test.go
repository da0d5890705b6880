package datapath

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
)

// Parts of the pool never overlap, hold what they shall, and are found again when freed.
func TestPoolParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := &addressPool{taken: make([]bool, 200)}
	var parts []poolPart
	free := func(part poolPart) { clear(n.taken[part.first : part.first+part.count]) }
	for range 5000 {
		if len(parts) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(parts))
			free(parts[i])
			parts = slices.Delete(parts, i, i+1)
			continue
		}
		part, err := n.find(uint32(1 + r.IntN(40)))
		if err != nil {
			continue
		}
		for i := range part.count {
			if n.taken[part.first+i] {
				t.Fatalf("part %+v is another's", part)
			}
		}
		n.mark(part)
		parts = append(parts, part)
	}
	for _, part := range parts {
		free(part)
	}
	if slices.Contains(n.taken, true) {
		t.Error("something stays taken")
	}
	if part, err := n.find(200); err != nil || part.first != 0 {
		t.Errorf("all of an empty pool: %+v, %v", part, err)
	}
}

// Sessions survive a restart, with tables of the same and of other sizes; as many as fit.
func TestNATSessionsSurviveARestart(t *testing.T) {
	t.Parallel()
	w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 300 })
	var records []NATRecord
	for i := range 200 {
		records = append(records, natRecord("web", i))
	}
	w.putNATSessions(t, records...)
	for _, c := range []struct {
		size uint32
		want int
	}{{300, 200}, {1000, 200}, {250, 200}, {64, 64}} {
		egress := *w.cfg.Egress
		egress.NATSessions = c.size
		w.cfg.Egress = &egress
		w.reopen(t)
		w.apply(t)
		natSessions, returns := w.allNATSessions(t)
		if least := c.want * 3 / 4; len(natSessions) > c.want || len(natSessions) < least || len(returns) != len(natSessions) {
			t.Errorf("table of %d: %d sessions and %d returns, want %d", c.size, len(natSessions), len(returns), c.want)
		}
		w.checkReturns(t)
		if size := w.dp.NATSessions.maps.NatSessions.MaxEntries(); size != c.size {
			t.Errorf("the table has %d places, want %d", size, c.size)
		}
	}
}

// checkReturns holds that each session has its return.
func (w *world) checkReturns(t testing.TB) {
	t.Helper()
	natSessions, returns := w.allNATSessions(t)
	for k, b := range natSessions {
		if o, ok := returns[returnKey(&k, &b)]; !ok || o.Addr != k.Inside || o.Port != k.InsidePort {
			t.Errorf("session %s has the return %+v, %t", natKeyWords(k), o, ok)
		}
	}
	if len(returns) != len(natSessions) {
		t.Errorf("%d sessions and %d returns", len(natSessions), len(returns))
	}
}

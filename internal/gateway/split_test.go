package gateway

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// Gateways that do not hear each other both serve. Each says so, and who hears both makes a problem of it, but not while
// one of them is only about to be found dead.
func TestSplitGateways(t *testing.T) {
	gw3 := netip.MustParseAddr("192.0.2.3")
	third := overlay.Pair{Local: tep, Remote: gw3}
	up, down := bfd.Result{State: bfd.Up, Since: noon, ServiceSince: noon}, bfd.Result{State: bfd.Down, Since: noon, ServiceSince: noon}
	apart := up
	apart.Service = bfd.Apart
	source := threeGateways()
	source.Egress.Gateways[0].Members = source.Egress.Gateways[0].Members[1:]
	for _, c := range []struct {
		name       string
		two, three bfd.Result
		problems   int
	}{
		{"both hear each other", up, up, 0},
		{"neither hears the other", apart, apart, 2},
		{"one does not hear the other", apart, up, 1},
		{"the other is dead", apart, down, 0},
	} {
		w := electionInput{config: source, results: map[overlay.Pair]bfd.Result{pair: c.two, third: c.three}, watched: true, now: noon}
		all := w.evaluate()
		if c.two == apart && all[gw2].State != nat.Serving {
			t.Errorf("%s: the first is %s", c.name, all[gw2].State)
		}
		count := func(after bool) (n int) {
			now := noon
			if after {
				now = noon.Add(Patience)
			}
			for _, p := range groupProblems(source, all, now) {
				if strings.Contains(p.Text, "does not hear another gateway") {
					n++
				}
			}
			return n
		}
		if n := count(false); n != 0 {
			t.Errorf("%s: %d problems at once", c.name, n)
		}
		if n := count(true); n != c.problems {
			t.Errorf("%s: %d problems, want %d", c.name, n, c.problems)
		}
	}
	for name, c := range map[string]struct {
		result bfd.Result
		want   bfd.Service
	}{
		"it hears the other":                   {up, bfd.InService},
		"it does not":                          {down, bfd.Apart},
		"the other says itself that it is out": {bfd.Result{State: bfd.Up, Service: bfd.OutOfService, Since: noon, ServiceSince: noon}, bfd.InService},
		"the other is held back":               {bfd.Result{State: bfd.Down, Held: true, Since: noon, ServiceSince: noon}, bfd.InService},
	} {
		w := electionInput{config: threeGateways(), results: map[overlay.Pair]bfd.Result{pair: c.result, third: up}, watched: true, now: noon}
		if got := service(nat.Serving, w.apart(w.evaluate())); got != c.want {
			t.Errorf("%s: this gateway says %s, want %s", name, got, c.want)
		}
	}
	if got := service(nat.Gone, true); got != bfd.OutOfService {
		t.Errorf("who serves nobody says %s", got)
	}
}

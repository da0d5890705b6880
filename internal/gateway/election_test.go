package gateway

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	gw1, gw2 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2") // this edge is the first
	remoteB  = netip.MustParseAddr("192.0.2.4")
	tep      = gw1
	pair     = overlay.Pair{Local: gw1, Remote: gw2}
)

var noon = time.Unix(50_000, 0)

func at(d time.Duration) time.Time { return noon.Add(d) }

// threeGateways are this edge and two more, of which the third has two tunnel endpoints.
func threeGateways() overlay.Edge {
	gw3 := netip.MustParseAddr("192.0.2.3")
	return overlay.Edge{
		Name: "a", Underlay: overlay.Underlay{TEP: tep, Liveness: &overlay.Liveness{}},
		Remotes: []overlay.Remote{{Name: "gw2", Addrs: []netip.Addr{gw2}}, {Name: "gw3", Addrs: []netip.Addr{gw3, remoteB}}},
		Egress:  &overlay.Egress{Gateways: []overlay.GatewayGroup{{Name: "gws", Members: []netip.Addr{gw1, gw2, gw3}}}},
	}
}

func TestEvaluate(t *testing.T) {
	gw3 := netip.MustParseAddr("192.0.2.3")
	a3, b3 := overlay.Pair{Local: tep, Remote: gw3}, overlay.Pair{Local: tep, Remote: remoteB}
	up := func(s bfd.Service, since, service time.Duration) bfd.Result {
		return bfd.Result{State: bfd.Up, Since: at(since), Service: s, ServiceSince: at(service)}
	}
	down := func(since time.Duration) bfd.Result {
		return bfd.Result{State: bfd.Down, Since: at(since), Why: "no packet for 150ms"}
	}
	unknown := bfd.Result{State: bfd.Unknown, Since: at(0).Add(-Patience)}
	young := bfd.Result{State: bfd.Unknown, Since: at(0)}
	for _, c := range []struct {
		name             string
		results          map[overlay.Pair]bfd.Result
		off, patient     bool
		remembered, lone bool
		two, three       nat.State
		why              string // of the third
		at               time.Duration
	}{
		{name: "without liveness all serve", off: true, why: "BFD is off"},
		{name: "nobody has answered yet", patient: true, results: map[overlay.Pair]bfd.Result{pair: unknown, a3: unknown, b3: unknown}, why: "not answered yet"},
		{name: "nobody ever did, but this edge is a gateway", results: map[overlay.Pair]bfd.Result{pair: unknown, a3: unknown, b3: unknown},
			two: nat.Gone, three: nat.Gone, why: "never answered"},
		{name: "nobody ever did, and there is no other", lone: true, results: map[overlay.Pair]bfd.Result{pair: unknown, a3: unknown, b3: unknown}, why: "not answered yet"},
		{name: "one answers, the other never did", lone: true, results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: unknown, b3: unknown}, three: nat.Gone, why: "never answered"},
		{name: "one answers, the other is new", lone: true, results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: young, b3: young}, why: "not answered yet"},
		{name: "the former process knew", patient: true, remembered: true, results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: unknown, b3: unknown},
			three: nat.Gone, why: "when this process started"},
		{name: "one of two paths is enough", results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: up(0, 5, 2), b3: down(9)}, why: "reports so", at: 5},
		{name: "all paths are down: since the last", results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: down(7), b3: down(9)}, three: nat.Gone, why: "no packet", at: 9},
		{name: "it failed again while its path was held back", results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: down(7), b3: {State: bfd.Down, Since: at(5), Turned: at(12), Why: "no packet for 150ms"}},
			three: nat.Gone, why: "no packet", at: 12},
		{name: "it answers while its path is held back", results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: {State: bfd.Down, Held: true, Since: at(5), Turned: at(12)}, b3: down(9)},
			why: "held back", at: 12},
		{name: "it drains", results: map[overlay.Pair]bfd.Result{pair: up(bfd.OutOfService, 1, 4), a3: up(bfd.Draining, 1, 8), b3: up(bfd.Draining, 1, 6)},
			two: nat.Gone, three: nat.Draining, why: "reports so", at: 8},
		{name: "the worst that it says counts", results: map[overlay.Pair]bfd.Result{pair: up(0, 1, 0), a3: up(bfd.InService, 1, 8), b3: up(bfd.OutOfService, 1, 6)},
			three: nat.Gone, why: "reports so", at: 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := threeGateways()
			if c.lone {
				config.Egress.Gateways[0].Members = config.Egress.Gateways[0].Members[1:]
			}
			w := electionInput{config: config, results: c.results, watched: !c.off, patient: c.patient, now: at(0)}
			if c.remembered {
				w.remembered = map[netip.Addr]bool{gw3: true}
			}
			all := w.evaluate()
			if _, ok := all[gw1]; ok {
				t.Error("it judges itself")
			}
			if all[gw2].State != c.two || all[gw3].State != c.three {
				t.Errorf("gateways are %s and %s, want %s and %s", all[gw2].State, all[gw3].State, c.two, c.three)
			}
			if j := all[gw3]; !strings.Contains(j.Why, c.why) || j.At != at(c.at) {
				t.Errorf("the third is so since %s because %q, want %s, %q", j.At.Sub(noon), j.Why, c.at, c.why)
			}
		})
	}
}

func TestIsolated(t *testing.T) {
	other, third := overlay.Pair{Local: tep, Remote: remoteB}, overlay.Pair{Local: tep, Remote: netip.MustParseAddr("192.0.2.3")}
	for _, c := range []struct {
		name    string
		results map[overlay.Pair]bfd.Result
		change  func(*electionInput)
		want    bool
	}{
		{"all that answered are down", map[overlay.Pair]bfd.Result{pair: {State: bfd.Down}, other: {State: bfd.Down}, third: {State: bfd.Unknown}}, nil, true},
		{"the only one that answered is down", map[overlay.Pair]bfd.Result{pair: {State: bfd.Down}, third: {State: bfd.Unknown}}, nil, false},
		{"one remote with two paths is down", map[overlay.Pair]bfd.Result{other: {State: bfd.Down}, third: {State: bfd.Down}}, nil, false},
		{"one is up", map[overlay.Pair]bfd.Result{pair: {State: bfd.Down}, other: {State: bfd.Up}}, nil, false},
		{"nobody ever answered", map[overlay.Pair]bfd.Result{pair: {State: bfd.Unknown}}, nil, false},
		{"no sessions", nil, nil, false},
		{"nobody else would do the work", map[overlay.Pair]bfd.Result{pair: {State: bfd.Down}, other: {State: bfd.Down}}, func(w *electionInput) {
			w.config.Egress.Gateways[0].Members = []netip.Addr{gw1}
		}, false},
	} {
		w := electionInput{config: threeGateways(), results: c.results, watched: true}
		if c.change != nil {
			c.change(&w)
		}
		if got := w.isolated(); got != c.want {
			t.Errorf("%s: isolated %t, want %t", c.name, got, c.want)
		}
	}
}

// Who goes says so first, who comes has its tables first.
func TestOwnState(t *testing.T) {
	type step struct {
		after            time.Duration
		target           nat.State
		reported, heeded nat.State
		again            time.Duration // 0: not by itself
	}
	const s, d, g = nat.Serving, nat.Draining, nat.Gone
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"the first word is no change", []step{{0, g, g, g, 0}}},
		{"drain and back", []step{
			{0, s, s, s, 0},
			{1000, d, d, s, 1200}, {1100, d, d, s, 1200}, {1200, d, d, d, 0},
			{2000, s, d, s, 2100}, {2050, s, d, s, 2100}, {2100, s, s, s, 0},
		}},
		{"a drain that is over", []step{{0, s, s, s, 0}, {1000, d, d, s, 1200}, {1500, d, d, d, 0}, {2000, g, g, g, 0}}},
		{"an uplink fails and returns", []step{{0, s, s, s, 0}, {1000, g, g, g, 0}, {2000, s, g, s, 2100}, {2100, s, s, s, 0}}},
		{"a drain is taken back before anybody heeds it", []step{{0, s, s, s, 0}, {1000, d, d, s, 1200}, {1100, s, d, s, 1200}, {1200, s, s, s, 0}}},
		{"an uplink fails just after it returned", []step{{0, g, g, g, 0}, {1000, s, g, s, 1100}, {1050, g, g, g, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var own ownState
			for i, want := range c.steps {
				var again time.Time
				own, again = own.follow(want.target, "why", at(want.after*time.Millisecond))
				if own.reported != want.reported || own.heeded != want.heeded {
					t.Errorf("step %d: says %s and heeds %s, want %s and %s", i, own.reported, own.heeded, want.reported, want.heeded)
				}
				if next := at(want.again * time.Millisecond); want.again != 0 && again != next || want.again == 0 && !again.IsZero() {
					t.Errorf("step %d: again at %s, want %s", i, again.Sub(noon), want.again*time.Millisecond)
				}
			}
		})
	}
}

func TestDrainState(t *testing.T) {
	wish := &Drain{Asked: noon, Deadline: at(time.Minute)}
	for _, c := range []struct {
		d     *Drain
		after time.Duration
		want  nat.State
	}{
		{nil, 0, nat.Serving}, {wish, 0, nat.Draining}, {wish, time.Minute, nat.Gone}, {&Drain{Asked: noon, Deadline: at(time.Minute), Done: true}, 0, nat.Gone},
	} {
		if got, why := c.d.state(at(c.after)); got != c.want || why == "" {
			t.Errorf("%+v after %s: %s (%q), want %s", c.d, c.after, got, why, c.want)
		}
	}
}

// A gateway that answers again is relied on by the others when it has done so for a while;
// before that only where nobody else is there. Sources go by what it says.
func TestHeldBack(t *testing.T) {
	gw3 := netip.MustParseAddr("192.0.2.3")
	third := overlay.Pair{Local: tep, Remote: gw3}
	back := bfd.Result{State: bfd.Down, Held: true, Since: noon, ServiceSince: noon, Why: "it answers, and is held back"}
	out := back
	out.Service = bfd.OutOfService
	up := bfd.Result{State: bfd.Up, Since: noon, ServiceSince: noon}
	holds := up
	holds.Holds = true
	for _, c := range []struct {
		name             string
		two, three       bfd.Result
		source           bool // this edge is no gateway
		own              nat.State
		one, second, end nat.State
	}{
		{"one is held back, another serves", back, up, false, nat.Serving, nat.Serving, nat.Gone, nat.Serving},
		{"one is held back, this edge serves", back, bfd.Result{State: bfd.Down, Since: noon}, false, nat.Serving, nat.Serving, nat.Gone, nat.Gone},
		{"all others are held back, this one is gone", back, back, false, nat.Gone, nat.Gone, nat.Serving, nat.Serving},
		{"one that is held back serves nobody", back, out, false, nat.Gone, nat.Gone, nat.Serving, nat.Gone},
		{"another holds this one back, and serves", holds, up, false, nat.Serving, nat.Gone, nat.Serving, nat.Serving},
		{"this one and the others are held back", back, func() bfd.Result { r := back; r.Holds = true; return r }(), false, nat.Serving, nat.Serving, nat.Serving, nat.Serving},
		{"a source goes where it is told", back, up, true, nat.Serving, 0, nat.Serving, nat.Serving},
		{"and not where it is told not to", out, up, true, nat.Serving, 0, nat.Gone, nat.Serving},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := threeGateways()
			if c.source {
				config.Egress.Gateways[0].Members = config.Egress.Gateways[0].Members[1:]
			}
			w := electionInput{config: config, results: map[overlay.Pair]bfd.Result{pair: c.two, third: c.three}, watched: true, now: noon}
			all := w.evaluate()
			if !c.source {
				all[gw1] = Status{State: c.own, held: w.heldByOthers()}
				settleHeld(config, all)
				if all[gw1].State != c.one {
					t.Errorf("this edge is %s, want %s", all[gw1].State, c.one)
				}
			}
			if all[gw2].State != c.second || all[gw3].State != c.end {
				t.Errorf("the others are %s and %s, want %s and %s", all[gw2].State, all[gw3].State, c.second, c.end)
			}
			if w.isolated() {
				t.Error("somebody answers, and it thinks itself alone")
			}
		})
	}
}

// What a gateway says of itself comes by the session of the pair: its next hops say nothing of that.
func TestNextHopsElectNobody(t *testing.T) {
	byHop := pair
	byHop.Via = overlay.Via{Interface: "eth0"}
	r := NewRole(slog.New(slog.DiscardHandler), &Replication{})
	results := map[overlay.Pair]bfd.Result{
		pair: {State: bfd.Up, Service: bfd.Draining}, byHop: {State: bfd.Up, Since: noon},
	}
	if got := r.Evaluate(Facts{Config: threeGateways(), Results: results}, noon).State(gw2); got != nat.Draining {
		t.Errorf("the gateway is %s, want draining", got)
	}
	results[pair] = bfd.Result{State: bfd.Down, Since: noon}
	if got := r.Evaluate(Facts{Config: threeGateways(), Results: results}, noon).State(gw2); got != nat.Gone {
		t.Errorf("the gateway is %s, want gone", got)
	}
}

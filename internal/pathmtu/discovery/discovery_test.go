package discovery

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
)

// What nobody confirms ends, and so does what a probe decides later.
func TestObeyedReportsEnd(t *testing.T) {
	pair := overlay.Pair{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2")}
	now := time.Now()
	for name, c := range map[string]struct {
		age   time.Duration
		found pathmtu.Result
		want  int
	}{
		"young":                {time.Minute, pathmtu.Result{State: pathmtu.Unanswered}, 1400},
		"old":                  {reportLife + time.Second, pathmtu.Result{State: pathmtu.Unanswered}, 0},
		"answered since":       {time.Minute, pathmtu.Result{State: pathmtu.Confirmed, MTU: 1550, When: now}, 1550},
		"answered before":      {time.Minute, pathmtu.Result{State: pathmtu.Confirmed, MTU: 1550, When: now.Add(-time.Hour)}, 1400},
		"smaller than it said": {time.Minute, pathmtu.Result{State: pathmtu.Unanswered, MTU: 1390}, 1390},
	} {
		d, probed := New(Options{}), map[overlay.Pair]int{}
		d.obeyed[pair] = report{1400, now.Add(-c.age)}
		if c.found.MTU > 0 {
			probed[pair] = c.found.MTU
		}
		d.obey(probed, map[overlay.Pair]pathmtu.Result{pair: c.found}, now)
		if probed[pair] != c.want {
			t.Errorf("%s: %d, want %d", name, probed[pair], c.want)
		}
	}
}

func TestJointPathMTU(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	confirmed := func(mtu int, when time.Time) pathmtu.Result {
		return pathmtu.Result{State: pathmtu.Confirmed, MTU: mtu, When: when}
	}
	for _, c := range []struct {
		name       string
		a, b, want pathmtu.Result
	}{
		{"the least", confirmed(1500, early), confirmed(1400, late), confirmed(1400, early)},
		{"one is silent", confirmed(1500, late), pathmtu.Result{State: pathmtu.Unanswered, When: early}, confirmed(1500, late)},
		{"one is silent now", confirmed(1500, late), pathmtu.Result{State: pathmtu.Unanswered, MTU: 1400, When: early}, confirmed(1400, late)},
		{"one is not known yet", confirmed(1500, late), pathmtu.Result{State: pathmtu.Probing}, pathmtu.Result{State: pathmtu.Probing, MTU: 1500}},
		{"both are silent", pathmtu.Result{State: pathmtu.Unanswered, When: early}, pathmtu.Result{State: pathmtu.Unanswered, When: early},
			pathmtu.Result{State: pathmtu.Unanswered, When: early}},
	} {
		for _, got := range []pathmtu.Result{joint(c.a, c.b), joint(c.b, c.a)} {
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	}
}

// fakeProbes have the results that a test says.
type fakeProbes struct {
	results   map[netip.Addr]pathmtu.Result
	ceilings  map[netip.Addr]int
	rechecked []int
	used      []netip.Addr
	closed    bool
}

// fakeTraffic is how many packets paths have.
type fakeTraffic map[overlay.Pair]datapath.Counters

func (f fakeTraffic) Paths() (map[overlay.Pair]datapath.Counters, error) { return f, nil }

// Paths that had packets since the last look are confirmed, by whatever interface they leave.
func TestConfirmUsed(t *testing.T) {
	local, other, busy, idle := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	first, second, elsewhere := &fakeProbes{}, &fakeProbes{}, &fakeProbes{}
	d := New(Options{Report: func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}})
	d.probes = map[probeSource]followed{{tep: local}: {Probes: first}, {tep: local, ifindex: 3}: {Probes: second}, {tep: other}: {Probes: elsewhere}}
	traffic := fakeTraffic{{Local: local, Remote: busy}: {Packets: 5}, {Local: local, Remote: idle}: {}}
	for range 3 {
		d.ConfirmUsed(traffic)
		d.looked = time.Time{}
	}
	traffic[overlay.Pair{Local: local, Remote: busy}] = datapath.Counters{Packets: 6}
	d.ConfirmUsed(traffic)
	d.ConfirmUsed(fakeTraffic{{Local: local, Remote: idle}: {Packets: 1}}) // too soon
	want := []netip.Addr{busy, busy}
	if diff := cmp.Diff([][]netip.Addr{want, want, nil}, [][]netip.Addr{first.used, second.used, elsewhere.used}, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

func (p *fakeProbes) Set(ceilings map[netip.Addr]int)        { p.ceilings = ceilings }
func (p *fakeProbes) Results() map[netip.Addr]pathmtu.Result { return p.results }
func (p *fakeProbes) Changed() <-chan struct{}               { return nil }
func (p *fakeProbes) Recheck(_ netip.Addr, reported int)     { p.rechecked = append(p.rechecked, reported) }
func (p *fakeProbes) Used(remote netip.Addr)                 { p.used = append(p.used, remote) }
func (p *fakeProbes) Close() error                           { p.closed = true; return nil }

// fakeReports are those of one path, until it is decided.
type fakeReports struct {
	pair   overlay.Pair
	report datapath.PathReport
}

func (r *fakeReports) DecidePath(overlay.Pair) error { r.report = datapath.PathReport{}; return nil }
func (r *fakeReports) PathReports() (map[overlay.Pair]datapath.PathReport, error) {
	if r.report == (datapath.PathReport{}) {
		return nil, nil
	}
	return map[overlay.Pair]datapath.PathReport{r.pair: r.report}, nil
}

// A probe decides about a report: it is asked once, and what it found since counts. Where it cannot, a message that embeds
// a VNI is obeyed, and no other.
func TestReports(t *testing.T) {
	tep, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	pair := overlay.Pair{Local: tep, Remote: remote}
	tunnel := overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}
	config := overlay.Edge{
		Underlay: overlay.Underlay{Interfaces: []string{"eth0"}, TEP: tep, ProbeMTU: true},
		Segments: []overlay.Segment{{Name: "blue", VNI: 100, Tunnel: tunnel, Remotes: []netip.Addr{remote}}},
	}
	hostState := host.State{
		TEPs: map[netip.Addr]bool{tep: true}, Links: map[string]host.Link{"eth0": {Name: "eth0", Index: 2, Up: true}},
		Routes: map[overlay.Pair]host.Path{pair: {NextHop: host.NextHop{Ifindex: 2, Addr: remote}, Interface: "eth0", MTU: 1550}},
	}
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name      string
		found     pathmtu.Result
		report    datapath.PathReport
		outcome   string // "": it waits for a probe
		obeyed    bool
		rechecked int
	}{
		{"a probe is under way", pathmtu.Result{State: pathmtu.Probing}, datapath.PathReport{MTU: 1400}, "", false, 1},
		{"found to be as small", pathmtu.Result{State: pathmtu.Confirmed, MTU: 1400, When: later}, datapath.PathReport{MTU: 1400}, reportConfirmed, false, 0},
		{"found to be larger", pathmtu.Result{State: pathmtu.Confirmed, MTU: 1550, When: later}, datapath.PathReport{MTU: 1400, VNIMTU: 1400}, reportRefuted, false, 0},
		{"no answer, and a VNI", pathmtu.Result{State: pathmtu.Unanswered}, datapath.PathReport{MTU: 1400, VNIMTU: 1400}, reportUnconfirmed, true, 0},
		{"no answer, and none", pathmtu.Result{State: pathmtu.Unanswered}, datapath.PathReport{MTU: 1400}, reportRefused, false, 0},
	} {
		probes, reports := &fakeProbes{results: map[netip.Addr]pathmtu.Result{remote: c.found}}, &fakeReports{pair, c.report}
		d := New(Options{
			Open: func(netip.Addr, int, *slog.Logger) (Probes, error) { return probes, nil },
			Log:  slog.New(slog.DiscardHandler), Report: func(what string, err error) {
				if err != nil {
					t.Errorf("%s: %s: %v", c.name, what, err)
				}
			},
		})
		d.SetApplied(d.Probe(config, hostState))
		if probes.ceilings[remote] != 1550 {
			t.Errorf("%s: ceilings %v, want the route's", c.name, probes.ceilings)
		}
		first, again := d.Follow(reports, config, hostState), d.Follow(reports, config, hostState)
		if first != c.obeyed || again || len(probes.rechecked) != c.rechecked || d.IsWaiting() != (c.rechecked > 0) {
			t.Errorf("%s: obeyed %t, then %t, rechecked %v, waiting %t", c.name, first, again, probes.rechecked, d.IsWaiting())
		}
		r, err := d.Read(reports)
		for _, o := range r.Outcomes() {
			if want := o.Name == c.outcome; err != nil || o.Times == 1 != want {
				t.Errorf("%s: %d times %s, %v", c.name, o.Times, o.Name, err)
			}
		}
		if got := d.Probe(config, hostState)[pair]; c.obeyed && got != 1400 {
			t.Errorf("%s: tables are to obey %d", c.name, got)
		}
		if err := d.Close(); err != nil || !probes.closed {
			t.Errorf("%s: closed %t, %v", c.name, probes.closed, err)
		}
	}
}

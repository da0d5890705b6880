package attack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"attack"}, strings.Fields(args)...)...)
	return &c.Attack, err
}

func TestAttackValidate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", ""},
		{"--quick", ""},
		{"--targets selvage --attacks mac-flood,route-flood --bare", ""},
		{"--targets fast", `unknown target "fast"`},
		{"--targets kernel,kernel", "named twice"},
		{"--attacks moon", `no attack "moon"`},
		{"--attacks mac-flood,mac-flood", "named twice"},
		{"--rounds=-1", "--rounds"},
		{"--slice 1ms", "--slice"},
		{"--cycles=-1", "--cycles"},
		{"--ageing 1500ms", "--ageing"},
		{"--recovery 10ms", "--recovery"},
	} {
		_, err := parse(tt.args)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// A quick run attacks all targets in five ways, and is planned to end within four minutes with room for
// targets that need an ageing time to recover.
func TestAttackQuick(t *testing.T) {
	c, err := parse("--quick")
	if err != nil {
		t.Fatal(err)
	}
	pace := experiment.Pace{First: attackExtra}
	if left := pace.Left(c.plan()); left > 4*time.Minute {
		t.Errorf("--quick is planned to take %s", left)
	}
	if len(c.Attacks) != 5 || c.Ageing != 5*time.Second || len(c.plan()) != 5*3*c.Rounds {
		t.Errorf("%d attacks, ageing %s, %d samples", len(c.Attacks), c.Ageing, len(c.plan()))
	}
}

// Every target stands in every round of every attack, also where it has nothing that is attacked: that
// takes no time, and is said.
func TestAttackPlan(t *testing.T) {
	c, err := parse("--rounds 2")
	if err != nil {
		t.Fatal(err)
	}
	plan := c.plan()
	if len(plan) != 2*3*len(attacker.Names()) {
		t.Fatalf("%d samples", len(plan))
	}
	var none []string
	for _, s := range plan {
		if s.Planned == 0 && s.Round == 1 {
			none = append(none, s.Target+" "+s.CaseName)
		}
	}
	slices.Sort(none)
	if want := []string{"kernel bfd-forgery", "ovs nat-exhaustion", "ovs route-flood", "ovs ttl-storm"}; !slices.Equal(none, want) {
		t.Errorf("nothing to attack: %q, want %q", none, want)
	}
	if first, second := plan[0].Target, plan[len(plan)/2].Target; first == second {
		t.Errorf("both rounds begin with %s", first)
	}
}

// A silent slice counts, and a pair that broke is worse than one that is slow.
func TestPhaseFigures(t *testing.T) {
	p := phase{tcp: []float64{4, 0}, rr: []float64{20, 30, silence}, conn: []float64{10, 20}}
	if p.throughput() != 2 || p.roundTrip() != 30 || p.connections() != 15 {
		t.Errorf("%v Gbit/s, %v µs, %v connections", p.throughput(), p.roundTrip(), p.connections())
	}
	if none := (phase{}); none.throughput() != 0 || none.roundTrip() != silence {
		t.Error("a phase without slices kept something")
	}
}

// Each pair has its ratios, to unattacked slices before and after.
func TestAttackMetrics(t *testing.T) {
	o := &assault{pairs: []*honest{{name: SamePair}, {name: OtherPair}}, sent: 100, crossed: 3, lost: 1}
	s := result.Sample{Metrics: map[string]float64{}, Series: map[string][]float64{}}
	quiet := phase{tcp: []float64{10}, rr: []float64{20}, conn: []float64{100}}
	o.metrics(&s, []phase{quiet, quiet}, []phase{
		{tcp: []float64{9}, rr: []float64{40}, conn: []float64{100}}, {tcp: []float64{5}, rr: []float64{20}, conn: []float64{110}},
	}, nil)
	for metric, want := range map[string]float64{
		KeptTCP + "_other": 0.5, KeptTCP + "_same": 0.9, KeptRR + "_same": 2, KeptRR + "_other": 1, KeptConnections + "_same": 1,
		Crossed: 3, Sent: 100, LostConnections: 1,
	} {
		if got := s.Metrics[metric]; got != want {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
	}
	if len(s.Series["tcp_gbps_attacked_other"]) != 1 || len(s.Series["rr_us_quiet_same"]) != 1 {
		t.Errorf("series %v", s.Series)
	}
	slower := phase{tcp: []float64{6}, rr: []float64{20}, conn: []float64{50}}
	later := result.Sample{Metrics: map[string]float64{}, Series: map[string][]float64{}}
	o.metrics(&later, []phase{quiet, quiet}, []phase{{tcp: []float64{8}, rr: []float64{20}, conn: []float64{75}}, quiet}, []phase{slower, quiet})
	for metric, want := range map[string]float64{
		KeptTCP + "_same": 1, KeptConnections + "_same": 1, KeptRR + "_other": 1,
		ControlTCP + "_same": 0.6, ControlTCP + "_other": 1, ControlConnections + "_same": 0.5, ControlRR + "_same": 1,
	} {
		if got := later.Metrics[metric]; got != want {
			t.Errorf("with slices after it, %s: %v, want %v", metric, got, want)
		}
	}
	if len(later.Series["tcp_gbps_after_same"]) != 1 {
		t.Errorf("series %v", later.Series)
	}
	if words := attackOutcome(s); !strings.Contains(words, "3 of 100 packets crossed") || !strings.Contains(words, "1 connections lost") {
		t.Error(words)
	}
}

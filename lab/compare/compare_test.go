package compare

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func metrics() []stats.Metric {
	return []stats.Metric{
		{Case: "tcp", Name: "rate", Unit: "Gbit/s", Higher: true},
		{Case: "rr", Name: "rr_p50", Unit: "µs"},
		{Case: "udp", Name: "lost", Unit: "ppm"},
	}
}

func find(caseName, name string) (stats.Metric, bool) {
	for _, m := range metrics() {
		if m.Case == caseName && m.Name == name {
			return m, true
		}
	}
	return stats.Metric{}, false
}

// run is a result of so many rounds: plain does 10, overlay 9 times harm, both times the speed of
// the machine, and a loss of its own each; noise is 1 %.
func run(seed uint64, rounds int, speed, harm float64, lost float64) result.Result {
	random := rand.New(rand.NewPCG(seed, 1))
	r := result.Result{
		Schema: result.Schema, Experiment: "ab", Started: time.Unix(int64(seed), 0),
		Parameters: result.Parameters{"slice": result.Time(10 * time.Millisecond), "rounds": result.Count(8), "encapsulation": result.Words("vxlan"), "check_busy": result.Count(int(seed)), "ceiling_1280": result.Count(int(seed)), "client ssh:a": result.Count(int(seed)), "node ssh:a": result.Count(int(seed)), "source_egress": result.Count(int(seed))},
		Environment: result.Environment{
			Kernel: "6.18.5", CPU: "x", Cores: 2, MemoryBytes: 8 << 30, Versions: map[string]string{"selvage": "v1"},
			Offloads: map[string]map[string]bool{"underlay": {"tx-checksum-ip-generic": true}}, MTU: map[string]int{"underlay": 1500}, Sysctls: map[string]string{"net.a": "1"},
		},
		Targets: []result.Target{{Name: "plain"}, {Name: "overlay", InnerMTU: 1450}},
	}
	noise := func() float64 { return 1 + 0.01*random.NormFloat64() }
	for round := 1; round <= rounds; round++ {
		for target, v := range map[string]float64{"plain": 10, "overlay": 9 * harm} {
			zero := 0.0
			if target == "overlay" {
				zero = lost * noise()
			}
			for caseName, m := range map[string]map[string]float64{"tcp": {"rate": v * speed * noise()}, "rr": {"rr_p50": 100 / v / speed * noise()}, "udp": {"lost": zero}} {
				r.Samples = append(r.Samples, result.Sample{Target: target, Case: caseName, Round: round, Metrics: m})
			}
		}
	}
	r.Summary = stats.Summarise(r, "plain", metrics())
	r.Summary = append(r.Summary, result.Row{Target: "overlay", Case: "tcp", Metric: "computed", Unit: "×", Median: 1, N: rounds})
	return r
}

func compared(t *testing.T, old, latest result.Result, o Options) Report {
	t.Helper()
	o.Metric = find
	report, err := Results(old, latest, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// verdict is that of a row of overlay.
func verdict(t *testing.T, r Report, target, metric string) Row {
	t.Helper()
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Target == target && row.Metric == metric })
	if i < 0 {
		t.Fatalf("no row %s of %s: %+v", metric, target, r.Rows)
	}
	return r.Rows[i]
}

// A slower machine is no slower overlay; a slower overlay is.
func TestVerdicts(t *testing.T) {
	old := run(1, 10, 1, 1, 0)
	for _, c := range []struct {
		name        string
		speed, harm float64
		lost        float64
		o           Options
		want        map[string]string // of overlay, by metric
	}{
		{"the same", 1, 1, 0, Options{}, map[string]string{"rate": NoDifference, "rr_p50": NoDifference, "lost": NoDifference}},
		{"a slower machine", 0.8, 1, 0, Options{}, map[string]string{"rate": NoDifference, "rr_p50": NoDifference}},
		{"a slower machine, by figures", 0.8, 1, 0, Options{Absolute: true}, map[string]string{"rate": Worse, "rr_p50": Worse}},
		{"a slower overlay", 1, 0.95, 5, Options{}, map[string]string{"rate": Worse, "rr_p50": Worse, "lost": Worse, "computed": NotCompared}},
		{"a faster one on a slower machine", 0.8, 1.05, 0, Options{}, map[string]string{"rate": Better, "rr_p50": Better}},
	} {
		r := compared(t, old, run(2, 10, c.speed, c.harm, c.lost), c.o)
		for metric, want := range c.want {
			row := verdict(t, r, "overlay", metric)
			if row.Verdict != want {
				t.Errorf("%s: %s is %+v, want %s", c.name, metric, row, want)
			}
			if based := row.Baseline == "plain"; metric != "lost" && metric != "computed" && based == c.o.Absolute {
				t.Errorf("%s: %s is by baseline %q", c.name, metric, row.Baseline)
			}
			if want == NoDifference && metric != "lost" && (row.SmallestEffect < 0.005 || row.SmallestEffect > 0.05) {
				t.Errorf("%s: %s sees %.3f", c.name, metric, row.SmallestEffect)
			}
		}
		if noted := strings.Contains(strings.Join(r.Notes, "\n"), "the machine was not the same"); noted != (c.speed != 1 && !c.o.Absolute) {
			t.Errorf("%s: notes %q", c.name, r.Notes)
		}
		var b bytes.Buffer
		if err := r.Table(&b); err != nil || !strings.Contains(b.String(), "1 row not compared: it is computed from other rows") {
			t.Errorf("%s: %v\n%s", c.name, err, b.String())
		}
	}
}

func TestTooFewRounds(t *testing.T) {
	row := verdict(t, compared(t, run(1, 4, 1, 1, 0), run(2, 4, 1, 0.5, 0), Options{}), "overlay", "rate")
	if row.Verdict != NotCompared || !strings.Contains(row.Why, "4 and 4 rounds are too few: a difference needs 5 in each") {
		t.Errorf("%+v", row)
	}
	report, err := Results(run(1, 5, 1, 1, 0), run(2, 5, 1, 0.5, 0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if row := verdict(t, report, "overlay", "rate"); row.Verdict != Lower {
		t.Errorf("of a metric that nobody knows: %+v", row)
	}
}

// Every field that bears on figures is named with both values, and can be allowed by its name.
func TestIncomparable(t *testing.T) {
	for field, change := range map[string]func(*result.Result){
		"kernel":           func(r *result.Result) { r.Environment.Kernel = "6.18.6" },
		"cpu":              func(r *result.Result) { r.Environment.CPU = "y" },
		"cores":            func(r *result.Result) { r.Environment.Cores = 4 },
		"memory":           func(r *result.Result) { r.Environment.MemoryBytes /= 2 },
		"versions.selvage": func(r *result.Result) { r.Environment.Versions = map[string]string{"selvage": "v2"} },
		"versions.iperf3":  func(r *result.Result) { r.Environment.Versions = map[string]string{"selvage": "v1", "iperf3": "3"} },
		"offloads.underlay.tx-checksum-ip-generic": func(r *result.Result) { r.Environment.Offloads["underlay"]["tx-checksum-ip-generic"] = false },
		"mtu.underlay":              func(r *result.Result) { r.Environment.MTU["underlay"] = 9000 },
		"sysctls.net.a":             func(r *result.Result) { r.Environment.Sysctls["net.a"] = "2" },
		"parameters.encapsulation":  func(r *result.Result) { r.Parameters["encapsulation"] = result.Words("geneve") },
		"targets.overlay.inner_mtu": func(r *result.Result) { r.Targets[1].InnerMTU = 1400 },
	} {
		old, changed := run(1, 8, 1, 1, 0), run(2, 8, 1, 1, 0)
		change(&changed)
		var no Incomparable
		_, err := Results(old, changed, Options{})
		if !errors.As(err, &no) || len(no.Differences) != 1 || no.Differences[0].Field != field || no.ExitCode() != ExitStatus {
			t.Errorf("%s: %v", field, err)
			continue
		}
		top, _, _ := strings.Cut(field, ".")
		for _, want := range []string{no.Differences[0].Old, no.Differences[0].New, "--allow " + top} {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", field, err, want)
			}
		}
		for _, name := range []string{field, top} {
			report, err := Results(old, changed, Options{Allow: []string{name}})
			if err != nil || len(report.Allowed) != 1 {
				t.Errorf("--allow %s: %v", name, err)
				continue
			}
			plain := verdict(t, report, "plain", "rate")
			if other := slices.Contains(machine(), field); (plain.Verdict == NotCompared) != other {
				t.Errorf("%s: the figure of plain: %+v", field, plain)
			}
		}
		if _, err := Results(old, changed, Options{Allow: []string{top}, Absolute: true}); (err != nil) != slices.Contains(machine(), field) {
			t.Errorf("--absolute with %s: %v", field, err)
		}
	}
	old, other := run(1, 8, 1, 1, 0), run(2, 8, 1, 1, 0)
	other.Experiment = "mtu"
	if _, err := Results(old, other, Options{Allow: Allowable()}); err == nil || !strings.Contains(err.Error(), "experiment: ab, then mtu") || strings.Contains(err.Error(), "--allow") {
		t.Errorf("another experiment: %v", err)
	}
	if _, err := Results(old, old, Options{Allow: []string{"weather"}}); err == nil || !strings.Contains(err.Error(), "choose from kernel, cpu") {
		t.Errorf("an unknown field: %v", err)
	}
	other = run(2, 8, 1, 1, 0)
	other.Environment.MemoryBytes += 1 << 20
	if _, err := Results(old, other, Options{}); err != nil {
		t.Errorf("a MiB more: %v", err)
	}
	if _, err := Results(old, other, Options{Allow: []string{"version"}}); err != nil {
		t.Errorf("version: %v", err)
	}
}

func TestConditions(t *testing.T) {
	r := compared(t, run(1, 10, 1, 1, 0), run(2, 10, 1, 0.9, 5), Options{})
	for text, want := range map[string]string{
		"overlay/rate<0.95@old":   gate.Fails,
		"overlay/rate<0.8@old":    gate.Passes,
		"overlay/rate<0.9@old":    gate.Undecided,
		"overlay/rate<0.95@plain": "write NUMBER@old",
		"overlay/rate<9":          "write NUMBER@old",
		"overlay/lost>1.1@old":    "has no ratio",
		"overlay/computed<1@old":  "is not compared: it is computed",
		"nobody/rate<1@old":       "no target",
	} {
		var c gate.Condition
		if err := c.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		outcomes, err := r.Evaluate(c)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && (len(outcomes) != 1 || outcomes[0].Outcome != want) {
			t.Errorf("%s: %+v, %v, want %s", text, outcomes, err, want)
		}
	}
}

func TestNotes(t *testing.T) {
	old, other := run(1, 8, 1, 1, 0), run(2, 8, 1, 1, 0)
	other.Samples[0].Error = "no route"
	other.Verdict = result.Verdict{Refused: true, Headline: "No verdict: noise."}
	delete(old.Parameters, "slice")
	delete(other.Parameters, "slice")
	old.Summary = old.Summary[1:]
	report := compared(t, old, other, Options{})
	var table bytes.Buffer
	if err := report.Table(&table); err != nil || strings.Contains(table.String(), "..") || !strings.Contains(table.String(), "No verdict: noise.") {
		t.Errorf("%v\n%s", err, &table)
	}
	notes := strings.Join(report.Notes, "\n")
	for _, want := range []string{"1 sample of the new run failed", "no verdict of its own: No verdict: noise", "0 rows are of the old run alone and 1 of the new", "stand for a whole run"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %s", want, notes)
		}
	}
	if notes := strings.Join(compared(t, old, old, Options{}).Notes, "\n"); !strings.Contains(notes, "the same run") {
		t.Error(notes)
	}
}

package mtu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
)

func parse(t *testing.T, args ...string) *Command {
	t.Helper()
	c := new(commands)
	if err := experimenttest.Parse(c, append([]string{"mtu"}, args...)...); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return &c.Mtu
}

func TestMtuUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--targets=plain,ovs":                           `unknown target "ovs"; choose from plain, kernel, selvage, selvage-geneve, selvage-nvgre`,
		"--targets=kernel,kernel":                       "kernel is named twice",
		"--targets=selvage,selvage-nvgre --encap=nvgre": "are the same with --encap nvgre",
		"--rounds=0":                                    "--rounds",
		"--guest-mtu=1600":                              "--guest-mtu: 1600 is not within 1280 … 1500",
		"--guest-mtu=1200":                              "--guest-mtu: 1200",
		"--underlay-mtu=1300":                           "--underlay-mtu: 1300 is not within 1330",
		"--jumbo-mtu=1500":                              "--jumbo-mtu",
		"--hashes=0":                                    "--hashes",
		"--duration=150ms":                              "--duration: 150ms is not a multiple of 100ms",
		"--hole-duration=900ms":                         "--hole-duration: 900ms is not a multiple of 100ms, 1s or more",
		"--cases=hole,hole":                             "hole is named twice",
		"--cases=tcp":                                   "--cases must be one of",
		"--sweep-duration=100ms":                        "--sweep-duration",
		"--family=5":                                    "family",
		"--output=xml":                                  "output",
	} {
		err := experimenttest.Parse(new(commands), append([]string{"mtu"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}

// By default all takes less than four minutes, and with --quick about a third of that.
func TestMtuTime(t *testing.T) {
	for args, c := range map[string]struct {
		samples int
		most    time.Duration
	}{
		"":        {155, 4 * time.Minute},
		"--quick": {64, 100 * time.Second},
	} {
		mtu := parse(t, strings.Fields(args)...)
		var all []mtuStep
		for _, setting := range mtu.settings() {
			all = append(all, mtu.plan(setting)...)
		}
		if took := (&experiment.Pace{First: mtuExtra}).Left(experiment.Steps(all)); len(all) != c.samples || took > c.most {
			t.Errorf("%q: %d samples in %s, want %d in less than %s", args, len(all), took, c.samples, c.most)
		}
	}
}

func TestMtuPlan(t *testing.T) {
	mtu := parse(t, "--rounds=6", "--targets=plain,kernel,selvage")
	names := func(setting string) (cases []string) {
		for _, s := range mtu.plan(setting) {
			if s.setting != setting {
				t.Errorf("%s is in %s, not %s", s.CaseName, s.setting, setting)
			}
			if !slices.Contains(cases, s.CaseName) {
				cases = append(cases, s.CaseName)
			}
		}
		return cases
	}
	for setting, want := range map[string]string{
		asItComes:  "hole hole-reverse hole-v6 hole-v6-reverse hole-offload size size-reverse size-v6 size-v6-reverse",
		lowerGuest: "guest-mtu guest-mtu-reverse",
		clampMSS:   "clamp clamp-reverse",
		tooBig:     "messages messages-reverse",
		jumbo: "jumbo jumbo-reverse size-jumbo sweep-536x1 sweep-1448x1 sweep-8898x1 sweep-536x2 sweep-1448x2 sweep-8898x2 " +
			"sweep-536x4 sweep-1448x4 sweep-8898x4",
	} {
		if got := strings.Join(names(setting), " "); got != want {
			t.Errorf("%s:\n%s, want\n%s", setting, got, want)
		}
	}
	count := map[string]int{}
	for _, s := range mtu.plan(jumbo) {
		count[s.CaseName+" "+s.Target]++
		if s.reverse != strings.Contains(s.CaseName, Reverse) || s.size != IsSize(s.CaseName) {
			t.Errorf("%+v", s)
		}
	}
	if count["jumbo kernel"] != 6 || count["jumbo-reverse kernel"] != 1 || count["sweep-536x4 plain"] != 6 {
		t.Errorf("samples %v", count)
	}
	for cases, want := range map[string]string{"hole": "hole", "fixes": "guest-mtu clamp messages", "jumbo": "jumbo", "sweep": "jumbo", "sweep,hole": "hole jumbo"} {
		if got := strings.Join(parse(t, "--cases="+cases).settings(), " "); got != want {
			t.Errorf("cases %s: settings %s, want %s", cases, got, want)
		}
	}
	if kinds := parse(t, "--cases=sweep").plan(jumbo); !strings.HasPrefix(kinds[0].CaseName, SweepPrefix) {
		t.Errorf("a sweep begins with %s", kinds[0].CaseName)
	}
	if got := mtu.targetsOf(tooBig); !slices.Equal(got, []string{"kernel", "selvage"}) {
		t.Errorf("messages of %v", got)
	}
}

func TestMtuSizes(t *testing.T) {
	for args, want := range map[string][2]int{"": {1450, 8950}, "--family=6": {1430, 8930}, "--targets=plain,selvage-nvgre": {1458, 8958}, "--underlay-mtu=1400 --guest-mtu=1400": {1350, 8950}} {
		mtu := parse(t, strings.Fields(args)...)
		run := &mtuRun{Command: mtu}
		_, guest := mtu.sizes(jumbo, 0)
		if got := [2]int{run.passes(), guest}; got != want {
			t.Errorf("%q: passes and jumbo guests %v, want %v", args, got, want)
		}
	}
	run := &mtuRun{Command: parse(t)}
	for caseName, size := range map[string]float64{"size": 1440, "size-v6": 1430, "size-reverse": 0, "hole": 1300} {
		run.result.Samples = append(run.result.Samples, result.Sample{Case: caseName, Metrics: map[string]float64{"largest_size": size}})
	}
	if got := run.passes(); got != 1430 {
		t.Errorf("passes %d, want the least that was found, 1430", got)
	}
	if _, guest := run.sizes(lowerGuest, 1430); guest != 1430 {
		t.Errorf("guests get %d", guest)
	}
}

func TestMtuOutcome(t *testing.T) {
	m := func(pairs ...any) map[string]float64 {
		out := map[string]float64{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1].(float64)
		}
		return out
	}
	for want, c := range map[string]struct {
		step   mtuStep
		sample result.Sample
	}{
		"2.50 Gbit/s, MSS 1,398":                             {mtuStep{}, result.Sample{Duration: 1, Metrics: m("tcp_throughput", 2.5, "mss", 1398.0), Series: map[string][]float64{"tcp_gbps": {2, 3}}}},
		"BLACK HOLE: nothing arrived after 0.2 s, MSS 1,448": {mtuStep{}, result.Sample{Duration: 1, Metrics: m("mss", 1448.0), Series: map[string][]float64{"tcp_gbps": {1, 0, 0, 0, 0}}}},
		"1,450 bytes arrive":                                 {mtuStep{size: true}, result.Sample{Metrics: m("largest_size", 1450.0, "largest_best", 1450.0)}},
		"1,400 bytes arrive (1,450 of the best flow), and the sender is told 1,450": {mtuStep{size: true}, result.Sample{Metrics: m("largest_size", 1400.0, "largest_best", 1450.0, "reported_mtu", 1450.0)}},
		"FAILED: no route": {mtuStep{}, result.Sample{Error: "no\nroute"}},
	} {
		if got := mtuOutcome(c.step, c.sample); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

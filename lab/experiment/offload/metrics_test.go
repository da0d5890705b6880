package offload

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

func TestStreamed(t *testing.T) {
	for caseName, want := range map[string]Stream{
		"vxlan/all-on/64k/one-way":     {"vxlan", AllOn, 65536, false},
		"geneve/csum-off/1k/both-ways": {"geneve", "csum-off", 1024, true},
		"nvgre/tso/mean/one-way":       {"nvgre", Segmentation, 0, false},
		"vxlan/all-off/1500/one-way":   {"vxlan", AllOff, 1500, false},
	} {
		if got, ok := Streamed(caseName); !ok || got != want || got.Case() != caseName {
			t.Errorf("%s: %+v %v, again %s", caseName, got, ok, got.Case())
		}
	}
	for _, caseName := range []string{"tcp", "vxlan/all-on/64k", "vxlan/all-on/64k/twice", "vxlan/all-on/k/one-way", "vxlan/all-on/0/one-way", "vxlan/all-on/-1k/one-way"} {
		if got, ok := Streamed(caseName); ok {
			t.Errorf("%s is read as %+v", caseName, got)
		}
	}
}

func TestOffloadIsOn(t *testing.T) {
	for state, want := range map[string][]bool{ // segmentation, coalescing, checksums
		AllOn: {true, true, true}, AllOff: {false, false, false},
		"tso-off": {false, true, true}, "gro-off": {true, false, true}, "csum-off": {true, true, false},
		"tso-on": {true, false, true}, "gro-on": {false, true, false}, "csum-on": {false, false, true},
	} {
		if !slices.Contains(states(), state) {
			t.Errorf("%s is no state", state)
		}
		for i, kind := range allKinds() {
			if got := isOn(state, kind); got != want[i] {
				t.Errorf("%s: %s is %t", state, kind, got)
			}
		}
	}
	if n := len(states()); n != 8 {
		t.Errorf("%d states", n)
	}
	// The two states of an attribution differ in its kind alone.
	for _, a := range Attributions() {
		for _, kind := range allKinds() {
			if differ := isOn(a.With, kind) != isOn(a.Without, kind); differ != (kind == a.Kind) {
				t.Errorf("%+v: %s differs: %t", a, kind, differ)
			}
		}
	}
}

// offloadSamples is a run in which throughput is rate(target, state, size) times what the round
// gives, and the processor is busy by cpu(state) percent.
func offloadSamples(rounds int, rate func(target, state string, size int) float64, cpu func(state string) float64) result.Result {
	r := result.Result{Experiment: Name}
	for round := 1; round <= rounds; round++ {
		for _, state := range states() {
			for _, size := range []int{1024, 65536} {
				for _, name := range []string{"kernel", "selvage"} {
					gbits, busy := rate(name, state, size)*(1+0.1*float64(round)), cpu(state)
					r.Samples = append(r.Samples, result.Sample{
						Target: name, Case: Stream{"vxlan", state, size, false}.Case(), Round: round,
						Metrics: map[string]float64{Throughput: gbits, Processor: busy, Efficiency: 1000 * gbits / busy, "retransmits": 1},
					})
				}
			}
		}
	}
	return r
}

// modelled: Selvage carries 1.5 × the kernel with small writes and 2.5 × with large ones; all
// offloads bring 4 ×, and take 80 instead of 100 %.
func modelled(rounds int) result.Result {
	rate := func(target, state string, size int) float64 {
		gbits := 1.0
		if size > 1024 {
			gbits = 2
		}
		for kind, brings := range map[string]float64{Segmentation: 2, Coalescing: 1.25, Checksums: 1.6} {
			if isOn(state, kind) {
				gbits *= brings
			}
		}
		switch {
		case target == "kernel":
			return gbits
		case size > 1024:
			return 2.5 * gbits
		}
		return 1.5 * gbits
	}
	return offloadSamples(rounds, rate, func(state string) float64 {
		if state == AllOn {
			return 80
		}
		return 100
	})
}

func TestOffloadRows(t *testing.T) {
	r := modelled(3)
	rows := summarise(r)
	for _, c := range []struct {
		target, caseName, metric string
		median, ratio            float64
		baseline                 string
	}{
		{"kernel", "vxlan/all-off/1k/one-way", Throughput, 1.2, 1, ""},
		{"selvage", "vxlan/all-off/1k/one-way", Throughput, 1.8, 1.5, "kernel"},
		{"selvage", "vxlan/all-on/64k/one-way", Throughput, 2 * 4 * 2.5 * 1.2, 2.5, "kernel"},
		{"selvage", "vxlan/all-on/mean/one-way", Throughput, (1.5 + 5) * 4 * 1.2 / 2, 2, "kernel"},
		{"selvage", "vxlan/all-on/64k/one-way", Processor, 80, 1, "kernel"},
		{"selvage", "vxlan/all-on/64k/one-way", Efficiency, 1000 * 2 * 4 * 2.5 * 1.2 / 80, 2.5, "kernel"},
		{"kernel", "vxlan/all-on/64k/one-way", ThroughputGain, 4, 4, "kernel:vxlan/all-off/64k/one-way"},
		{"kernel", "vxlan/all-on/64k/one-way", ProcessorChange, 0.8, 0.8, "kernel:vxlan/all-off/64k/one-way"},
		{"kernel", "vxlan/all-on/mean/one-way", EfficiencyGain, 5, 5, "kernel:vxlan/all-off/mean/one-way"},
		{"selvage", "vxlan/tso/64k/one-way", GainAlone, 2, 2, "selvage:vxlan/csum-on/64k/one-way"},
		{"selvage", "vxlan/gro/mean/one-way", GainLeftOut, 1.25, 1.25, "selvage:vxlan/gro-off/mean/one-way"},
		{"kernel", "vxlan/csum/1k/one-way", GainAlone, 1.6, 1.6, "kernel:vxlan/all-off/1k/one-way"},
	} {
		row, ok := stats.Find(rows, c.target, c.caseName, c.metric)
		if !ok || row.N != 3 || math.Abs(row.Median-c.median) > 1e-9 || math.Abs(row.Ratio-c.ratio) > 1e-9 || row.Baseline != c.baseline {
			t.Errorf("%s of %s, %s: %+v, want %v (%v %s)", c.metric, c.target, c.caseName, row, c.median, c.ratio, c.baseline)
		}
	}
	if row, ok := stats.Find(rows, "kernel", "vxlan/all-off/1k/one-way", ThroughputGain); ok {
		t.Errorf("all off has a gain over itself: %+v", row)
	}
	if worst := WorstStates(rows, "selvage"); len(worst) != 8 || math.Abs(worst[0].Ratio-2) > 1e-9 {
		t.Errorf("worst states %+v", worst)
	}
}

// A round that lacks a size is in no mean, and a target of its own has no ratio.
func TestOffloadRowsIncomplete(t *testing.T) {
	r := modelled(3)
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool {
		return s.Round == 2 && s.Target == "selvage" && s.Case == "vxlan/gro-off/1k/one-way"
	})
	rows := summarise(r)
	if row, _ := stats.Find(rows, "selvage", "vxlan/gro-off/mean/one-way", Throughput); row.N != 2 {
		t.Errorf("mean of %d rounds, want 2", row.N)
	}
	if row, _ := stats.Find(rows, "selvage", "vxlan/gro-off/64k/one-way", Throughput); row.N != 3 {
		t.Errorf("%d rounds, want 3", row.N)
	}
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Target == "kernel" })
	if row, ok := stats.Find(summarise(r), "selvage", "vxlan/all-on/64k/one-way", Throughput); !ok || row.Ratio != 0 || row.Baseline != "" {
		t.Errorf("without a kernel: %+v", row)
	}
}

func TestIdentities(t *testing.T) {
	r := modelled(3)
	all := Identities(summarise(r))
	if len(all) != 2*7*2 { // targets, states but all off, sizes
		t.Errorf("%d rows", len(all))
	}
	for _, i := range all {
		if !i.Holds() || math.Abs(i.Off()) > 1e-9 {
			t.Errorf("%+v is off by %v", i, i.Off())
		}
	}
	for i := range r.Samples {
		if r.Samples[i].Target == "kernel" && r.Samples[i].Case == "vxlan/all-on/1k/one-way" {
			r.Samples[i].Metrics[Efficiency] *= 1.1
		}
	}
	missed := slices.DeleteFunc(Identities(summarise(r)), func(i Identity) bool { return i.Holds() })
	if len(missed) != 1 || missed[0].Target != "kernel" || math.Abs(missed[0].Off()-0.1) > 1e-9 {
		t.Errorf("missed %+v", missed)
	}
}

func TestRefuseOffload(t *testing.T) {
	mean := Stream{"vxlan", AllOn, 0, false}
	break1 := func(change func(*result.Sample)) func() result.Result {
		return func() result.Result {
			r := modelled(3)
			for i := range r.Samples {
				if r.Samples[i].Round == 2 && r.Samples[i].Case == "vxlan/all-on/1k/one-way" && r.Samples[i].Target == "selvage" {
					change(&r.Samples[i])
				}
			}
			return r
		}
	}
	for name, c := range map[string]struct {
		run  func() result.Result
		want string
	}{
		"good":         {func() result.Result { return modelled(3) }, ""},
		"two rounds":   {func() result.Result { return modelled(2) }, "at least 3 rounds"},
		"an error":     {break1(func(s *result.Sample) { s.Error = "no answer" }), "has an error in vxlan/all-on/1k/one-way (no answer)"},
		"not measured": {func() result.Result { return result.Result{} }, "was not measured"},
		"missing":      {break1(func(s *result.Sample) { s.Case = "x" }), "2 complete rounds of 3"},
		"noise": {func() result.Result {
			r := modelled(3)
			for i := range r.Samples {
				if r.Samples[i].Target == "selvage" {
					r.Samples[i].Metrics[Throughput] *= 1 + 0.2*float64(r.Samples[i].Round)
				}
			}
			return r
		}, "spreads by"},
	} {
		if got := refuse(c.run(), "selvage", mean); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

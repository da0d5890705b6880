package offload

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/result"
)

// offloadBrings is what each kind of offload multiplies throughput by in the model.
var offloadBrings = map[string]float64{Segmentation: 2, Coalescing: 1.25, Checksums: 1.6}

// streamsRun is a modelled run of three rounds; ratio is Selvage's to the kernel's throughput
// in a state, and wobble what a round multiplies Selvage's by.
func streamsRun(ratio func(state string) float64, wobble ...float64) result.Result {
	r := result.Result{
		Experiment: Name, Parameters: result.Parameters{"rounds": result.Count(3), "in_force_selvage_csum-off": result.Words("ports: tso partly, gro on, csum off"), "partly_selvage_csum-off": result.Of(result.Texts{"ports tso"})},
		Targets: []result.Target{{Name: "kernel"}, {Name: "selvage"}},
	}
	for round := 1; round <= 3; round++ {
		for _, state := range states() {
			for _, size := range []int{1024, 65536} {
				gbits := 1.0
				for kind, by := range offloadBrings {
					if isOn(state, kind) {
						gbits *= by
					}
				}
				r.Samples = append(r.Samples, offloadSample("kernel", state, size, round, gbits))
				gbits *= ratio(state)
				if len(wobble) > 0 {
					gbits *= wobble[round-1]
				}
				r.Samples = append(r.Samples, offloadSample("selvage", state, size, round, gbits))
			}
		}
	}
	return r
}

func offloadSample(name, state string, size, round int, gbits float64) result.Sample {
	return result.Sample{
		Target: name, Case: Stream{Encapsulation: "vxlan", State: state, Size: size}.Case(), Round: round, Duration: 1,
		Metrics: map[string]float64{Throughput: gbits, Processor: 95, Efficiency: 1000 * gbits / 95, "idle_busy": 0.01},
		CPU:     []result.CPUShare{{Core: 0, User: 0.1, System: 0.25, SoftIRQ: 0.6, Idle: 0.05}},
	}
}

func offloadAlways(ratio float64) func(string) float64 { return func(string) float64 { return ratio } }

func TestOffloadVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		run     result.Result
		refused bool
		want    string
	}{
		"every state": {streamsRun(offloadAlways(1.3)), false, "Selvage carries at least 1.10 × what the kernel does in every one of 8 states of the offloads: least"},
		"one misses": {streamsRun(func(state string) float64 {
			if state == "tso-off" {
				return 0.9
			}
			return 1.2
		}), false, "in 7 of 8 states of the offloads and misses that in 1: least without segmentation, 0.90 × [0.90, 0.90]; most"},
		"open":         {streamsRun(offloadAlways(1.12), 0.95, 1, 1.05), false, "in 0 of 8 states of the offloads and cannot be told from it in 8"},
		"noise":        {streamsRun(offloadAlways(1.3), 0.7, 1, 1.3), true, "spreads by"},
		"no selvage":   {offloadWithout(streamsRun(offloadAlways(1.3)), "selvage"), true, "nothing to compare"},
		"no kernel":    {offloadWithout(streamsRun(offloadAlways(1.3)), "kernel"), true, "no complete round of any state in common"},
		"nothing":      {result.Result{Experiment: Name}, true, "nothing to compare"},
		"one round":    {offloadRounds(streamsRun(offloadAlways(1.3)), 1), true, "at least 3 rounds"},
		"failed round": {offloadFailed(streamsRun(offloadAlways(1.3))), true, "has an error in vxlan/all-on/1k/one-way (no answer)"},
	} {
		v := verdict(c.run)
		if v.Refused != c.refused || !strings.Contains(v.String(), c.want) {
			t.Errorf("%s: %t, %s", name, v.Refused, v.String())
		}
	}
}

func offloadWithout(r result.Result, name string) result.Result {
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Target == name })
	r.Targets = slices.DeleteFunc(r.Targets, func(c result.Target) bool { return c.Name == name })
	return r
}

func offloadRounds(r result.Result, n int) result.Result {
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool { return s.Round > n })
	r.Parameters = result.Parameters{"rounds": result.Count(1)}
	return r
}

func offloadFailed(r result.Result) result.Result {
	for i, s := range r.Samples {
		if s.Target == "selvage" && s.Case == "vxlan/all-on/1k/one-way" && s.Round == 2 {
			r.Samples[i].Error = "no answer"
		}
	}
	return r
}

// offloadFinds looks for findings by their topic.
func offloadFinds(t *testing.T, v result.Verdict, topic string, want ...string) {
	t.Helper()
	var texts []string
	for _, f := range v.Findings {
		if f.Topic == topic {
			texts = append(texts, f.String())
		}
	}
	all := strings.Join(texts, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%s: want %q in\n%s", topic, w, all)
		}
	}
	if len(want) == 0 && len(texts) > 0 {
		t.Errorf("%s: %s", topic, all)
	}
}

func TestOffloadFindings(t *testing.T) {
	r := streamsRun(func(state string) float64 {
		if state == "gro-on" {
			return 1
		}
		return 1.5
	})
	v := verdict(r)
	// Alone, gro gives 1.25 with a ratio of 1; nothing at all gives 1 with one of 1.5.
	offloadFinds(t, v, "Worst state", "Selvage itself carries least with coalescing alone: 1.25 Gbit/s", "what it lacks most is segmentation, which brings 2.00 ×", "60.0 % in softirq")
	offloadFinds(t, v, "Single sizes", "of 16 cases, with coalescing alone and writes of 1kB 1.00 × [1.00, 1.00]; with coalescing alone and writes of 64kB")
	offloadFinds(t, v, "Gain", "the kernel's vxlan +300.0 % of throughput", "the QLogic study's adapters")
	offloadFinds(t, v, "Attribution", "the kernel's vxlan owes: segmentation +100.0 % alone, +100.0 % against all the others; coalescing +25.0 % alone", "checksums +60.0 % alone")
	offloadFinds(t, v, "Processor", "in 16 of 16 cases of Selvage")
	offloadFinds(t, v, "Identity", "on 28 of 28 rows (at most 0.0 % off)")
	offloadFinds(t, v, "In force", "csum-off (ports: tso partly")
	offloadFinds(t, v, "Left out")
	offloadFinds(t, v, "Noise")

	r.Parameters["kernel_without"] = result.Of(result.Texts{"geneve", "nvgre"})
	offloadFinds(t, verdict(r), "Left out", "no device for geneve, nvgre")
}

// With two states there is no attribution, and the cause says so.
func TestOffloadCauseUnmeasured(t *testing.T) {
	r := streamsRun(offloadAlways(1.3))
	r.Samples = slices.DeleteFunc(r.Samples, func(s result.Sample) bool {
		stream, _ := Streamed(s.Case)
		return stream.State != AllOn && stream.State != AllOff
	})
	offloadFinds(t, verdict(r), "Worst state", "carries least with all off", "Cause, which no other state here isolates: without checksums")
	offloadFinds(t, verdict(r), "Attribution")
}

// Nothing that a run may leave behind breaks the words.
func TestOffloadWords(t *testing.T) {
	for state, want := range map[string]string{
		AllOn: "with all on", AllOff: "with all off", "tso-off": "without segmentation", "gro-on": "with coalescing alone", "csum-off": "without checksums",
	} {
		if got := words(state); got != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}

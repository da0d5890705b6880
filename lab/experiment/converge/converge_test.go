package converge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/converge/fabric"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"converge"}, strings.Fields(args)...)...)
	return &c.Converge, err
}

func TestConvergeValidate(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "--quick": "", "--targets kernel": "", "--cases move,rr-loss --rounds 1": "", "--reflectors 2": "",
		"--targets ovs":                "--targets",
		"--cases flood":                "--cases",
		"--cases move,move":            "--cases: move is named twice",
		"--targets kernel,kernel":      "--targets: kernel is named twice",
		"--rounds 0":                   "--rounds: 0",
		"--flows 0":                    "--flows: 0",
		"--reflectors 9":               "--reflectors: 9",
		"--interval 10us":              "--interval: 10µs is not within",
		"--liveness 2s":                "--liveness: 2s",
		"--watch 10ms":                 "--watch: 10ms",
		"--output xml":                 "output",
		"--selvage-binary /no/program": "selvage-binary",
	} {
		_, err := parse(args)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// All cases of one kind of fabric come before those of the other, targets beside each
// other, and by default each case has 20 outages or more.
func TestConvergePlan(t *testing.T) {
	c, err := parse("--rounds 2 --cases link-loss,move,rr-loss")
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range c.plan() {
		steps = append(steps, s.CaseName+"/"+s.Target)
	}
	want := strings.Fields("move/kernel move/selvage rr-loss/kernel rr-loss/selvage move/selvage move/kernel rr-loss/selvage rr-loss/kernel link-loss/kernel link-loss/selvage link-loss/selvage link-loss/kernel")
	if !slices.Equal(steps, want) {
		t.Errorf("%q, want %q", steps, want)
	}
	for args, most := range map[string]time.Duration{"--quick": 4 * time.Minute, "": 15 * time.Minute} {
		c, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if took := (&experiment.Pace{First: convergeExtra}).Left(c.plan()); took > most {
			t.Errorf("%q takes %s, want %s at most", args, took, most)
		}
		if outages := c.Flows * c.Rounds; outages < 12 || args == "" && outages < 20 {
			t.Errorf("%q has %d outages of a case", args, outages)
		}
	}
}

// An event of known times: who counts as hit, what is lost, and steps that add up to the time
// until the last flow resumed.
func TestConverged(t *testing.T) {
	const ms = time.Millisecond
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	k := inject.Times{Quiet: 9000 * ms, Begin: 10_000 * ms, Mend: 13_000 * ms, End: 15_000 * ms, Wall: wall}
	hole := func(from, to time.Duration) measure.OutageBreak {
		n := uint32((to - from) / ms)
		return measure.OutageBreak{LastSeq: 7, NextSeq: 7 + n, LastSent: from, NextSent: to, LastArrived: from, NextArrived: to, Lost: int(n) - 1}
	}
	options := measure.OutageOptions{Interval: ms}
	outages := []*measure.Outage{
		{Options: options, Late: 3 * ms, Flows: []measure.OutageFlow{{Breaks: []measure.OutageBreak{hole(10_001*ms, 10_052*ms), {LastSeq: 8, NextSeq: 9, LastSent: 12_000 * ms, NextSent: 12_001 * ms, LastArrived: 12_000 * ms, NextArrived: 12_052 * ms}}}, {Breaks: []measure.OutageBreak{hole(9500*ms, 9508*ms)}}}},
		{Options: options, Flows: []measure.OutageFlow{{Breaks: []measure.OutageBreak{hole(10_002*ms, 10_113*ms)}}, {Breaks: []measure.OutageBreak{hole(14_000*ms, 14_021*ms)}}}},
	}
	ways := []fabric.Way{{Name: "from B"}, {Name: "from C"}}
	at := func(after time.Duration) time.Time { return wall.Add(after) }
	metrics := func(s result.Sample, want map[string]float64) {
		t.Helper()
		for metric, want := range want {
			if got := s.Metrics[metric]; got < want-1e-9 || got > want+1e-9 {
				t.Errorf("%s %g, want %g", metric, got, want)
			}
		}
	}
	s := converged(k, EdgeLoss, ways, outages, []time.Time{{}, at(22 * ms), at(72 * ms), at(200 * ms)})
	metrics(s, map[string]float64{
		Flows: 4, inject.AffectedFlows: 2, inject.Lost: 50 + 110, inject.OutageP50: 51, inject.OutageP99: 110, inject.OutageMax: 110, inject.Noise: 7, inject.Late: 3, Open: 0,
		Followed: 111, "step_told": 20, "step_passed": 50, "step_followed": 41, "step_written": 0,
	})
	if _, written := s.Metrics["step_written"]; written {
		t.Error("what was written after all flows went on was needed")
	}
	if got := s.Series[WaySeries("from C")]; !slices.Equal(got, []float64{110}) {
		t.Errorf("outages from C %v", got)
	}
	if s = converged(k, Move, ways, outages, nil); len(s.Series[inject.OutageSeries]) != 4 {
		t.Errorf("outages %v: all flows have to follow a move", s.Series[inject.OutageSeries])
	}
	// The reflector's return is part of its loss.
	metrics(converged(k, RRLoss, ways, outages, nil), map[string]float64{inject.AffectedFlows: 3, inject.Lost: 50 + 110 + 20, Open: 0})
	outages[1].Flows[0].Breaks[0] = hole(10_002*ms, 13_500*ms)
	s = converged(k, EdgeLoss, ways, outages, nil)
	metrics(s, map[string]float64{Open: 1, inject.OutageMax: 3497})
	outages[0].Flows, outages[1].Flows = outages[0].Flows[1:], outages[1].Flows[1:]
	s = converged(k, EdgeLoss, ways, outages, nil)
	metrics(s, map[string]float64{inject.AffectedFlows: 0, inject.OutageMax: 0, inject.Lost: 0})
	if _, followed := s.Metrics[Followed]; followed || len(s.Series[inject.OutageSeries]) != 2 {
		t.Errorf("no flow was hit: %+v", s)
	}
}

func TestEventOutcome(t *testing.T) {
	m := map[string]float64{Flows: 12, inject.AffectedFlows: 8, inject.Lost: 456, inject.OutageP50: 55.2, inject.OutageMax: 57.1}
	for want, s := range map[string]result.Sample{
		"outage p50 55.2 ms, longest 57.1 ms, 456 packets lost in 8 of 12 flows": {Metrics: m},
		"FAILED: no route": {Error: "no\nroute"},
	} {
		if got := eventOutcome(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

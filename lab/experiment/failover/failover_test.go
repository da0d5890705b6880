package failover

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"failover"}, strings.Fields(args)...)...)
	return &c.Failover, err
}

func TestFailoverValidate(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "--quick": "", "--what tep": "", "--what edge --faults kill-target": "", "--what tep --faults blackhole,link-down": "",
		"--what host":                         "--what must be one of",
		"--what tep --faults death":           "there is no death of a tep; choose from link-down, blackhole",
		"--what edge --faults kill":           "there is no kill of an edge; choose from kill-source, kill-target",
		"--faults kill,kill":                  "named twice",
		"--kills 0":                           "--kills: 0",
		"--flows 0":                           "--flows: 0",
		"--connections 0":                     "--connections: 0",
		"--multiplier 1":                      "--multiplier: 1",
		"--interval 10us":                     "--interval: 10µs is not within",
		"--line-interval 2s":                  "--line-interval: 2s",
		"--liveness 1ms":                      "--liveness: 1ms",
		"--watch 100ms":                       "--watch: 100ms",
		"--output xml":                        "output",
		"--what gateway --faults kill-source": "there is no kill-source of a gateway",
	} {
		_, err := parse(args)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// All ways to kill come in turn, and --quick ends within a minute and a half.
func TestFailoverPlan(t *testing.T) {
	c, err := parse("--kills 6")
	if err != nil {
		t.Fatal(err)
	}
	var cases []string
	for i, s := range c.plan() {
		cases = append(cases, s.CaseName)
		if s.Round != i+1 || s.CaseName != "gateway/"+s.fault {
			t.Errorf("%+v", s)
		}
	}
	if got := strings.Join(cases, " "); got != "gateway/link-down gateway/blackhole gateway/death gateway/kill gateway/link-down gateway/blackhole" {
		t.Errorf("kills %s", got)
	}
	for args, most := range map[string]time.Duration{"--quick": 80 * time.Second, "": 4 * time.Minute} {
		c, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		if took := (&experiment.Pace{First: killExtra}).Left(experiment.Steps(c.plan())); took > most {
			t.Errorf("%q takes %s, want %s at most", args, took, most)
		}
	}
}

// A kill of known times: what the flows show and the edges tell makes steps that add up.
func TestKillingSample(t *testing.T) {
	const ms = time.Millisecond
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	k := inject.Times{Quiet: 9000 * ms, Begin: 10_000 * ms, Injected: 10_004 * ms, Mend: 13_000 * ms, End: 15_000 * ms, Wall: wall}
	k.Steps = inject.Steps{Noticed: wall.Add(152 * ms), Written: wall.Add(155 * ms), Announced: wall.Add(158 * ms)}
	// hole is a break of a flow that sends each millisecond, between two arrivals.
	hole := func(from, to time.Duration) measure.OutageBreak {
		n := uint32((to - from) / ms)
		return measure.OutageBreak{LastSeq: 7, NextSeq: 7 + n, LastSent: from, NextSent: to, LastArrived: from, NextArrived: to, Lost: int(n) - 1}
	}
	line := func(last, next time.Duration) measure.OutageBreak {
		return measure.OutageBreak{LastSeq: 1, NextSeq: 2, LastSent: last, NextSent: last + 100*ms, LastArrived: last, NextArrived: next}
	}
	outage := &measure.Outage{
		Options: measure.OutageOptions{Interval: ms, LineInterval: 100 * ms}, Late: 3 * ms,
		Flows: []measure.OutageFlow{
			{Breaks: []measure.OutageBreak{hole(9500*ms, 9511*ms), hole(10_001*ms, 10_170*ms)}},
			{Breaks: []measure.OutageBreak{hole(10_001*ms, 10_190*ms), hole(13_100*ms, 13_106*ms)}},
			{}, // it took another way
		},
		Connections: []measure.OutageFlow{
			{Breaks: []measure.OutageBreak{line(9950*ms, 10_400*ms)}},
			{Error: "reset", Ended: 10_300 * ms},
			{Error: "reset", Ended: 14_000 * ms},
			{Breaks: []measure.OutageBreak{line(9950*ms, 21_000*ms)}},
			{Breaks: []measure.OutageBreak{{LastSeq: 1, NextSeq: 5, LastArrived: 9990 * ms, LastSent: 9990 * ms, NextSent: 14_900 * ms, Lost: 4}}},
		},
	}
	s := sampleOfKill(k, outage)
	for metric, want := range map[string]float64{
		inject.AffectedFlows: 2, inject.Lost: 168 + 188, inject.OutageP50: 168, inject.OutageMax: 188, inject.Noise: 10, inject.ReturnLost: 5, inject.ReturnMax: 5, inject.Late: 3,
		inject.Connections: 5, inject.WentOn: 2, inject.Survived: 0.4, inject.ReturnSurvived: 0.2, inject.Repair: 168,
		"step_noticed": 150, "step_written": 3, "step_announced": 3, "step_forwarded": 12, "step_followed": 20,
	} {
		if got := s.Metrics[metric]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s %g, want %g", metric, got, want)
		}
	}
	if got := s.Series[inject.StallSeries]; len(got) != 5 || got[0] != 350 {
		t.Errorf("stalls %v, want 350 ms first", got)
	}
	k.Steps = inject.Steps{Noticed: wall.Add(152 * ms), Announced: wall.Add(500 * ms)} // after packets had passed
	s = sampleOfKill(k, outage)
	if _, written := s.Metrics["step_written"]; written || s.Metrics["step_announced"] != 18 || s.Metrics["step_forwarded"] != 0 {
		t.Errorf("steps that were not needed: %v", s.Metrics)
	}
	outage.Flows = outage.Flows[2:]
	if s = sampleOfKill(k, outage); s.Metrics[inject.AffectedFlows] != 0 || len(s.Series[inject.OutageSeries]) != 0 {
		t.Errorf("no flow was hit: %v", s.Metrics)
	}
	if _, steps := s.Metrics[inject.Repair]; steps {
		t.Error("nothing was repaired")
	}
}

func TestKillOutcome(t *testing.T) {
	m := map[string]float64{inject.Connections: 100, inject.WentOn: 99, inject.AffectedFlows: 16, inject.OutageP50: 171.4, inject.OutageMax: 180}
	for want, s := range map[string]result.Sample{
		"16 flows affected, outage p50 171 ms, longest 180 ms, 99 of 100 connections survived": {Metrics: m},
		"no flow was affected, 5 of 5 connections survived":                                    {Metrics: map[string]float64{inject.Connections: 5, inject.WentOn: 5}},
		"FAILED: no route": {Error: "no\nroute"},
	} {
		if got := killOutcome(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

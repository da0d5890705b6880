package latency

import (
	"cmp"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/stats"
)

// policedStep is one sample to take.
type policedStep struct {
	experiment.Step
	setting Setting
	what    string // of --measure, or "open", "pairs", "app"
	loop    int    // of appLoops
}

// plan lists the samples in the order in which they are taken. A round begins with the round
// trips: of one target after the other all numbers of rules, since differences are between
// these. Then come the rates: for one number of rules after the other all targets, since
// these are what is held against each other. Both orders are balanced, and all samples of a
// target with one policy are neighbours in each part.
func (c *Command) plan() []policedStep {
	var steps []policedStep
	targets := stats.Balanced(c.Targets, c.Rounds)
	for i, order := range stats.Balanced(c.settings(), c.Rounds) {
		add := func(target string, setting Setting, roundTrips bool) {
			if target == "plain" && setting.Rules > 0 {
				return
			}
			for _, s := range c.samples(setting, target) {
				if s.roundTrip() == roundTrips {
					s.Round, s.Target = i+1, target
					steps = append(steps, s)
				}
			}
		}
		for _, target := range targets[i] {
			for _, setting := range order {
				add(target, setting, true)
			}
		}
		for _, setting := range order {
			for _, target := range targets[i] {
				add(target, setting, false)
			}
		}
	}
	return steps
}

// roundTrip says whether the sample is of times, and not of rates.
func (s policedStep) roundTrip() bool {
	return slices.Contains([]string{"rr", "rr1", "udprr", "open", "pairs", "app"}, s.what)
}

// settings are the scenarios on one host and the sweep between two.
func (c *Command) settings() []Setting {
	var all []Setting
	if slices.Contains(c.Scenarios, SameHost) {
		for _, rules := range []int{0, ScenarioRules} {
			all = append(all, Setting{Scenario: SameHost, Rules: rules, Pairs: 1})
		}
	}
	for _, rules := range c.Rules {
		all = append(all, Setting{Scenario: TwoHosts, Rules: rules, Pairs: 1})
	}
	return all
}

// scenario says whether a setting is one of the NSX firewall study's that was asked for.
func (c *Command) scenario(s Setting) bool {
	return slices.Contains(c.Scenarios, s.Scenario) && (s.Rules == 0 || s.Rules == ScenarioRules)
}

// samples are those of a target in a setting.
func (c *Command) samples(setting Setting, target string) []policedStep {
	var all []policedStep
	add := func(s Setting, what string, planned time.Duration, loop int) {
		all = append(all, policedStep{experiment.Step{CaseName: s.Case(), Planned: planned}, s, what, loop})
	}
	times := map[string]time.Duration{"tcp": wholeSeconds(c.Sample)}
	if c.scenario(setting) {
		times["rr"] = c.Duration
	}
	for _, what := range c.Measure {
		// On one host the rates would say no more than those between two.
		if setting.Scenario == TwoHosts || !slices.Contains([]string{"udprr", "udp", "tcp"}, what) {
			add(setting, what, cmp.Or(times[what], c.Sample), 0)
		}
	}
	if c.Rate > 0 {
		add(setting, "open", c.Sample, 0)
	}
	if c.Pairs > 1 && c.scenario(setting) && slices.Contains(c.Measure, "rr") {
		several := setting
		several.Pairs = c.Pairs
		add(several, "pairs", c.Duration, 0)
	}
	if c.asksApp(setting, target) {
		for i := range appLoops(c.Sample, appRate) {
			add(setting, "app", c.Sample, i)
		}
	}
	return all
}

// asksApp says whether the application is measured. Open vSwitch's userspace datapath is
// left out: a request would be its wake-ups alone.
func (c *Command) asksApp(s Setting, target string) bool {
	return c.App && target != "ovs" && s.Scenario == TwoHosts && (s.Rules == 0 || s.Rules == ScenarioRules)
}

// wholeSeconds rounds up, as iperf3 needs it.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// String names the sample in a progress line.
func (s policedStep) String() string {
	what := map[string]string{
		"rr": "TCP_RR 1024", "rr1": "TCP_RR 1", "crr": "TCP_CRR", "conn": "connections", "udprr": "UDP_RR", "udp": "UDP", "tcp": "TCP",
		"open": "TCP_RR 1024 open", "pairs": "TCP_RR 1024 of all", "app": "HTTP",
	}[s.what]
	return s.Step.String() + ", " + what
}

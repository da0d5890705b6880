// Package search finds the rates that RFC 2544 asks for by trials that others
// make: throughput at several loss goals, the loss curve, bursts, recovery.
//
// Its invariant: pure. It sends no packets and reads no clock; what it decides
// follows from the outcomes of trials alone, so it is tested against simulated
// devices. Rates are frames a second of all interfaces together. Do not judge
// results here; that is lab/diagnose.
package search

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Trial offers pps frames a second for length and says what became of them. It
// returns an error only when no trial can be made at all; a trial that went wrong
// by itself is an Outcome with a reason in Void.
type Trial func(ctx context.Context, pps float64, length time.Duration) (Outcome, error)

// Outcome is what became of the frames of one trial.
type Outcome struct {
	Sent uint64 // that left the generator
	Lost uint64 // of these, that did not come back
	// Unsent are frames that were due and that the generator did not get out. They are
	// not lost: the device never saw them.
	Unsent uint64
	// Void says why the trial counts for nothing, "" when it counts: counters that do not
	// add up, a link that fell, a hypervisor that took the core away.
	Void string
}

// LossRatio is the share of sent frames that were lost, 0 … 1.
func (o Outcome) LossRatio() float64 {
	if o.Sent == 0 {
		return 0
	}
	return min(float64(o.Lost)/float64(o.Sent), 1)
}

// UnsentRatio is the share of frames that were due and did not leave.
func (o Outcome) UnsentRatio() float64 {
	if o.Unsent == 0 {
		return 0
	}
	return float64(o.Unsent) / float64(o.Sent+o.Unsent)
}

// Names of the two goals of every search here.
const (
	NDR = "ndr" // no drop: RFC 2544's throughput (section 26.1)
	PDR = "pdr" // partial drop: at most a tolerance
)

// Goal is what a load has to satisfy, as RFC 9971 (MLRsearch) defines a search goal.
type Goal struct {
	Name string
	// LossRatio is the largest share of lost frames of a good trial, 0 … below 1.
	LossRatio float64
	// ExceedRatio is the share of trial time (of Sum) that may be worse than LossRatio at a
	// load that still satisfies the goal, 0 … below 1. RFC 2544 knows none: 0.
	ExceedRatio float64
	// Width is how close the bounds come at the end, as a share of the upper one.
	Width float64
	// Initial and Final are the lengths of the first, coarse trials and of those that
	// decide. Sum is how much time of final trials a load needs to satisfy the goal.
	Initial, Final, Sum time.Duration
}

// Strict are NDR and PDR as RFC 2544 has them: one trial decides about a load.
// tolerance is the PDR's loss ratio (0.0001 is 0.01 %).
func Strict(initial, final time.Duration, tolerance float64) []Goal {
	return []Goal{
		{Name: NDR, Width: 0.005, Initial: initial, Final: final, Sum: final},
		{Name: PDR, LossRatio: tolerance, Width: 0.005, Initial: initial, Final: final, Sum: final},
	}
}

// Repeated are NDR and PDR on a machine with noise: a load satisfies a goal when
// at least half of three final trials do (RFC 9971 recommends an exceed ratio of one half).
func Repeated(initial, final time.Duration, tolerance float64) []Goal {
	goals := Strict(initial, final, tolerance)
	for i := range goals {
		goals[i].ExceedRatio, goals[i].Sum = 0.5, 3*final
	}
	return goals
}

// Options are what both strategies share.
type Options struct {
	Goals []Goal
	// Min and Max bound the rates that are tried. Min has to be large enough to send
	// some frames in the shortest trial.
	Min, Max float64
	// MaxIsGenerator says that Max is the generator's ceiling and not a line's rate: a
	// goal that is satisfied at Max was then limited by the generator.
	MaxIsGenerator bool
	// Resolution is the smallest difference of two rates that is looked at; goals whose
	// Width asks for less stop there. 0 is 1 frame a second.
	Resolution float64
	// Retries is how often a void trial, or one in which the generator fell behind, is
	// repeated before it is believed.
	Retries int
	// Unsent is the share of unsent frames up to which a trial counts; 0 is 0.001.
	Unsent float64
	// Probes are shares of the lower bound at which a short trial looks for loss below the
	// throughput, the mark of a device that is not monotonic. nil is 0.9 and 0.5; an
	// empty slice is none.
	Probes []float64
	// Most bounds the number of trials; 0 is 500.
	Most int
	// Observe, when set, is told of every trial that was made, void ones too.
	Observe func(Record)
}

// Record is one trial that was made.
type Record struct {
	PPS     float64
	Length  time.Duration
	Outcome Outcome
}

// Stop is why the search for a goal ended.
type Stop string

// The reasons. With Width the figure is the device's; with Maximum, Generator and Minimum the
// search ran out of rates, and the figure is a bound.
const (
	Width     Stop = "the bounds are as close as requested"
	Maximum   Stop = "the highest rate that was allowed satisfies the goal"
	Generator Stop = "the generator's highest rate satisfies the goal"
	Minimum   Stop = "even the lowest rate does not satisfy the goal"
	Spent     Stop = "the number of trials is spent"
)

// Found is what was found for one goal.
type Found struct {
	Goal Goal
	// Throughput is the conditional throughput (RFC 9971): forwarded frames a second at
	// Lower. 0 when no load satisfies the goal.
	Throughput float64
	// Lower is the highest offered rate below Upper that satisfies the goal, Upper the lowest
	// that does not; each 0 when there is none.
	Lower, Upper float64
	// LossRatio is the loss at Lower that Throughput is reckoned with.
	LossRatio float64
	Stop      Stop
	// Above are rates above Upper that satisfy the goal all the same: the device is not
	// monotonic, and Throughput is what it does below its first loss.
	Above []float64
}

// Limited says that not the device but the range of rates set the figure.
func (f Found) Limited() bool { return f.Stop == Maximum || f.Stop == Generator }

// Result is what a search found, by goal in the order of Options.Goals, and all it
// tried. Trials of all goals are shared.
type Result struct {
	Goals  []Found
	Trials []Record
	// Max is the highest rate that could be offered: Options.Max, or less when the
	// generator fell behind there (Behind is then true).
	Max    float64
	Behind bool
	// Notes say in sentences what a reader has to know: void trials, loss at lower rates.
	Notes []string
}

// Find returns what was found for the goal of that name.
func (r Result) Find(name string) (Found, bool) {
	for _, f := range r.Goals {
		if f.Goal.Name == name {
			return f, true
		}
	}
	return Found{}, false
}

// Time is how long all trials were, without pauses.
func (r Result) Time() time.Duration {
	var sum time.Duration
	for _, t := range r.Trials {
		sum += t.Length
	}
	return sum
}

// ErrVoid is in the error of a search that ended because a trial stayed void.
var ErrVoid = errors.New("trial is void")

// defaults fills in what was left out.
func (o Options) defaults() Options {
	if o.Resolution == 0 {
		o.Resolution = 1
	}
	if o.Unsent == 0 {
		o.Unsent = 0.001
	}
	if o.Most == 0 {
		o.Most = 500
	}
	if o.Probes == nil {
		o.Probes = []float64{0.9, 0.5}
	}
	for i := range o.Goals {
		g := &o.Goals[i]
		if g.Initial == 0 {
			g.Initial = g.Final
		}
		if g.Sum == 0 {
			g.Sum = g.Final
		}
	}
	return o
}

func (o Options) check() error {
	switch {
	case len(o.Goals) == 0:
		return errors.New("search: no goal is given")
	case !(o.Min > 0) || !(o.Max >= o.Min):
		return fmt.Errorf("search: rates %g … %g are not a range above 0", o.Min, o.Max)
	case o.Resolution < 0 || o.Unsent < 0 || o.Unsent >= 1 || o.Retries < 0 || o.Most < 0:
		return errors.New("search: resolution, retries and trials are 0 or more, unsent is within 0 … 1")
	}
	for _, share := range o.Probes {
		if !(share > 0 && share < 1) {
			return fmt.Errorf("search: probe %g is not between 0 and 1", share)
		}
	}
	names := map[string]bool{}
	for _, g := range o.Goals {
		if names[g.Name] {
			return fmt.Errorf("search: two goals are named %q", g.Name)
		}
		names[g.Name] = true
		if err := g.check(); err != nil {
			return err
		}
	}
	return nil
}

func (g Goal) check() error {
	switch {
	case !(g.LossRatio >= 0 && g.LossRatio < 1):
		return fmt.Errorf("search: goal %s: loss ratio %g is not within 0 … 1", g.Name, g.LossRatio)
	case !(g.ExceedRatio >= 0 && g.ExceedRatio < 1):
		return fmt.Errorf("search: goal %s: exceed ratio %g is not within 0 … 1", g.Name, g.ExceedRatio)
	case !(g.Width > 0 && g.Width < 1):
		return fmt.Errorf("search: goal %s: width %g is not between 0 and 1", g.Name, g.Width)
	case g.Final <= 0 || g.Initial <= 0 || g.Initial > g.Final:
		return fmt.Errorf("search: goal %s: trials of %s to %s: want more than 0, the final not below the initial", g.Name, g.Initial, g.Final)
	case g.Sum < g.Final:
		return fmt.Errorf("search: goal %s: duration sum %s is less than one final trial (%s)", g.Name, g.Sum, g.Final)
	}
	return nil
}

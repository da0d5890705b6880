package latency

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Parts are all of them, from the guests' to the underlay's: the order of charts. Without
// stamps in guests, port and wake-up are part of their stacks.
func Parts() []string {
	return []string{breakdown.StackPart, breakdown.WakePart, breakdown.ProgramPart, breakdown.PortPart, breakdown.ParsePart, breakdown.CachePart, breakdown.DecidePart, breakdown.FirewallPart, breakdown.KeepPart, breakdown.EncapPart, breakdown.DecapPart, breakdown.DeliverPart, breakdown.UnderlayPart}
}

// Kinds of transactions that are broken down.
const (
	RequestKind = "rr-1"    // a request and its answer over an open connection
	ConnectKind = "connect" // the opening of a connection
)

// Broken is what a case of a breakdown has.
type Broken struct {
	Scenario string // TwoHosts or SameHost
	Kind     string
	Rules    int  // of the firewall, 0: off
	Timed    bool // with stamps
}

const brokenPrefix, timedSuffix = "breakdown-", "-timed"

// Case is the name of b's samples: "breakdown-two-hosts-rr-1-rules-100".
func (b Broken) Case() string {
	name := fmt.Sprintf("%s%s-%s-rules-%d", brokenPrefix, b.Scenario, b.Kind, b.Rules)
	if b.Timed {
		name += timedSuffix
	}
	return name
}

// BrokenDown reads a case of a breakdown.
func BrokenDown(caseName string) (b Broken, ok bool) {
	rest, ok := strings.CutPrefix(caseName, brokenPrefix)
	if !ok {
		return b, false
	}
	rest, b.Timed = strings.CutSuffix(rest, timedSuffix)
	rest, rules, ok := cutLast(rest, "-rules-")
	if !ok {
		return b, false
	}
	var err error
	if b.Rules, err = strconv.Atoi(rules); err != nil || b.Rules < 0 {
		return b, false
	}
	for _, b.Kind = range []string{RequestKind, ConnectKind} {
		if b.Scenario, ok = strings.CutSuffix(rest, "-"+b.Kind); ok {
			return b, b.Scenario != ""
		}
	}
	return b, false
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Metrics of a breakdown's samples: the median round trip and its tenth percentile, and
// with stamps the median of each step, all in µs.
const (
	BrokenRTT    = "rtt_p50"
	BrokenFloor  = "rtt_p10"
	LeftOut      = "left_out"    // share of the transactions that could not be followed
	StampsSeries = "step_stamps" // stamps whose cost is in each step, by the steps' numbers
	stepPrefix   = "step_"
)

// StepMetric names the step with a number from 0: "step_03_parse_host A".
func StepMetric(number int, part, place string) string {
	return fmt.Sprintf("%s%02d_%s_%s", stepPrefix, number, part, place)
}

// IsStep says whether a metric is a step's.
func IsStep(name string) bool {
	return strings.HasPrefix(name, stepPrefix) && len(name) > len(stepPrefix)+3
}

// Step is a part of a round trip.
type Step struct {
	Part, Place string
	Time        stats.Interval // µs over the rounds, without what stamps cost
	Stamps      int            // whose cost was taken out
}

// Breakdown is where the time of a round trip goes.
type Breakdown struct {
	Broken
	Steps []Step
	RTT   stats.Interval // µs, without stamps
	Timed stats.Interval // µs, with them
	// PerStamp is what one stamp costs, in µs: of pairs with stamps and without, in all cases
	// of the run.
	PerStamp stats.Interval
	Stamps   int     // of one round trip
	LeftOut  float64 // share of the transactions that could not be followed
}

// Sum is the time of all steps, in µs.
func (b Breakdown) Sum() float64 {
	sum := 0.0
	for _, s := range b.Steps {
		sum += s.Time.Median
	}
	return sum
}

// Unexplained is what the steps leave of RTT, in µs: medians do not add up exactly, and
// stamps cost more than their own time.
func (b Breakdown) Unexplained() float64 { return b.RTT.Median - b.Sum() }

// Of is the time of parts, wherever they are, in µs.
func (b Breakdown) Of(parts ...string) float64 {
	sum := 0.0
	for _, s := range b.Steps {
		if slices.Contains(parts, s.Part) {
			sum += s.Time.Median
		}
	}
	return sum
}

// Breakdowns are those of a target in r, in the order of its samples. One without
// samples both with stamps and without is left out.
func Breakdowns(r result.Result, target string) []Breakdown {
	var all []Breakdown
	cases := brokenCases(r, target)
	cost := perStamp(r, target, cases)
	for _, caseName := range cases {
		if one, ok := breakdownOf(r, target, caseName, cost); ok {
			all = append(all, one)
		}
	}
	return all
}

func breakdownOf(r result.Result, target string, caseName Broken, perStamp stats.Interval) (Breakdown, bool) {
	plain, stamped := brokenValues(r, target, caseName, BrokenRTT)
	names, stamps := stepsOf(r, target, caseName)
	b := Breakdown{Broken: caseName, RTT: stats.Median(stats.ByRound(plain)), Timed: stats.Median(stats.ByRound(stamped)), PerStamp: perStamp, Stamps: total(stamps)}
	if len(names) == 0 || b.RTT.Median <= 0 || perStamp.N == 0 {
		return b, false
	}
	timed := caseName
	timed.Timed = true
	b.LeftOut = stats.Median(stats.ByRound(stats.Values(r, target, timed.Case(), LeftOut))).Median
	for i, name := range names {
		cost := float64(stamps[i]) * perStamp.Median
		iv := stats.Median(stats.ByRound(stats.Values(r, target, timed.Case(), name)))
		iv.Median, iv.Lo, iv.Hi = iv.Median-cost, iv.Lo-cost, iv.Hi-cost
		part, place, _ := strings.Cut(name[len(stepPrefix)+3:], "_")
		b.Steps = append(b.Steps, Step{Part: part, Place: place, Time: iv, Stamps: stamps[i]})
	}
	return b, true
}

// brokenValues are a metric of round trips by round, without stamps and with them.
func brokenValues(r result.Result, target string, caseName Broken, metric string) (plain, stamped map[int]float64) {
	plain = stats.Values(r, target, caseName.Case(), metric)
	caseName.Timed = true
	return plain, stats.Values(r, target, caseName.Case(), metric)
}

// perStamp is what a stamp costs in all cases together, in µs. It is the same in every round
// trip, so it is taken from quick ones, which others' use of the machine moves least.
func perStamp(r result.Result, target string, cases []Broken) stats.Interval {
	var costs []float64
	for _, caseName := range cases {
		_, stamps := stepsOf(r, target, caseName)
		n := total(stamps)
		if n == 0 {
			continue
		}
		plain, stamped := brokenValues(r, target, caseName, BrokenFloor)
		_, added, _ := stats.Pair(stamped, plain)
		for _, us := range added {
			costs = append(costs, us/float64(n))
		}
	}
	return stats.Median(costs)
}

func total(counts []int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}

// brokenCases are a target's cases, without stamps, in the order of its samples.
func brokenCases(r result.Result, target string) []Broken {
	var all []Broken
	for _, s := range r.Samples {
		b, ok := BrokenDown(s.Case)
		b.Timed = false
		if ok && s.Target == target && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	return all
}

// stepsOf are the metrics of a case's steps in order, and the stamps in each. A case
// whose samples differ in them has none: they went different ways.
func stepsOf(r result.Result, target string, caseName Broken) (names []string, stamps []int) {
	caseName.Timed = true
	timed := caseName.Case()
	for _, s := range r.Samples {
		if s.Target != target || s.Case != timed || s.Error != "" {
			continue
		}
		var own []string
		for name := range s.Metrics {
			if IsStep(name) {
				own = append(own, name)
			}
		}
		slices.Sort(own)
		if names != nil && !slices.Equal(own, names) || len(own) != len(s.Series[StampsSeries]) {
			return nil, nil
		}
		names, stamps = own, nil
		for _, n := range s.Series[StampsSeries] {
			stamps = append(stamps, int(n))
		}
	}
	return names, stamps
}

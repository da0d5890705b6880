package attack

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on what an attacker takes from others. A sample is an attack;
// its case is the attack's name.
const Name = "attack"

// Metrics of that experiment. Kept ones are ratios to the same pair unattacked, before and after. With
// _same or _other at their end they are of that pair, in a row without of the pair that lost more.
const (
	Crossed         = "crossed"          // packets that arrived where they must not
	KeptTCP         = "kept_tcp"         // throughput
	KeptRR          = "kept_rr"          // median round trip
	KeptConnections = "kept_connections" // connections a second
	Recovered       = "recovered"        // s from the attack's end until all is as it was
	LostConnections = "lost_connections" // that were established before
	// Controls are what kept ones would be of no attack: ratios of the unattacked slices after an
	// attack to those before it.
	ControlTCP         = "control_tcp"
	ControlRR          = "control_rr"
	ControlConnections = "control_connections"
	Sent               = "sent"           // frames of the attacker, or routes
	NotApplicable      = "not_applicable" // 1 where a target has nothing that is attacked
)

// Parameters that are times.
const (
	ageing   = "ageing"
	recovery = "recovery"
)

// titleParameter is the name of the parameter that says what an attack is.
func titleParameter(attack string) string { return "attack " + attack }

// whyNotParameter is the name of the parameter that says why an attack cannot be made on a target.
func whyNotParameter(target, attack string) string {
	return NotApplicable + " " + target + " " + attack
}

// The honest pairs.
const (
	SamePair  = "same"  // of the attacker's segment
	OtherPair = "other" // of another tenant's
)

// Limit is what a target has to keep of a metric for an attack to have failed.
type Limit struct {
	Metric, Unit, Title string
	Limit               float64
	AtLeast             bool // the limit is the least, else the most
	// Patience is from when on nothing was waited for, 0 for no such time.
	Patience float64
	// Control is what the metric would be of no attack, "" for none.
	Control string
}

// Broken says whether a figure is beyond the limit.
func (l Limit) Broken(value float64) bool {
	if l.AtLeast {
		return value < l.Limit
	}
	return value > l.Limit || l.Patience > 0 && value >= l.Patience
}

// Limits are those of all metrics, in the order of the rows. That of Recovered is the ageing time.
func Limits(r result.Result) []Limit {
	return []Limit{
		{Metric: Crossed, Unit: "packets", Title: "Crossed"},
		{Metric: KeptTCP, Unit: "×", Title: "TCP throughput kept", Limit: 0.95, AtLeast: true, Control: ControlTCP},
		{Metric: KeptRR, Unit: "×", Title: "Round trip, against unattacked", Limit: 1.1, Control: ControlRR},
		{Metric: KeptConnections, Unit: "×", Title: "New connections kept", Limit: 0.9, AtLeast: true, Control: ControlConnections},
		{Metric: LostConnections, Unit: "count", Title: "Established connections lost"},
		{Metric: Recovered, Unit: "s", Title: "Recovered after", Limit: r.Parameters.Number(ageing), Patience: r.Parameters.Number(recovery)},
	}
}

// figures are those of a sample, which way is better; of what was kept those of either pair.
func figures() []stats.Metric {
	metrics := []stats.Metric{}
	for _, l := range Limits(result.Result{}) {
		m := stats.Metric{Name: l.Metric, Unit: l.Unit, Title: l.Title, Higher: l.AtLeast}
		if l.Control == "" {
			metrics = append(metrics, m)
			continue
		}
		for _, pair := range []string{SamePair, OtherPair} {
			m.Name = l.Metric + "_" + pair
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// Attacks are the good samples of an attack on a target that could be made.
func Attacks(r result.Result, target, caseName string) []result.Sample {
	return slices.DeleteFunc(stats.Good(r, target, caseName), func(s result.Sample) bool { return s.Metrics[NotApplicable] > 0 })
}

// WhyNot is why an attack cannot be made on a target, "" where it can.
func WhyNot(r result.Result, target, caseName string) string {
	for _, s := range stats.Good(r, target, caseName) {
		if s.Metrics[NotApplicable] > 0 {
			if why := r.Parameters.Text(whyNotParameter(target, caseName)); why != "" {
				return why
			}
			return "it has nothing that is attacked"
		}
	}
	return ""
}

// summarise summarise the attacks by case. Packets that crossed and connections that were lost are sums
// over rounds, times to recover the longest, and lo and hi the least and the largest of a round; all else
// are medians with their interval.
func summarise(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range stats.Cases(r) {
		for _, name := range stats.Names(r) {
			for _, row := range attackedRows(r, name, caseName) {
				row.Target, row.Case = name, caseName
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func attackedRows(r result.Result, name, caseName string) []result.Row {
	if WhyNot(r, name, caseName) != "" {
		return []result.Row{{Metric: NotApplicable, Unit: "count", Median: 1, Lo: 1, Hi: 1, N: len(stats.Good(r, name, caseName))}}
	}
	samples := Attacks(r, name, caseName)
	sum := func(metric string) (sum float64) {
		for _, v := range stats.MetricOf(samples, metric) {
			sum += v
		}
		return sum
	}
	var rows []result.Row
	for _, limit := range Limits(r) {
		switch limit.Metric {
		case Crossed, LostConnections:
			rows = append(rows, stats.Extremes(samples, limit.Metric, limit.Unit, sum(limit.Metric)))
		case Recovered:
			rows = append(rows, stats.Extremes(samples, Recovered, "s", most(stats.MetricOf(samples, Recovered))))
		default:
			same, other := stats.OverSamples(samples, limit.Metric+"_"+SamePair, limit.Unit), stats.OverSamples(samples, limit.Metric+"_"+OtherPair, limit.Unit)
			rows = append(rows, limit.worse(same, other), same, other)
		}
	}
	rows = append(rows, stats.OverSamples(samples, Sent, "count"))
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

// worse is the row of the pair that lost more, as the metric's. A pair without a figure has lost nothing.
func (l Limit) worse(same, other result.Row) result.Row {
	row := same
	if same.N == 0 || other.N > 0 && (other.Median < same.Median) == l.AtLeast {
		row = other
	}
	row.Metric = l.Metric
	return row
}

func most(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}

// Loss is what an attack took: a metric beyond its limit.
type Loss struct {
	Limit
	Row result.Row
}

// fewControls is from how many unattacked comparisons on one says anything about chance.
const fewControls = 8

// Chance is beyond what a metric of a target's pairs is of no attack in one of fifty comparisons: with
// fewer, the worst of all. It is false when there are too few. So rare, since each attack has three such
// metrics of two pairs.
func Chance(r result.Result, target string, l Limit) (float64, bool) {
	var controls []float64
	for _, s := range r.Samples {
		for _, pair := range []string{SamePair, OtherPair} {
			if value, ok := s.Metrics[l.Control+"_"+pair]; ok && s.Target == target && s.Error == "" {
				controls = append(controls, value)
			}
		}
	}
	if len(controls) < fewControls {
		return 0, false
	}
	slices.Sort(controls)
	rare := len(controls) / 50
	if l.AtLeast {
		return controls[rare], true
	}
	return controls[len(controls)-1-rare], true
}

// Losses are what an attack took of a target, in the order of the limits; none where it failed.
func Losses(r result.Result, target, caseName string) []Loss {
	losses, _ := beyondLimits(r, target, caseName)
	return losses
}

// Unclear are figures of a target beyond limits, but not beyond what they are of no attack: this run
// cannot tell whether the attack took something.
func Unclear(r result.Result, target, caseName string) []Loss {
	_, unclear := beyondLimits(r, target, caseName)
	return unclear
}

func beyondLimits(r result.Result, target, caseName string) (losses, unclear []Loss) {
	rows := r.Summary
	if len(rows) == 0 {
		rows = summarise(r)
	}
	for _, limit := range Limits(r) {
		row, ok := stats.Find(rows, target, caseName, limit.Metric)
		if !ok || !limit.Broken(row.Median) {
			continue
		}
		byChance := limit
		if chance, known := Chance(r, target, limit); known {
			byChance.Limit = chance
		}
		if limit.Control != "" && !byChance.Broken(row.Median) {
			unclear = append(unclear, Loss{limit, row})
		} else {
			losses = append(losses, Loss{limit, row})
		}
	}
	return losses, unclear
}

// refuse says, without a final stop, why nothing may be concluded about a target in a case, or
// "" when something may.
func refuse(r result.Result, target, caseName string) string {
	var failed []string
	for _, s := range r.Samples {
		if s.Target == target && s.Case == caseName && s.Error != "" {
			failed = append(failed, "round "+strconv.Itoa(s.Round)+" has an error ("+strings.TrimSpace(s.Error)+")")
		}
	}
	switch {
	case len(failed) > 0:
		return strings.Join(failed, ", ")
	case len(Attacks(r, target, caseName)) == 0 && WhyNot(r, target, caseName) == "":
		return fmt.Sprintf("%s was not attacked by %s", target, caseName)
	}
	return ""
}

// Outcome is what came of an attack on a target.
type Outcome int

// The outcomes of an attack. From AttackHeld on it was made and measured.
const (
	NotMeasured Outcome = iota
	AttackNotApplicable
	Failed // the samples have errors
	Held   // within all limits
	AttackUnclear
	AttackLost
)

// Made says whether the attack was made and measured.
func (o Outcome) Made() bool { return o >= Held }

// OutcomeOf is what came of an attack on a target.
func OutcomeOf(r result.Result, target, caseName string) Outcome {
	if WhyNot(r, target, caseName) != "" {
		return AttackNotApplicable
	}
	if refuse(r, target, caseName) != "" {
		if slices.ContainsFunc(r.Samples, func(s result.Sample) bool { return s.Target == target && s.Case == caseName && s.Error != "" }) {
			return Failed
		}
		return NotMeasured
	}
	losses, unclear := beyondLimits(r, target, caseName)
	switch {
	case len(losses) > 0:
		return AttackLost
	case len(unclear) > 0:
		return AttackUnclear
	}
	return Held
}

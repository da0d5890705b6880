package stats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/result"
)

// Attack is the name of the experiment on what an attacker takes from others. A sample is an attack;
// its case is the attack's name.
const Attack = "attack"

// Metrics of that experiment. Kept ones are ratios to the same pair just before, of the honest pair that
// lost more; with _same or _other at their end they are of that pair.
const (
	Crossed         = "crossed"          // packets that arrived where they must not
	KeptTCP         = "kept_tcp"         // throughput
	KeptRR          = "kept_rr"          // median round trip
	KeptConnections = "kept_connections" // connections a second
	Recovered       = "recovered"        // s from the attack's end until all is as it was
	LostConnections = "lost_connections" // that were established before
	Sent            = "sent"             // frames of the attacker, or routes
	NotApplicable   = "not_applicable"   // 1 where a target has nothing that is attacked
)

// AttackTitle begins the names of parameters that say what an attack is; its name follows.
const AttackTitle = "attack "

// The honest pairs.
const (
	SamePair  = "same"  // of the attacker's segment
	OtherPair = "other" // of another tenant's
)

// AttackLimit is what a target has to keep of a metric for an attack to have failed.
type AttackLimit struct {
	Metric, Unit, Title string
	Limit               float64
	AtLeast             bool // the limit is the least, else the most
	// Patience is from when on nothing was waited for, 0 for no such time.
	Patience float64
}

// Broken says whether a figure is beyond the limit.
func (l AttackLimit) Broken(value float64) bool {
	if l.AtLeast {
		return value < l.Limit
	}
	return value > l.Limit || l.Patience > 0 && value >= l.Patience
}

// AttackLimits are those of all metrics, in the order of the rows. That of Recovered is the ageing time.
func AttackLimits(r result.Result) []AttackLimit {
	return []AttackLimit{
		{Metric: Crossed, Unit: "packets", Title: "Crossed"},
		{Metric: KeptTCP, Unit: "×", Title: "TCP throughput kept", Limit: 0.95, AtLeast: true},
		{Metric: KeptRR, Unit: "×", Title: "Round trip, against unattacked", Limit: 1.1},
		{Metric: KeptConnections, Unit: "×", Title: "New connections kept", Limit: 0.9, AtLeast: true},
		{Metric: LostConnections, Unit: "count", Title: "Established connections lost"},
		{Metric: Recovered, Unit: "s", Title: "Recovered after", Limit: timeOf(r, "ageing").Seconds(), Patience: timeOf(r, "recovery").Seconds()},
	}
}

// timeOf is a parameter that is a time, 0 without one.
func timeOf(r result.Result, parameter string) time.Duration {
	d, err := time.ParseDuration(r.Parameters[parameter])
	if err != nil {
		return 0
	}
	return d
}

// Attacks are the good samples of an attack on a target that could be made.
func Attacks(r result.Result, target, caseName string) []result.Sample {
	return slices.DeleteFunc(Events(r, target, caseName), func(s result.Sample) bool { return s.Metrics[NotApplicable] > 0 })
}

// WhyNot is why an attack cannot be made on a target, "" where it can.
func WhyNot(r result.Result, target, caseName string) string {
	for _, s := range Events(r, target, caseName) {
		if s.Metrics[NotApplicable] > 0 {
			if why := r.Parameters[NotApplicable+" "+target+" "+caseName]; why != "" {
				return why
			}
			return "it has nothing that is attacked"
		}
	}
	return ""
}

// attackRows summarise the attacks by case. Packets that crossed and connections that were lost are sums
// over rounds, times to recover the longest, and lo and hi the least and the largest of a round; all else
// are medians with their interval.
func attackRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, caseName := range Cases(r) {
		for _, name := range Names(r) {
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
		return []result.Row{{Metric: NotApplicable, Unit: "count", Median: 1, Lo: 1, Hi: 1, N: len(Events(r, name, caseName))}}
	}
	samples := Attacks(r, name, caseName)
	sum := func(metric string) (sum float64) {
		for _, v := range OfKills(samples, metric) {
			sum += v
		}
		return sum
	}
	var rows []result.Row
	for _, limit := range AttackLimits(r) {
		switch limit.Metric {
		case Crossed, LostConnections:
			rows = append(rows, extremes(samples, limit.Metric, limit.Unit, sum(limit.Metric)))
		case Recovered:
			rows = append(rows, extremes(samples, Recovered, "s", most(OfKills(samples, Recovered))))
		default:
			rows = append(rows, overKills(samples, limit.Metric, limit.Unit))
			for _, pair := range []string{SamePair, OtherPair} {
				rows = append(rows, overKills(samples, limit.Metric+"_"+pair, limit.Unit))
			}
		}
	}
	rows = append(rows, overKills(samples, Sent, "count"))
	return slices.DeleteFunc(rows, func(row result.Row) bool { return row.N == 0 })
}

func most(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Max(values)
}

// Loss is what an attack took: a metric beyond its limit.
type Loss struct {
	AttackLimit
	Row result.Row
}

// Losses are what an attack took of a target, in the order of the limits; none where it failed.
func Losses(r result.Result, target, caseName string) []Loss {
	rows := r.Summary
	if len(rows) == 0 {
		rows = Summarise(r)
	}
	var losses []Loss
	for _, limit := range AttackLimits(r) {
		row, ok := Find(rows, target, caseName, limit.Metric)
		if !ok {
			continue
		}
		if limit.Broken(row.Median) {
			losses = append(losses, Loss{limit, row})
		}
	}
	return losses
}

// RefuseAttack says, without a final stop, why nothing may be concluded about a target in a case, or
// "" when something may.
func RefuseAttack(r result.Result, target, caseName string) string {
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

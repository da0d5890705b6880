// Package compare says what became of the figures of an experiment from one run to another: better,
// worse or no difference.
//
// Its one invariant: runs are compared only where nothing that bears on their figures differs but
// what the user allowed, and a row gets a verdict only where its interval carries one. Pure.
// Rounds of two runs are no pairs, so what is compared are their ratios to the baseline of their
// own run, which a machine that was slower that day does not change; see Options.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Schema names the version of the document of a comparison.
const Schema = "selvage.dev/compare/v1"

// Report is what became of all rows.
type Report struct {
	Schema     string       `json:"schema"`
	Experiment string       `json:"experiment"`
	Old        Run          `json:"old"`
	New        Run          `json:"new"`
	Allowed    []Difference `json:"allowed"` // what differs, and was allowed to
	Notes      []string     `json:"notes"`   // what to know before believing the rows
	Rows       []Row        `json:"rows"`
}

// Run is one of the two.
type Run struct {
	Name    string    `json:"name"` // its file
	Started time.Time `json:"started"`
	Version string    `json:"version"`
}

// Row is what became of a target's metric.
type Row struct {
	Target string `json:"target"`
	Case   string `json:"case"`
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	Old    Figure `json:"old"`
	New    Figure `json:"new"`
	// Baseline is the one to which ratios were compared, "" where figures were.
	Baseline string `json:"baseline"`
	// Ratio is new to old, of ratios to the baseline or of figures, and its interval; 0 when there is none.
	Ratio   float64 `json:"ratio"`
	RatioLo float64 `json:"ratio_lo"`
	RatioHi float64 `json:"ratio_hi"`
	// Difference is new less old, in Unit, of a row without a ratio because a value is 0, and its interval.
	Difference   float64 `json:"difference,omitempty"`
	DifferenceLo float64 `json:"difference_lo,omitempty"`
	DifferenceHi float64 `json:"difference_hi,omitempty"`
	// SmallestEffect is the smallest change, as a share of old (or, without a ratio, in Unit), that nine
	// of ten comparisons like this one would have told from none; 0 where that is not known.
	SmallestEffect float64 `json:"smallest_effect"`
	Verdict        string  `json:"verdict"`       // one of those below
	Why            string  `json:"why,omitempty"` // there is none
}

// Verdicts of a row.
const (
	Better       = "better"
	Worse        = "worse"
	Higher       = "higher" // where nobody knows which way is better
	Lower        = "lower"
	NoDifference = "no difference"
	NotCompared  = "not compared"
)

// Figure is a row's in one run.
type Figure struct {
	Median float64 `json:"median"`
	Lo     float64 `json:"lo"`
	Hi     float64 `json:"hi"`
	N      int     `json:"n"`
}

// Options say how results are compared.
type Options struct {
	Allow []string // fields that may differ
	// Absolute compares figures where ratios to the baseline would be: a change of the machine is then
	// a change of all targets.
	Absolute bool
	// Metric finds which way is better; false where that is not known.
	Metric func(caseName, name string) (stats.Metric, bool)
}

// Results compares two complete results of one experiment. The error is Incomparable where they
// differ in what was not allowed.
func Results(old, latest result.Result, o Options) (Report, error) {
	allowed, err := check(old, latest, o.Allow)
	if err != nil {
		return Report{}, err
	}
	c := comparison{old: old, latest: latest, Options: o}
	c.otherMachine = slices.ContainsFunc(allowed, func(d Difference) bool { return slices.Contains(machine(), topOf(d.Field)) })
	if o.Absolute && c.otherMachine {
		return Report{}, errors.New("--absolute: figures of different machines say nothing of each other; compare ratios")
	}
	report := Report{
		Schema: Schema, Experiment: latest.Experiment, Allowed: allowed,
		Old: Run{Started: old.Started, Version: old.Environment.Versions["selvage"]},
		New: Run{Started: latest.Started, Version: latest.Environment.Versions["selvage"]},
	}
	for _, row := range latest.Summary {
		if was, ok := stats.Find(old.Summary, row.Target, row.Case, row.Metric); ok {
			report.Rows = append(report.Rows, c.row(was, row))
		}
	}
	if len(report.Rows) == 0 {
		return Report{}, errors.New("the runs have no row in common: no target and case were measured in both")
	}
	report.Notes = c.notes(report.Rows)
	return report, nil
}

// comparison is one in the making.
type comparison struct {
	Options
	old, latest  result.Result
	otherMachine bool
}

// row compares a row.
func (c comparison) row(was, is result.Row) Row {
	row := Row{
		Target: is.Target, Case: is.Case, Metric: is.Metric, Unit: is.Unit, Verdict: NotCompared,
		Old: Figure{was.Median, was.Lo, was.Hi, was.N}, New: Figure{is.Median, is.Lo, is.Hi, is.N},
	}
	m := stats.Metric{Case: is.Case, Name: is.Metric}
	then, now := stats.Values(c.old, is.Target, is.Case, is.Metric), stats.Values(c.latest, is.Target, is.Case, is.Metric)
	switch {
	case was.Unit != is.Unit:
		row.Why = fmt.Sprintf("its unit was %s and is %s", was.Unit, is.Unit)
		return row
	case len(then) == 0 || len(now) == 0:
		row.Why = "it is computed from other rows"
		return row
	}
	oldLogs, newLogs, divisible := c.logs(was, is, m, &row)
	if row.Baseline == "" && c.otherMachine {
		row.Why = "figures of different machines say nothing of each other"
		return row
	}
	if !divisible {
		iv := stats.Shift(stats.ByRound(now), stats.ByRound(then))
		row.Difference, row.DifferenceLo, row.DifferenceHi = iv.Median, iv.Lo, iv.Hi
		row.SmallestEffect = stats.SmallestShift(iv)
		c.decide(&row, iv, len(then), len(now))
		return row
	}
	iv := stats.Shift(newLogs, oldLogs)
	row.Ratio, row.RatioLo, row.RatioHi = math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi)
	row.SmallestEffect = math.Expm1(stats.SmallestShift(iv))
	c.decide(&row, iv, len(oldLogs), len(newLogs))
	return row
}

// logs are the logarithms of what is compared: of ratios to the baseline where both runs have it,
// which row then names, else of figures. divisible is false where a value is not above 0.
func (c comparison) logs(was, is result.Row, m stats.Metric, row *Row) (then, now []float64, divisible bool) {
	if is.Baseline != "" && was.Baseline == is.Baseline && !c.Absolute {
		target, caseName, other := strings.Cut(is.Baseline, ":")
		if !other {
			caseName = is.Case
		}
		a, okA := stats.RoundRatios(c.old, m, is.Target, target, caseName)
		b, okB := stats.RoundRatios(c.latest, m, is.Target, target, caseName)
		if okA && okB && len(a) > 0 && len(b) > 0 {
			row.Baseline = is.Baseline
			return stats.ByRound(a), stats.ByRound(b), true
		}
	}
	divisible = true
	logs := func(r result.Result) (all []float64) {
		for _, v := range stats.ByRound(stats.Values(r, is.Target, is.Case, is.Metric)) {
			divisible = divisible && v > 0
			all = append(all, math.Log(v))
		}
		return all
	}
	then, now = logs(c.old), logs(c.latest)
	return then, now, divisible
}

// decide gives a row its verdict by the interval of a shift.
func (c comparison) decide(row *Row, iv stats.Interval, then, now int) {
	m, known := stats.Metric{}, false
	if c.Metric != nil {
		m, known = c.Metric(row.Case, row.Metric)
	}
	up := iv.Lo > 0
	switch {
	case then > stats.MostUnpaired || now > stats.MostUnpaired:
		row.Why = fmt.Sprintf("%d and %d rounds are more than %d", then, now, stats.MostUnpaired)
	case iv.Confidence < stats.PairedConfidence:
		row.Why = fmt.Sprintf("%d and %d rounds are too few: a difference needs %d in each", then, now, stats.LeastUnpaired)
	case !stats.ShiftExcludes(iv):
		row.Verdict = NoDifference
	case known && up == m.Higher:
		row.Verdict = Better
	case known:
		row.Verdict = Worse
	case up:
		row.Verdict = Higher
	default:
		row.Verdict = Lower
	}
}

// notes are what to know before believing rows.
func (c comparison) notes(rows []Row) []string {
	var notes []string
	for _, run := range []struct {
		name string
		result.Result
	}{{"old", c.old}, {"new", c.latest}} {
		if failed := stats.Errors(run.Result); len(failed) > 0 {
			notes = append(notes, fmt.Sprintf("%s of the %s run failed; the first: %s", result.Counted(len(failed), "sample"), run.name, failed[0]))
		}
		if run.Verdict.Refused {
			notes = append(notes, fmt.Sprintf("the %s run has no verdict of its own: %s", run.name, run.Verdict.Headline))
		}
	}
	if c.old.Started.Equal(c.latest.Started) && len(c.old.Samples) == len(c.latest.Samples) {
		notes = append(notes, "both are the same run")
	}
	if only := c.onlyInOne(); only != "" {
		notes = append(notes, only)
	}
	if !stats.Sliced(c.latest) {
		notes = append(notes, "the testbeds of this experiment stand for a whole run: what differs by how they were made is in no interval, so repeat runs before you believe a small difference")
	}
	changed := 0
	for _, row := range rows {
		if base, ok := stats.Find(c.latest.Summary, row.Target, row.Case, row.Metric); ok && base.Baseline == "" && base.Ratio == 1 && !slices.Contains([]string{NoDifference, NotCompared}, row.Verdict) {
			changed++
		}
	}
	if changed > 0 && !c.Absolute {
		notes = append(notes, fmt.Sprintf("%d figures of baselines differ, so the machine was not the same on both days; ratios to baselines allow for that", changed))
	}
	return notes
}

// onlyInOne says what one run alone has.
func (c comparison) onlyInOne() string {
	in := func(a, b result.Result) (n int) {
		for _, row := range a.Summary {
			if _, ok := stats.Find(b.Summary, row.Target, row.Case, row.Metric); !ok {
				n++
			}
		}
		return n
	}
	gone, come := in(c.old, c.latest), in(c.latest, c.old)
	if gone+come == 0 {
		return ""
	}
	return fmt.Sprintf("%d rows are of the old run alone and %d of the new one, and are left out", gone, come)
}

// Old is the baseline of conditions on a comparison.
const Old = "old"

// Evaluate says what the rows say of a condition whose baseline is Old.
func (r Report) Evaluate(c gate.Condition) ([]gate.Outcome, error) {
	if c.Baseline != Old {
		return nil, fmt.Errorf("--fail-if %s: of a comparison it is a ratio to the old run: write NUMBER@old", c)
	}
	rows := make([]result.Row, len(r.Rows))
	for i, row := range r.Rows {
		rows[i] = result.Row{Target: row.Target, Case: row.Case, Metric: row.Metric}
	}
	found, err := c.Find(rows)
	if err != nil {
		return nil, err
	}
	var outcomes []gate.Outcome
	for _, f := range found {
		row := r.Rows[slices.Index(rows, f)]
		switch {
		case row.Verdict == NotCompared:
			return nil, fmt.Errorf("--fail-if %s: %s is not compared: %s", c, gate.Name(f), row.Why)
		case row.Ratio == 0:
			return nil, fmt.Errorf("--fail-if %s: %s has no ratio: a figure is 0", c, gate.Name(f))
		}
		outcomes = append(outcomes, c.Of(gate.Outcome{
			Row: gate.Name(f) + " to old", Value: row.Ratio, Lo: row.RatioLo, Hi: row.RatioHi, Unit: "×", N: min(row.Old.N, row.New.N),
		}))
	}
	return outcomes, nil
}

// Of are the rows with a verdict.
func (r Report) Of(verdict string) (rows []Row) {
	for _, row := range r.Rows {
		if row.Verdict == verdict {
			rows = append(rows, row)
		}
	}
	return rows
}

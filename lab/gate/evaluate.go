package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Outcome is what a row says of a condition.
type Outcome struct {
	Condition string `json:"condition"`
	Row       string `json:"row"` // target/case/metric
	// Value is the row's median or ratio, in Unit ("×" of a ratio), and Lo … Hi its interval.
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
	Unit  string  `json:"unit"`
	N     int     `json:"n"` // rounds, of a ratio pairs
	// Outcome is Fails, Passes or Undecided.
	Outcome string `json:"outcome"`
}

// What comes of a condition.
const (
	Fails     = "fails"     // the whole interval is beyond the number
	Passes    = "passes"    // none of it is
	Undecided = "undecided" // the interval holds the number: no failure
)

// String is the outcome in a line.
func (o Outcome) String() string {
	words := map[string]string{
		Fails: "the whole interval is beyond it", Passes: "the whole interval is on the good side", Undecided: "the interval holds the number",
	}
	return fmt.Sprintf("--fail-if %s: %s: %s is %s %s, interval [%s, %s], n = %d: %s",
		o.Condition, o.Outcome, o.Row, digits(o.Value), o.Unit, digits(o.Lo), digits(o.Hi), o.N, words[o.Outcome])
}

// digits are five: a ratio of 0.9496 is not 0.95.
func digits(v float64) string { return fmt.Sprintf("%.5g", v) }

// Of says what the interval of o means for a condition whose number is in its unit.
func (c Condition) Of(o Outcome) Outcome { return c.evaluate(o, c.Number) }

func (c Condition) evaluate(o Outcome, number float64) Outcome {
	o.Condition = c.text
	switch {
	case c.Above && o.Lo > number, !c.Above && o.Hi < number:
		o.Outcome = Fails
	case c.Above && o.Hi <= number, !c.Above && o.Lo >= number:
		o.Outcome = Passes
	default:
		o.Outcome = Undecided
	}
	return o
}

// Evaluate says what the rows of r, a complete result, say of a condition: one outcome for each case
// that has the metric. It errors where there is none, naming what there is, and where rounds are
// too few to say anything.
func Evaluate(r result.Result, c Condition) ([]Outcome, error) {
	rows, err := c.Find(r.Summary)
	if err != nil {
		return nil, err
	}
	var outcomes []Outcome
	for _, row := range rows {
		o := Outcome{Row: Name(row), Value: row.Median, Lo: row.Lo, Hi: row.Hi, Unit: row.Unit, N: row.N}
		number, same := in(c.Number, c.Unit, row.Unit)
		if !same {
			return nil, fmt.Errorf("--fail-if %s: the unit of %s is %s, not %s", c, Name(row), row.Unit, c.Unit)
		}
		if c.Baseline != "" {
			if o, err = c.ratio(r, row); err != nil {
				return nil, err
			}
			number = c.Number
		}
		if few := stats.FewRounds(r, o.N); few != "" {
			return nil, fmt.Errorf("--fail-if %s: %s has %s: use more rounds", c, Name(row), few)
		}
		outcomes = append(outcomes, c.evaluate(o, number))
	}
	return outcomes, nil
}

// ratio is that of a row to the baseline of c: the row's own, or one that is computed.
func (c Condition) ratio(r result.Result, row result.Row) (Outcome, error) {
	target, caseName, other := strings.Cut(c.Baseline, ":")
	if !other {
		caseName = row.Case
	}
	m := stats.Metric{Case: row.Case, Name: row.Metric}
	logs, _ := stats.RoundRatios(r, m, row.Target, target, caseName)
	ratio := row
	if row.Baseline != c.Baseline {
		if !slices.Contains(stats.Names(r), target) || target == row.Target && caseName == row.Case {
			return Outcome{}, fmt.Errorf("--fail-if %s: there is no baseline %q; choose from %s", c, c.Baseline, strings.Join(others(stats.Names(r), row.Target), ", "))
		}
		ratio = stats.RatioTo(r, m, row.Target, target, caseName)
	}
	if ratio.Ratio == 0 {
		return Outcome{}, fmt.Errorf("--fail-if %s: %s has no ratio to %s: a figure is 0, or they have no rounds in common", c, Name(row), c.Baseline)
	}
	n := len(logs)
	if n == 0 { // the row is computed from others
		n = row.N
	}
	return Outcome{Row: Name(row) + " to " + c.Baseline, Value: ratio.Ratio, Lo: ratio.RatioLo, Hi: ratio.RatioHi, Unit: "×", N: n}, nil
}

// Name is how conditions name a row.
func Name(row result.Row) string { return row.Target + "/" + row.Case + "/" + row.Metric }

func others(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// Find returns the rows that c is about; its error lists what there is instead.
func (c Condition) Find(rows []result.Row) (found []result.Row, err error) {
	var targets, metrics, cases []string
	add := func(list *[]string, word string) {
		if !slices.Contains(*list, word) {
			*list = append(*list, word)
		}
	}
	for _, row := range rows {
		add(&targets, row.Target)
		if row.Target != c.Target {
			continue
		}
		add(&metrics, row.Metric)
		if row.Metric != c.Metric {
			continue
		}
		add(&cases, row.Case)
		if c.Case == "" || row.Case == c.Case {
			found = append(found, row)
		}
	}
	unknown := func(what, name string, there []string) error {
		return fmt.Errorf("--fail-if %s: there is no %s %q; choose from %s", c, what, name, strings.Join(there, ", "))
	}
	switch {
	case len(rows) == 0:
		return nil, fmt.Errorf("--fail-if %s: the result has no rows", c)
	case len(metrics) == 0:
		return nil, unknown("target", c.Target, targets)
	case len(cases) == 0:
		return nil, unknown("metric", c.Metric, metrics)
	case len(found) == 0:
		return nil, unknown("case", c.Case, cases)
	}
	return found, nil
}

// Failure is the error of conditions that hold.
type Failure struct{ Outcomes []Outcome }

// ExitStatus is that of a program whose condition holds.
const ExitStatus = 3

// Error names the conditions.
func (f Failure) Error() string {
	lines := make([]string, len(f.Outcomes))
	for i, o := range f.Outcomes {
		lines[i] = o.String()
	}
	return strings.Join(lines, "\n")
}

// ExitCode is ExitStatus, for kong.
func (f Failure) ExitCode() int { return ExitStatus }

// EvaluateAll evaluates all conditions. Its error joins what cannot be evaluated, and a Failure of those that hold.
func EvaluateAll(conditions []Condition, evaluate func(Condition) ([]Outcome, error)) (all []Outcome, err error) {
	var failure Failure
	var wrong []error
	for _, c := range conditions {
		outcomes, err := evaluate(c)
		wrong = append(wrong, err)
		for _, o := range outcomes {
			if o.Outcome == Fails {
				failure.Outcomes = append(failure.Outcomes, o)
			}
		}
		all = append(all, outcomes...)
	}
	if len(failure.Outcomes) > 0 {
		wrong = append(wrong, failure)
	}
	return all, errors.Join(wrong...)
}

package result

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// mostFigure is more than any figure of a network.
const mostFigure = 1e15

// isFigure reports whether v is a number that JSON carries and that a network can have.
func isFigure(v float64) bool { return math.Abs(v) <= mostFigure }

// Add appends samples. Figures that are none leave them, and such a sample has failed: its error names them.
func Add(r *Result, samples ...Sample) {
	for _, s := range samples {
		s.judge()
		r.Samples = append(r.Samples, s)
	}
}

func (s *Sample) judge() {
	var lost []string
	none := func(name string, values ...float64) bool {
		i := slices.IndexFunc(values, func(v float64) bool { return !isFigure(v) })
		if i >= 0 {
			lost = append(lost, fmt.Sprintf("%s is %g", name, values[i]))
		}
		return i >= 0
	}
	maps.DeleteFunc(s.Metrics, func(name string, v float64) bool { return none(name, v) })
	maps.DeleteFunc(s.Series, func(name string, vs []float64) bool { return none("series "+name, vs...) })
	s.Latency = slices.DeleteFunc(s.Latency, func(q Quantile) bool { return none("latency", q.US) })
	s.CPU = slices.DeleteFunc(s.CPU, func(c CPUShare) bool { return none("cpu", c.User, c.System, c.SoftIRQ, c.Idle) })
	if none("duration_s", s.Duration) {
		s.Duration = 0
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		s.Error = strings.TrimPrefix(s.Error+"; "+strings.Join(lost, ", ")+", which is no figure: an end had no time of a core, or says what cannot be", "; ")
	}
}

// Sound leaves out rows and parameters with figures that are none, and names them.
func Sound(r *Result) (lost []string) {
	r.Summary = slices.DeleteFunc(r.Summary, func(row Row) bool {
		none := slices.ContainsFunc([]float64{row.Median, row.Lo, row.Hi, row.Ratio, row.RatioLo, row.RatioHi, row.Difference, row.SmallestEffect}, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
		if none {
			lost = append(lost, fmt.Sprintf("%s of %s (%s)", row.Metric, row.Target, row.Case))
		}
		return none
	})
	maps.DeleteFunc(r.Parameters, func(name string, p Parameter) bool {
		n, is := p.Value.(Number)
		none := is && !isFigure(float64(n))
		if none {
			lost = append(lost, "parameter "+name)
		}
		return none
	})
	slices.Sort(lost)
	return lost
}

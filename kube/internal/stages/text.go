package stages

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// text is the median with its interval.
func (f *Figure) text(digits int) string {
	return fmt.Sprintf("%.*f [%.*f, %.*f]", digits, f.Median, digits, f.Low, digits, f.High)
}

// share is one in percent, with as many digits as it needs.
func share(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }

// Text writes the report for people: the finding first.
func (r *Report) Text(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\npod %s on node %s, gateway node %s", r.Summary, r.Pod, r.Node, r.Gateway)
	if r.Server != "" {
		fmt.Fprintf(w, ", server %s, expected to leave as %s", r.Server, strings.Join(r.Expected, " or "))
	}
	fmt.Fprint(w, "\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "stage\tfrom, to\tTCP, Gbit/s\tn\tratio\tRTT p50, µs\tloss")
	for _, s := range r.Stages {
		rate, n, ratio, trip, loss := "–", "0", "–", "–", "–"
		if s.Throughput != nil {
			rate, n = s.Throughput.text(3), fmt.Sprint(s.Throughput.N)
		}
		if s.Ratio != nil {
			ratio = s.Ratio.text(2) + " × " + strings.Join(s.Below, "|")
		}
		if s.RTT != nil {
			trip = s.RTT.text(0)
		}
		if s.Loss != nil {
			loss = fmt.Sprintf("%s (%d of %d)", share(s.Loss.Median), s.Lost, s.Sent)
		}
		if s.Failed != "" {
			loss = strings.TrimPrefix(loss+", fails", "–, ")
		}
		fmt.Fprintf(table, "%s\t%s to %s %s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.From, s.To, s.Address, rate, n, ratio, trip, loss)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprint(w, r.legend())
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%s: %s\n", s.Topic, s.Text)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
	return nil
}

// legend says what the figures are; nothing where there is none.
func (r *Report) legend() string {
	for _, s := range r.Stages {
		switch {
		case s.Throughput == nil:
		case s.Throughput.N < 2:
			return "One round has no interval. A ratio is to the slower stage below.\n\n"
		default:
			return fmt.Sprintf("Brackets are intervals over the rounds (%.3g %% confidence). A ratio is to the slower stage below, in the same round.\n\n", 100*s.Throughput.Confidence)
		}
	}
	return ""
}

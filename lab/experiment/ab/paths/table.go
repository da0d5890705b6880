package paths

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// table writes r for a terminal: the study's table, every figure by path, what each core did, then
// verdict and findings.
func table(w io.Writer, r result.Result) error {
	var b strings.Builder
	studyText(&b, r)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "METRIC\tUNIT\tPATH\tMEDIAN\tINTERVAL\tRATIO TO %s\tINTERVAL\tVERDICT\n", strings.ToUpper(baseline(r)))
	for _, m := range printed(r) {
		for _, name := range stats.Names(r) {
			if row, ok := stats.Find(r.Summary, name, m.Case, m.Name); ok {
				ratio, interval, words := compared(row, m)
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s … %s\t%s\t%s\t%s\n", m.Title, row.Unit, row.Target,
					stats.In(row.Median, row.Unit), stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit), ratio, interval, words)
			}
		}
	}
	coresText(t, r)
	t.Flush()
	b.WriteByte('\n')
	return chart.WriteText(w, &b, r.Verdict)
}

// printed are the metrics of a terminal's table: not those of places whose machine another has, and
// of cores only what a gigabyte takes. The rest stands below it, and in the report.
func printed(r result.Result) []stats.Metric {
	all := figures()
	for _, m := range costs(r) {
		for i, p := range r.Places {
			if m.Name == cpuMetric(p.Role, secondsByGB) && sameMachine(r, i) == "" {
				all = append(all, m)
			}
		}
	}
	return all
}

// compared is a row against the baseline, in words.
func compared(row result.Row, m stats.Metric) (ratio, interval, words string) {
	if row.Baseline == "" {
		return "", "", ""
	}
	ratio, words = stats.Ratio(row.Ratio), stats.ChangeOf(row, m.Higher).String()
	if row.Ratio > 0 {
		interval = fmt.Sprintf("%.3f … %.3f", row.RatioLo, row.RatioHi)
	}
	switch {
	case m.Name == measure.MSS:
		words = "" // a size is neither good nor bad
	case row.N < stats.LeastPairs:
		words = fmt.Sprintf("none: fewer than %d rounds", stats.LeastPairs)
	case !row.Distinguishable && row.SmallestEffect > 0:
		words += fmt.Sprintf(" (sees %.1f %%)", 100*row.SmallestEffect)
	}
	return ratio, interval, words
}

// coresText is the median share of time that each core was busy, at each place.
func coresText(w io.Writer, r result.Result) {
	fmt.Fprint(w, "\nCORES BUSY\tPLACE\tPATH\tBY CORE, %\n")
	for _, caseName := range stats.Cases(r) {
		for i, p := range r.Places {
			if sameMachine(r, i) != "" {
				continue
			}
			for _, name := range stats.Names(r) {
				var shares []string
				for _, c := range coresOf(r, name, caseName, p.Role) {
					shares = append(shares, fmt.Sprintf("%.0f", 100*min(1, busy(c))))
				}
				if len(shares) > 0 {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", caseName, p.Name, name, strings.Join(shares, " "))
				}
			}
		}
	}
}

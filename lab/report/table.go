package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// tableWidth is the width at which the verdict is wrapped, in columns.
const tableWidth = 96

// Table writes the summary of r for a terminal: every metric by target with
// interval, n and ratio, then the verdict and the findings.
func Table(w io.Writer, r result.Result) error {
	v := newView(r)
	switch r.Experiment {
	case stats.MTU:
		return mtuTable(w, mtuView{v})
	case stats.RFC2544:
		return transitTable(w, transitView{v})
	case stats.Cache:
		return cacheTable(w, cacheView{v})
	case stats.Latency:
		return policedTable(w, newPolicedView(v))
	case stats.Failover:
		return failoverTable(w, failoverView{v})
	case stats.Converge:
		return convergeTable(w, convergeView{v})
	case stats.Attack:
		return attackTable(w, attackView{v})
	case stats.Egress:
		return egressTable(w, egressView{v})
	case stats.Offload:
		return offloadTable(w, newOffloadView(v))
	}
	var b strings.Builder
	for _, m := range stats.Metrics() {
		head := false
		for _, name := range v.names {
			row, ok := v.row(name, m)
			if !ok {
				continue
			}
			if !head {
				fmt.Fprintf(&b, "%-38s %9s  %-17s %3s  %7s\n", m.Title+", "+m.Unit, "median", "interval", "n", "× "+v.baseline())
				head = true
			}
			b.WriteString(v.textRow(row, m))
		}
		if head {
			b.WriteByte('\n')
		}
	}
	return writeText(w, &b, v.Verdict)
}

// writeText ends a text with the verdict and its findings, and writes it.
func writeText(w io.Writer, b *strings.Builder, v result.Verdict) error {
	wrap(b, "", v.Sentence)
	for _, f := range v.Findings {
		b.WriteByte('\n')
		wrap(b, "  ", f)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (v view) textRow(row result.Row, m stats.Metric) string {
	ratio, bounds := "–", ""
	switch {
	case row.Target == v.baseline():
		ratio = "1"
	case row.Ratio > 0:
		ratio = strings.TrimSuffix(stats.Ratio(row.Ratio), " ×")
		bounds = fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
	}
	if row.Baseline != "" {
		bounds = strings.TrimSpace(bounds + " " + v.shown(row, m))
	}
	interval := fmt.Sprintf("[%s, %s]", stats.In(row.Lo, row.Unit), stats.In(row.Hi, row.Unit))
	return strings.TrimRight(fmt.Sprintf("  %-36s %9s  %-17s %3d  %7s  %s", row.Target, stats.In(row.Median, row.Unit), interval, row.N, ratio, bounds), " ") + "\n"
}

// shown is what a row shows against the baseline: in runs of slices whether it is better, and if
// no difference is shown, how small a one would have been found.
func (v view) shown(row result.Row, m stats.Metric) string {
	switch {
	case !stats.Sliced(v.Result) && row.Distinguishable:
		return ""
	case !stats.Sliced(v.Result):
		return "not distinguishable"
	case row.Distinguishable || row.SmallestEffect == 0:
		return stats.ChangeOf(row, m.Higher).String()
	}
	return "no difference above " + effect(row.SmallestEffect)
}

// effect is a size of effect in percent.
func effect(share float64) string { return strings.TrimPrefix(stats.Percent(share), "+") }

// wrap writes s in lines of at most tableWidth, later lines indented.
func wrap(b *strings.Builder, indent, s string) {
	column := 0
	for i, word := range strings.Fields(s) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > tableWidth:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	b.WriteByte('\n')
}

package inject

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/lab/chart"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// StepLine is a step's line in the table of steps.
type StepLine struct {
	Title, Color string
	Cells        []string // by case
}

// WriteSteps writes the table of steps for a terminal, with titles so wide; nothing without lines.
func WriteSteps(b *strings.Builder, wide int, heads []string, lines []StepLine) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "%-*s", wide+2, "Steps, ms: median [interval]")
	for _, head := range heads {
		fmt.Fprintf(b, " %20s", head)
	}
	b.WriteByte('\n')
	for _, l := range lines {
		fmt.Fprintf(b, "  %-*s", wide, l.Title)
		for _, c := range l.Cells {
			fmt.Fprintf(b, " %20s", c)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// StepCell writes a step's median with its interval, "–" without one.
func StepCell(row result.Row, ok bool) string {
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%s [%s, %s]", stats.Figure(row.Median), stats.Figure(row.Lo), stats.Figure(row.Hi))
}

// StepColor is the colour of a step, by its place.
func StepColor(i int) string { return []string{"k-x1", "k-x0", "k-ovs", "k-plain", "k-selvage"}[i%5] }

// TimeAxis draws ticks of ms between left and right and returns where a time is.
func TimeAxis(c *chart.Canvas, top, left, right, above, below float64, steps int) func(float64) float64 {
	ts := chart.Ticks(top, steps)
	end := ts[len(ts)-1]
	x := func(ms float64) float64 { return left + ms/end*(right-left) }
	for _, t := range ts {
		c.Line(x(t), above, x(t), below, "grid")
		c.Text(x(t), below+16, "tick m", fmt.Sprintf("%g", t))
	}
	return x
}

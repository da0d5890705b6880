package experiments

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/selvage/selvage/lab/gen"
)

// genOutcome is what a run of the generator came to; without a sink it was only sent.
type genOutcome struct {
	Sent     gen.Sent    `json:"sent"`
	Received *gen.Report `json:"received,omitempty"`
	Lost     *uint64     `json:"lost,omitempty"`
	// Quantiles of the latency in µs, by name.
	Quantiles map[string]float64 `json:"latency_us,omitempty"`
}

// genQuantiles are those that are told, and their names.
var genQuantiles = []struct {
	name string
	q    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}

func (c *Gen) print(w io.Writer, o genOutcome) error {
	if c.Output == "json" {
		if o.Received != nil && o.Received.Latency.Count > 0 {
			o.Quantiles = map[string]float64{}
			for _, x := range genQuantiles {
				o.Quantiles[x.name] = float64(o.Received.Latency.Quantile(x.q)) / 1e3
			}
		}
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(o)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	s := o.Sent
	row("sent", "%d frames in %s: %.4f Mpps, %.3f Gbit/s", s.Frames, s.Duration.Round(time.Microsecond), s.Rate()/1e6, gbps(s.Bytes, s.Duration))
	if rate := c.load().Rate; rate > 0 {
		row("rate", "%.4f Mpps wanted, error %+.4f %%", rate/1e6, 100*s.RateError)
	} else if s.Frames > 0 {
		row("busy", "%.1f ns of the generator's core for a frame", float64(s.Busy)/float64(s.Frames))
	}
	if s.Unsent > 0 {
		row("unsent", "%d (%s): the generator was late", s.Unsent, percent(s.Unsent, s.Offered))
	}
	if s.Overrun > 0 {
		row("overrun", "%d (%s): the interface did not accept them", s.Overrun, percent(s.Overrun, s.Offered))
	}
	if o.Received != nil {
		printReceived(row, s, *o.Received, *o.Lost)
	}
	return t.Flush()
}

func printReceived(row func(name, format string, args ...any), s gen.Sent, r gen.Report, lost uint64) {
	row("received", "%d frames of %s", r.Frames, sizes(r))
	row("lost", "%d (%s)", lost, percent(lost, s.Frames))
	row("flows", "%d: %d reordered, %d duplicated", r.Flows, r.Reordered, r.Duplicated)
	if len(r.Worst) > 0 && lost > 0 {
		row("worst flow", "%d: %d missing, %d reordered, %d duplicated", r.Worst[0].Flow, r.Worst[0].Gaps, r.Worst[0].Reordered, r.Worst[0].Duplicated)
	}
	if l := r.Latency; l.Count > 0 {
		row("latency µs", "least %.2f  mean %.2f  most %.2f  jitter %.3f", micros(l.Min), micros(l.Mean), micros(l.Max), micros(l.Jitter))
		text := ""
		for _, x := range genQuantiles {
			text += fmt.Sprintf("%s %.2f  ", x.name, micros(l.Quantile(x.q)))
		}
		row("", "%s", text[:len(text)-2])
	}
	for i, n := range r.Core {
		if n > 0 {
			row(fmt.Sprintf("core %d", i), "%s of the received", percent(n, r.Frames))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Foreign)) {
		row("foreign "+kind, "%d", r.Foreign[kind])
	}
}

// sizes is what the received frames measure and what is around them.
func sizes(r gen.Report) string {
	text := fmt.Sprintf("%d bytes", r.Shortest+gen.FCS)
	if r.Longest > r.Shortest {
		text = fmt.Sprintf("%d … %d bytes", r.Shortest+gen.FCS, r.Longest+gen.FCS)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Around)) {
		text += ", " + kind
	}
	return text
}

func gbps(bytes uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) * 8 / float64(d)
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

func percent(part, whole uint64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.4g %%", 100*float64(part)/float64(whole))
}

package ports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/diagnose"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/lab/watch"
)

// tolerance is the parameter of the loss that the PDR tolerates, in percent.
const tolerance = "tolerance"

// Metrics beside those of transit.
const (
	offeredRate   = "offered"
	rateIn        = "rate_in"
	rateOut       = "rate_out"
	rateTotal     = "rate_total"
	lineShare     = "line_share"
	cpuShare      = "cpu"
	backToBack    = "back_to_back"
	limiterMetric = "limiter"
)

// figures are those of a case, without its name.
func figures() []stats.Metric {
	all := []stats.Metric{
		{Name: transit.NDR, Unit: "Mpps", Title: "No-drop rate", Higher: true},
		{Name: transit.PDR, Unit: "Mpps", Title: "Partial-drop rate", Higher: true},
		{Name: offeredRate, Unit: "Mpps", Title: "Offered at the partial-drop rate", Higher: true},
		{Name: rateIn, Unit: "Gbit/s", Title: "Into the device at the partial-drop rate", Higher: true},
		{Name: rateOut, Unit: "Gbit/s", Title: "Out of the device", Higher: true},
		{Name: rateTotal, Unit: "Gbit/s", Title: "In and out together", Higher: true},
		{Name: lineShare, Unit: "share", Title: "Share of the line rate", Higher: true},
		{Name: cpuShare, Unit: "share", Title: "Share of the cores of the host that sends"},
		{Name: transit.GeneratorCeiling, Unit: "Mpps", Title: "The generator's ceiling at these ports", Higher: true},
		{Name: transit.LatencyMin, Unit: "µs", Title: "Least latency at the no-drop rate"},
		{Name: transit.LatencyMean, Unit: "µs", Title: "Mean latency at the no-drop rate"},
		{Name: transit.LatencyP50, Unit: "µs", Title: "Latency p50 at the no-drop rate"},
		{Name: transit.LatencyP99, Unit: "µs", Title: "Latency p99 at the no-drop rate"},
		{Name: transit.Jitter, Unit: "µs", Title: "Jitter at the no-drop rate"},
	}
	for _, share := range []string{"90", "50", "10"} {
		all = append(all,
			stats.Metric{Name: transit.LatencyP50 + "_" + share, Unit: "µs", Title: "Latency p50 at " + share + " % of the no-drop rate"},
			stats.Metric{Name: transit.LatencyP99 + "_" + share, Unit: "µs", Title: "Latency p99 at " + share + " % of the no-drop rate"})
	}
	return append(all, stats.Metric{Name: backToBack, Unit: "frames", Title: "Longest burst without loss", Higher: true})
}

// metrics are the figures of the cases of r.
func metrics(r result.Result) []stats.Metric {
	var all []stats.Metric
	for _, m := range figures() {
		for _, caseName := range cases(r) {
			m.Case = caseName
			all = append(all, m)
		}
	}
	return all
}

// summarise has no ratios: one device is measured.
func summarise(r result.Result) []result.Row { return stats.Summarise(r, "", metrics(r)) }

// directionOf orders cases.
func directionOf(caseName string) int {
	direction, _, _ := strings.Cut(caseName, "-")
	return slices.Index([]string{forward, reverse, both}, direction)
}

// words are a case for people: "64 bytes", "IMIX, reverse", "64 bytes, both ways".
func words(caseName string) string {
	direction, _, _ := strings.Cut(caseName, "-")
	return sizeWords(caseName) + map[string]string{reverse: ", reverse", both: ", both ways"}[direction]
}

// sizeWords are those of the size alone.
func sizeWords(caseName string) string {
	switch _, size, _ := strings.Cut(caseName, "-"); size {
	case "imix":
		return "IMIX"
	case "genome":
		return "IMIX genome"
	default:
		return size + " bytes"
	}
}

type evidence struct{ diagnose.Evidence }

func (e evidence) row(caseName, metric string) (result.Row, bool) {
	return stats.Find(e.Rows, deviceName, caseName, metric)
}

// verdict says what the device forwards without loss, at the smallest and the largest size.
func verdict(r result.Result) result.Verdict {
	e := evidence{diagnose.Summed(r, summarise, "")}
	v := result.Verdict{Findings: diagnose.Collect(e.Failed, e.Stolen, e.FewRounds, e.Busy, e.lossy, e.limited, e.rings, e.watched)}
	var measured []string
	for _, caseName := range cases(r) {
		if _, ok := e.row(caseName, transit.NDR); ok {
			measured = append(measured, caseName)
		}
	}
	if len(measured) == 0 {
		v.Refuse("no rate of the device was found", "See the errors, and run it again.")
		return v
	}
	v.Headline = e.forwards(measured[0])
	if last := measured[len(measured)-1]; last != measured[0] {
		v.Explanation = e.forwards(last)
	}
	return v
}

// forwards is the answer for a case in a sentence.
func (e evidence) forwards(caseName string) string {
	ndr, _ := e.row(caseName, transit.NDR)
	pdr, _ := e.row(caseName, transit.PDR)
	switch {
	case ndr.Median > 0:
		text := fmt.Sprintf("%s: %s Mpps without loss [%s, %s]", diagnose.UpperFirst(words(caseName)), stats.Figure(ndr.Median), stats.Figure(ndr.Lo), stats.Figure(ndr.Hi))
		if limiter, foreign := limitedBy(e.Result, caseName); foreign {
			text += fmt.Sprintf(", limited by the %s: the device may do more", limiter)
		}
		return text + "."
	case pdr.Median > 0:
		return fmt.Sprintf("%s: no rate is without loss; %s Mpps with at most %s.", diagnose.UpperFirst(words(caseName)), stats.Figure(pdr.Median), e.Parameters[tolerance].String())
	}
	return fmt.Sprintf("%s: even the lowest rate loses more than %s.", diagnose.UpperFirst(words(caseName)), e.Parameters[tolerance].String())
}

// lossy names the cases that have no rate without loss.
func (e evidence) lossy() []result.Finding {
	var lossy []string
	for _, caseName := range cases(e.Result) {
		if row, ok := e.row(caseName, transit.NDR); ok && row.Median == 0 {
			lossy = append(lossy, words(caseName))
		}
	}
	if len(lossy) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Loss at any rate", Text: fmt.Sprintf("%s: frames are lost at the lowest rate too. That is no lack of speed: look for errors on a link (ethtool -S), a policer, or flows that the device drops.", strings.Join(lossy, "; "))}}
}

// limited names the cases whose rate is not the device's.
func (e evidence) limited() []result.Finding {
	by := map[int][]string{}
	for _, caseName := range cases(e.Result) {
		for _, limiter := range limitersOf(e.Result, caseName) {
			by[limiter] = append(by[limiter], words(caseName))
		}
	}
	here := ""
	if strings.Contains(e.Parameters.Text("tx"), "(veth)") {
		here = " Between veths the device and the sink may work on the generator's cores too."
	}
	var out []result.Finding
	for _, limit := range []struct {
		limiter int
		advice  string
	}{
		{limitGenerator, "the generator did not keep the pace that it has without one: others had its cores. Quiet this host, or name other --generator-cores." + here},
		{limitCore, "the generator's cores are full. Give it more with --generator-cores, away from those that take interrupts, and leave some to the sink." + here},
		{limitPort, "the generator's own interface refused frames. A larger transmit ring (ethtool -G), more queues, or a card with a faster slot helps."},
		{limitRange, "--max-rate allowed no more."},
		{limitLine, "the line is full, so the device forwards at line rate."},
	} {
		if list := by[limit.limiter]; len(list) > 0 {
			out = append(out, result.Finding{Topic: "Limited by the " + limiterWords(limit.limiter), Text: strings.Join(list, "; ") + ": " + limit.advice})
		}
	}
	return out
}

// watched are the figures of boxes.
func (e evidence) watched() []result.Finding { return watch.Findings(e.Devices) }

// rings reports flow control: it hides loss (RFC 2544 is about devices that drop).
func (e evidence) rings() []result.Finding {
	var names []string
	for _, host := range e.Preflight {
		for _, i := range host.Interfaces {
			used := strings.Contains(" "+e.Parameters.Text("tx")+", "+e.Parameters.Text("rx")+" ", " "+i.Name+" ")
			if p := i.Pause; used && p != nil && (p.Rx || p.Tx) {
				names = append(names, i.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []result.Finding{{Topic: "Flow control", Text: fmt.Sprintf("pause frames are on at %s: a device that is too slow then slows the generator, and no frame is lost. Turn them off (ethtool -A %s rx off tx off) and run again.", strings.Join(names, ", "), names[0])}}
}

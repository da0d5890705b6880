package export

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"

	"github.com/selvage/selvage/lab/result"
)

// prefix begins the names of all metrics.
const prefix = "selvage_lab_"

// OpenMetrics writes the summary of r, a complete result, in the text format of OpenMetrics 1.0: one
// gauge for each metric, selvage_lab_METRIC_UNIT in base units, with target, case and experiment
// as labels and stat being median, lo or hi; ratios are selvage_lab_baseline_ratio. With
// timestamps, samples have the time at which the run started, which promtool tsdb
// create-blocks-from needs; a Pushgateway and node_exporter's textfile collector refuse them.
func OpenMetrics(w io.Writer, r result.Result, timestamps bool) error {
	e := exposition{run: r}
	if timestamps {
		e.at = proto.Int64(r.Started.UnixMilli())
	}
	e.addRun()
	for _, row := range r.Summary {
		e.addRow(row)
	}
	for _, f := range e.families {
		if _, err := expfmt.MetricFamilyToOpenMetrics(w, f); err != nil {
			return fmt.Errorf("write OpenMetrics: %w", err)
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(w); err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	return nil
}

// exposition is metrics in the making.
type exposition struct {
	run      result.Result
	at       *int64
	families []*dto.MetricFamily
}

// gauge adds a value; labels are names and values in turn.
func (e *exposition) gauge(name, unit, help string, value float64, labels ...string) {
	name = prefix + name
	i := slices.IndexFunc(e.families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if i < 0 {
		f := &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
		if unit != "" {
			f.Unit = &unit
		}
		e.families, i = append(e.families, f), len(e.families)
	}
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &value}, TimestampMs: e.at}
	for at := 0; at+1 < len(labels); at += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(labels[at]), Value: proto.String(labels[at+1])})
	}
	e.families[i].Metric = append(e.families[i].Metric, m)
}

// addRun adds what is of the run alone.
func (e *exposition) addRun() {
	r := e.run
	failed, refused := 0.0, 0.0
	for _, s := range r.Samples {
		if s.Error != "" {
			failed++
		}
	}
	if r.Verdict.Refused {
		refused = 1
	}
	of := []string{"experiment", r.Experiment}
	e.gauge("run_info", "", "The run: always 1.", 1, append(of, "version", r.Environment.Versions["selvage"], "kernel", r.Environment.Kernel, "cpu", r.Environment.CPU)...)
	for _, p := range r.Places {
		e.gauge("run_place_info", "", "A place of the run, with its kernel, processor and adapters: always 1.", 1, append(of, "role", p.Role, "hardware", result.Hardware(r, p))...)
	}
	e.gauge("run_started_timestamp_seconds", "seconds", "When the run started, in Unix time.", float64(r.Started.UnixMilli())/1e3, of...)
	e.gauge("run_duration_seconds", "seconds", "How long the run took.", r.Duration, of...)
	e.gauge("run_samples", "", "Samples that were taken.", float64(len(r.Samples)), of...)
	e.gauge("run_samples_failed", "", "Samples that failed.", failed, of...)
	e.gauge("run_verdict_refused", "", "Whether noise or errors forbid a conclusion: 1 or 0.", refused, of...)
}

// addRow adds a row of the summary.
func (e *exposition) addRow(row result.Row) {
	unit, factor := baseUnit(row.Unit)
	name := metricName(row.Metric, row.Unit, unit)
	of := []string{"experiment", e.run.Experiment, "target", row.Target, "case", row.Case}
	for _, v := range []struct {
		stat  string
		value float64
	}{{"median", row.Median}, {"lo", row.Lo}, {"hi", row.Hi}} {
		e.gauge(name, unit, "Metric "+row.Metric+" of selvage lab: its median, and the interval of that.", factor*v.value, append(of, "stat", v.stat)...)
	}
	of = append(of, "metric", row.Metric)
	e.gauge("rounds", "", "How many values the median of a metric is of.", float64(row.N), of...)
	if row.Baseline == "" || row.Ratio == 0 {
		return
	}
	of = append(of, "baseline", row.Baseline)
	for _, v := range []struct {
		stat  string
		value float64
	}{{"ratio", row.Ratio}, {"lo", row.RatioLo}, {"hi", row.RatioHi}} {
		e.gauge("baseline_ratio", "ratio", "Ratio of a target's metric to the baseline's, of pairs, and its interval.", v.value, append(of, "stat", v.stat)...)
	}
}

// baseUnit is the unit that Prometheus has for a row's, as the end of a name, and how many of it
// one is. Of an unknown unit it is its letters.
func baseUnit(unit string) (name string, factor float64) {
	switch unit {
	case "ns":
		return "seconds", 1e-9
	case "µs":
		return "seconds", 1e-6
	case "ms":
		return "seconds", 1e-3
	case "s":
		return "seconds", 1
	case "Gbit/s":
		return "bits_per_second", 1e9
	case "Mbit/s":
		return "bits_per_second", 1e6
	case "kpps":
		return "packets_per_second", 1e3
	case "Mpps":
		return "packets_per_second", 1e6
	case "1/s":
		return "per_second", 1
	case "CPU s/GB":
		return "cpu_seconds_per_byte", 1e-9
	case "share", "×":
		return "ratio", 1
	case "%":
		return "ratio", 1e-2
	case "ppm":
		return "ratio", 1e-6
	case "count", "1 or 0":
		return "", 1
	}
	return strings.Trim(notName().ReplaceAllString(strings.ReplaceAll(unit, "%", "percent"), "_"), "_"), 1
}

// notName matches what a name cannot have.
func notName() *regexp.Regexp { return regexp.MustCompile(`[^a-zA-Z0-9]+`) }

// metricName is a metric's name with its base unit at the end, in place of the unit that it may
// have there: recovery_ms is recovery_seconds.
func metricName(metric, unit, base string) string {
	metric = notName().ReplaceAllString(metric, "_")
	if base == "" {
		return metric
	}
	for _, end := range []string{base, unit} {
		metric = strings.TrimSuffix(metric, "_"+end)
	}
	return metric + "_" + base
}

package metrics

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Instruments are counted where things happen. Their methods may be called at any time, by any goroutine, and of nil
// Instruments too.
type Instruments struct {
	apply       prometheus.Histogram
	applyFailed prometheus.Counter
	failover    prometheus.Histogram
	configs     *prometheus.CounterVec
	configGood  prometheus.Gauge
	configAt    prometheus.Gauge
	revision    prometheus.Gauge
	lastTurn    prometheus.GaugeFunc
	logLost     prometheus.CounterFunc
	build       prometheus.Gauge
}

// Results of configurations that were to come into force.
const resultApplied, resultRefused = "applied", "refused"

// newBuild is which build this is.
func newBuild(version string) prometheus.Gauge {
	labels := prometheus.Labels{"version": version, "revision": "", "goversion": runtime.Version()}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				labels["revision"] = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "selvage_build_info", Help: "The build of the program; always 1.", ConstLabels: labels})
	g.Set(1)
	return g
}

// NewInstruments have counted nothing. lastTurn is when the loop of the edge turned last, logLost how many lines of the
// log nobody took.
func NewInstruments(version string, lastTurn func() time.Time, logLost func() uint64) *Instruments {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	i := &Instruments{
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "selvage_apply_duration_seconds", Help: "Time that it takes to write tables to the maps of the data path.",
			Buckets: []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30},
		}),
		applyFailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "selvage_apply_failures_total", Help: "Times that tables could not be written, whole or in part.",
		}),
		failover: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "selvage_failover_duration_seconds", Help: "Time from the news of a path or gateway until packets take others.",
			Buckets: []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1},
		}),
		configs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "selvage_config_applies_total", Help: "Configurations that were to come into force, by what became of them.",
		}, []string{"result"}),
		configGood: gauge("selvage_config_last_apply_successful", "1 while the last configuration that was to come into force is in force."),
		configAt:   gauge("selvage_config_last_apply_success_time_seconds", "When a configuration came into force last, in seconds since 1970."),
		revision:   gauge("selvage_config_revision", "Number of the revision of the configuration that is in force; 0 where none are kept."),
		lastTurn: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "selvage_loop_last_turn_time_seconds", Help: "When the control loop turned last, in seconds since 1970.",
		}, func() float64 { return seconds(lastTurn()) }),
		logLost: prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "selvage_log_lines_lost_total", Help: "Lines of the log that were not written, as nobody took them.",
		}, func() float64 {
			if logLost == nil {
				return 0
			}
			return float64(logLost())
		}),
	}
	i.build = newBuild(version)
	for _, result := range []string{resultApplied, resultRefused} {
		i.configs.WithLabelValues(result)
	}
	return i
}

func (i *Instruments) all() []prometheus.Collector {
	return []prometheus.Collector{i.apply, i.applyFailed, i.failover, i.configs, i.configGood, i.configAt, i.revision, i.lastTurn, i.logLost, i.build}
}

// Applied counts tables that were to be written, and how long that took.
func (i *Instruments) Applied(took time.Duration, err error) {
	if i == nil {
		return
	}
	i.apply.Observe(took.Seconds())
	if err != nil {
		i.applyFailed.Inc()
	}
}

// Steered counts that packets were led another way, and how long that took.
func (i *Instruments) Steered(took time.Duration) {
	if i != nil {
		i.failover.Observe(took.Seconds())
	}
}

// Configured counts a configuration that was to come into force.
func (i *Instruments) Configured(at time.Time, err error) {
	if i == nil {
		return
	}
	if err != nil {
		i.configs.WithLabelValues(resultRefused).Inc()
		i.configGood.Set(0)
		return
	}
	i.configs.WithLabelValues(resultApplied).Inc()
	i.configGood.Set(1)
	i.configAt.Set(seconds(at))
}

// Revision notes which one is in force.
func (i *Instruments) Revision(id int) {
	if i != nil {
		i.revision.Set(float64(id))
	}
}

// seconds are those since 1970; 0 of no time.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}

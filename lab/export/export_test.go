package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/result"
)

// recorded are the results that experiments have as testdata.
func recorded(t *testing.T) map[string]result.Result {
	t.Helper()
	files, err := filepath.Glob("../experiment/*/testdata/*.json.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded results, %v", len(files), err)
	}
	all := map[string]result.Result{}
	for _, file := range files {
		r, err := result.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = r
	}
	return all
}

func readCSV(t *testing.T, table Table, results ...result.Result) [][]string {
	t.Helper()
	var b bytes.Buffer
	if err := CSV(&b, table, results...); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// A spreadsheet computes nothing that a name says.
func TestNoFormulas(t *testing.T) {
	r := result.Result{Summary: []result.Row{{Target: "=1+1", Case: "-a", Metric: "@b", Unit: "+c", Median: -2}}}
	if line := strings.Join(readCSV(t, Summary, r)[1], " "); !strings.Contains(line, "'=1+1 '-a '@b '+c") || !strings.Contains(line, " -2 ") {
		t.Error(line)
	}
}

// A line of the summary has what the row has in JSON, under the same names.
func TestSummaryCSV(t *testing.T) {
	for name, r := range recorded(t) {
		lines := readCSV(t, Summary, r)
		if len(lines) != 1+len(r.Summary) {
			t.Fatalf("%s: %d lines of %d rows", name, len(lines), len(r.Summary))
		}
		for i, row := range r.Summary {
			data, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(data, &fields); err != nil {
				t.Fatal(err)
			}
			for field, value := range fields {
				at := slices.Index(lines[0], field)
				if f, ok := value.(float64); ok {
					value = number(f)
				}
				if at < 0 || lines[i+1][at] != fmt.Sprint(value) {
					t.Fatalf("%s, row %d: %s is %v, in %q", name, i, field, value, lines[i+1])
				}
			}
		}
	}
}

func TestRawCSV(t *testing.T) {
	started := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	env := result.Environment{Kernel: "6.12", CPU: "x", Cores: 2, Versions: map[string]string{"selvage": "0.2.0"}}
	a := result.Result{Experiment: "ab", Started: started, Environment: env, Samples: []result.Sample{
		{Target: "plain", Case: "tcp", Round: 1, Start: 0.5, Duration: 2, Metrics: map[string]float64{"b": 2, "a": 1.5}, Series: map[string][]float64{"a": {1, 2}}},
		{Target: "plain", Case: "tcp", Round: 2, Error: "no route, \"really\""},
	}}
	a.Places = []result.Place{{Role: "client", Name: "ssh:a"}, {Role: "server", Name: "ssh:b", Kernel: "6.1", Arch: "arm64", Cores: 4}}
	a.Preflight = result.Preflight{{Place: "ssh:a", Machine: facts.Machine{Kernel: "6.12", CPU: facts.CPU{Model: "x", Threads: 2}}, Interfaces: []facts.Interface{
		{Name: "eth0", Driver: "mlx5_core", Firmware: "16.1", Mbps: 25000}, {Name: "vx0", Kind: "vxlan"},
	}}}
	const client, server = "Linux 6.12, x, 2 CPUs; eth0 mlx5_core, firmware 16.1, 25000 Mbit/s", "Linux 6.1, arm64, 4 cores"
	on := "client: " + client + " | server: " + server
	if text := openMetrics(t, a, false); !strings.Contains(text, `selvage_lab_run_place_info{experiment="ab",role="client",hardware="`+client+`"} 1`) {
		t.Error(text)
	}
	b := a
	b.Started = started.Add(time.Hour)
	lines := readCSV(t, Samples, a, b)
	want := [][]string{
		{"experiment", "started", "target", "case", "round", "start_s", "duration_s", "metric", "value", "error", "selvage", "kernel", "cpu", "cores", "places"},
		{"ab", "2026-11-01T00:00:00Z", "plain", "tcp", "1", "0.5", "2", "a", "1.5", "", "0.2.0", "6.12", "x", "2", on},
		{"ab", "2026-11-01T00:00:00Z", "plain", "tcp", "1", "0.5", "2", "b", "2", "", "0.2.0", "6.12", "x", "2", on},
		{"ab", "2026-11-01T00:00:00Z", "plain", "tcp", "2", "0", "0", "", "", "no route, \"really\"", "0.2.0", "6.12", "x", "2", on},
	}
	if len(lines) != 7 || !slices.EqualFunc(lines[:4], want, func(x, y []string) bool { return slices.Equal(x, y) }) || lines[4][1] != "2026-11-01T01:00:00Z" {
		t.Errorf("%q", lines)
	}
	lines = readCSV(t, Series, a)
	if len(lines) != 3 || !slices.Equal(lines[2][7:], []string{"a", "1", "2", "0.2.0", "6.12", "x", "2", on}) {
		t.Errorf("%q", lines)
	}
}

// parse reads what was written by the library, and checks what of OpenMetrics it does not: the end
// of the file, units at the ends of names, and lines that are no sample of their family.
func parse(t *testing.T, name, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !strings.HasSuffix(text, "\n# EOF\n") || strings.Count(text, "# EOF") != 1 {
		t.Errorf("%s does not end by # EOF", name)
	}
	seen, family := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if m := regexp.MustCompile(`^# UNIT (\S+) (\S+)`).FindStringSubmatch(line); m != nil && !strings.HasSuffix(m[1], "_"+m[2]) {
			t.Errorf("%s: the name %s does not end by its unit %s", name, m[1], m[2])
		}
		if m := regexp.MustCompile(`^# TYPE (\S+)`).FindStringSubmatch(line); m != nil {
			family = m[1]
		}
		series, _, _ := strings.Cut(line, "} ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if seen[series] || !strings.HasPrefix(line, family+"{") {
			t.Errorf("%s: %s is there twice, or among %s", name, series, family)
		}
		seen[series] = true
	}
	return families
}

func TestOpenMetrics(t *testing.T) {
	for name, r := range recorded(t) {
		families := parse(t, name, openMetrics(t, r, false))
		if rows := len(families["selvage_lab_rounds"].GetMetric()); rows != len(r.Summary) {
			t.Errorf("%s: %d of %d rows", name, rows, len(r.Summary))
		}
		// The library reads Prometheus' own format, whose timestamps are others.
		stamp := regexp.MustCompile(`(?m)^([^#].*) \S+$`)
		stamped := openMetrics(t, r, true)
		if bare := stamp.ReplaceAllString(stamped, "$1"); bare != openMetrics(t, r, false) || bare == stamped {
			t.Errorf("%s: with timestamps it is another text", name)
		}
	}
}

func openMetrics(t *testing.T, r result.Result, timestamps bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := OpenMetrics(&b, r, timestamps); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Figures are in base units, and text in labels is escaped.
func TestBaseUnits(t *testing.T) {
	r := result.Result{Experiment: "ab", Started: time.UnixMilli(1700000000500), Environment: result.Environment{CPU: `a "b" \ c`}}
	for metric, unit := range map[string]string{
		"tcp_throughput": "Gbit/s", "rr_p50": "µs", "recovery_ms": "ms", "recovered": "s", "device_ns": "ns", "ndr": "Mpps", "udp_pps": "kpps", "rr_rate": "1/s",
		"cpu_per_gb": "CPU s/GB", "udp_loss_ppm": "ppm", "line_share": "share", "cpu": "%", "retransmits": "count", "efficiency": "Mbit/s per %", "frame_out": "bytes",
	} {
		r.Summary = append(r.Summary, result.Row{Target: "selvage", Case: "tcp", Metric: metric, Unit: unit, Median: 2, Lo: 1, Hi: 3, N: 8, Baseline: "plain", Ratio: 0.9, RatioLo: 0.8, RatioHi: 1})
	}
	parse(t, "units", openMetrics(t, r, false))
	text := openMetrics(t, r, true)
	for _, want := range []string{
		`selvage_lab_tcp_throughput_bits_per_second{experiment="ab",target="selvage",case="tcp",stat="median"} 2e+09 1.7000000005e+09`,
		`selvage_lab_rr_p50_seconds{experiment="ab",target="selvage",case="tcp",stat="lo"} 1e-06 `,
		`selvage_lab_recovery_seconds{`, `selvage_lab_recovered_seconds{`, `selvage_lab_device_seconds{`, `selvage_lab_ndr_packets_per_second{`,
		`selvage_lab_udp_pps_packets_per_second{`, `selvage_lab_rr_rate_per_second{`, `selvage_lab_cpu_per_gb_cpu_seconds_per_byte{`,
		`selvage_lab_udp_loss_ratio{`, `selvage_lab_line_ratio{`, `selvage_lab_cpu_ratio{`, `selvage_lab_retransmits{`,
		`selvage_lab_efficiency_Mbit_s_per_percent{`, `selvage_lab_frame_out_bytes{`,
		`selvage_lab_baseline_ratio{experiment="ab",target="selvage",case="tcp",metric="ndr",baseline="plain",stat="hi"} 1.0 `,
		`cpu="a \"b\" \\ c"} 1.0 1.7000000005e+09`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// family is a metric as a scraper understands it.
type family struct {
	kind    string
	samples map[string]float64 // by labels, sorted and quoted
}

// parseMetrics reads the text format.
func parseMetrics(text string) (map[string]*family, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	read, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	families := map[string]*family{}
	for name, f := range read {
		families[name] = &family{kind: strings.ToLower(f.GetType().String()), samples: map[string]float64{}}
		for _, m := range f.GetMetric() {
			families[name].take(m)
		}
	}
	return families, nil
}

func (f *family) take(m *dto.Metric) {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	slices.Sort(labels)
	key := strings.Join(labels, ",")
	if h := m.GetHistogram(); h != nil {
		for _, b := range h.GetBucket() {
			f.samples[fmt.Sprintf("le=%q", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64))] = float64(b.GetCumulativeCount())
		}
		return
	}
	f.samples[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

// scraped are the metrics of the edge in w.
func (w *world) scraped() map[string]*family {
	w.t.Helper()
	resp, body := raw(w.t, filepath.Join(w.opts.RuntimeDir, "a.sock"), "GET", "/metrics")
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(got, "text/plain; version=0.0.4; charset=utf-8") {
		w.t.Fatalf("status %d, content type %q: %s", resp.StatusCode, got, body)
	}
	families, err := parseMetrics(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return families
}

// exports waits until the metrics have all lines, or lines that begin so.
func (w *world) exports(c *api.Client, lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		w.within("the metrics have "+line, func() bool { return strings.Contains("\n"+fetched(w.t, c.Metrics), "\n"+line) })
	}
}

func TestMetrics(t *testing.T) {
	w := newGatewayWorld(t)
	c, _ := w.run()
	families := w.scraped()
	for key, want := range map[string]float64{
		`selvage_edge_info edge="a",tep="192.0.2.1",version="test"`: 1,
		`selvage_fdb_entries `:                                                     95,
		`selvage_fdb_entries_limit `:                                               100,
		`selvage_flow_cache_lookups_total result="hit"`:                            10,
		`selvage_flow_cache_lookups_total result="miss"`:                           2,
		`selvage_flow_cache_lookups_total result="stale"`:                          5,
		`selvage_flow_cache_lookups_total result="revalidated"`:                    3,
		`selvage_flow_cache_evictions_total cache="transit"`:                       1,
		`selvage_flow_cache_entries cache="tc"`:                                    3,
		`selvage_flow_cache_entries cache="transit"`:                               50,
		`selvage_flow_cache_entries_limit cache="transit"`:                         8192,
		`selvage_flow_cache_memory_bytes cache="tc"`:                               1 << 20,
		`selvage_flow_cache_alarm kind="off"`:                                      0,
		`selvage_flow_cache_alarm kind="thrashing"`:                                0,
		`selvage_port_up interface="veth0",port="p0.10",segment="red"`:             1,
		`selvage_port_receive_packets_total port="p0"`:                             1,
		`selvage_port_receive_bytes_total port="p0"`:                               2,
		`selvage_port_transmit_packets_total port="p0"`:                            3,
		`selvage_port_transmit_bytes_total port="p0"`:                              4,
		`selvage_port_drops_total port="p0"`:                                       5,
		`selvage_port_drops_total port="wan"`:                                      0,
		`selvage_interface_hook_info hook="tcx",interface="eth0"`:                  1,
		`selvage_remote_up remote="192.0.2.2"`:                                     1,
		`selvage_path_usable local="192.0.2.1",remote="192.0.2.2"`:                 1,
		`selvage_path_transmit_packets_total local="192.0.2.1",remote="192.0.2.2"`: 0,
		`selvage_remote_receive_bytes_total remote="192.0.2.2"`:                    2,
		`selvage_remote_transmit_packets_total remote="192.0.2.2"`:                 3,
		`selvage_drops_total reason="no-underlay-route"`:                           7,
		`selvage_dropped_bytes_total reason="no-underlay-route"`:                   700,
		`selvage_event_log_entries_total kind="edge-started"`:                      1,
		`selvage_event_log_entries_total kind="bgp-down"`:                          0,
		`selvage_events_total event="learned"`:                                     4,
		`selvage_start_time_seconds `:                                              float64(fetched(t, c.Status).Started.Unix()),
	} {
		name, labels, _ := strings.Cut(key, " ")
		got := math.NaN()
		if f := families[name]; f != nil {
			if v, ok := f.samples[labels]; ok {
				got = v
			}
		}
		if got != want {
			t.Errorf("%s{%s} is %v, want %v", name, labels, got, want)
		}
	}
	if text := fetched(t, c.Metrics); !strings.Contains(text, "# HELP selvage_edge_info ") || strings.Count(text, "# TYPE ") != len(families) {
		t.Errorf("the client has other metrics:\n%s", text)
	}
	if _, ok := families["selvage_events_total"].samples[`event="hit"`]; ok {
		t.Error("hits are counted twice")
	}
	for _, name := range []string{"selvage_fdb_entries", "selvage_owner_drops_total"} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, read := range []string{"fdb", "flows", "neighbours", "sessions"} {
		if w.reads[read] > 0 {
			t.Errorf("a scrape walked %s", read)
		}
	}
}

// A scrape answers, as do probes of health, while the loop holds the edge for as long as it likes; and has what was so before.
func TestScrapeDuringApply(t *testing.T) {
	w := newWorld(t)
	end := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(end) })
	w.run()
	t.Cleanup(letGo)
	before := w.scraped()
	w.mu.Lock()
	w.preparing = end
	w.config.Segments[1].Remotes = w.config.Segments[0].Remotes
	w.mu.Unlock()
	w.hangup()
	w.within("tables are planned", func() bool { return w.loaded() > 1 })
	socket := filepath.Join(w.opts.RuntimeDir, "a.sock")
	w.within("the loop holds the edge", func() bool {
		return w.scraped()["selvage_loop_last_turn_time_seconds"].samples[""] == w.scraped()["selvage_loop_last_turn_time_seconds"].samples[""]
	})
	for range 20 {
		now := w.scraped()
		for _, name := range []string{"selvage_port_receive_packets_total", "selvage_drops_total", "selvage_fdb_entries"} {
			if diff := cmp.Diff(before[name].samples, now[name].samples); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if resp, body := raw(t, socket, "GET", path); resp.StatusCode != http.StatusOK || body != "ok\n" {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		}
	}
	w.mu.Lock()
	w.preparing = nil
	w.mu.Unlock()
	letGo()
	w.within("the tables are applied", func() bool {
		return w.scraped()["selvage_config_applies_total"].samples[`result="applied"`] == 2
	})
	if n := w.scraped()["selvage_apply_duration_seconds"].samples[`le="+Inf"`]; n < 2 {
		t.Errorf("%v writes of tables were timed", n)
	}
}

// What fails makes an edge not ready, and says so; the process is alive.
func TestHealth(t *testing.T) {
	w := newWorld(t)
	w.run()
	socket := filepath.Join(w.opts.RuntimeDir, "a.sock")
	w.set(func() { w.failApply = func(fib.Tables) error { return errFake } })
	w.within("the edge is not ready", func() bool {
		resp, body := raw(t, socket, "GET", "/readyz")
		return resp.StatusCode == http.StatusServiceUnavailable && strings.HasPrefix(body, "failed\ndatapath: apply to the data path: ")
	})
	if resp, body := raw(t, socket, "GET", "/healthz?verbose"); resp.StatusCode != http.StatusOK || !strings.Contains(body, `{"status":"ok","checks":[{"name":"loop","ok":true,"message":"turned `) {
		t.Errorf("healthz: %d %s", resp.StatusCode, body)
	}
	resp, body := raw(t, socket, "GET", "/readyz?verbose")
	var info api.HealthInfo
	if err := json.Unmarshal([]byte(body), &info); err != nil || info.Status != api.HealthFailed || len(info.Checks) != 2 || info.Checks[0].OK || !info.Checks[1].OK {
		t.Errorf("readyz: %d %s, %v", resp.StatusCode, body, err)
	}
	if f := w.scraped(); f["selvage_ready"].samples[""] != 0 || f["selvage_ready_condition"].samples[`condition="datapath"`] != 0 || f["selvage_problems"].samples[`severity="error"`] == 0 {
		t.Errorf("ready %v, problems %v", f["selvage_ready"].samples, f["selvage_problems"].samples)
	}
	w.set(func() { w.failApply = nil })
	w.within("the edge is ready", func() bool {
		resp, _ := raw(t, socket, "GET", "/readyz")
		return resp.StatusCode == http.StatusOK
	})
}

// Prometheus' own linters find nothing.
func TestMetricsLint(t *testing.T) {
	w := newEgressWorld(newGatewayWorld(t).guarded()).replicated()
	c, _ := w.run()
	text := fetched(t, c.Metrics)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if err != nil {
		t.Error(err)
	}
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: the second opinion is missing (apt-get install prometheus)")
	}
	cmd := exec.Command(tool, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// Who asks for OpenMetrics gets it.
func TestOpenMetrics(t *testing.T) {
	w := newWorld(t)
	w.run()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(w.opts.RuntimeDir, "a.sock"))
		},
	}}
	req, err := http.NewRequest("GET", "http://edge/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(string(body), "\n# EOF\n") {
		t.Errorf("%v, content type %q, %v", resp.StatusCode, resp.Header.Get("Content-Type"), err)
	}
}

func TestMetricsOfTheAlarm(t *testing.T) {
	w := newWorld(t)
	w.config.FlowCache.Enabled = false
	w.config.Ports[1].Name = "a \"b\"\\\nc" // whatever a name is, it does not break the page
	w.run()
	families := w.scraped()
	alarm := families["selvage_flow_cache_alarm"].samples
	if alarm[`kind="off"`] != 1 || alarm[`kind="thrashing"`] != 0 {
		t.Errorf("alarm %v", alarm)
	}
	if up := families["selvage_port_up"].samples; up[`interface="tap0",port="a \"b\"\\\nc",segment="blue"`] != 0 || len(up) != 2 {
		t.Errorf("ports %v", up)
	}
}

// An edge without ports, remotes and uplinks has nothing to say of them.
func TestMetricsOfAnEmptyEdge(t *testing.T) {
	w := newWorld(t)
	w.config.Segments, w.config.Ports = nil, nil
	w.config.Underlay = overlay.Underlay{TEP: tep}
	w.run()
	if f := w.scraped(); f["selvage_port_up"] != nil || f["selvage_edge_info"] == nil {
		t.Errorf("ports %v", f["selvage_port_up"])
	}
}

func TestMetricsRefuse(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.mu.Lock()
	w.failing["teps"] = errFake
	w.mu.Unlock()
	for method, want := range map[string]int{"POST": 405, "GET": 500} {
		w.within(method+" is refused", func() bool {
			resp, body := raw(t, filepath.Join(w.opts.RuntimeDir, "a.sock"), method, "/metrics")
			return resp.StatusCode == want && strings.Contains(body, `{"error":`)
		})
	}
}

// docs/reference/metrics.md lists exactly the metrics that there are, with their labels.
func TestMetricsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([a-z_]+)`")
	documented := map[string]string{}
	for line := range strings.Lines(string(document)) {
		columns := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `selvage_") {
			continue
		}
		var labels []string
		for _, m := range quoted.FindAllStringSubmatch(columns[2], -1) {
			labels = append(labels, m[1])
		}
		slices.Sort(labels)
		for _, m := range quoted.FindAllStringSubmatch(columns[1], -1) {
			documented[m[1]] = strings.Join(labels, ",")
		}
	}
	w := newEgressWorld(newGatewayWorld(t).guarded()).replicated()
	w.opts.Sweep = time.Millisecond
	c, _ := w.run()
	w.within("the firewall was swept", func() bool { return !fetched(t, c.Firewall).SweptAt.IsZero() })
	served := map[string]string{}
	w.exports(c, `selvage_conntrack_half_open_entries{`)
	all := w.scraped()
	listen := newWorld(t)
	listen.config.HTTP = newSigned(t).http()
	listen.run()
	listen.within("listeners are scraped", func() bool { return listen.scraped()["selvage_http_listener_up"] != nil })
	for name, f := range listen.scraped() {
		if all[name] == nil {
			all[name] = f
		}
	}
	b := newBGPWorld(newWorld(t))
	b.learned.sessions = []speaker.Neighbour{{Name: "rr1", Families: []speaker.FamilyCounts{{Family: overlay.FamilyEVPN}}, Discarded: map[string]uint64{"EVPN type 6": 1}}}
	b.runBGP()
	for name, f := range b.scraped() {
		if all[name] == nil {
			all[name] = f
		}
	}
	for name, f := range all {
		for key := range f.samples {
			var labels []string
			for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(key, -1) {
				labels = append(labels, m[1])
			}
			if strings.HasPrefix(name, "selvage_") {
				served[name] = strings.Join(labels, ",")
			}
		}
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("docs/reference/metrics.md (-served +documented):\n%s", diff)
	}
}

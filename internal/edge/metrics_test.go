package edge

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
)

// family is a metric as a scraper understands it.
type family struct {
	kind, help string
	samples    map[string]float64 // by labels, sorted and quoted
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)`)
)

// parseMetrics reads the text format by its specification, strictly: each family has
// one HELP and one TYPE line, before its samples, which stand together and differ.
func parseMetrics(text string) (map[string]*family, error) {
	if !strings.HasSuffix(text, "\n") {
		return nil, fmt.Errorf("the last line does not end")
	}
	families, open := map[string]*family{}, ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var err error
		switch {
		case strings.HasPrefix(line, "# HELP "):
			name, help, ok := strings.Cut(strings.TrimPrefix(line, "# HELP "), " ")
			if families[name] != nil || !ok || help == "" {
				err = fmt.Errorf("second or empty HELP of %s", name)
			}
			families[name], open = &family{help: help, samples: map[string]float64{}}, name
		case strings.HasPrefix(line, "# TYPE "):
			name, kind, _ := strings.Cut(strings.TrimPrefix(line, "# TYPE "), " ")
			if name != open || families[name].kind != "" || kind != "counter" && kind != "gauge" && kind != "histogram" {
				err = fmt.Errorf("TYPE %s %q is out of place", name, kind)
			} else {
				families[name].kind = kind
			}
		default:
			err = families[open].sample(open, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
	}
	return families, nil
}

func (f *family) sample(open, line string) error {
	m := sampleLine.FindStringSubmatch(line)
	if m == nil || f == nil || f.kind == "" || !f.has(open, m[1]) {
		return fmt.Errorf("no sample of %s", open)
	}
	if f.kind == "histogram" && m[1] != open+"_bucket" {
		return nil // the sum, and the count that the last bucket has too
	}
	var labels []string
	for rest := m[2]; rest != ""; {
		pair := labelPair.FindStringSubmatch(rest)
		if pair == nil {
			return fmt.Errorf("labels %q", rest)
		}
		rest = rest[len(pair[0]):]
		value, err := strconv.Unquote(`"` + pair[2] + `"`)
		if err != nil {
			return err
		}
		labels = append(labels, fmt.Sprintf("%s=%q", pair[1], value))
	}
	slices.Sort(labels)
	key := strings.Join(labels, ",")
	if _, twice := f.samples[key]; twice {
		return fmt.Errorf("twice the same labels")
	}
	value, err := strconv.ParseFloat(m[3], 64)
	f.samples[key] = value
	return err
}

// has reports whether a sample of that name belongs to the family.
func (f *family) has(family, name string) bool {
	if f.kind == "histogram" {
		return slices.Contains([]string{"_bucket", "_sum", "_count"}, strings.TrimPrefix(name, family))
	}
	return name == family
}

// scraped are the metrics of the edge in w.
func (w *world) scraped() map[string]*family {
	w.t.Helper()
	resp, body := raw(w.t, filepath.Join(w.opts.RuntimeDir, "a.sock"), "GET", "/metrics")
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/plain; version=0.0.4; charset=utf-8" {
		w.t.Fatalf("status %d, content type %q: %s", resp.StatusCode, got, body)
	}
	families, err := parseMetrics(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return families
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
	for name, f := range families {
		if !strings.HasPrefix(name, "selvage_") || strings.HasSuffix(name, "_total") != (f.kind == "counter") || len(f.samples) == 0 {
			t.Errorf("%s: a %s with samples %v", name, f.kind, f.samples)
		}
	}
	if text := fetched(t, c.Metrics); !strings.HasPrefix(text, "# HELP selvage_edge_info ") || strings.Count(text, "# TYPE ") != len(families) {
		t.Errorf("the client has other metrics:\n%s", text)
	}
	if _, ok := families["selvage_events_total"].samples[`event="hit"`]; ok {
		t.Error("hits are counted twice")
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

// An edge without ports, remotes and uplinks has families without samples, which are fine.
func TestMetricsOfAnEmptyEdge(t *testing.T) {
	w := newWorld(t)
	w.config.Segments, w.config.Ports = nil, nil
	w.config.Underlay = overlay.Underlay{TEP: tep}
	w.run()
	if f := w.scraped(); f["selvage_port_up"] == nil || len(f["selvage_port_up"].samples) != 0 {
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
		resp, body := raw(t, filepath.Join(w.opts.RuntimeDir, "a.sock"), method, "/metrics")
		if resp.StatusCode != want || !strings.Contains(body, `{"error":`) {
			t.Errorf("%s: %d %s, want %d", method, resp.StatusCode, body, want)
		}
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
	all := w.scraped()
	b := newBGPWorld(newWorld(t))
	b.learned.sessions = []speaker.Neighbour{{Name: "rr1", Families: []speaker.FamilyCounts{{Family: overlay.FamilyEVPN}}}}
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
			served[name] = strings.Join(labels, ",")
		}
	}
	if diff := cmp.Diff(served, documented); diff != "" {
		t.Errorf("docs/reference/metrics.md (-served +documented):\n%s", diff)
	}
}

// The parser of these tests finds mistakes.
func TestParseMetricsRefuses(t *testing.T) {
	const head = "# HELP a b\n# TYPE a gauge\n"
	if _, err := parseMetrics(head + "a 1\na{x=\"1\",y=\"\\\"\\n\"} 2\n"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"a 1\n", head + "b 1\n", head + "a 1", head + "a 1\na 1\n", head + "a{x=1} 1\n", head + "a{x=\"1\"y=\"2\"} 1\n",
		head + "a one\n", head + head, "# HELP a b\n# TYPE b gauge\n", "# HELP a b\na 1\n", head + "a{x=\"\\t\"} 1\n",
	} {
		if _, err := parseMetrics(text); err == nil {
			t.Errorf("no mistake found in %q", text)
		}
	}
}

package prometheus

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/selvage/selvage/test/tier"
)

// rules are what a rule file has.
type rules struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

type alert struct {
	Alert, Expr         string
	For                 string
	Labels, Annotations map[string]string
}

// cases are what a file of promtool's tests has.
type cases struct {
	Tests []struct {
		Name           string
		InputSeries    []map[string]string `yaml:"input_series"`
		AlertRuleTests []struct {
			Alertname string
			ExpAlerts []any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func read[T any](t *testing.T, name string) (v T) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	for _, g := range read[rules](t, "alerts.yaml").Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

const runbook = "https://github.com/selvage/selvage/blob/main/docs/guide/runbook.md#"

// Every alert says how bad it is, what it is about and what to do.
func TestAlerts(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		if !strings.HasPrefix(a.Alert, "Selvage") || seen[a.Alert] {
			t.Errorf("%s: want another name that begins with Selvage", a.Alert)
		}
		seen[a.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		if !strings.Contains(a.Annotations["summary"], "$labels.instance") {
			t.Errorf("%s: the summary does not name the edge: %q", a.Alert, a.Annotations["summary"])
		}
		if !strings.HasSuffix(a.Annotations["description"], ".") {
			t.Errorf("%s: description %q", a.Alert, a.Annotations["description"])
		}
	}
}

// Sections of the run-book and alerts name each other.
func TestRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // by an alert, the anchor of the section that names it
	anchor := ""
	for line := range strings.Lines(string(text)) {
		if head, ok := strings.CutPrefix(line, "## "); ok {
			anchor = slug(head)
		}
		list, ok := strings.CutPrefix(line, "Alerts: ")
		if !ok {
			continue
		}
		for _, name := range regexp.MustCompile("`(Selvage[A-Za-z]+)`").FindAllStringSubmatch(list, -1) {
			if named[name[1]] != "" {
				t.Errorf("%s is named by two sections", name[1])
			}
			named[name[1]] = anchor
		}
	}
	for _, a := range alerts(t) {
		if want := runbook + named[a.Alert]; a.Annotations["runbook_url"] != want || named[a.Alert] == "" {
			t.Errorf("%s leads to %s, and the section that names it is %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		delete(named, a.Alert)
	}
	for name, anchor := range named {
		t.Errorf("section %s names %s, which is no alert", anchor, name)
	}
}

// slug is the anchor that GitHub makes of a heading.
func slug(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(heading))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(heading, " ", "-")
}

// Every alert is tested: it fires at what it is for, and not at an edge that is healthy.
func TestCases(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range read[cases](t, "alerts_test.yaml").Tests {
		for _, at := range c.AlertRuleTests {
			switch {
			case len(at.ExpAlerts) > 0:
				fires[at.Alertname] = true
			case c.Name == "an edge that is healthy":
				silent[at.Alertname] = true
			}
		}
	}
	healthy := ""
	for _, s := range read[cases](t, "alerts_test.yaml").Tests[0].InputSeries {
		healthy += s["series"] + "\n"
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !silent[a.Alert] {
			t.Errorf("%s: a case in which it fires is %t, one in which it does not is %t", a.Alert, fires[a.Alert], silent[a.Alert])
		}
		for _, metric := range metricNames.FindAllString(a.Expr, -1) {
			if !strings.Contains(healthy, metric+"{") {
				t.Errorf("%s: the healthy edge has no %s, so that it does not fire says nothing", a.Alert, metric)
			}
		}
	}
}

var metricNames = regexp.MustCompile(`\bselvage_[a-z_]+`)

// Alerts ask for metrics that there are.
func TestMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts(t) {
		for _, metric := range metricNames.FindAllString(a.Expr, -1) {
			if !strings.Contains(string(text), "`"+strings.TrimSuffix(metric, "_bucket")+"`") {
				t.Errorf("%s: docs/reference/metrics.md has no %s", a.Alert, metric)
			}
		}
	}
}

// Prometheus' own tool takes the files and their cases.
func TestPromtool(t *testing.T) {
	tier.Root(t) // where the package is installed
	for _, args := range [][]string{
		{"check", "rules", "alerts.yaml"},
		{"check", "config", "--syntax-only", "prometheus.yaml"},
		{"test", "rules", "alerts_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

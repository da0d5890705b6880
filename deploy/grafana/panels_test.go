package grafana

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var metricNames = regexp.MustCompile(`\bselvage_[a-z_]+`)

// Every panel says what it shows in what unit, has a query, and asks for metrics that there are.
func TestPanels(t *testing.T) {
	documented, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Dashboards() {
		if d.Description == "" {
			t.Errorf("%s: no description", d.Name)
		}
		titles := map[string]bool{}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				at := d.Name + ": " + row.Title + ": " + p.Title
				if p.Title == "" || titles[p.Title] {
					t.Errorf("%s: want another title", at)
				}
				titles[p.Title] = true
				if len(p.Description) < 30 || !strings.HasSuffix(p.Description, ".") {
					t.Errorf("%s: description %q", at, p.Description)
				}
				if p.Unit == "" && p.Kind != Table {
					t.Errorf("%s: no unit", at)
				}
				if len(p.Queries) == 0 || p.Kind == Table && len(p.Columns) == 0 {
					t.Errorf("%s: shows nothing", at)
				}
				for _, q := range p.Queries {
					unknown(t, at, q, string(documented))
				}
			}
		}
	}
}

func unknown(t *testing.T, at string, q Query, documented string) {
	t.Helper()
	for _, metric := range metricNames.FindAllString(q.Expr, -1) {
		if !strings.Contains(documented, "`"+strings.TrimSuffix(metric, "_bucket")+"`") {
			t.Errorf("%s: docs/reference/metrics.md has no %s", at, metric)
		}
	}
	if strings.Contains(q.Expr, "selvage_") && !strings.Contains(q.Expr, "$job") {
		t.Errorf("%s: %s does not heed the choice of the reader", at, q.Expr)
	}
}

// Panels of a row do not overlap, and end where the grid does.
func TestPlaces(t *testing.T) {
	for _, d := range Dashboards() {
		for _, row := range d.Rows {
			x := uint32(0)
			for _, p := range row.Panels {
				if x += p.width(); x > 24 {
					x = p.width()
				}
				if p.width() > 24 {
					t.Errorf("%s: %s is %d wide", d.Name, p.Title, p.width())
				}
			}
			if x != 24 {
				t.Errorf("%s: the last line of %s ends at column %d of 24", d.Name, row.Title, x)
			}
		}
	}
}

// Links lead to dashboards and pages that exist.
func TestLinks(t *testing.T) {
	for _, d := range Dashboards() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, l := range p.Links {
					if !leads(l.URL) {
						t.Errorf("%s: %s: %s leads nowhere", d.Name, p.Title, l.URL)
					}
				}
			}
		}
	}
}

// leads says whether a link has an end: a dashboard by its UID, or a heading of a page here.
func leads(url string) bool {
	if uid, ok := strings.CutPrefix(url, "/d/selvage-"); ok {
		name, _, _ := strings.Cut(uid, "?")
		return slices.ContainsFunc(Dashboards(), func(d Dashboard) bool { return d.Name == name })
	}
	page, ok := strings.CutPrefix(url, docs)
	if !ok {
		return false
	}
	page, anchor, _ := strings.Cut(page, "#")
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	heading := regexp.MustCompile(`(?mi)^#+ ` + strings.ReplaceAll(regexp.QuoteMeta(anchor), "-", "[ -]") + `$`)
	return err == nil && (anchor == "" || heading.Match(text))
}

package experiments

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/selvage/selvage/lab/experiment/attack"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Every row whose figures are in samples is of a metric that its experiment lists, in its unit:
// without it nobody knows which way is better.
func TestMetricsAreListed(t *testing.T) {
	neither := []string{attack.Sent, attack.NotApplicable} // is better for being more or less
	files, err := filepath.Glob("../experiment/*/testdata/*.json.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded results, %v", len(files), err)
	}
	for _, file := range files {
		r, err := result.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := madeBy(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range e.Complete(r).Summary {
			m, ok := e.Metric(row.Case, row.Metric)
			if slices.Contains(neither, row.Metric) {
				continue
			}
			if len(stats.Values(r, row.Target, row.Case, row.Metric)) > 0 && (!ok || m.Unit != row.Unit || m.Title == "") {
				t.Errorf("%s: %s in %s: %+v", file, row.Metric, row.Unit, m)
			}
		}
	}
}

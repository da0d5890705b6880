package edge

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/problem"
)

// A fault is an error unless it is known to leave packets alone; status has the worst first.
func TestSeverityOfFaults(t *testing.T) {
	for what, want := range map[string]problem.Severity{
		applyTables: problem.SeverityError, changeHost: problem.SeverityError, bgp.ProblemRun: problem.SeverityError, liveness.WatchRemotes: problem.SeverityError,
		"anything else": problem.SeverityError, alarm.WatchFlowCache: problem.SeverityWarning, discovery.ProbeMTUs: problem.SeverityWarning,
	} {
		if got := faultSeverity(what); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	w := newWorld(t)
	w.config.FlowCache.Enabled = false
	c, _ := w.run()
	w.mu.Lock()
	w.failing["apply"] = errFake
	w.mu.Unlock()
	w.set(func() {})
	w.within("the fault is an error", func() bool { return w.problem(c, applyTables) })
	s := fetched(t, c.Status)
	order := []problem.Severity{problem.SeverityError, problem.SeverityWarning, problem.SeverityNote}
	last := problem.SeverityError
	for _, p := range s.Problems {
		if slices.Index(order, p.Severity) < slices.Index(order, last) {
			t.Errorf("%s behind %s", p.Severity, last)
		}
		last = p.Severity
	}
	if s.Verdict != problem.Broken || s.Problems[0].Severity != problem.SeverityError || last != problem.SeverityNote {
		t.Errorf("verdict %s of %+v, want errors first and the flow cache's note last", s.Verdict, s.Problems)
	}
}

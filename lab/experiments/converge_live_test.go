package experiments_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/selvage/selvage/lab/experiment/converge"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// measuredConverge runs selvage lab converge once to its end, and checks that its result is good and
// that nothing else is left of it.
func measuredConverge(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	// A busy machine holds probes of liveness up for longer than the default takes for a loss.
	few := []string{"lab", "converge", "--results", root, "-o", "json", "--rounds", "1", "--watch", "1s", "--liveness", "300ms", "--flows", "2", "--interval", "5ms"}
	p := start(t, append(few, args...)...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"result.json", "report.html"} {
		if found, _ := filepath.Glob(filepath.Join(root, "*-converge", file)); len(found) != 1 {
			t.Errorf("%s: %v, want one", file, found)
		}
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("events failed: %s", lines)
	}
	return r
}

// A host moves and the reflector is lost: each event says what the flows lost, and the wire when
// the move was told. (lab/topo's TestConvergeKernel has all events in a fabric of Linux and FRR;
// make test-long has them in both, side by side.)
func TestConverge(t *testing.T) {
	targets, cases := []string{"selvage"}, []string{converge.Move, converge.RRLoss}
	if tier.IsLong() {
		targets, cases = append(targets, "kernel"), append(cases, converge.EdgeLoss)
	}
	r := measuredConverge(t, "--cases", strings.Join(cases, ","), "--targets", strings.Join(targets, ","))
	if len(r.Samples) != len(cases)*len(targets) || len(r.Targets) != len(targets) {
		t.Fatalf("%d events of %d targets, want %v of each of %v", len(r.Samples), len(r.Targets), cases, targets)
	}
	for _, s := range r.Samples {
		switch s.Case {
		case converge.Move:
			_, reported := s.Metrics["step_told"]
			if _, passed := s.Metrics["step_passed"]; s.Metrics[inject.AffectedFlows] == 0 || s.Metrics[converge.Followed] <= 0 || !reported || !passed {
				t.Errorf("%s of %s: %v, want flows that were hit, and the reflector told", s.Case, s.Target, s.Metrics)
			}
		case converge.RRLoss:
			if s.Target == "selvage" && s.Metrics[inject.Lost] > 0 {
				t.Errorf("%v packets were lost without the reflector", s.Metrics[inject.Lost])
			}
		}
		for _, metric := range []string{inject.OutageP50, inject.OutageP99, inject.OutageMax} {
			row, ok := stats.Find(r.Summary, s.Target, s.Case, metric)
			if !ok || row.Unit != "ms" || row.N == 0 {
				t.Errorf("%s of %s: %+v has no %s", s.Case, s.Target, row, metric)
			}
		}
	}
}

// Edges have two links to the underlay where one is lost.
func TestConvergeLinks(t *testing.T) {
	tier.Long(t, "lab/topo's TestConvergeUplinks, and TestConverge")
	for _, s := range measuredConverge(t, "--cases", "link-loss").Samples {
		if s.Metrics[converge.Open] > 0 {
			t.Errorf("%s: %v flows did not go on by the other link", s.Target, s.Metrics[converge.Open])
		}
	}
}

// Interrupted while fabrics are up, it leaves nothing behind but what it has measured.
func TestConvergeInterrupted(t *testing.T) {
	tier.Long(t, "TestInterrupt, and TestConverge, which leaves nothing either")
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "converge", "--results", root, "--targets", "kernel", "--cases", "move", "--rounds", "9", "--watch", "1s", "--flows", "1")
	p.awaitLine("1/9")
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(); code == 0 {
		t.Error("it says that all was well")
	}
	p.checkGone()
	if files, _ := filepath.Glob(filepath.Join(root, "*-converge", "result.json")); len(files) != 1 {
		t.Errorf("results %v", files)
	}
	if out := p.stdout.String(); !strings.Contains(out, "No verdict") {
		t.Errorf("a verdict on one event:\n%s", out)
	}
}

package experiments_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// converge runs selvage lab converge once to its end, and checks that its result is good and
// that nothing else is left of it.
func converge(t *testing.T, args ...string) result.Result {
	t.Helper()
	root := t.TempDir()
	few := []string{"lab", "converge", "--results", root, "-o", "json", "--rounds", "1", "--watch", "1s", "--flows", "2", "--interval", "5ms"}
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

// A host moves, an edge and the reflector are lost, with both contenders side by side: each
// event says what the flows lost, and the wire when the move was told.
func TestConverge(t *testing.T) {
	r := converge(t, "--cases", "move,edge-loss,rr-loss")
	if len(r.Samples) != 6 || len(r.Contenders) != 2 {
		t.Fatalf("%d events of %d contenders, want 6 of 2", len(r.Samples), len(r.Contenders))
	}
	for _, s := range r.Samples {
		switch s.Case {
		case stats.Move:
			_, told := s.Metrics["step_told"]
			if _, passed := s.Metrics["step_passed"]; s.Metrics[stats.HitFlows] == 0 || s.Metrics[stats.Followed] <= 0 || !told || !passed {
				t.Errorf("%s of %s: %v, want flows that were hit, and the reflector told", s.Case, s.Contender, s.Metrics)
			}
		case stats.RRLoss:
			if s.Contender == "selvage" && s.Metrics[stats.Lost] > 0 {
				t.Errorf("%v packets were lost without the reflector", s.Metrics[stats.Lost])
			}
		}
		for _, metric := range []string{stats.GapP50, stats.GapP99, stats.GapMax} {
			row, ok := stats.Find(r.Summary, s.Contender, s.Case, metric)
			if !ok || row.Unit != "ms" || row.N == 0 {
				t.Errorf("%s of %s: %+v has no %s", s.Case, s.Contender, row, metric)
			}
		}
	}
}

// Edges have two links to the underlay where one is lost.
func TestConvergeLinks(t *testing.T) {
	for _, s := range converge(t, "--cases", "link-loss").Samples {
		if s.Metrics[stats.Open] > 0 {
			t.Errorf("%s: %v flows did not go on by the other link", s.Contender, s.Metrics[stats.Open])
		}
	}
}

// Interrupted while fabrics are up, it leaves nothing behind but what it has measured.
func TestConvergeInterrupted(t *testing.T) {
	root := t.TempDir()
	p := start(t, "lab", "converge", "--results", root, "--contenders", "kernel", "--cases", "move", "--rounds", "9", "--watch", "1s", "--flows", "1")
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

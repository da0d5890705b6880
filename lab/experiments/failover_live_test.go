package experiments_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// measuredFailover runs selvage lab failover with little traffic to its end, and checks that its
// result is good and that nothing else is left of it.
func measuredFailover(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	// A busy machine holds probes of liveness up for longer than the default takes for a loss.
	few := []string{"lab", "failover", "--results", root, "-o", "json", "--watch", "1s", "--liveness", "300ms", "--flows", "8", "--interval", "5ms", "--connections", "20"}
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
		if found, _ := filepath.Glob(filepath.Join(root, "*-failover", file)); len(found) != 1 {
			t.Errorf("%s: %v, want one", file, found)
		}
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("kills failed: %s", lines)
	}
	return r
}

// went wants every connection to have gone on in every kill.
func went(t *testing.T, r result.Result, kills int) {
	t.Helper()
	if len(r.Samples) != kills {
		t.Fatalf("%d kills, want %d", len(r.Samples), kills)
	}
	for _, s := range r.Samples {
		if s.Metrics[inject.WentOn] != 20 || s.Metrics[inject.Connections] != 20 {
			t.Errorf("%s: %v of %v connections survived", s.Case, s.Metrics[inject.WentOn], s.Metrics[inject.Connections])
		}
	}
}

// A dead tunnel endpoint takes the flows of its paths down, for a while.
func TestFailoverOfEndpoints(t *testing.T) {
	r := measuredFailover(t, "--what", "tep", "--kills", "1")
	went(t, r, 1)
	for _, s := range r.Samples {
		if s.Metrics[inject.AffectedFlows] == 0 || s.Metrics[inject.Lost] == 0 || s.Metrics[inject.Repair] <= 0 || s.Metrics["step_noticed"] <= 0 {
			t.Errorf("%s: %v, want flows that were hit and repaired", s.Case, s.Metrics)
		}
	}
}

// An edge's data path goes on without its process: nothing is lost.
func TestFailoverOfEdges(t *testing.T) {
	tier.Long(t, "TestFailoverOfEndpoints, and the end-to-end tests of data paths that outlive their process")
	r := measuredFailover(t, "--what", "edge", "--kills", "2")
	went(t, r, 2)
	for _, s := range r.Samples {
		if s.Metrics[inject.Lost] > 0 {
			t.Errorf("%s: %v packets were lost", s.Case, s.Metrics[inject.Lost])
		}
	}
}

// A gateway that dies is replaced, and its connections go on.
func TestFailoverOfGateways(t *testing.T) {
	tier.Long(t, "TestFailoverOfEndpoints, and the end-to-end tests of gateways that fail over")
	r := measuredFailover(t, "--what", "gateway", "--kills", "2", "--faults", "link-down,blackhole")
	went(t, r, 2)
	for _, s := range r.Samples {
		if s.Metrics[inject.AffectedFlows] != 8 || s.Metrics["step_noticed"] <= 0 {
			t.Errorf("%s: %v, want all flows hit, and the edges to tell of it", s.Case, s.Metrics)
		}
	}
}

// Interrupted while something is killed, it leaves nothing behind but what it has measured.
func TestFailoverInterrupted(t *testing.T) {
	tier.Long(t, "TestInterrupt, and TestFailoverOfEndpoints, which leaves nothing either")
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "failover", "--results", root, "--what", "tep", "--kills", "9", "--watch", "1s", "--flows", "2", "--connections", "2")
	p.awaitLine("1/9")
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(); code == 0 {
		t.Error("it says that all was well")
	}
	p.checkGone()
	if files, _ := filepath.Glob(filepath.Join(root, "*-failover", "result.json")); len(files) != 1 {
		t.Errorf("results %v", files)
	}
	if out := p.stdout.String(); !strings.Contains(out, "interrupted") {
		t.Errorf("no word of the interruption:\n%s", out)
	}
}

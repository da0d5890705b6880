package experiments_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// appArgs ask for little but the application loop, without a firewall and with 100 rules.
func appArgs(results string, more ...string) []string {
	return append([]string{
		"lab", "latency", "--app", "--results", results, "-o", "json", "--scenarios", "two-hosts", "--rules", "0,100",
		"--measure", "rr", "--rounds", "1", "--pairs", "1", "--duration", "100ms", "--sample", "100ms",
	}, more...)
}

// databases are the processes of PostgreSQL in the program's labs.
func (p *program) databases(t *testing.T) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, file := range files {
		words, err := os.ReadFile(file)
		for id := range p.labs {
			if err == nil && bytes.Contains(words, []byte(id+"/client2-database")) {
				found = append(found, filepath.Dir(file))
			}
		}
	}
	return found
}

// checkLoop checks what every sample of the loop has to say.
func checkLoop(t *testing.T, r result.Result, target, caseName, kind string) {
	t.Helper()
	last := 0.0
	for _, metric := range []string{"_p50", "_p90", "_p99", "_p999"} {
		values := stats.Values(r, target, caseName, kind+metric)
		if len(values) != 1 || values[1] < last || values[1] < 20 {
			t.Errorf("%s %s: %s%s is %v, before it was %v", target, caseName, kind, metric, values, last)
		}
		last = values[1]
	}
	if rate := stats.Values(r, target, caseName, kind+"_rate"); rate[1] <= 0 {
		t.Errorf("%s %s: %s_rate is %v", target, caseName, kind, rate)
	}
}

// Ctrl-C while the databases run leaves none of them.
func TestLatencyAppInterrupted(t *testing.T) {
	tier.Long(t, "TestRestore, whose databases end too, and lab/measure's TestAppInterrupted")
	t.Parallel()
	p := start(t, appArgs(t.TempDir(), "--targets", "kernel", "--sample", "20s")...)
	p.awaitLine("TCP_RR 1024: p50")
	if len(p.databases(t)) == 0 {
		t.Error("there is no database, so nothing can be said of what they left")
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	if code := p.end(); code != 1 {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	if left := p.databases(t); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
}

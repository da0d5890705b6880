package experiments_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// appArgs ask for little but the application loop, without a firewall and with 100 rules.
func appArgs(results string, more ...string) []string {
	return append([]string{
		"lab", "latency", "--app", "--results", results, "-o", "json", "--scenarios", "two-hosts", "--rules", "0,100",
		"--measure", "rr", "--rounds", "1", "--pairs", "1", "--duration", "200ms", "--sample", "300ms",
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

func TestLatencyApp(t *testing.T) {
	p := start(t, appArgs(t.TempDir(), "--contenders", "plain,kernel,selvage")...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	if left := p.databases(t); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
	r, err := result.Read(&p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	for contender, cases := range map[string][]string{"plain": {"rules-0"}, "kernel": {"rules-0", "rules-100"}, "selvage": {"rules-0", "rules-100"}} {
		for _, kase := range cases {
			for _, kind := range []string{"app", "app_connect", "app_rated"} {
				checkLoop(t, r, contender, kase, kind)
			}
		}
	}
	for _, name := range []string{"app", "app_guests", "app_cores", "app_latency", "app_rate"} {
		if r.Parameters[name] == "" {
			t.Errorf("parameter %s is missing", name)
		}
	}
}

// checkLoop checks what every sample of the loop has to say.
func checkLoop(t *testing.T, r result.Result, contender, kase, kind string) {
	t.Helper()
	last := 0.0
	for _, metric := range []string{"_p50", "_p90", "_p99", "_p999"} {
		values := stats.Values(r, contender, kase, kind+metric)
		if len(values) != 1 || values[1] < last || values[1] < 20 {
			t.Errorf("%s %s: %s%s is %v, before it was %v", contender, kase, kind, metric, values, last)
		}
		last = values[1]
	}
	if rate := stats.Values(r, contender, kase, kind+"_rate"); rate[1] <= 0 {
		t.Errorf("%s %s: %s_rate is %v", contender, kase, kind, rate)
	}
}

// Ctrl-C while the databases run leaves none of them.
func TestLatencyAppInterrupted(t *testing.T) {
	p := start(t, appArgs(t.TempDir(), "--contenders", "plain,kernel", "--sample", "20s")...)
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

// A killed program takes its databases with it; what they wrote is removed by restore.
func TestLatencyAppKilled(t *testing.T) {
	p := start(t, appArgs(t.TempDir(), "--contenders", "plain", "--sample", "20s")...)
	p.awaitLine("TCP_RR 1024: p50")
	if len(p.databases(t)) == 0 {
		t.Error("there is no database, so nothing can be said of what they left")
	}
	_ = p.cmd.Process.Kill()
	p.end()
	for limit := time.Now().Add(20 * time.Second); len(p.databases(t)) > 0 && time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
	}
	if left := p.databases(t); len(left) > 0 {
		t.Errorf("left behind: %s", left)
	}
	restore := start(t, "lab", "restore")
	if code := restore.end(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, &restore.stderr)
	}
	for limit := time.Now().Add(10 * time.Second); len(p.left()) > 0 && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
	}
	p.checkGone()
}

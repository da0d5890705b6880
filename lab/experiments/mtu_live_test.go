package experiments_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/mtu"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// measuredMtu runs selvage lab mtu to its end, and checks that its result is good and that
// nothing else is left of it.
func measuredMtu(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	p := start(t, append([]string{"lab", "mtu", "--results", root, "-o", "json", "--quick", "--hashes", "4"}, args...)...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"result.json", "report.html"} {
		if found, _ := filepath.Glob(filepath.Join(root, "*-mtu", file)); len(found) != 1 {
			t.Errorf("%s: %v, want one", file, found)
		}
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	return r
}

// blackHole is the summary's word on a target.
func blackHole(t *testing.T, r result.Result, target string) float64 {
	t.Helper()
	row, ok := stats.Find(r.Summary, target, mtu.HoleCase, mtu.BlackHole)
	if !ok || row.N != 4 {
		t.Errorf("%s: black hole %+v, want one of 4 transfers", target, row)
	}
	return row.Median
}

// The kernel has the hole as it comes, and neither plain nor Selvage; every fix ends it. (In
// make test lab/measure's TestClamp has a fix.)
func TestMtuHole(t *testing.T) {
	holes, cases := map[string]float64{"kernel": 1, "selvage": 0}, "hole"
	if tier.IsLong() {
		holes["plain"], cases = 0, "hole,fixes"
	}
	r := measuredMtu(t, "--cases", cases, "--targets", strings.Join(slices.Sorted(maps.Keys(holes)), ","), "--hole-duration", "1s", "--duration", "200ms")
	for target, want := range holes {
		if got := blackHole(t, r, target); got != want {
			t.Errorf("%s: black hole %v, want %v", target, got, want)
		}
	}
	for _, s := range r.Samples {
		_, stalled := stats.Stalled(s)
		if want := s.Target == "kernel" && mtu.IsHole(s.Case); !mtu.IsSize(s.Case) && stalled != want {
			t.Errorf("%s of %s: stalled %v, want %v: %v", s.Case, s.Target, stalled, want, s.Series)
		}
	}
	checkSizes(t, r, 4*len(holes))
	for target, want := range map[string]map[string]float64{
		"plain":   {"hole": 1448, "guest-mtu": 1398, "clamp": 1398},
		"kernel":  {"hole": 1448, "hole-v6": 1428, "guest-mtu": 1398, "clamp": 1398, "messages": 1398},
		"selvage": {"hole": 1398, "hole-v6-reverse": 1378, "guest-mtu": 1398, "clamp": 1398, "messages": 1398},
	} {
		if _, measured := holes[target]; !measured {
			continue
		}
		for caseName, mss := range want {
			if !tier.IsLong() && !mtu.IsHole(caseName) {
				continue
			}
			row, _ := stats.Find(r.Summary, target, caseName, "mss")
			throughput, ok := stats.Find(r.Summary, target, caseName, stats.Decisive)
			if row.Median != mss || !ok || (throughput.Median > 0) != (target != "kernel" || !mtu.IsHole(caseName)) {
				t.Errorf("%s of %s: MSS %v, want %v; throughput %+v", caseName, target, row.Median, mss, throughput)
			}
		}
	}
	if r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "The kernel's vxlan has an MTU black hole") || !strings.Contains(r.Verdict.String(), "Selvage has none") {
		t.Errorf("%+v", r.Verdict)
	}
	if r.Environment.Sysctls["net.ipv4.tcp_mtu_probing"] == "" || r.Environment.MTU["inner"] != 1450 {
		t.Errorf("environment %+v", r.Environment)
	}
}

// checkSizes checks what arrives in each direction, and that the kernel's senders
// are told nothing and Selvage's the MTU.
func checkSizes(t *testing.T, r result.Result, searches int) {
	t.Helper()
	seen := 0
	for _, s := range r.Samples {
		if !mtu.IsSize(s.Case) {
			continue
		}
		seen++
		size, reported := 1450.0, 0.0
		switch s.Target {
		case "plain":
			size = 1500
		case "selvage":
			reported = 1450
		}
		if s.Metrics["largest_size"] != size || s.Metrics["largest_best"] != size || s.Metrics["reported_mtu"] != reported || len(s.Series["largest_size"]) != 4 {
			t.Errorf("%s of %s: %v, want %v and told %v", s.Case, s.Target, s.Metrics, size, reported)
		}
	}
	if seen != searches {
		t.Errorf("%d searches, want 4 of each target", seen)
	}
}

// Jumbo packets are used, and so are the sizes of the sweep; with one round it
// carries no conclusion.
func TestMtuJumbo(t *testing.T) {
	tier.Long(t, "TestAbNetwork has large packets, TestMtuHole the experiment")
	r := measuredMtu(t, "--cases", "jumbo,sweep", "--targets", "plain,selvage")
	swept := 0
	for _, s := range r.Samples {
		want := 8898.0
		if size, flows, ok := mtu.Swept(s.Case); ok {
			swept++
			want = float64(size)
			if s.Metrics["streams"] != float64(flows) {
				t.Errorf("%s: %v streams", s.Case, s.Metrics["streams"])
			}
		}
		if mtu.IsSize(s.Case) {
			if s.Metrics["largest_size"] != 8950 {
				t.Errorf("%s of %s: %v", s.Case, s.Target, s.Metrics)
			}
			continue
		}
		if s.Metrics["mss"] != want || s.Metrics[stats.Decisive] <= 0 {
			t.Errorf("%s of %s: MSS %v, want %v; %v Gbit/s", s.Case, s.Target, s.Metrics["mss"], want, s.Metrics[stats.Decisive])
		}
	}
	if findings := fmt.Sprint(r.Verdict.Findings); swept != 8 || !r.Verdict.Refused || !strings.Contains(findings, "1 round cannot tell a ceiling from noise") {
		t.Errorf("%d samples of the sweep, %+v", swept, r.Verdict)
	}
}

// What was measured until an interruption is kept, and nothing else.
func TestMtuInterrupt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "mtu", "--quick", "--results", root, "--targets", "plain,kernel", "--cases", "fixes")
	p.awaitLine(" 3/")
	_ = p.cmd.Process.Signal(os.Interrupt)
	if code := p.end(); code != 1 || !strings.HasSuffix(p.stderr.String(), "\nselvage: interrupted\n") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	dirs := results(t, root)
	if len(dirs) != 1 {
		t.Fatalf("results in %v", dirs)
	}
	r, err := result.ReadFile(filepath.Join(dirs[0], "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) < 3 || len(stats.Errors(r)) > 0 || !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "interrupted in case ") {
		t.Errorf("%d samples, errors %v, %+v", len(r.Samples), stats.Errors(r), r.Verdict)
	}
}

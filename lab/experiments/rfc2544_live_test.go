package experiments_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/cache"
	"github.com/selvage/selvage/lab/experiment/rfc2544"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/tier"
)

// measuredTransit runs an experiment on transit to its end, and checks that its result is good
// and that nothing else is left of it.
func measuredTransit(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	p := start(t, append([]string{"lab", args[0], "--results", root, "-o", "json", "--quick", "--rounds", "1", "--duration", "60ms"}, args[1:]...)...)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	dirs := results(t, root)
	if len(dirs) != 1 || r.Experiment != args[0] || !strings.HasSuffix(dirs[0], "-"+args[0]) {
		t.Fatalf("results of %s in %v, want one directory", r.Experiment, dirs)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "report.html")); err != nil {
		t.Error(err)
	}
	if len(r.Topology.Links) != 2 || r.Environment.Kernel == "" || len(r.Environment.Offloads["uplink"]) == 0 || !strings.Contains(r.Parameters.Text("cores"), "core") {
		t.Errorf("topology %+v, environment %+v, parameters %v", r.Topology, r.Environment, r.Parameters)
	}
	return r
}

func TestRfc2544(t *testing.T) {
	targets, sizes := []string{"limit", "selvage"}, []string{"64"}
	if tier.IsLong() {
		targets, sizes = append(targets, "kernel", "kernel-route"), append(sizes, "1500")
	}
	r := measuredTransit(t, "rfc2544", "--targets", strings.Join(targets, ","), "--sizes", strings.Join(sizes, ","), "--directions", "encap,decap", "--loss-curve")
	if len(r.Samples) != len(targets)*len(sizes)*2 || len(r.Targets) != len(targets) {
		t.Fatalf("%d samples of %d targets, want one of each of %v, %v and both directions", len(r.Samples), len(r.Targets), targets, sizes)
	}
	for _, s := range r.Samples {
		m := s.Metrics
		traffic, ok := rfc2544.Transit(s.Case)
		if !ok || (traffic.Size != 64 && traffic.Size != 1518) {
			t.Errorf("case %s", s.Case)
		}
		overhead := map[string]float64{"kernel": 50, "selvage": 50}[s.Target]
		if m[transit.NDR] <= 0 || m[transit.PDR] < m[transit.NDR] || m[transit.GeneratorCeiling] <= 0 || m[transit.NSPerPacket] <= m[transit.DeviceNS] || m["frame_out"] != float64(traffic.Size)+overhead {
			t.Errorf("%s of %s: %v", s.Case, s.Target, m)
		}
		for _, name := range []string{"latency_min", "latency_mean", transit.LatencyP50, transit.LatencyP99, "latency_p999", "latency_p50_10", "latency_p99_50", "latency_p99_90"} {
			if m[name] <= 0 {
				t.Errorf("%s of %s: %s is %v µs", s.Case, s.Target, name, m[name])
			}
		}
		if m[transit.LatencyP99] < m[transit.LatencyP50] || len(s.Latency) == 0 || len(s.Series[transit.LossLoad]) != len(s.Series[transit.LossShare]) {
			t.Errorf("%s of %s: latency %v, loss %v", s.Case, s.Target, s.Latency, s.Series)
		}
		egress := m["forwarded"] * (m["frame_out"] + 20) * 8 / 1000
		if m["egress"] < egress*0.999 || m["egress"] > egress*1.001 || m["line_share"] < m["egress"]/100.1 {
			t.Errorf("%s of %s: egress %v Gbit/s, want %v; share of the line %v", s.Case, s.Target, m["egress"], egress, m["line_share"])
		}
	}
	if row, ok := stats.Find(r.Summary, "selvage", "encap-64", transit.NDR); !ok || row.Baseline != "limit" || row.Unit != "Mpps" {
		t.Errorf("summary %+v", row)
	}
}

func TestCache(t *testing.T) {
	flows, routes, samples := "100", "50", 2
	if tier.IsLong() {
		flows, routes, samples = "1,100", "0,50", 8
	}
	r := measuredTransit(t, "cache", "--flows", flows, "--routes", routes)
	if len(r.Samples) != samples {
		t.Fatalf("%d samples, want %d", len(r.Samples), samples)
	}
	for _, s := range r.Samples {
		hits := s.Metrics[cache.HitRate]
		if s.Metrics[transit.NSPerPacket] <= s.Metrics[transit.DeviceNS] || s.Metrics["forwarded"] <= 0 ||
			(s.Target == cache.CacheOn) != (hits > 0.9) || (s.Target == cache.CacheOff) != (hits == 0) {
			t.Errorf("%s of %s: %v", s.Case, s.Target, s.Metrics)
		}
	}
	if _, ok := stats.Find(r.Summary, cache.CacheOn, "flows-100-routes-50", transit.NSPerPacket); !ok {
		t.Errorf("no row for 100 flows and 50 routes in %+v", r.Summary)
	}
}

// What was measured until an interruption is kept, and nothing else.
func TestRfc2544Interrupt(t *testing.T) {
	tier.Long(t, "TestInterrupt and TestMtuInterrupt, of what is kept; TestRfc2544InterruptWhileBuilding")
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "rfc2544", "--quick", "--results", root, "--targets", "limit,kernel", "--sizes", "64,128,256")
	p.awaitLine(" 2/")
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
	if len(r.Samples) < 2 || len(stats.Errors(r)) > 0 || !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "interrupted in case ") {
		t.Errorf("%d samples, errors %v, %+v", len(r.Samples), stats.Errors(r), r.Verdict)
	}
}

// A data path that does not start takes all others along, and says why.
func TestRfc2544Failure(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "rfc2544", "--quick", "--results", root, "--targets", "limit,kernel,selvage", "--selvage-binary", "/bin/false")
	if code := p.end(); code != 1 || !strings.Contains(p.stderr.String(), "target selvage: ") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	if dirs := results(t, root); len(dirs) > 0 {
		t.Errorf("results in %v", dirs)
	}
}

// After a SIGTERM while networks are built nothing is left.
func TestRfc2544InterruptWhileBuilding(t *testing.T) {
	for n := 2; n <= 5; n++ { // the first labs are the generator's own
		t.Run(fmt.Sprintf("lab %d", n), func(t *testing.T) {
			interruptAt(t, n, 4, "rfc2544", "--quick", "--targets", "kernel,ovs,selvage", "--sizes", "64")
		})
	}
}

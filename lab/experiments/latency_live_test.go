package experiments_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/latency"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// measuredLatency runs selvage lab latency to its end, and checks that its result is good and that
// nothing else is left of it.
func measuredLatency(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	p := start(t, append([]string{"lab", "latency", "--results", t.TempDir(), "-o", "json", "--rounds", "1",
		"--duration", "100ms", "--sample", "100ms"}, args...)...)
	code := p.end()
	p.checkGone()
	if code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	for _, s := range r.Samples {
		if n, ok := s.Metrics["csum_errors"]; !ok || n != 0 {
			t.Errorf("%s of %s: %v checksum errors", s.Case, s.Target, n)
		}
	}
	return r
}

// The firewalls between two hosts, with two instruments and the application loop:
// every sample says all that it has to, and rows hold it against what it is compared with. A
// sample that cannot show that its policy is in force, and nothing else, fails.
func TestLatencyLive(t *testing.T) {
	r := measuredLatency(t, "--targets", "kernel,selvage", "--scenarios", "two-hosts", "--rules", "0,100", "--pairs", "1", "--measure", "rr,udp", "--app")
	for _, metric := range []string{latency.RRP50, "rr_p9999", "rr_rtt", latency.UDPRate} {
		for _, caseName := range []string{"rules-0", "rules-100", "two-hosts-off", "two-hosts-on"} {
			if row, ok := stats.Find(r.Summary, "selvage", caseName, metric); !ok || row.Median <= 0 {
				t.Errorf("%s in %s: %+v", metric, caseName, row)
			}
		}
	}
	for _, target := range []string{"kernel", "selvage"} {
		for _, caseName := range []string{"rules-0", "rules-100"} {
			for _, kind := range []string{"app", "app_connect", "app_rated"} {
				checkLoop(t, r, target, caseName, kind)
			}
		}
		checkAdded(t, r, target, "two-hosts-on", "rules-100")
	}
	for _, key := range []string{"check_governor", "check_busy", "proof", "policy", "app", "app_guests", "app_cores", "app_latency", "app_rate"} {
		if _, ok := r.Parameters[key]; !ok {
			t.Errorf("no parameter %s", key)
		}
	}
	if !slices.ContainsFunc(r.Summary, func(row result.Row) bool { return row.Metric == "udp_vs_kernel" && row.Baseline == "kernel:rules-100" }) {
		t.Error("no row holds Selvage's datagrams against the kernel's")
	}
	if !r.Verdict.Refused || r.Experiment != latency.Name || len(r.Targets) != 2 {
		t.Errorf("%s, %+v, %+v", r.Experiment, r.Verdict, r.Targets)
	}
	distributions := 0
	for _, s := range r.Samples {
		if len(s.Latency) > 0 && s.Case == "rules-0" && s.Target == "kernel" && s.Metrics[latency.RRP50] > 0 {
			distributions++
		}
	}
	if distributions != 1 {
		t.Errorf("%d distributions of a case, want that of TCP_RR 1024 alone", distributions)
	}
}

// checkAdded wants rows of what the policy of a target adds in cases.
func checkAdded(t *testing.T, r result.Result, name string, cases ...string) {
	t.Helper()
	for _, caseName := range cases {
		added, ok := stats.Find(r.Summary, name, caseName, latency.RRAdded)
		if !ok || !strings.HasPrefix(added.Baseline, name+":") || added.Distinguishable {
			t.Errorf("%s of %s adds %+v", caseName, name, added)
		}
	}
}

// All firewalls, with many rules, and several pairs at once.
func TestLatencyTargets(t *testing.T) {
	tier.Long(t, "TestLatencyLive, and lab/topo's TestPairs and TestFirewallKernel")
	targets := []string{"plain", "kernel", "ovs", "selvage"}
	r := measuredLatency(t, "--targets", strings.Join(targets, ","), "--scenarios", "same-host", "--rules", "0,1,2000", "--measure", "rr", "--pairs", "2")
	for _, name := range targets {
		cases := []string{"same-host-off", "same-host-off-x2", "rules-0"}
		if name != "plain" {
			policed := []string{"same-host-on", "same-host-on-x2", "rules-1", "rules-2000"}
			checkAdded(t, r, name, policed...)
			cases = append(cases, policed...)
		}
		for _, caseName := range cases {
			if row, ok := stats.Find(r.Summary, name, caseName, latency.RRP50); !ok || row.Median <= 0 || row.N != 1 {
				t.Errorf("%s of %s: %+v", caseName, name, row)
			}
		}
	}
}

// The other instruments.
func TestLatencyInstruments(t *testing.T) {
	tier.Long(t, "lab/measure's TestConnections and TestInstruments, and TestLatencyLive")
	r := measuredLatency(t, "--targets", "kernel,selvage", "--scenarios", "two-hosts", "--rules", "0,100", "--pairs", "1", "--rate", "500", "--at-once", "8")
	for _, metric := range []string{latency.RR1P50, "open_p50", latency.CRRRate, latency.ConnRate, "udprr_p50", stats.Decisive} {
		for _, caseName := range []string{"rules-0", "rules-100", "two-hosts-off", "two-hosts-on"} {
			if row, ok := stats.Find(r.Summary, "selvage", caseName, metric); !ok || row.Median <= 0 {
				t.Errorf("%s in %s: %+v", metric, caseName, row)
			}
		}
	}
}

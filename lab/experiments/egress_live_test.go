package experiments_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/egress"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// measuredEgress runs selvage lab egress to its end, and checks that its result is good and that
// nothing else is left of it.
func measuredEgress(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	p := start(t, append([]string{"lab", "egress", "--results", root, "-o", "json", "--quick", "--rounds", "1", "--sample", "300ms", "--at-once", "8"}, args...)...)
	code := p.end()
	p.checkGone()
	if code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	r, err := result.Read(&p.stdout) // strict
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"result.json", "report.html"} {
		if found, _ := filepath.Glob(filepath.Join(root, "*-egress", file)); len(found) != 1 {
			t.Errorf("%s: %v, want one", file, found)
		}
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

// Both targets climb the stages, in both ways, and translate: a sample on a stage where
// the target sees the wrong address fails.
func TestEgressLive(t *testing.T) {
	directions, cases := "send", []string{"node", "tunnel", "routed", "egress"}
	if tier.IsLong() {
		directions, cases = "send,receive", append(cases, "tunnel-reverse", "egress-reverse")
	}
	r := measuredEgress(t, "--no-free", "--wire", "0.5", "--directions", directions)
	for _, name := range []string{"kernel", "selvage"} {
		for _, caseName := range cases {
			row, ok := stats.Find(r.Summary, name, caseName, stats.Decisive)
			if !ok || row.Median <= 0 || row.Median > 0.52 || row.N != 1 {
				t.Errorf("%s of %s: %+v, want up to the wire's 0.5 Gbit/s", caseName, name, row)
			}
			mss, _ := stats.Find(r.Summary, name, caseName, "mss")
			if want := map[bool]float64{true: 8948, false: 8898}[caseName == "node"]; mss.Median != want {
				t.Errorf("%s of %s: MSS %v, want %v", caseName, name, mss.Median, want)
			}
		}
		for caseName, metric := range map[string]string{"node": egress.RRP50, "egress": egress.RRP50, "routed": egress.ConnRate} {
			if row, ok := stats.Find(r.Summary, name, caseName, metric); !ok || row.Median <= 0 {
				t.Errorf("%s of %s in %s: %+v", metric, name, caseName, row)
			}
		}
	}
	for metric, baseline := range map[string]string{egress.NATKept: "selvage:routed", egress.ConnRival: "kernel:egress", egress.LossBelow: "selvage:tunnel"} {
		if row, ok := stats.Find(r.Summary, "selvage", "egress", metric); !ok || row.Baseline != baseline {
			t.Errorf("%s: %+v, want against %s", metric, row, baseline)
		}
	}
	if r.Experiment != egress.Name || !r.Verdict.Refused || len(r.Targets) != 2 || r.Targets[1].HeaderTax < 0.005 || r.Targets[1].HeaderTax > 0.006 {
		t.Errorf("%s, %+v, %+v", r.Experiment, r.Verdict, r.Targets)
	}
	if len(r.Topology.Nodes) != 4 || len(r.Environment.Offloads["underlay"]) == 0 || r.Environment.MTU["inner"] != 8950 {
		t.Errorf("topology %+v, environment %+v", r.Topology, r.Environment)
	}
}

// Without checksum offload the tunnels still carry what is right, and plain has the stages
// that need no tunnel.
func TestEgressTroubleshoot(t *testing.T) {
	tier.Long(t, "TestEgressLive, and lab/diagnose's tests of findings on recorded results")
	r := measuredEgress(t, "--troubleshoot", "--wire", "0", "--measure", "tcp", "--underlay-mtu", "1500", "--stages", "tunnel,egress")
	for _, name := range []string{"kernel", "selvage"} {
		for _, caseName := range []string{"tunnel-free", "egress-free"} {
			row, ok := stats.Find(r.Summary, name+egress.ChecksumOff, caseName, stats.Decisive)
			if !ok || row.Median <= 0 || row.Baseline != name+":node-free" {
				t.Errorf("%s of %s without checksum offload: %+v", caseName, name, row)
			}
		}
	}
	if !slices.ContainsFunc(r.Verdict.Findings, func(f result.Finding) bool {
		return strings.HasPrefix(f.String(), "3 Tunnel checksum: without its transmit checksum offload the kernel")
	}) {
		t.Errorf("findings %q", r.Verdict.Findings)
	}
}

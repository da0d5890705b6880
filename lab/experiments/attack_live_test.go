package experiments_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/attack"
	"github.com/selvage/selvage/lab/experiment/attack/attacker"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// attacked runs selvage lab attack to its end, and checks that its result is good and that nothing else
// is left of it.
func attacked(t *testing.T, args ...string) result.Result {
	t.Helper()
	t.Parallel()
	root := t.TempDir()
	p := start(t, append([]string{"lab", "attack", "--results", root, "-o", "json", "--rounds", "1", "--slice", "20ms", "--cycles", "1", "--ageing", "5s", "--recovery", "100ms"}, args...)...)
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
		if found, _ := filepath.Glob(filepath.Join(root, "*-attack", file)); len(found) != 1 {
			t.Errorf("%s: %v, want one", file, found)
		}
	}
	if lines := stats.Errors(r); len(lines) > 0 {
		t.Errorf("samples failed: %s", lines)
	}
	return r
}

// All targets are attacked, from a port, from the underlay and through NAT: every row is there, whatever
// the machine is busy with.
func TestAttackLive(t *testing.T) {
	names := []string{"arp-nd-spoof", "forged-icmp", "nat-exhaustion"}
	if tier.IsLong() {
		names = attacker.Names()
	}
	r := attacked(t, "--attacks", strings.Join(names, ","))
	if r.Experiment != attack.Name || len(r.Targets) != 3 || len(r.Samples) != 3*len(names) {
		t.Fatalf("%s, %d targets, %d samples", r.Experiment, len(r.Targets), len(r.Samples))
	}
	for _, caseName := range names {
		for _, name := range stats.Names(r) {
			if attack.WhyNot(r, name, caseName) != "" {
				continue
			}
			for _, limit := range attack.Limits(r) {
				row, ok := stats.Find(r.Summary, name, caseName, limit.Metric)
				if !ok || row.N != 1 || row.Median < 0 {
					t.Errorf("%s of %s by %s: %+v", limit.Metric, name, caseName, row)
				}
			}
			if row, _ := stats.Find(r.Summary, name, caseName, attack.Sent); row.Median <= 0 {
				t.Errorf("%s by %s: nothing was sent", name, caseName)
			}
		}
	}
	if why := attack.WhyNot(r, "ovs", "nat-exhaustion"); why == "" {
		t.Error("Open vSwitch is said to have NAT here")
	}
	if len(r.Topology.Nodes) == 0 || len(r.Environment.Offloads["underlay"]) == 0 {
		t.Errorf("topology %+v, environment %+v", r.Topology, r.Environment)
	}
}

// Without hardening captures see what crosses a bridge. With it, the same attack is not seen.
func TestAttackCaptures(t *testing.T) {
	for name, bare := range map[string]bool{"bare": true, "hardened": false} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--targets", "kernel", "--attacks", "ra-redirect,vlan-hopping"}
			if bare {
				args = append(args, "--bare")
			}
			r := attacked(t, args...)
			for _, caseName := range []string{"ra-redirect", "vlan-hopping"} {
				row, ok := stats.Find(r.Summary, "kernel", caseName, attack.Crossed)
				if !ok || (row.Median > 0) != bare {
					t.Errorf("%s: %+v, crossed is to be %t", caseName, row, bare)
				}
			}
		})
	}
}

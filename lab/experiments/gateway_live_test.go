package experiments_test

import (
	"testing"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/test/tier"
)

// The FortiGate study, literally: an overlay segment against an untagged leg of one gateway. No path
// carries more than the wire's gigabit and what its headers leave of that.
func TestAbGateway(t *testing.T) {
	tier.Long(t, "lab/experiment/ab/paths TestRun, which measures a network that exists")
	tier.Root(t)
	for _, kind := range []string{"kernel", "selvage"} {
		t.Run(kind, func(t *testing.T) { checkGateway(t, kind) })
	}
}

func checkGateway(t *testing.T, kind string) {
	root := t.TempDir()
	p := start(t, "lab", "ab", "--results", root, "-o", "json", "--gateway", kind, "--rounds", "8", "--cases", "tcp,rr,rr-load")
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	r, err := result.Read(&p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if dirs := results(t, root); len(dirs) != 1 || r.Experiment != "paths" || len(r.Places) != 3 || len(r.Profiles) != 2*2*3 {
		t.Fatalf("results in %v: %s with %d places and %d profiles", dirs, r.Experiment, len(r.Places), len(r.Profiles))
	}
	t.Log(r.Verdict.Headline)
	for _, path := range []struct {
		name string
		most float64 // Gbit/s: payload of full segments on a gigabit wire
		mss  float64
	}{
		{"plain", stats.Path{MTU: 1500, Timestamps: true}.Share(), 1448},
		{"overlay", stats.Path{MTU: 1450, Timestamps: true, Outer: 50}.Share(), 1398},
	} {
		row, ok := stats.Find(r.Summary, path.name, "tcp", "tcp_throughput")
		// The shaper's saved burst goes on top of the wire's rate.
		if !ok || row.Median > 1.01*path.most || row.Median < 0.3*path.most {
			t.Errorf("%s carries %.3f Gbit/s; the wire leaves it %.3f", path.name, row.Median, path.most)
		}
		if mss, _ := stats.Find(r.Summary, path.name, "tcp", "mss"); mss.Median != path.mss {
			t.Errorf("%s uses an MSS of %.0f, not %.0f", path.name, mss.Median, path.mss)
		}
	}
}

package experiments_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/experiment/offload"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Every kind of offload is off once, both ways, and each target carries and says what it is.
func TestOffload(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	inForce := map[string]string{
		"all-on": "ports: tso on, gro on, csum on; underlay: tso on, gro on, csum on", "csum-off": "gro on, csum off",
	}
	if tier.IsLong() {
		inForce["all-off"] = "ports: tso off, gro off, csum off; underlay: tso off, gro off, csum off"
		inForce["tso-off"] = "underlay: tso off, gro on, csum on"
	}
	states := slices.Sorted(maps.Keys(inForce))
	p := start(t, "lab", "offload", "--results", root, "-o", "json", "--rounds", "1", "--sizes", "64", "--states", strings.Join(states, ","),
		"--ways", "both-ways", "--pairs", "2", "--streams", "4")
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	for id := range p.labs {
		if _, err := os.Stat("/run/selvage/offloads/" + id + ".json"); err == nil {
			t.Errorf("the ledger of %s is still there", id)
		}
	}
	r, err := result.Read(&p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 2*len(states) || r.Experiment != offload.Name || !r.Verdict.Refused {
		t.Errorf("%d samples of %s, %+v", len(r.Samples), r.Experiment, r.Verdict)
	}
	for _, s := range r.Samples {
		if s.Error != "" || s.Metrics[offload.Throughput] <= 0 || s.Metrics[offload.Processor] <= 0 || s.Metrics["streams"] != 8 || s.Metrics["csum_errors"] != 0 {
			t.Errorf("%s of %s: %v %s", s.Case, s.Target, s.Metrics, s.Error)
		}
	}
	for state, want := range inForce {
		for _, name := range []string{"kernel", "selvage"} {
			if got := r.Parameters.Text("in_force_" + name + "_" + state); !strings.Contains(got, want) {
				t.Errorf("%s of %s: in force is %q, want %q", state, name, got, want)
			}
		}
	}
}

// Ctrl-C keeps what was measured and leaves nothing behind, ledgers neither.
func TestOffloadInterrupted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := start(t, "lab", "offload", "--results", root, "--targets", "kernel", "--pairs", "2", "--streams", "2", "--sizes", "64",
		"--states", "all-on,all-off", "--ways", "one-way", "--rounds", "20")
	p.awaitLine("2/40")
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := p.end(); code == 0 || strings.Contains(p.stderr.String(), "as they were") {
		t.Errorf("exit status %d:\n%s", code, &p.stderr)
	}
	p.checkGone()
	for id := range p.labs {
		if _, err := os.Stat("/run/selvage/offloads/" + id + ".json"); err == nil {
			t.Errorf("the ledger of %s is still there", id)
		}
	}
	files, _ := filepath.Glob(filepath.Join(root, "*", "result.json"))
	if len(files) != 1 {
		t.Fatalf("results %v, want one", files)
	}
	r, err := result.ReadFile(files[0])
	if err != nil || len(r.Samples) < 2 || !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "interrupted") {
		t.Errorf("%d samples, %+v, %v", len(r.Samples), r.Verdict, err)
	}
}

// features are all of an interface as ethtool prints them, by namespace and interface.
func features(t *testing.T, namespaces map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for role, namespace := range namespaces {
		for _, name := range []string{topo.EndName, topo.AccessName, topo.UnderlayName} {
			out, err := exec.Command("ip", "netns", "exec", namespace, "ethtool", "-k", name).Output()
			if err != nil {
				continue // the host has none of that name
			}
			all[role+"/"+name] = string(out)
		}
	}
	return all
}

// After a SIGKILL in the middle every feature of every interface is set as it was before
// the networks go.
func TestOffloadRestoredAfterKill(t *testing.T) {
	tier.Root(t)
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip(err)
	}
	// What such a network has when nobody has changed anything.
	ctx := context.Background()
	lab, err := topo.New(ctx, "reference")
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Build(ctx, dut.KernelTunnel{}, dut.KernelTunnel{}); err != nil {
		t.Fatal(err)
	}
	want := features(t, map[string]string{"client": n.Client.Namespace, "hosta": n.A.Namespace, "hostb": n.B.Namespace, "server": n.Server.Namespace})
	if len(want) != 6 {
		t.Fatalf("%d interfaces of the reference", len(want))
	}

	p := start(t, "lab", "offload", "--results", t.TempDir(), "--targets", "kernel", "--pairs", "1", "--streams", "1", "--sizes", "64",
		"--states", "all-on,all-off,csum-off,gro-on", "--ways", "one-way", "--rounds", "20")
	p.awaitLine("2/80") // of one round's four states, so that others are in force
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end()
	namespaces := map[string]string{}
	for id := range p.labs {
		for _, role := range []string{"client", "hosta", "hostb", "server"} {
			namespaces[role] = "sv-" + id + "-" + role
		}
	}
	if len(p.labs) != 1 || maps.Equal(features(t, namespaces), want) {
		t.Fatalf("labs %v, and nothing was changed in them", p.labs)
	}
	names, err := topo.RestoreOffloads(ctx)
	if err != nil || len(names) < 6 {
		t.Errorf("restored %v, %v", names, err)
	}
	got := features(t, namespaces)
	for at, features := range want {
		if got[at] != features {
			t.Errorf("%s has\n%s\nand had\n%s", at, got[at], features)
		}
	}

	// The command does the same, and then removes the networks.
	q := start(t, "lab", "restore")
	if code := q.end(); code != 0 {
		t.Errorf("exit status %d: %s", code, &q.stderr)
	}
	p.checkGone()
}

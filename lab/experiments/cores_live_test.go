package experiments_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/tier"
)

// cpuset is a new cpuset of one core, of either version of cgroups.
func cpuset(t *testing.T, core int) string {
	t.Helper()
	tier.Root(t)
	root := "/sys/fs/cgroup/cpuset"
	mems, err := os.ReadFile(root + "/cpuset.mems")
	if err != nil {
		root = "/sys/fs/cgroup"
		if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+cpuset"), 0o600); err != nil {
			t.Skipf("no cpuset here: %v", err)
		}
		if mems, err = os.ReadFile(root + "/cpuset.mems.effective"); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, fmt.Sprintf("selvage-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	for name, value := range map[string]string{"cpuset.cpus": strconv.Itoa(core), "cpuset.mems": string(mems)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// In a cpuset without core 0 instruments and generator are where they may be.
func TestCpuset(t *testing.T) {
	core := cores.Usable()[len(cores.Usable())-1]
	if core == 0 {
		t.Skip("the machine has core 0 alone")
	}
	dir := cpuset(t, core)
	inside := func(args ...string) *program {
		p := newProgram(t, args...)
		p.cmd.Args = append([]string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, dir, p.cmd.Path}, args...)
		p.cmd.Path = "/bin/sh"
		p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
		p.run(func() { _ = p.cmd.Wait() })
		return p
	}
	p := inside("lab", "ab", "--targets", "plain,kernel", "--cases", "tcp,rr", "--rounds", "1", "--cycles", "2", "--results", t.TempDir(), "-o", "json")
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, &p.stderr)
	}
	r, err := result.Read(&p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("both on core %d", core); !strings.HasSuffix(r.Parameters["pinning"].String(), want) {
		t.Errorf("pinning %q, want %q", r.Parameters["pinning"], want)
	}
	for _, args := range []string{"", fmt.Sprintf("--core %d", core), "--core -1"} {
		p := inside(strings.Fields("lab gen --frames 100 " + args)...)
		if code := p.end(); code != 0 {
			t.Errorf("%q: exit status %d:\n%s", args, code, &p.stderr)
		}
	}
	if p := inside("lab", "gen", "--core", "0"); p.end() == 0 || !strings.Contains(p.stderr.String(), fmt.Sprintf("0 is none of the usable cores [%d]", core)) {
		t.Errorf("--core 0: %s", &p.stderr)
	}
}

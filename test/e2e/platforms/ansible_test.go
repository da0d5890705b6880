package platforms

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const deploy = "../../../deploy"

const picture = `
         switch
     e1 /      \ e2
   edge1        edge2`

// systemctl is in the place of systemd's: it starts, tells and reloads the edge as the unit does.
const systemctl = `#!/bin/sh
echo "$@" >>DIR/called
for word; do unit=${word#selvage@}; done
edge=${unit%.service}
running() { PROGRAM status --edge "$edge" >/dev/null 2>&1; }
case "$1" in
show)
	echo LoadState=loaded
	if running; then echo ActiveState=active; else echo ActiveState=inactive; fi
	;;
is-enabled) if [ -e DIR/enabled ]; then echo enabled; else echo disabled; exit 1; fi ;;
enable) touch DIR/enabled ;;
start)
	setsid PROGRAM edge -c "DIR/etc/$edge.yaml" >DIR/edge.log 2>&1 </dev/null &
	echo $! >DIR/pid
	while ! running; do kill -0 "$(cat DIR/pid)" || exit 1; done
	;;
reload) PROGRAM apply --edge "$edge" "DIR/etc/$edge.yaml" ;;
esac
`

// The role's playbook changes nothing in check mode, starts an edge, does nothing again, reloads what changed, and
// fails before anything changes when the configuration is wrong.
func TestAnsible(t *testing.T) {
	tier.Long(t, "TestPlaybookFiles of its files, TestApply of what a reload does")
	if _, err := topo.Tool("ansible-playbook"); err != nil {
		t.Skip("ansible-playbook is not installed: apt-get install ansible-core")
	}
	n := harness.NewUnderlay(t, picture, 2, 4)
	blue2 := n.Guest("blue2", 0, 2, n.Hosts[1], "r0", 1450)
	web1 := n.Guest("web1", 0, 1, n.Hosts[0], "web1", 1450)
	n.Edge(2, "  segments: [{name: web, vni: 100, remotes: REMOTES}]\n  ports: [{name: r0, interface: r0, segment: web}]\n")
	a := &ansible{Hub: n, dir: t.TempDir(), edge: "host-" + n.Topo.ID}
	script := strings.NewReplacer("DIR", a.dir, "PROGRAM", harness.Program).Replace(systemctl)
	n.Must(errors.Join(os.WriteFile(filepath.Join(a.dir, "systemctl"), []byte(script), 0o755), os.CopyFS(filepath.Join(a.dir, "play"), os.DirFS(deploy+"/ansible"))))
	a.inventory()
	t.Cleanup(a.stop)
	if out, err := a.play("--syntax-check"); err != nil {
		t.Fatalf("the syntax: %v\n%s", err, out)
	}
	a.changes("check mode", 3, "--check", "--diff")
	n.Once("check mode changes nothing", func() error {
		return harness.Nothing(filepath.Join(a.dir, "etc", "*"), filepath.Join(a.dir, "enabled"))
	})
	a.changes("the first run", 3)
	n.Edges["edge1"] = &dut.Edge{Name: a.edge}
	defer delete(n.Edges, "edge1")
	n.Fact("web1 pings blue2", func() error { return harness.Ping(n.Ctx, web1.Host, blue2.Addr(4)) })
	a.changes("the same again", 0)
	a.write("name: web1", "name: other1")
	a.changes("another port, with a reload", 2)
	n.Once("the edge has it", func() error { return n.PortState("edge1", "other1", "up") })
	before, err := os.ReadFile(filepath.Join(a.dir, "etc", a.edge+".yaml"))
	n.Must(err)
	a.write("segment: web", "segment: none")
	for _, mode := range [][]string{{"--check"}, nil} {
		if out, err := a.play(mode...); err == nil || !strings.Contains(out, "none") {
			t.Errorf("a wrong configuration, %v: %v\n%s", mode, err, out)
		}
	}
	if after, err := os.ReadFile(filepath.Join(a.dir, "etc", a.edge+".yaml")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a wrong configuration is written: %v", err)
	}
}

// ansible is a playbook for the host of the first edge.
type ansible struct {
	*harness.Hub
	dir, edge string
}

func (a *ansible) inventory() {
	a.T.Helper()
	a.write("interfaces: [eth0]", "interfaces: ["+topo.UnderlayName+"]")
	text := fmt.Sprintf("[edges]\n%s selvage_tep=%s\nother selvage_tep=%s\n", a.edge, a.Teps[0], a.Teps[1])
	a.Must(os.WriteFile(filepath.Join(a.dir, "play", "hosts"), []byte(text), 0o644))
}

// write changes the variables of the edges.
func (a *ansible) write(old, now string) {
	a.T.Helper()
	path := filepath.Join(a.dir, "play", "group_vars", "edges.yaml")
	text, err := os.ReadFile(path)
	a.Must(err)
	changed := strings.Replace(string(text), old, now, 1)
	if changed == string(text) {
		a.Fail("change the variables", fmt.Errorf("no %q in %s", old, text))
	}
	a.Must(os.WriteFile(path, []byte(changed), 0o644))
}

func (a *ansible) play(words ...string) (string, error) {
	argv := append([]string{"ansible-playbook", "-i", "hosts", "site.yaml", "--limit", a.edge, "-c", "local", "-e", "ansible_become=false", "-e", "selvage_package=", "-e",
		"selvage_dir=" + filepath.Join(a.dir, "etc"), "-e", "selvage_program=" + harness.Program, "-e", "ansible_python_interpreter=/usr/bin/python3"}, words...)
	c := a.Hosts[0].Command(a.Ctx, append([]string{"env", "-C", filepath.Join(a.dir, "play")}, argv...)...)
	c.Env = []string{"PATH=" + a.dir + ":" + os.Getenv("PATH"), "HOME=" + a.dir, "ANSIBLE_NOCOLOR=1", "ANSIBLE_LOCAL_TEMP=" + a.dir, "ANSIBLE_REMOTE_TEMP=" + a.dir, "LC_ALL=C.UTF-8"}
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.String(), err
}

// changes is a run that says so many changes.
func (a *ansible) changes(what string, count int, words ...string) {
	a.T.Helper()
	out, err := a.play(words...)
	if err == nil && !strings.Contains(out, fmt.Sprintf("changed=%d ", count)) {
		err = fmt.Errorf("not %d changes", count)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(a.dir, "edge.log"))
		called, _ := os.ReadFile(filepath.Join(a.dir, "called"))
		a.T.Fatalf("%s: %v\n%s\n%s\n%s", what, err, out, called, log)
	}
}

// stop ends the edge that the playbook started.
func (a *ansible) stop() {
	if pid, err := os.ReadFile(filepath.Join(a.dir, "pid")); err == nil {
		_, _ = a.Hosts[0].Output(a.T.Context(), "kill", strings.TrimSpace(string(pid)))
	}
}

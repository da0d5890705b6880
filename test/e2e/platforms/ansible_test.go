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
	if [ -e DIR/selvage ]; then echo LoadState=loaded; else echo LoadState=not-found; fi
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

// apt is in the place of the package manager's module: a link to the program is the package.
const apt = `#!/bin/sh
# WANT_JSON
if [ -e DIR/selvage ]; then
	echo '{"changed": false}'
	exit
fi
grep -q '"_ansible_check_mode": true' "$1" || ln -s PROGRAM DIR/selvage
echo '{"changed": true}'
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
	n.Must(errors.Join(os.CopyFS(filepath.Join(a.dir, "play"), os.DirFS(deploy+"/ansible")), os.Mkdir(filepath.Join(a.dir, "play", "library"), 0o755)))
	for file, script := range map[string]string{"systemctl": systemctl, "play/library/fake_apt": apt} {
		script = strings.NewReplacer("DIR", a.dir, "PROGRAM", harness.Program).Replace(script)
		n.Must(os.WriteFile(filepath.Join(a.dir, file), []byte(script), 0o755))
	}
	a.write("roles/selvage/tasks/main.yaml", "    state: present\n", "    state: present\n    use: fake_apt\n")
	a.inventory()
	t.Cleanup(a.stop)
	if out, err := a.play("--syntax-check"); err != nil {
		t.Fatalf("the syntax: %v\n%s", err, out)
	}
	a.changes("check mode, without the package", 4, "--check", "--diff")
	n.Once("check mode changes nothing", func() error {
		return harness.Nothing(filepath.Join(a.dir, "etc", "*"), filepath.Join(a.dir, "enabled"), filepath.Join(a.dir, "selvage"))
	})
	a.changes("the first run", 4)
	n.Edges["edge1"] = &dut.Edge{Name: a.edge}
	defer delete(n.Edges, "edge1")
	n.Fact("web1 pings blue2", func() error { return harness.Ping(n.Ctx, web1.Host, blue2.Addr(4)) })
	a.changes("the same again", 0)
	a.write(variables, "name: web1", "name: other1")
	a.changes("another port, with a reload", 2)
	n.Once("the edge has it", func() error { return n.PortState("edge1", "other1", "up") })
	before, err := os.ReadFile(filepath.Join(a.dir, "etc", a.edge+".yaml"))
	n.Must(err)
	a.write(variables, "segment: web", "segment: none")
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
	a.write(variables, "interfaces: [eth0]", "interfaces: ["+topo.UnderlayName+"]")
	text := fmt.Sprintf("[edges]\n%s selvage_tep=%s\nother selvage_tep=%s\n", a.edge, a.Teps[0], a.Teps[1])
	a.Must(os.WriteFile(filepath.Join(a.dir, "play", "hosts"), []byte(text), 0o644))
}

const variables = "group_vars/edges.yaml"

// write changes a file of the playbook.
func (a *ansible) write(file, old, now string) {
	a.T.Helper()
	path := filepath.Join(a.dir, "play", file)
	text, err := os.ReadFile(path)
	a.Must(err)
	changed := strings.Replace(string(text), old, now, 1)
	if changed == string(text) {
		a.Fail("change "+file, fmt.Errorf("no %q in %s", old, text))
	}
	a.Must(os.WriteFile(path, []byte(changed), 0o644))
}

func (a *ansible) play(words ...string) (string, error) {
	argv := append([]string{"ansible-playbook", "-i", "hosts", "site.yaml", "--limit", a.edge, "-c", "local", "-e", "ansible_become=false", "-e",
		"selvage_dir=" + filepath.Join(a.dir, "etc"), "-e", "selvage_program=" + filepath.Join(a.dir, "selvage"), "-e", "ansible_python_interpreter=/usr/bin/python3"}, words...)
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

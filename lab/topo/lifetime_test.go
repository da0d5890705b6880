package topo_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/machine"
	"github.com/selvage/selvage/test/tier"
)

// This binary is also the programs that the tests start: a lab to be killed and
// something that answers like an edge.
func TestMain(m *testing.M) {
	switch { // the edge first: a lab's has the lab's environment
	case len(os.Args) > 3 && os.Args[1] == "edge":
		fail(fakeEdge(strings.TrimSuffix(filepath.Base(os.Args[3]), ".yaml")))
	case os.Getenv("SELVAGE_TEST_LAB") != "":
		fail(doomedLab())
	case os.Getenv("SELVAGE_TEST_FIRST") != "":
		if err := firstLab(); err != nil {
			fail(err)
		}
		return
	}
	if err := machine.OwnRun(); err != nil {
		fail(err)
	}
	tier.SideBySide(6)
	os.Exit(m.Run())
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// testSysctl belongs to the machine and harms nobody by one more.
const testSysctl = "net.core.netdev_budget_usecs"

// doomedLab builds one of everything, says so, and waits to be killed.
func doomedLab() error {
	ctx := context.Background()
	lab, err := topo.New(ctx, "doomed")
	if err != nil {
		return err
	}
	n, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	if err != nil {
		return err
	}
	if _, err := n.Plain(ctx, topo.EndOptions{}); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := n.A.StartEdge(ctx, self, n.A.EdgeName(), "none"); err != nil {
		return err
	}
	// A grandchild that is bound to nobody's death.
	c := n.Client.Command(ctx, "sh", "-c", "setsid sleep 1000; : "+lab.ID)
	if err := c.Start(); err != nil {
		return err
	}
	value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(testSysctl, ".", "/"))
	if err != nil {
		return err
	}
	if err := lab.Sysctl(testSysctl, "1"+strings.TrimSpace(string(value))); err != nil {
		return err
	}
	fmt.Println(lab.ID)
	select {}
}

// fakeEdge answers on an edge's socket until SIGTERM.
func fakeEdge(name string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if name == "silent" {
		return errors.New("no underlay today")
	}
	listener, err := net.Listen("unix", "/run/selvage/"+name+".sock")
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s of %s", r.URL.Path, name) }))
	}()
	<-stop
	os.Exit(0)
	return nil
}

func machineSysctl(t *testing.T) string {
	t.Helper()
	value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(testSysctl, ".", "/"))
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func TestRestoreAfterKill(t *testing.T) {
	tier.Root(t)
	before := machineSysctl(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lab := exec.Command(self)
	lab.Env = append(os.Environ(), "SELVAGE_TEST_LAB=1")
	lab.Stderr = os.Stderr
	out, err := lab.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	id := lines.Text()
	if restored, err := topo.Restore(t.Context()); err != nil || slices.Contains(restored, id) {
		t.Errorf("restored %v, %v; but lab %s runs", restored, err, id)
	}
	_ = lab.Process.Kill()
	_ = lab.Wait()
	if id == "" || len(leftovers(id)) == 0 {
		t.Fatalf("lab %q left nothing to restore", id)
	}
	restored, err := topo.Restore(t.Context())
	if err != nil || !slices.Contains(restored, id) {
		t.Errorf("restored %v, %v; want %s in it", restored, err, id)
	}
	if left := leftovers(id); len(left) > 0 {
		t.Errorf("left after restoring: %v", left)
	}
	if after := machineSysctl(t); after != before {
		t.Errorf("%s is %s, was %s", testSysctl, after, before)
	}
}

// firstLab is the first to name a namespace since the machine booted, and ip-netns the second.
func firstLab() (err error) {
	ctx := context.Background()
	lab, err := topo.New(ctx, "first")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	h, err := lab.Host("a")
	if err != nil {
		return err
	}
	_, err = h.Output(ctx, "ip", "netns", "add", "other")
	return err
}

// What a lab names is its own to remove, whoever else names namespaces.
func TestFirstAfterBoot(t *testing.T) {
	tier.Root(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const boot = `mount -t tmpfs tmpfs /run && "$@" && ls /run/netns`
	c := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", boot, "sh", self)
	c.Env = append(os.Environ(), "SELVAGE_TEST_FIRST=1")
	if out, err := c.CombinedOutput(); err != nil || string(out) != "other\n" {
		t.Errorf("%v: %s, want the other's name alone", err, out)
	}
}

func TestContextClosesLab(t *testing.T) {
	tier.Root(t)
	ctx, cancel := context.WithCancel(t.Context())
	lab, err := topo.New(ctx, t.Name())
	if err != nil {
		t.Fatal(err)
	}
	host, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	sleep := host.Command(context.Background(), "sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case <-sleep.Done():
	case <-time.After(10 * time.Second):
		t.Error("a process outlives the context")
	}
	for range 2 {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := leftovers(lab.ID); len(left) > 0 {
		t.Errorf("the lab left %v", left)
	}
	if _, err := lab.Host("b"); err == nil {
		t.Error("a closed lab makes hosts")
	}
	if err := host.Command(context.Background(), "true").Run(); err == nil {
		t.Error("a closed lab starts processes")
	}
}

func TestEdge(t *testing.T) {
	t.Parallel()
	lab := newLab(t)
	host, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := host.EdgeName()
	for _, stop := range []func(*topo.Edge) error{
		func(e *topo.Edge) error { e.Kill(); return os.Remove(e.Socket) },
		func(e *topo.Edge) error { return e.Stop(t.Context()) },
	} {
		e, err := host.StartEdge(t.Context(), self, name, "a: b\n")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Get(t.Context(), "/v1/flows"); err != nil || string(got) != "/v1/flows of "+name {
			t.Errorf("the API says %q, %v", got, err)
		}
		if err := stop(e); err != nil {
			t.Error(err)
		}
	}
	start := time.Now()
	_, err = host.StartEdge(t.Context(), self, "silent", "")
	if err == nil || !strings.Contains(err.Error(), "no underlay today") || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: error %v, want at once what the edge said", time.Since(start), err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	host, err := newLab(t).Host("a")
	if err != nil {
		t.Fatal(err)
	}
	out, err := host.Output(t.Context(), "ls", "/sys/class/net", "/proc/self/net/dev_snmp6")
	if err != nil || strings.Count(string(out), "lo\n") < 1 {
		t.Errorf("interfaces %q, %v", out, err)
	}
	pinned := host.Command(t.Context(), "sh", "-c", "grep Cpus_allowed_list /proc/self/status")
	pinned.CPUs = []int{0}
	if out, err := pinned.Output(); err != nil || !strings.HasSuffix(string(out), "\t0\n") {
		t.Errorf("pinned to core 0: %q, %v", out, err)
	}
	if _, err := host.Output(t.Context(), "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("error %v, want status and reason", err)
	}
	if _, err := host.Output(t.Context(), "ovs-nonexistent"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("error %v, want that it is not installed", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := host.Command(ctx, "sh", "-c", "sleep 1000 & sleep 1000").Run(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
}

package dut_test

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

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
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
	}
	testlab.Main(m, 6)
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
	if _, err := dut.Plain(ctx, n, dut.EndOptions{}); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := dut.StartEdge(ctx, n.A, self, dut.EdgeName(n.A), "none"); err != nil {
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
	if id == "" || len(testlab.Leftovers(id)) == 0 {
		t.Fatalf("lab %q left nothing to restore", id)
	}
	restored, err := topo.Restore(t.Context())
	if err != nil || !slices.Contains(restored, id) {
		t.Errorf("restored %v, %v; want %s in it", restored, err, id)
	}
	if left := testlab.Leftovers(id); len(left) > 0 {
		t.Errorf("left after restoring: %v", left)
	}
	if after := machineSysctl(t); after != before {
		t.Errorf("%s is %s, was %s", testSysctl, after, before)
	}
}

func TestEdge(t *testing.T) {
	t.Parallel()
	lab := testlab.New(t)
	host, err := lab.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := dut.EdgeName(host)
	for _, stop := range []func(*dut.Edge) error{
		func(e *dut.Edge) error { e.Kill(); return os.Remove(e.Socket) },
		func(e *dut.Edge) error { return e.Stop(t.Context()) },
	} {
		e, err := dut.StartEdge(t.Context(), host, self, name, "a: b\n")
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
	_, err = dut.StartEdge(t.Context(), host, self, "silent", "")
	if err == nil || !strings.Contains(err.Error(), "no underlay today") || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: error %v, want at once what the edge said", time.Since(start), err)
	}
}

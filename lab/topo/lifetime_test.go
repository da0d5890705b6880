package topo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

// This binary is also the program that a test starts.
func TestMain(m *testing.M) {
	if os.Getenv("SELVAGE_TEST_FIRST") != "" {
		if err := firstLab(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testlab.Main(m, 6)
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
	if left := testlab.Leftovers(lab.ID); len(left) > 0 {
		t.Errorf("the lab left %v", left)
	}
	if _, err := lab.Host("b"); err == nil {
		t.Error("a closed lab makes hosts")
	}
	if err := host.Command(context.Background(), "true").Run(); err == nil {
		t.Error("a closed lab starts processes")
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	host, err := testlab.New(t).Host("a")
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

// Package machine runs tests as if on a machine with other network settings: one that
// forwards, filters by reverse path or has no IPv6, as hosts with Docker, Kubernetes or a
// hardened distribution do.
//
// Its one invariant: nobody else notices. The other machine is a network namespace, from
// which the namespaces that are made in it take their settings while the real machine's
// net.core.devconf_inherit_init_net is 3; those that others make meanwhile take theirs from
// the machine itself, as ever. It is for tests only.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

const (
	// inherit says from where new namespaces take what is under net.ipv4.conf and
	// net.ipv6.conf: 3 is the namespace of who makes them.
	inherit = "net.core.devconf_inherit_init_net"
	lock    = "/tmp/selvage-test-machine.lock"
	// ownRun marks a test binary that has a /run of its own: one that keeps it, and the one
	// that runs the tests.
	ownRun      = "SELVAGE_TEST_OWN_RUN"
	keeps, runs = "keeps", "runs"
)

// Others are machines whose settings beds and edges must not rest on. What a name has as
// settings is by sysctl, as in sysctl.conf(5).
func Others() map[string][]string {
	return map[string][]string{
		"Router": {
			"net.ipv4.conf.all.forwarding=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.accept_redirects=0",
			"net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1", "net.ipv4.conf.all.send_redirects=0",
			"net.ipv4.conf.all.proxy_arp=1", "net.ipv4.conf.default.promote_secondaries=1",
		},
		"WithoutIPv6": {
			"net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.addr_gen_mode=1",
			"net.ipv4.conf.all.rp_filter=2", "net.ipv4.conf.default.rp_filter=2",
			"net.ipv4.conf.all.arp_ignore=2", "net.ipv4.conf.all.arp_announce=2", "net.ipv4.conf.all.arp_accept=1",
			"net.ipv4.conf.all.ignore_routes_with_linkdown=1", "net.ipv4.conf.all.drop_gratuitous_arp=1",
		},
	}
}

// OwnRun has this test binary go on with a directory /run of its own, which has the names of
// namespaces, the state of labs and the sockets of edges: so what other processes restore, or
// find left behind, is none of its labs. TestMain calls it first. Without root it does nothing,
// as there are no labs then.
func OwnRun() error {
	switch {
	case os.Geteuid() != 0 || os.Getenv(ownRun) == runs:
		return nil
	case os.Getenv(ownRun) == keeps:
		return keep()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return fmt.Errorf("%w: apt-get install util-linux", err)
	}
	argv := append([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && exec "$@"`, "sh", self}, os.Args[1:]...)
	return unix.Exec(unshare, argv, append(os.Environ(), ownRun+"="+keeps))
}

// keep runs this test binary once more, for the tests, and restores what their labs left of
// the machine when they are killed: what tells of it is in the directory that nobody else sees.
func keep() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	runtime.LockOSThread() // Pdeathsig is of the thread
	tests := exec.Command(self, os.Args[1:]...)
	tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
	tests.Env = append(os.Environ(), ownRun+"="+runs)
	tests.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := tests.Start(); err != nil {
		return err
	}
	go func() {
		for s := range signals { // which a terminal sends to both
			_ = tests.Process.Signal(s)
		}
	}()
	failed := tests.Wait()
	if _, err := topo.Restore(context.Background()); err != nil {
		return errors.Join(failed, err)
	}
	if tests.ProcessState.ExitCode() >= 0 {
		os.Exit(tests.ProcessState.ExitCode())
	}
	return failed
}

// Run has this test binary run the tests that match a pattern on a machine with settings.
// All of them must pass; a skip is none.
func Run(t *testing.T, settings []string, tests string) {
	t.Helper()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	alone(t)
	t.Cleanup(func() { // before others may
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := lab.Sysctl(inherit, "3"); err != nil {
		t.Skipf("namespaces take settings from nobody but the machine: %v", err)
	}
	h, err := lab.Host("machine")
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		if err := h.SysctlSet(key, value); err != nil {
			t.Fatal(err)
		}
		out, err := h.Output(t.Context(), "unshare", "-n", "cat", "/proc/sys/"+strings.ReplaceAll(key, ".", "/"))
		if got := strings.TrimSpace(string(out)); err != nil || got != value {
			t.Fatalf("a new namespace of the machine has %s=%s (%v), want %s", key, got, err, value)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := h.Command(t.Context(), self, "-test.run=^("+tests+")$", "-test.v")
	c.Stdout = &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	if !bytes.Contains(said.Bytes(), []byte("--- PASS")) || bytes.Contains(said.Bytes(), []byte("--- SKIP")) {
		t.Fatalf("want tests that ran:\n%s", said.Bytes())
	}
}

// alone holds the machine's setting for one test at a time, of whatever process.
func alone(t *testing.T) {
	t.Helper()
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

package debian

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/tier"
)

var (
	//go:embed container.sh
	firstProcess string
	//go:embed container_remove.sh
	remover string
)

// container is Debian on this machine's kernel: its systemd in namespaces and a control group of its own.
type container struct {
	dir    string // of what is below
	root   string
	cgroup string
	boots  int
	init   *exec.Cmd
	done   <-chan struct{}
}

// Container boots a container, which ends with the test. Of the kernel it has a network of its own, so nothing of it is
// this machine's but what no namespace holds. It skips where mmdebstrap or version 2 of control groups is missing; with
// CI=true that fails.
func Container(t testing.TB, o Options) *Machine {
	t.Helper()
	tier.Root(t)
	need(t, "mmdebstrap", "unshare", "nsenter", "pivot_root")
	groups, err := cgroup2()
	if err != nil {
		missing(t, err.Error())
	}
	from, err := o.root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, remove, err := newContainer(t.Context(), groups, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.stop)
	m := &Machine{t, c, false}
	t.Cleanup(m.report)
	m.running("")
	if err := c.unpack(o.Files); err != nil {
		t.Fatal(err)
	}
	return m
}

// cgroup2 is where version 2 of control groups is mounted.
func cgroup2() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", errors.New("no cgroup2 is mounted, which containers have their processes in: mount -t cgroup2 none DIRECTORY")
}

// newContainer makes what a container stands on, and returns what removes it; that happens too when this process ends.
func newContainer(ctx context.Context, groups, from string) (c *container, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "selvage-container-*")
	if err != nil {
		return nil, nil, err
	}
	c = &container{dir: dir, root: filepath.Join(dir, "root"), cgroup: filepath.Join(groups, filepath.Base(dir))}
	if err := errors.Join(os.Mkdir(c.cgroup, 0o755), os.Chmod(dir, 0o755), os.WriteFile(c.path("first"), []byte(firstProcess), 0o600)); err != nil {
		return nil, nil, err
	}
	after := exec.Command("sh", "-c", remover, "remove", c.cgroup, dir)
	after.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard is for the test
	until, err := after.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := after.Start(); err != nil {
		return nil, nil, err
	}
	remove = func() error { return errors.Join(until.Close(), after.Wait()) }
	if err := run(ctx, "cp", "-a", "--reflink=auto", from, c.root); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return c, remove, nil
}

func (c *container) path(name string) string { return filepath.Join(c.dir, name) }

// start boots it.
func (c *container) start() error {
	c.boots++
	out, err := os.Create(c.path("console"))
	if err != nil {
		return err
	}
	defer out.Close()
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", c.boots, os.Getpid())
	c.init = exec.Command("sh", c.path("first"), c.root, c.cgroup, id)
	c.init.Stdout, c.init.Stderr = out, out
	c.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}
	c.done, err = startMortal(c.init)
	return err
}

// stop ends all of its processes.
func (c *container) stop() {
	_ = c.init.Process.Kill() // it may have ended
	<-c.done
}

func (c *container) ended() <-chan struct{} { return c.done }

func (c *container) console() string { return tail(c.path("console")) }

// reboot is a reboot of its systemd: the kernel ends the first process, with all others, and this is the firmware.
// Namespaces, what is in /run and what is pinned in /sys/fs/bpf are gone with them.
func (c *container) reboot(ctx context.Context) error {
	if _, err := c.run(ctx, "systemctl reboot"); err != nil && ctx.Err() != nil { // it may be gone before it answers
		return err
	}
	err := await.Within(ctx, bootMost, "systemd to go down", func() error {
		select {
		case <-c.done:
			return nil
		default:
			return errors.New("it runs")
		}
	})
	if err != nil {
		return err
	}
	if state, ok := c.init.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGHUP { // reboot(2) in a namespace
		return fmt.Errorf("systemd ended with %v, which is no reboot", c.init.ProcessState)
	}
	return c.start()
}

// enter is a command inside.
func (c *container) enter(argv ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(c.init.Process.Pid), "-m", "-u", "-i", "-n", "-p", "-C", "--"}, argv...)...)
	cmd.Env = environment
	return cmd
}

// unpack writes files inside.
func (c *container) unpack(files map[string]string) error {
	packed := c.path("files")
	if err := pack(packed, files); err != nil {
		return err
	}
	from, err := os.Open(packed)
	if err != nil {
		return err
	}
	defer from.Close()
	tar := c.enter("tar", "-x", "-C", "/", "--no-same-owner")
	tar.Stdin = from
	out, err := tar.CombinedOutput()
	if err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return os.Remove(packed)
}

// entered is a script that runs inside.
type entered struct {
	out, err strings.Builder
	done     chan struct{}
	ended    error
}

func (c *container) begin(_ context.Context, script string) (process, error) {
	// Until systemd is there, what is entered is the other machine.
	if err := c.there(); err != nil {
		return nil, err
	}
	e := &entered{done: make(chan struct{})}
	cmd := c.enter("/bin/sh", "-c", script)
	cmd.Stdout, cmd.Stderr = &e.out, &e.err
	cmd.WaitDelay = askPause // for a daemon that keeps them
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(e.done)
		e.ended = cmd.Wait()
	}()
	return e, nil
}

// there is whether the first process has become systemd, which then answers.
func (c *container) there() error {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.init.Process.Pid))
	if err != nil {
		return err
	}
	if filepath.Base(name) != "systemd" {
		return fmt.Errorf("the first process is %s still: %s", name, c.console())
	}
	_, err = os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/private", c.init.Process.Pid))
	return err
}

func (e *entered) wait(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	select {
	case <-e.done:
	case <-ctx.Done():
		return Result{Status: -1}, fmt.Errorf("wait for the command to end: %w", ctx.Err())
	}
	r := Result{Out: strings.TrimSpace(e.out.String()), Err: strings.TrimSpace(e.err.String())}
	exit := (*exec.ExitError)(nil)
	if e.ended != nil && !errors.As(e.ended, &exit) {
		return Result{Status: -1}, e.ended
	}
	if exit == nil {
		return r, nil
	}
	r.Status = exit.ExitCode()
	signal := 0
	if state, ok := exit.Sys().(syscall.WaitStatus); ok && state.Signaled() {
		signal = int(state.Signal())
	}
	return r, ended(r, signal)
}

func (c *container) run(ctx context.Context, script string) (Result, error) {
	p, err := c.begin(ctx, script)
	if err != nil {
		return Result{Status: -1}, err
	}
	return p.wait(ctx)
}

package place

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/tail"
	"github.com/selvage/selvage/lab/agent"
)

// connection is a process that leads to an agent: ssh, or the shell that runs it here.
type connection struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	local  bool
	errors tail.Buffer
	came   string // instead of what was waited for
	reap   func() error
}

// leaveTime is how long a process may take to end when its input has ended.
const leaveTime = 10 * time.Second

// startProcess starts a program that has its own process group, so that Ctrl-C leaves the
// connection for an orderly end.
func startProcess(argv []string) (*connection, error) {
	return startWith(argv, &syscall.SysProcAttr{Setpgid: true})
}

func startWith(argv []string, attr *syscall.SysProcAttr) (*connection, error) {
	c := &connection{cmd: exec.Command(argv[0], argv[1:]...)}
	c.cmd.Stderr = &c.errors
	c.cmd.SysProcAttr = attr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not StdoutPipe, which Wait closes before all is read.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out, c.cmd.Stdout = in, reader(read), write
	err = c.cmd.Start()
	write.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), read.Close())
	}
	c.reap = sync.OnceValue(func() error {
		defer read.Close()
		return c.cmd.Wait()
	})
	return c, nil
}

// startProcessIn starts a program of this machine in a network namespace.
func startProcessIn(namespace string, argv []string) (c *connection, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err = startOnThread(namespace, argv)
	}()
	<-done
	if c != nil {
		c.local = true
	}
	return c, err
}

// startOnThread enters the namespace with a thread that ends with the calling goroutine, as it is
// never unlocked. The first thread never ends and gives the whole process its face in /proc: it
// is held until another has done the work.
func startOnThread(namespace string, argv []string) (*connection, error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		return startProcessIn(namespace, argv)
	}
	file, err := os.Open(namespace)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w (it needs root: run it with sudo)", namespace, err)
	}
	// A session of its own, as over SSH: the scheduler's autogroups share the cores by session (sched(7)).
	return startWith(argv, &syscall.SysProcAttr{Setsid: true})
}

// Kill ends the process. A local shell is told by the end of its input, so that it cleans up.
func (c *connection) Kill() {
	c.in.Close()
	if !c.local {
		_ = c.cmd.Process.Kill() // it may have ended
	}
}

// Wait ends the input, waits for the end of the process, for so long as it takes to leave, and says
// why it failed.
func (c *connection) Wait() error {
	c.in.Close()
	timer := time.AfterFunc(leaveTime, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	return c.reap()
}

// Said is the end of what it wrote to standard error.
func (c *connection) Said() string { return printable.Line(c.errors.String()) }

// failed ends a process of which nothing came of, and says why.
func (c *connection) failed(err error) error {
	ended := c.Wait()
	if errors.Is(err, io.EOF) && ended != nil {
		err = ended
	}
	err = fmt.Errorf("%w%s", err, agent.Printed(c.came))
	if said := c.Said(); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

package topo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// debianPackages names the package of each tool that the lab starts.
var debianPackages = map[string]string{
	"ip": "iproute2", "ss": "iproute2", "iperf3": "iperf3", "tcpdump": "tcpdump", "ethtool": "ethtool", "nft": "nftables",
	"ovsdb-server": "openvswitch-switch", "ovs-vswitchd": "openvswitch-switch", "ovsdb-tool": "openvswitch-common",
	"ovs-vsctl": "openvswitch-switch", "ovs-appctl": "openvswitch-common", "ovs-ofctl": "openvswitch-common",
}

// Tool returns the path of a program, looking where Debian puts those for root
// too. The error names the package to install.
func Tool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || strings.Contains(name, "/") {
		return path, err
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	if pkg := debianPackages[name]; pkg != "" {
		return "", fmt.Errorf("%s is not installed: apt-get install %s", name, pkg)
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// Command is a process of a host. Of all namespaces only the network's is the
// host's: it sees the machine's files, bpffs included, which ip netns exec would
// hide. It leads its own process group and dies with the lab.
type Command struct {
	// CPUs pins the process; empty leaves it to the scheduler.
	CPUs []int
	// Env is added to the lab's own environment.
	Env []string
	// Log is a file that takes standard output and error. When it is empty,
	// standard output goes to Stdout and error is kept for error messages.
	Log    string
	Stdout io.Writer
	// Stdin, unless nil, is what it reads.
	Stdin io.Reader

	host   *Host
	ctx    context.Context
	argv   []string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
	err    error
}

// Command prepares argv to run in the host. It is killed when ctx ends.
func (h *Host) Command(ctx context.Context, argv ...string) *Command {
	return &Command{host: h, ctx: ctx, argv: argv, done: make(chan struct{})}
}

// Output runs argv in the host and returns its standard output.
func (h *Host) Output(ctx context.Context, argv ...string) ([]byte, error) {
	return h.Command(ctx, argv...).Output()
}

// Start starts the process. A Command can be started once.
func (c *Command) Start() error {
	path, err := Tool(c.argv[0])
	if err != nil {
		return err
	}
	c.cmd = exec.CommandContext(c.ctx, path, c.argv[1:]...)
	c.cmd.Env = append(os.Environ(), c.Env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.cmd.Cancel = func() error { return syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) }
	c.cmd.WaitDelay = time.Second
	c.cmd.Stdin = c.Stdin
	if c.Log != "" {
		file, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("log of %s: %w", c, err)
		}
		defer file.Close()
		c.cmd.Stdout, c.cmd.Stderr = file, file
	} else {
		c.cmd.Stdout, c.cmd.Stderr = c.Stdout, &c.stderr
	}
	if err := c.host.thread.run(c.fork); err != nil {
		return fmt.Errorf("start %s: %w", c, err)
	}
	if err := c.host.lab.adopt(c); err != nil {
		_, _ = c.cmd.Cancel(), c.cmd.Wait()
		return err
	}
	go c.reap()
	return nil
}

// fork runs on the host's own thread, so the child inherits its namespace and
// the affinity set here, and its death signal is bound to the lab's life.
func (c *Command) fork() error {
	if len(c.CPUs) == 0 {
		return c.cmd.Start()
	}
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for _, cpu := range c.CPUs {
		some.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return fmt.Errorf("pin to cores %v: %w", c.CPUs, err)
	}
	return errors.Join(c.cmd.Start(), unix.SchedSetaffinity(0, &all))
}

func (c *Command) reap() {
	c.err = c.cmd.Wait()
	c.host.lab.disown(c)
	close(c.done)
}

// PID returns the id of the started process.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended.
func (c *Command) Done() <-chan struct{} { return c.done }

// Wait waits for the process to end and returns why it failed, with what it
// said.
func (c *Command) Wait() error {
	<-c.done
	if c.err == nil {
		return nil
	}
	if err := c.ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if output := c.Tail(); output != "" {
		return fmt.Errorf("%s: %w: %s", c, c.err, output)
	}
	return fmt.Errorf("%s: %w", c, c.err)
}

// Run starts the process and waits for it.
func (c *Command) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the process and returns its standard output, also on error.
func (c *Command) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// Kill ends the process and its children (SIGKILL) and waits until it is gone.
func (c *Command) Kill() {
	select {
	case <-c.done: // and its id may be another's
	default:
		_ = syscall.Kill(-c.PID(), syscall.SIGKILL)
		<-c.done
	}
}

// Stop asks the process to end (SIGTERM), kills it when ctx ends first, and
// returns when it is gone.
func (c *Command) Stop(ctx context.Context) error {
	select {
	case <-c.done: // and its id may be another's
		return nil
	default:
		_ = syscall.Kill(c.PID(), syscall.SIGTERM)
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		c.Kill()
		return fmt.Errorf("%s did not stop on SIGTERM: %w", c, ctx.Err())
	}
}

// Tail is the end of what the process wrote to its log or standard error.
func (c *Command) Tail() string {
	text := c.stderr.String()
	if c.Log != "" {
		data, _ := os.ReadFile(c.Log)
		text = string(data)
	}
	const most = 2000
	if text = strings.TrimSpace(text); len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}

// String is the program, its first argument and its host.
func (c *Command) String() string {
	words := c.argv[:min(2, len(c.argv))]
	return filepath.Base(strings.Join(words, " ")) + " in " + c.host.Name
}

// adopt names a running process in the state file.
func (l *Lab) adopt(c *Command) error {
	p, err := processNow(c.PID())
	if err != nil {
		return err
	}
	return l.record(func(s *state) {
		l.commands[c] = struct{}{}
		s.Processes = append(s.Processes, p)
	})
}

func (l *Lab) disown(c *Command) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.commands, c)
	for i, p := range l.state.Processes {
		if p.PID == c.PID() {
			l.state.Processes = append(l.state.Processes[:i:i], l.state.Processes[i+1:]...)
			break
		}
	}
	if !l.closing { // else the file is about to go
		_ = l.state.save() // the old one names a dead process, which is harmless
	}
}

// WhileRunning derives a context that ends with the process, the cause being
// why that ended.
func (c *Command) WhileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-c.done:
			cancel(errors.Join(fmt.Errorf("%s ended", c), c.err))
		}
	}()
	return ctx, func() { cancel(nil) }
}
